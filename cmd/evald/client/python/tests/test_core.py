"""Tests of the package beside slow, obvious versions, and of everything that goes wrong."""
from __future__ import annotations

import copy
import gc
import glob
import json
import itertools
import os
import pickle
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest

import numpy as np

import evald
from reference import Game

BOARDS = ["7x6x4", "5x4x4", "4x4x3", "3x3x3free", "11x10x5", "12x9x6"]


def games(rules: str, n: int, seed: int) -> list[Game]:
    """Random games, each up to a random number of moves or its end."""
    random, all_ = np.random.default_rng(seed), []
    for _ in range(n):
        game = Game.of(rules)
        for _ in range(int(random.integers(0, game.columns * game.rows + 1))):
            if not (legal := game.legal()):
                break
            game.play(int(random.choice(legal)))
        all_.append(game)
    return all_


class Positions(unittest.TestCase):
    def test_forms(self) -> None:
        """All forms of the same positions are the same, on all boards, and say what a plain board says."""
        for rules in BOARDS:
            some = games(rules, 10, 1)
            board = evald.board(rules)
            words = np.zeros((len(some), 4), np.uint64)
            for i, slow in enumerate(some):
                position = evald.Positions.empty(1, rules)
                for m in slow.moves:
                    position = position.play(m)
                words[i] = position.words[0]
            players = np.array([slow.cells for slow in some], np.int32)
            sides = np.array([np.where(p == 0, 0, np.where(p == slow.player(), 1, -1)) for p, slow in zip(players, some)], np.int8)
            observations = [{"board": p.reshape(-1).tolist(), "mark": slow.player()} for p, slow in zip(players, some)]
            forms = {"words": words, "players": players, "sides": sides, "observations": observations, "positions": evald.Positions(words, rules), "lists": players.tolist()}
            if board.cells <= 42 and not rules.endswith("free"):
                forms["two words"] = np.ascontiguousarray(words[:, ::2])
            forms["text"] = ["".join("123456789abcdefghijklmnopqrstuvwxyz"[m] for m in slow.moves) or "-" for slow in some]
            forms["text with rules"] = [f"{rules}:{moves}" for moves in forms["text"]]
            for name, form in forms.items():
                with self.subTest(rules=rules, form=name):
                    np.testing.assert_array_equal(evald.Positions(form, rules).words, words)
            p = evald.Positions(words, rules)
            np.testing.assert_array_equal(p.cells(), sides)
            np.testing.assert_array_equal(p.stones, (players != 0).sum((1, 2)))
            for i, slow in enumerate(some):
                self.assertEqual(np.flatnonzero(p.legal()[i]).tolist(), slow.legal())
                want = 2 if not slow.over() else 0 if slow.winner() == 0 else -1 if slow.winner() != slow.player() else 1
                self.assertEqual(p.results()[i], want)
            planes = p.planes()
            np.testing.assert_array_equal(planes[:, 0], sides == 1)
            np.testing.assert_array_equal(planes[:, 1], sides == -1)
            np.testing.assert_array_equal(p.planes(["own", "other", "playable", "parity", "inarow"]), planes)
            np.testing.assert_array_equal(p.planes(["own-other"], layout="NHW"), sides)
            np.testing.assert_array_equal(p.planes(["2*own", "other"], layout="NHWC"), np.stack([2 * (sides == 1), sides == -1], -1))
            flat = p.planes(["other", "own"], layout="NF", rows="bottom").reshape(len(p), 2, *sides.shape[1:])
            np.testing.assert_array_equal(flat, np.stack([sides == -1, sides == 1], 1)[:, :, ::-1])
            for wrong in (dict(planes=["foe"]), dict(planes=[])):
                with self.assertRaisesRegex(evald.EvaldError, "description"):
                    p.planes(**wrong)
            for layout, rows in itertools.product(("NCHW", "NHWC", "NF"), ("top", "bottom")):
                np.testing.assert_array_equal(p.planes(layout=layout, rows=rows), p.planes(["own", "other", "playable", "parity", "inarow"], layout=layout, rows=rows))
            np.testing.assert_array_equal(p.planes(rows="bottom"), planes[:, :, ::-1])
            np.testing.assert_array_equal(p.planes(layout="NHWC"), planes.transpose(0, 2, 3, 1))
            for wrong, says in ((dict(layout="NHW"), "layout is 'NHW', which has one plane, and there are 5"), (dict(planes=["own", "other"], layout="NHW"), "and there are 2"),
                                (dict(layout="patterns"), "layout is 'patterns', and must be 'NCHW' or"), (dict(planes=["own"], rows="left"), "rows is 'left', and must be")):
                with self.assertRaisesRegex(evald.EvaldError, says):
                    p.planes(**wrong)

    def test_rows(self) -> None:
        p = evald.Positions(["4", "44", "445"])
        self.assertEqual(len(p[1:]), 2)
        np.testing.assert_array_equal(p[-1].words, evald.Positions("445").words)
        np.testing.assert_array_equal(p[np.array([True, False, True])].words, evald.Positions(["4", "445"]).words)
        self.assertEqual(len(evald.Positions([])), 0)
        self.assertEqual(evald.evaluate([]).policy.shape, (0, 7))

    def test_wrong(self) -> None:
        """Each mistake has an error that says where it is and what would be right."""
        two = np.zeros((2, 6, 7), int)
        two[1, 0, 0] = 1
        for of, rules, says in [
            ("48", None, "position 0: "),
            (["4", "x"], None, "position 1: "),
            ("4\n4", None, "one line"),
            ("9x5x4:1", None, "the others are of 7x6x4"),
            ("4", "7x", "7x"),
            ("4", 7, "rules are 7"),
            ("4", "99x99x4", "99"),
            (two, None, "position 1: "),
            (np.full((6, 7), 3), None, "cells from 3 to 3"),
            (np.full((6, 7), 0.5), None, "float64"),
            (np.zeros((7, 6), int), None, "[7, 6]"),
            (np.array([[1, 0]], np.uint64), None, "position 0: "),
            (np.array([[0, 1 << 63]], np.uint64), None, "position 0: "),
            ({"board": [0] * 41, "mark": 1}, None, "41 cells"),
            ({"board": [0] * 42, "mark": 2}, None, "mark is 2"),
            ([[1, 2], [3]], None, ""),
        ]:
            with self.subTest(of=str(of)[:40]), self.assertRaises(evald.EvaldError) as raised:
                evald.Positions(of, rules)
            self.assertIn(says, str(raised.exception))
            with self.subTest(evaluated=str(of)[:40]), self.assertRaises(evald.EvaldError) as again:
                evald.evaluate(of, rules)
            self.assertEqual(str(again.exception), str(raised.exception))

    def test_picture(self) -> None:
        picture = evald.Positions("44")._repr_svg_()
        self.assertEqual((picture.count("#d6322c"), picture.count("#f2c230"), picture.count("<circle")), (1, 1, 42))


    def test_played(self) -> None:
        """Bitboards in Kaggle's layout, by a loop over the cells, on boards of all sizes, one at a time and together."""
        for k, rules in enumerate(BOARDS):
            positions = evald.Positions(["".join("123456789abc"[move] for move in game.moves) or "-" for game in games(rules, 30, k)], rules)
            boards = np.where(positions.cells() == 0, 0, np.where((positions.cells() == 1) == (positions.stones % 2 == 0)[:, None, None], 1, 2))
            flat = boards.reshape(len(boards), -1).tolist()
            played, player = ([sum(1 << n for n, cell in enumerate(board) if cell in of) for board in flat] for of in ((1, 2), (2,)))
            got = positions.played()
            self.assertEqual([bits.tolist() for bits in got], [played, player])
            self.assertEqual(got[0].dtype, np.uint64 if positions.board.cells <= 64 else object)
            self.assertEqual(evald.Positions.from_played(played, player, rules), positions)
            self.assertEqual(evald.Positions.from_played(*got, rules=rules), positions)
            self.assertEqual(evald.Positions.from_played(played[0], player[0], positions.board), positions[:1])
            self.assertEqual(len(evald.Positions.from_played([], [], rules)), 0)
        seeds = evald.Positions(np.array(
            [0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 2, 0, 0, 1, 0, 0, 2, 2, 0, 0, 1, 2, 1, 2, 1, 1, 0, 1, 1, 1, 2, 2, 2, 0, 1, 2, 1, 1, 2, 2]).reshape(6, 7))
        self.assertEqual([int(bits[0]) for bits in seeds.played()], [4363414966304, 3466081341440])  # as ai-games has them
        for played, player, says in [
            (1 << 42, 0, "played 0 is 0x40000000000, and 7x6x4 has 42 cells: must be from 0 to 0x3ffffffffff"), (-1, 0, "played 0 is -0x1"),
            (0.5, 0, "played is 0.5, and must be an integer"), (True, 0, "must be an integer"), ("1", 0, "must be an integer"), ([[1]], 0, "must be an integer"),
            (1 << 41, 1 << 40, "position 0: player has the cells 0x10000000000, in which played has no stone"),
            ([1 << 41, 0], [0], "played has 2 positions and player 1"), (1, 0, "below"),
        ]:
            with self.subTest(says), self.assertRaisesRegex(evald.EvaldError, says):
                evald.Positions.from_played(played, player)


