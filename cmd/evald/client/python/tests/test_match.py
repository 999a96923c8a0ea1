"""Matches by functions, evaluators and agents: the command's games and figures, full batches, and
errors."""
from __future__ import annotations

import json
import os
import subprocess
import unittest
from typing import Any

import numpy as np

import evald

RULES = "5x4x4"


def command(*arguments: str) -> Any:
    """What the program writes as JSON."""
    program = os.environ.get("EVALD_PROGRAM") or os.environ["EVALD_LIBRARY"]
    done = subprocess.run([program, *arguments, "--json"], capture_output=True, text=True)
    if done.returncode != 0:
        raise AssertionError(done.stderr)
    return json.loads(done.stdout)


def figures(table: dict[str, Any], names: dict[str, str]) -> Any:
    """A table without times, in which players have other names."""
    clock = ("seconds", "longest", "late", "player", "a", "b")
    return [
        [(tuple(names[row[key]] for key in ("player", "a", "b") if key in row), {k: v for k, v in row.items() if k not in clock}) for row in table[part]]
        for part in ("standings", "meetings")
    ]


def raw(e: evald.Evaluator, positions: evald.Positions) -> Any:
    """An evaluator's answers as those of a function."""
    answers = e.evaluate(positions, raw=True)
    return answers.policy, answers.wdl


