"""Accuracy against exact scores, results of moves, and answers without the rules: the command's
figures."""
from __future__ import annotations

import json
import os
import pathlib
import random
import subprocess
import tempfile
import unittest
from typing import Any

import numpy as np
from reference import Game
from test_match import command

import evald
from evald import NO_MOVE

RULES = "5x4x4"


def some(n: int, seed: int = 1, rules: str = RULES) -> list[str]:
    """Unfinished positions of random games, as moves."""
    r, found = random.Random(seed), []
    while len(found) < n:
        game, moves = Game.of(rules), ""
        for _ in range(r.randrange(5, 14)):
            move = r.choice(game.legal() or [0])
            if not game.legal():
                break
            game.play(move)
            moves += str(move + 1)
        if game.legal():
            found.append(moves)
    return found


class Accuracy(unittest.TestCase):
    folder: tempfile.TemporaryDirectory[str]

    @classmethod
    def setUpClass(cls) -> None:
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        cls.moves, cls.files = [some(40, seed) for seed in (1, 2)], []
        cls.scores = [evald.solve(moves, RULES) for moves in cls.moves]
        for k in range(2):
            cls.files.append(os.path.join(cls.folder.name, f"set{k}.txt"))
            lines = [f"{RULES}:{m} " + " ".join(map(str, row)) for m, row in zip(cls.moves[k], cls.scores[k].tolist())]
            pathlib.Path(cls.files[k]).write_text("\n".join(lines) + "\n")

    def test_command(self) -> None:
        """A name, its Evaluator and a function with its answers have the report of evald score;
        only the name differs."""
        with evald.Evaluator(backend="bitsquares") as e:

            def f(positions: evald.Positions) -> Any:
                answers = e.evaluate(positions, raw=True)
                return answers.policy, answers.wdl

            for raw in (False, True):
                flags = ["--backend", "bitsquares", "--visits", "0,20", *["--raw"] * raw]
                want = command("score", *self.files, *flags)
                self.assertEqual(evald.score("bitsquares", self.files, visits=(0, 20), raw=raw).report, want)
                want = command("score", *self.files, *flags, "--lookahead=false", "--transpositions=false", "--priors=policy")
                got = evald.score(f, self.files, visits=(0, 20), raw=raw, sizes=(8, 32))
                for ours, theirs in zip(got.report, want):
                    for board in theirs["boards"]:
                        board.pop("heuristic", None)
                    self.assertEqual(ours["model"], theirs["model"].replace("bitsquares", "function"))
                    self.assertEqual(dict(ours, model=""), dict(theirs, model=""))
        self.assertNotEqual(evald.score("bitsquares", self.files, visits=0).report[0]["all"], want[0]["all"])

    def test_sets(self) -> None:
        """Files, arrays, Labels and dicts of the same positions have the same figures."""
        want = evald.score("bitsquares", self.files, visits=20)
        pairs = {f"set{k}": (self.moves[k], self.scores[k]) for k in range(2)}
        self.assertEqual(evald.score("bitsquares", pairs, RULES, visits=20), want)
        mixed = evald.score("bitsquares", {"set0": pathlib.Path(self.files[0]), "set1": pairs["set1"]}, visits=[20])
        self.assertEqual(mixed, want)
        self.assertEqual([kind["name"] for kind in want.report[0]["kinds"]], ["set0", "set1"])
        self.assertEqual([kind["positions"] for kind in want.report[0]["kinds"]], [40, 40])
        one, results = evald.score("bitsquares", self.files[0], visits=(0, 20)), evald.labels(self.moves[0], RULES)
        by_labels = evald.score("bitsquares", results, visits=(0, 20))
        np.testing.assert_array_equal(by_labels.good, one.good)
        np.testing.assert_array_equal(by_labels.perfect, by_labels.good)
        self.assertEqual(evald.score("bitsquares", (results.positions, results), visits=(0, 20)), by_labels)

    def test_arrays(self) -> None:
        """good, by hand from the policy; unknown rows are left out."""
        positions = evald.Positions(self.moves[0], RULES)
        answers, scores = evald.evaluate(positions, model="bitsquares", raw=True), self.scores[0].copy()
        best = scores.max(1)
        likeliest = np.where(answers.policy == answers.policy.max(1, keepdims=True), 1.0, 0)
        likeliest /= likeliest.sum(1, keepdims=True)
        good = (likeliest * (np.sign(scores) == np.sign(best)[:, None])).sum(1)
        got = evald.score("bitsquares", (positions, scores), visits=0, raw=True)
        self.assertAlmostEqual(got.good[0], good.mean())
        self.assertAlmostEqual(got.perfect[0], (likeliest * (scores == best[:, None])).sum(1).mean())
        self.assertAlmostEqual(got.regret[0], (likeliest * np.where(scores == NO_MOVE, 0, best[:, None] - scores)).sum(1).mean())
        critical = ((np.sign(scores) < np.sign(best)[:, None]) & (scores != NO_MOVE)).any(1)
        self.assertEqual((got.positions, got.critical_positions), (40, critical.sum()))
        self.assertAlmostEqual(got.critical[0], good[critical].mean())
        self.assertTrue((got.good_interval[:, 0] < got.good).all() and (got.good < got.good_interval[:, 1]).all())
        scores[::2] = NO_MOVE
        self.assertEqual(evald.score("bitsquares", (positions, scores), visits=0).positions, 20)
        self.assertIn("good %", repr(got))

    def test_errors(self) -> None:
        file, good = self.files[0], (self.moves[0], self.scores[0])
        other = os.path.join(self.folder.name, "other.txt")
        pathlib.Path(other).write_text("4x4x4:1 0 0 0 0\n")
        twice = os.path.join(self.folder.name, "x", "set0.txt")
        for sets, options, says in (
            (file, dict(visits=1), "visits is 1, and must be 0 or from 2 on"), (file, dict(visits=(2, 20), raw=True), "raw is True"),
            ("none.txt", {}, "none.txt: no such file"), ([file, other], {}, "other.txt: line 1 is of 4x4x4, and others are of 5x4x4"),
            ([file, twice], {}, "are both called set0: give a dict"), ((self.moves[0], self.scores[0][1:]), dict(rules=RULES), "scores have the shape"),
            ((self.moves[0], np.zeros((40, 5), int)), dict(rules=RULES), r"position \d+: move \d has score 0, but can be played: false"),
            (good, {}, "scores have the shape|column|position"), (file, dict(sizes=(1, 8)), "sizes is"),
        ):
            with self.subTest(says), self.assertRaisesRegex(evald.EvaldError, says):
                evald.score("bitsquares", sets, **options)
        self.assertEqual(evald.score("bitsquares", [file, self.files[1]], RULES, visits=0).positions, 80)
        with self.assertRaises(ZeroDivisionError):
            evald.score(lambda p: 1 / 0, file)