class Environments(unittest.TestCase):
    def test_steps(self) -> None:
        """Hundreds of steps on each board beside a plain board, with games that begin anew."""
        for rules in BOARDS:
            random = np.random.default_rng(3)
            slow = [Game.of(rules) for _ in range(5)]
            env = evald.Environment(5, rules)
            ends = 0
            for _ in range(80):
                actions = [int(random.choice(s.legal())) for s in slow]
                mask = env.legal()
                for i, s in enumerate(slow):
                    self.assertEqual(np.flatnonzero(mask[i]).tolist(), s.legal())
                rewards, done = env.step(actions)
                for i, a in enumerate(actions):
                    slow[i].play(a)
                    self.assertEqual((rewards[i], done[i]), (1 if slow[i].winner() else 0, slow[i].over()), rules)
                    if slow[i].over():
                        slow[i], ends = Game.of(rules), ends + 1
            self.assertGreater(ends, 1)

    def test_refused(self) -> None:
        env = evald.Environment(3, "4x4x4", reset=False)
        before = env.positions.words.copy()
        for actions, says in [([0, 4, 0], "position 1: action 4"), ([0, 0, -1], "position 2: action -1")]:
            with self.assertRaises(evald.EvaldError) as raised:
                env.step(actions)
            self.assertIn(says, str(raised.exception))
            np.testing.assert_array_equal(env.positions.words, before)
        for _ in range(4):
            env.step([0, 1, 2])
        with self.assertRaises(evald.EvaldError) as raised:
            env.step([0, 0, 0])
        self.assertIn("position 0: action 0 cannot be played: the column is full", str(raised.exception))
        over = evald.Environment(1, "4x4x3", reset=False)
        for a in (0, 1, 0, 1, 0):
            rewards, done = over.step([a])
        self.assertTrue(done[0] and rewards[0] == 1)
        with self.assertRaises(evald.EvaldError) as raised:
            over.step([2])
        self.assertIn("the game is over", str(raised.exception))
        over.reset()
        over.step([2])