class Matches(unittest.TestCase):
    def test_command(self) -> None:
        """Agents by name play the games of evald match, with the same seed and openings, and get
        the same figures."""
        agents = {"u": "uct:sims=20", "r": "random", "m": "mcts:model=bitsquares,visits=8"}
        for seed, flags, options in ((3, [], {}), (4, ["--opening-plies", "4"], dict(opening_plies=4))):
            ours = evald.match(agents, RULES, games=12, seed=seed, **options)
            theirs = command("match", *agents.values(), "--rules", RULES, "--games", "12", "--seed", str(seed), *flags)
            named = {row["player"]: name for row in theirs["standings"] for name, agent in agents.items() if row["player"].startswith(agent.split(":")[0])}
            self.assertEqual(figures(ours.table, {name: name for name in agents}), figures(theirs, named))
        with self.assertRaises(AssertionError):
            self.assertEqual(figures(evald.match(agents, RULES, games=12, seed=5).table, {name: name for name in agents}), figures(theirs, named))

    def test_arrays(self) -> None:
        m = evald.match({"weak": "random", "strong": "uct:sims=60", "other": "random"}, RULES, games=10, seed=1)
        self.assertEqual((m.names, len(m), m.seed, m.openings), (["weak", "strong", "other"], 3, 1, 5))
        np.testing.assert_array_equal(m.games, 10 - 10 * np.eye(3))
        np.testing.assert_array_equal(m.wins + m.wins.T + m.draws, m.games)
        np.testing.assert_allclose(m.score + m.score.T, np.where(np.eye(3), np.nan, 1))
        self.assertTrue(np.isnan(np.diag(m.score)).all())
        self.assertEqual(m.elo.argmax(), 1)
        self.assertAlmostEqual(m.elo.sum(), 0)
        np.testing.assert_allclose(m.interval.mean(1), m.elo)
        for row in m.table["standings"]:
            i = m.names.index(row["player"])
            self.assertEqual((m.wins[i].sum(), m.games[i].sum()), (row["wins"], row["games"]))
        shown = repr(m).splitlines()
        self.assertEqual(shown[0], f"5x4x4, 30 games of {m.plies:.1f} plies on average, {100 * m.draw_share:.1f}% drawn, 5 different openings, seed 1")
        self.assertEqual((m.draw_share * 30, m.draws.sum() / 2), (m.table["draws"], m.table["draws"]))
        self.assertTrue(7 <= m.plies <= 20, m.plies)
        self.assertRegex(shown[2], r"^1  strong  +\d+/\d+/\d+ +[\d.]+ +\+\d+ +±\d+ +\. +[\d.]+ +[\d.]+$")
        few = evald.match({"a": "random", "b": "random"}, RULES, games=2)
        self.assertTrue(np.isnan(few.interval).all())
        self.assertIn("too few games", repr(few))

    def test_functions(self) -> None:
        """An Evaluator plays as an agent with its network. A function plays the same games however
        many are played at once: it evaluates the same number of positions, many of them together."""
        rows: list[int] = []
        with evald.Evaluator(backend="bitsquares") as e:

            def f(positions: evald.Positions) -> Any:
                rows.append(len(positions))
                return raw(e, positions)

            agent = evald.match({"new": "mcts:model=bitsquares,visits=12,exact=false", "old": "uct:sims=12"}, RULES, games=40)
            first = evald.match({"new": f, "old": "uct:sims=12"}, RULES, games=40, visits=12, exact=False, parallel=1)
            self.assertEqual(set(rows), {1})
            alone = len(rows)
            for player, options in ((f, {}), (f, dict(parallel=3)), (f, dict(sizes=(1, 4, 16))), (e, {})):
                want = first if player is f else agent
                del rows[:]
                got = evald.match({"new": player, "old": "uct:sims=12"}, RULES, games=40, visits=12, exact=False, **options)
                np.testing.assert_array_equal(got.wins, want.wins)
                np.testing.assert_array_equal(got.elo, want.elo)
                if "sizes" in options:
                    self.assertEqual(set(rows), {1, 4, 16})
                elif player is f:
                    most = options.get("parallel", 40)
                    self.assertLessEqual(max(rows), most)
                    self.assertEqual(sum(rows), alone)
                    self.assertLess(len(rows), alone / 2 if most == 40 else alone)  # how many are together depends on the opponent's speed
                else:
                    self.assertEqual(rows, [])

    def test_two_functions(self) -> None:
        """Each function is asked about its own games alone: two play as the two agents with their
        networks."""
        with evald.Evaluator(backend="bitsquares") as one, evald.Evaluator(backend="uniform") as other:
            agents = {"one": "mcts:model=bitsquares,visits=4,lookahead=false,transpositions=false", "other": "mcts:model=uniform,visits=4,lookahead=false,transpositions=false"}
            want = evald.match(agents, "6x5x4", games=20)
            self.assertGreater(want.score[0, 1], 0.6)
            done: list[tuple[int, int]] = []
            functions = {"one": lambda p: raw(one, p), "other": lambda p: raw(other, p)}
            got = evald.match(functions, "6x5x4", games=20, visits=4, exact=False, progress=lambda *n: done.append(n))
            np.testing.assert_array_equal(got.wins, want.wins)
            self.assertEqual(done[-1], (20, 20))
            swapped = evald.match(dict(reversed(functions.items())), "6x5x4", games=20, visits=4, exact=False)
            self.assertGreater(swapped.score[1, 0], 0.6)

    def test_errors(self) -> None:
        class Broken(Exception):
            pass

        def broken(positions: evald.Positions) -> Any:
            raise Broken

        with self.assertRaises(Broken):
            evald.match({"a": broken, "b": "random"}, RULES, games=20)
        for players, options, says in (
            ({"a": "random", "b": "uct-bitsqares"}, {}, "did you mean uct-bitsquares"),
            ({"a": "random", "b": "nets/none.onnx"}, {}, r"players\['b'\]: .*nets/none.onnx"),
            ({"a": "random", "b": "default"}, {}, "a network by its name is the agent mcts:model=NAME"),
            ({"a": "random", "b": "grpc://127.0.0.1:1/x"}, {}, "player b: .*refused"),
            ({"a": "random", "b": 3}, {}, r"players\['b'\]: network is 3"),
            ({"a": "random", "b": None}, {}, r"players\['b'\] is None, and must be a function"),
            ({"a": "random", "b": "uct:sims=x"}, {}, "sims is"),
            ({"a": "random", "b": "uct"}, dict(games=3), "games is 3, and must be even"),
            ({"a": "random", "b": "uct"}, dict(opening_plies=20), "opening_plies is 20, and must be a whole number from 0 to 19"),
            ({"a": "random", "b": "mcts:model=default-fast,visits=4"}, {}, "player b: .*default-fast does not know 5x4x4"),
            ({"a": "random", "b": evald.Evaluator("default-fast")}, {}, "player b: .*default-fast does not know 5x4x4"),
        ):
            with self.subTest(says), self.assertRaisesRegex(evald.EvaldError, says):
                evald.match(players, RULES, **{"games": 2, **options})


if __name__ == "__main__":
    unittest.main()