class Labels(unittest.TestCase):
    def test_results(self) -> None:
        """The results of moves are the signs of their exact scores."""
        for rules in (RULES, "3x3x3free"):
            moves = some(30, 3, rules) if rules == RULES else ["-", "1", "12", "15", "1234"]
            found, scores = evald.labels(moves, rules), evald.solve(moves, rules)
            np.testing.assert_array_equal(found.moves, np.where(scores == NO_MOVE, NO_MOVE, np.sign(scores)))
            np.testing.assert_array_equal(found.result, np.sign(scores.max(1)))
            self.assertEqual((len(found), found.positions), (len(moves), evald.Positions(moves, rules)))

    def test_nodes(self) -> None:
        """With few nodes some positions are unknown, whatever comes before them."""
        moves = some(30, 4, "6x5x4")
        found, reverse = evald.labels(moves, "6x5x4", nodes=2000, threads=1), evald.labels(moves[::-1], "6x5x4", nodes=2000, threads=2)
        known = (found.moves != NO_MOVE).any(1)
        self.assertTrue(0 < known.sum() < 30, known)
        np.testing.assert_array_equal(found.result == NO_MOVE, ~known)
        np.testing.assert_array_equal(reverse.moves[::-1], found.moves)

    def test_over(self) -> None:
        with self.assertRaisesRegex(evald.EvaldError, r"position 1: the game is over"):
            evald.labels(["1", "1212121"], RULES)


class Raw(unittest.TestCase):
    def test_command(self) -> None:
        """Raw answers are those of evald eval --raw, masked and with the sum 1; without raw the
        rules answer."""
        program = os.environ.get("EVALD_PROGRAM") or os.environ["EVALD_LIBRARY"]
        moves = ["445566", "4455", "44444", "1212121", "-"]
        done = subprocess.run([program, "eval", "--raw", "--backend", "bitsquares"], input="\n".join(moves), capture_output=True, text=True, check=True)
        lines = [json.loads(line) for line in done.stdout.splitlines()]
        with evald.Evaluator(backend="bitsquares", exact=1000) as e:
            raw, ruled = e.evaluate(moves, raw=True), e.evaluate(moves)
            self.assertEqual(raw.source, [line["source"] for line in lines])
            np.testing.assert_allclose(raw.wdl, [line["wdl"] for line in lines], atol=1e-4)
        self.assertEqual(raw.source, ["bitsquares"] * 3 + ["terminal", "bitsquares"])
        self.assertEqual(ruled.source[0], "rules")
        legal = raw.positions.legal()
        self.assertTrue((raw.policy[~legal] == 0).all() and raw.wdl[0, 0] < 0.5 < ruled.wdl[0, 0] == 1)
        np.testing.assert_allclose(raw.policy.sum(1), legal.any(1), atol=1e-6)
        self.assertEqual(evald.evaluate(moves, model="bitsquares", raw=True), raw)


if __name__ == "__main__":
    unittest.main()