def uniform(p: evald.Positions) -> tuple[np.ndarray, np.ndarray]:
    return np.ones((len(p), p.board.actions)), np.zeros(len(p))


class Answers(unittest.TestCase):
    def test_program(self) -> None:
        """Answers are those of the program, whatever the batch."""
        program = os.environ.get("EVALD_PROGRAM") or os.environ["EVALD_LIBRARY"]
        lines = ["445566", "4", "1234567", "44444", "-"]
        out = subprocess.run([program, "eval"], input="\n".join(lines), capture_output=True, text=True, check=True).stdout
        answers = evald.evaluate(lines)
        for i, line in enumerate(out.splitlines()):
            said = json.loads(line)
            np.testing.assert_allclose(answers.wdl[i], said["wdl"], atol=2e-6)
            np.testing.assert_allclose(answers.policy[i], said["policy"], atol=2e-6)
            self.assertEqual(answers.source[i], said["source"])
            alone = evald.evaluate([lines[i]])
            np.testing.assert_array_equal(alone.policy[0], answers.policy[i])

    def test_many(self) -> None:
        """More positions than one call of the library takes."""
        p = evald.Positions(np.repeat(evald.Positions(["4", "3"]).words, 10000, 0))
        a = evald.evaluate(p, model="default-fast")
        one = evald.evaluate(["4", "3"], model="default-fast")
        np.testing.assert_array_equal(a.policy, np.repeat(one.policy, 10000, 0))
        np.testing.assert_array_equal(a.wdl, np.repeat(one.wdl, 10000, 0))

    def test_threads(self) -> None:
        e, wrong = evald.Evaluator(backend="bitsquares"), []
        want = e.evaluate(["4", "445"]).policy

        def ask() -> None:
            for _ in range(50):
                if not (e.evaluate(["4", "445"]).policy == want).all():
                    wrong.append(1)

        threads = [threading.Thread(target=ask) for _ in range(6)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.assertFalse(wrong)

    def test_options(self) -> None:
        with self.assertRaises(evald.EvaldError) as raised:
            evald.Evaluator("no-such-model")
        self.assertIn("no-such-model", str(raised.exception))
        with self.assertRaises(evald.EvaldError):
            evald.Evaluator(backend="nobody")
        e = pickle.loads(pickle.dumps(evald.Evaluator(backend="bitsquares", rules="5x4x4")))
        self.assertEqual((e.about["how"], e.rules, e.evaluate("-").policy.shape), ("heuristic bitsquares", "5x4x4", (1, 5)))

    def test_columns(self) -> None:
        """An evaluator maps batches of columns, in each form of positions."""
        e = evald.Evaluator(backend="bitsquares")
        want = e.evaluate(["4", "445"])
        p = want.positions.words
        for batch in [{"moves": np.array(["4", "445"])}, {"own": p[:, 0], "all": p[:, 2]}, dict(zip(("own_lo", "own_hi", "all_lo", "all_hi"), p.T))]:
            got = e({**batch, "id": np.arange(2)})
            np.testing.assert_array_equal(got["policy"], want.policy)
            np.testing.assert_array_equal(got["win"], want.wdl[:, 0])
            self.assertEqual((got["source"].tolist(), got["id"].tolist()), (want.source, [0, 1]))
        with self.assertRaises(KeyError):
            e({"nothing": np.arange(2)})

    def test_closed(self) -> None:
        """A thousand evaluators leave nothing behind, and a closed one says so."""
        e = evald.Evaluator(backend="bitsquares")
        e.close()
        e.close()
        for call in (lambda: e.evaluate("4"), lambda: evald.search("4", network=e, visits=4), lambda: next(evald.selfplay(1, network=e))):
            with self.assertRaises(evald.ClosedError):
                call()
        with evald.Evaluator(backend="bitsquares") as open_:
            open_.evaluate("4")
        before = memory()
        for _ in range(1000):
            evald.Evaluator(backend="bitsquares").evaluate("4")
        gc.collect()
        self.assertLess(memory() - before, 64)


def memory() -> float:
    """MiB that the process has, 0 where that is not known."""
    try:
        with open("/proc/self/status") as status:
            return next(int(line.split()[1]) / 1024 for line in status if line.startswith("VmRSS"))
    except OSError:
        return 0


class Searches(unittest.TestCase):
    def test_alone_and_together(self) -> None:
        """A search finds the same in any company, in batches of any size, and by any network that answers the same."""
        lines = ["4", "44", "445", "1234567", "445566", "4444433"]
        together = evald.search(lines, visits=60, batch=16, network="default-fast")
        for i, line in enumerate(lines):
            alone = evald.search(line, visits=60, network="default-fast")
            np.testing.assert_array_equal(alone.visits[0], together.visits[i])
            np.testing.assert_array_equal(alone.wdl[0], together.wdl[i])
        e = evald.Evaluator("default-fast")

        def same(p: evald.Positions) -> tuple[np.ndarray, np.ndarray]:
            a = e.evaluate(p)
            return a.policy, a.wdl

        by_function = evald.search(lines, visits=60, network=same, lookahead=True, exact=True, priors="flat", transpositions=True)
        self.assertEqual(by_function.best.tolist(), together.best.tolist())
        self.assertTrue((by_function.visits.sum(1)[:4] >= 59).all())

    def test_finds(self) -> None:
        found = evald.search(["445566", "121212"], visits=50, network=uniform, lookahead=True)
        self.assertIn(found.best[0], (2, 6))
        self.assertEqual(found.best[1], 0)
        self.assertEqual(found.proved.tolist(), [1, 1])
        over = evald.search("1212121", visits=50, network=uniform)
        self.assertEqual((over.best[0], over.proved[0], over.wdl[0].tolist()), (-1, -1, [0, 0, 1]))

    def test_batches(self) -> None:
        """The function gets full batches of distinct positions of unfinished games, from many trees."""
        sizes = []

        def network(p: evald.Positions) -> tuple[np.ndarray, np.ndarray]:
            sizes.append(len(p))
            self.assertTrue((p.results() == 2).all())
            return uniform(p)

        starts = evald.Positions(["".join(str(1 + c) for c in np.random.default_rng(i).permutation(7)[:4]) for i in range(600)])
        evald.search(starts, visits=40, network=network, batch=64, exact=False)
        self.assertEqual(max(sizes), 64)
        self.assertGreater(np.mean(sizes), 55)

    def test_values(self) -> None:
        """Values and win, draw and loss are the same to a search; torch's tensors too, if torch is there."""
        value = evald.search("4", visits=30, exact=False, network=lambda p: (np.ones((len(p), 7)), np.full(len(p), 0.5)))
        wdl = evald.search("4", visits=30, exact=False, network=lambda p: (np.ones((len(p), 7)), np.tile([0.75, 0, 0.25], (len(p), 1))))
        np.testing.assert_array_equal(value.visits, wdl.visits)
        np.testing.assert_allclose(value.wdl, wdl.wdl, atol=1e-6)

    def test_wrong_answers(self) -> None:
        n7 = lambda p: np.ones((len(p), 7))
        for name, network, says in [
            ("shape", lambda p: (np.ones((len(p), 6)), np.zeros(len(p))), "policy of shape [1, 6], want [1, 7]"),
            ("value shape", lambda p: (n7(p), np.zeros((len(p), 2))), "of shape [1, 2], want [1, 3]"),
            ("nan", lambda p: (n7(p) * np.nan, np.zeros(len(p))), "probability NaN"),
            ("negative", lambda p: (-n7(p), np.zeros(len(p))), "probability -1"),
            ("large value", lambda p: (n7(p), np.full(len(p), 3.0)), "values from 3.0 to 3.0"),
            ("nan value", lambda p: (n7(p), np.full(len(p), np.nan)), "values from nan"),
            ("no loss", lambda p: (n7(p), np.zeros((len(p), 3))), "all three"),
        ]:
            with self.subTest(name), self.assertRaises(evald.EvaldError) as raised:
                evald.search("4", visits=30, network=network)
            self.assertIn(says, str(raised.exception))
        with self.assertRaises(ZeroDivisionError):
            evald.search(["4", "44"], visits=30, network=lambda p: 1 / 0)  # type: ignore[arg-type, return-value]
        with self.assertRaises(TypeError):
            evald.search("4", visits=30, network=lambda p: None)  # type: ignore[arg-type, return-value]
        for options, says in [(dict(visits=0), "visits is 0"), (dict(selection="best"), "selection"), (dict(batch=0), "batch is 0"), (dict(leaves=99999), "leaves")]:
            with self.assertRaises(evald.EvaldError) as raised:
                evald.search("4", network=uniform, **options)  # type: ignore[arg-type]
            self.assertIn(says, str(raised.exception))

    def test_fails_often(self) -> None:
        """A thousand functions that raise leave nothing behind, and nothing hangs."""
        def fails(p: evald.Positions) -> tuple[np.ndarray, np.ndarray]:
            raise OverflowError

        before, threads = 0.0, 0
        for i in range(1000):
            with self.assertRaises(OverflowError):
                evald.search(["4", "44", "3"], visits=9, network=fails)
            if i == 200:
                before, threads = memory(), len(os.listdir("/proc/self/task")) if before == 0 and os.path.exists("/proc/self/task") else 0
        self.assertLess(memory() - before, 64)
        if threads:
            self.assertLess(len(os.listdir("/proc/self/task")), threads + 8)


class Solving(unittest.TestCase):
    def test_minimax(self) -> None:
        """Signs of scores beside the plainest search, on a small board."""
        def result(s: Game) -> int:
            if s.winner():
                return -1
            return max((-result(after(s, a)) for a in s.legal()), default=0)

        def after(s: Game, move: int) -> Game:
            s = copy.deepcopy(s)
            s.play(move)
            return s

        some = [s for s in games("4x3x3", 60, 5) if len(s.moves) > 5 and not s.over()]
        scores = evald.solve([s.text() for s in some], "4x3x3")
        for s, row in zip(some, scores):
            for a in range(4):
                want = evald.NO_MOVE if a not in s.legal() else -result(after(s, a))
                self.assertEqual(row[a] if want == evald.NO_MOVE else np.sign(row[a]), want)

    def test_limits(self) -> None:
        self.assertTrue((evald.solve("4", "8x7x4", nodes=1000) == evald.NO_MOVE).all())
        with self.assertRaises(evald.EvaldError) as raised:
            evald.solve(["4", "1212121"])
        self.assertIn("position 1: the game is over", str(raised.exception))

    def test_interrupt(self) -> None:
        """Ctrl-C ends a search that would take hours, within a second."""
        code = (
            "import evald, signal\n"
            "signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # a shell may have started all of this in the background, where it is ignored
            "evald.evaluate('4')\n"  # an interrupt while modules are loaded would end the child
            "print('ready', flush=True)\n"
            "try:\n    evald.solve('-', '9x8x4')\n"
            "except KeyboardInterrupt:\n    print('interrupted', flush=True)\n"
            "print(evald.evaluate('445566').source)\n"
        )
        with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as child:
            assert child.stdout is not None
            self.assertEqual(child.stdout.readline(), "ready\n")
            heard = time.monotonic()
            while child.poll() is None and time.monotonic() < heard + 30:  # an interrupt before the call would be an error elsewhere
                time.sleep(0.3)
                child.send_signal(signal.SIGINT)
                if child.stdout.readline() == "interrupted\n":
                    break
            self.assertEqual(child.stdout.readline(), "['rules']\n")


class Reading(unittest.TestCase):
    def test_records(self) -> None:
        """Records of the program's own games, beside what another reader of Parquet says."""
        program = os.environ.get("EVALD_PROGRAM") or os.environ["EVALD_LIBRARY"]
        with tempfile.TemporaryDirectory() as folder:
            for rules in ("7x6x4", "5x4x4"):
                flags = ["--backend", "bitsquares", "--games", "6", "--visits", "8", "--full-share", "0.5", "--rules", rules, "-o", os.path.join(folder, rules)]
                subprocess.run([program, "selfplay", *flags], check=True, capture_output=True)
            heard: list[tuple[int, int]] = []
            r = evald.read(os.path.join(folder, "7x6x4", "*.parquet"), progress=lambda done, all_: heard.append((done, all_)))
            self.assertEqual(heard[-1], (len(r), len(r)))
            self.assertEqual(sorted(set(r.game.tolist())), list(range(6)))
            np.testing.assert_array_equal(r.ply, r.positions.stones)
            going = r.move >= 0
            self.assertTrue(r.positions.legal()[going, r.move[going]].all())
            self.assertTrue(np.isin(r.policy.sum(1).round(5), (0, 1)).all())
            self.assertEqual(set(r.source) - {"bitsquares", "rules", "forced", "terminal", "solver", "search"}, set())
            both = [os.path.join(folder, rules, "*.parquet") for rules in ("5x4x4", "7x6x4")]
            with self.assertRaises(evald.EvaldError) as raised:
                evald.read(both)
            self.assertIn("is of 7x6x4, and others are of 5x4x4", str(raised.exception))
            again = evald.read(both, "7x6x4")
            np.testing.assert_array_equal(again.positions.words, r.positions.words)
            np.testing.assert_array_equal(again.visits, r.visits)
            try:
                import pyarrow.parquet
            except ImportError:
                self.skipTest("pyarrow, which this compares with, is not there")
            table = pyarrow.parquet.read_table(glob.glob(os.path.join(folder, "7x6x4", "*.parquet"))).to_pydict()
            self.assertEqual(table["own_lo"], r.positions.words[:, 0].tolist())
            self.assertEqual([v or [0] * 7 for v in table["visits"]], r.visits.tolist())
            self.assertEqual((table["z"], table["game"], table["source"]), (r.z.tolist(), r.game.tolist(), r.source))
            self.assertEqual([m - 1 for m in table["move"]], r.move.tolist())

    def test_wrong(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            damaged = os.path.join(folder, "damaged.parquet")
            with open(damaged, "wb") as f:
                f.write(b"PAR1" + bytes(100))
            for path, says in [(damaged, "damaged.parquet"), (os.path.join(folder, "none.parquet"), "none.parquet"), (os.path.join(folder, "*.x"), "no such files")]:
                with self.assertRaises(evald.EvaldError) as raised:
                    evald.read(path)
                self.assertIn(says, str(raised.exception))


class SelfPlay(unittest.TestCase):
    def test_games(self) -> None:
        """Games are legal from the first position to the end, and follow from seed and number."""
        for rules in ("5x4x4", "4x4x3", "3x3x3free"):
            all_ = {g.number: g for g in evald.selfplay(12, rules, network=uniform, visits=12, full_share=0.5, seed=4)}
            self.assertEqual(sorted(all_), list(range(12)))
            for g in all_.values():
                after = g.positions.play(g.actions)
                np.testing.assert_array_equal(after.words[:-1], g.positions.words[1:])
                last = int(after.results()[-1])
                self.assertNotEqual(last, 2)
                mover = 1 if g.positions.stones[-1] % 2 == 0 else -1
                self.assertEqual(g.result, -last * mover)
                self.assertEqual(g.z[-1], -last)
                full = g.visits.sum(1) > 0
                self.assertTrue((g.visits[full][g.positions.legal()[full] == 0] == 0).all())
            again = next(g for g in evald.selfplay(1, rules, network=uniform, visits=12, full_share=0.5, seed=4, first=7))
            np.testing.assert_array_equal(again.positions.words, all_[7].positions.words)

    def test_given_up(self) -> None:
        """An iterator that is not read to its end ends the play; an error in the function comes out."""
        for _ in range(5):
            for g in evald.selfplay(10_000, "5x4x4", network=uniform, visits=8):
                break
        def fails(p: evald.Positions) -> tuple[np.ndarray, np.ndarray]:
            raise OverflowError
        with self.assertRaises(OverflowError):
            next(evald.selfplay(3, network=fails))
        with self.assertRaises(evald.EvaldError) as raised:
            next(evald.selfplay(3, network=uniform, visits=0))
        self.assertIn("visits", str(raised.exception))
        with self.assertRaises(TypeError):
            evald.selfplay(3, network=uniform, no_such_option=1)  # type: ignore[call-arg]


class Processes(unittest.TestCase):
    def test_fork(self) -> None:
        """A child of a fork gets an error, and not a hang; one that is spawned works."""
        if not hasattr(os, "fork"):
            self.skipTest("this system does not fork")
        evald.evaluate("4")
        code = (
            "import os, sys, evald\n"
            "evald.evaluate('4')\n"
            "if os.fork() == 0:\n"
            "    try:\n        evald.evaluate('4')\n"
            "    except evald.ClosedError as e:\n        print(e, flush=True); os._exit(7)\n"
            "    os._exit(1)\n"
            "sys.exit(os.waitstatus_to_exitcode(os.wait()[1]))\n"
        )
        done = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 7, done.stderr)
        self.assertIn("spawn", done.stdout)

    def test_program(self) -> None:
        """The package starts the program, with its statuses."""
        for line, status in (("44554", 0), ("wrong", 1)):
            done = subprocess.run([sys.executable, "-m", "evald", "eval", "--backend", "bitsquares"], input=line, capture_output=True, text=True)
            self.assertEqual(done.returncode, status, done.stderr)


if __name__ == "__main__":
    unittest.main()
