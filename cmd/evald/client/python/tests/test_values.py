"""Public objects are values: what pickles, copies, sequences and earlier results keep, for every public class."""
from __future__ import annotations

import copy
import inspect
import itertools
import os
import pathlib
import pickle
import subprocess
import sys
import tempfile
import unittest
from typing import Any

import numpy as np
from public import classes, example, plain, public, values

import evald

OTHERS = ("4x4x3", "9x7x4", "3x3x3free", "6x5x4")


def load(path: str) -> None:
    """Prints the contents of pickles, in a process that has opened other boards and evaluators before."""
    for rules in OTHERS:
        evald.Evaluator(backend="bitsquares").evaluate("-", rules)
    for name, text in pickle.loads(pathlib.Path(path).read_bytes()).items():
        print(name, repr(example(name).content(pickle.loads(text))))


class Copies(unittest.TestCase):
    def test_here(self) -> None:
        """Pickles, also of old protocols, and copies have the same contents, and share nothing with the original."""
        for name in values():
            e = example(name)
            ways = {f"pickle {k}": lambda of, k=k: pickle.loads(pickle.dumps(of, k)) for k in (0, 2, pickle.HIGHEST_PROTOCOL)}
            ways |= {"copy": copy.copy, "deepcopy": copy.deepcopy}
            for way, copied in ways.items():
                with self.subTest(name, way=way):
                    of = e.make()
                    other = copied(of)
                    self.assertIs(type(other), type(of))
                    if type(of).__eq__ is not object.__eq__:
                        self.assertTrue(other == of and not other != of)
                    again = copied(of)
                    want = repr(e.content(copied(of)))
                    e.change(of)
                    self.assertEqual(repr(e.content(other)), want)
                    e.change(other)
                    self.assertEqual(repr(e.content(again)), want)

    def test_content_is_that_of_the_original(self) -> None:
        for name in values():
            with self.subTest(name):
                e = example(name)
                of = e.make()
                other = pickle.loads(pickle.dumps(of))
                self.assertEqual(repr(e.content(of)), repr(e.content(other)))

    def test_there(self) -> None:
        """Another process, of the library or the program, gets the same contents."""
        texts = {name: pickle.dumps(example(name).make()) for name in values()}
        want = "".join(f"{name} {example(name).content(pickle.loads(text))!r}\n" for name, text in texts.items())
        library, program = os.environ.get("EVALD_LIBRARY"), os.environ.get("EVALD_PROGRAM")  # the library is a program too
        transports = [{"EVALD_PROGRAM": program or library or ""}] + ([{"EVALD_LIBRARY": library}] if library else [])
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "pickles"
            path.write_bytes(pickle.dumps(texts))
            for transport in transports:
                env = {k: v for k, v in os.environ.items() if k not in ("EVALD_LIBRARY", "EVALD_PROGRAM")} | transport
                code = "import sys, test_values; test_values.load(sys.argv[1])"
                done = subprocess.run([sys.executable, "-W", "ignore", "-c", code, str(path)], env=env, capture_output=True, text=True)
                self.assertEqual(done.returncode, 0, done.stderr)
                for line, wanted in zip(done.stdout.splitlines(), want.splitlines()):
                    self.assertEqual(line, wanted)
                self.assertEqual(len(done.stdout), len(want))

    def test_errors(self) -> None:
        for name, of in public().items():
            if inspect.isclass(of) and issubclass(of, Exception):
                again = pickle.loads(pickle.dumps(of("text")))
                self.assertEqual((type(again), str(again)), (of, "text"))

    def test_unequal(self) -> None:
        p = evald.Positions(["44", "45"])
        self.assertNotEqual(p, evald.Positions(["44", "46"]))
        self.assertNotEqual(p, evald.Positions("44"))
        self.assertNotEqual(evald.Positions("11"), evald.Positions("11", "7x6x5"))
        self.assertNotEqual(p, "44")
        self.assertEqual(p, evald.Positions(p.words))
        self.assertNotEqual(evald.evaluate("44", model="default-fast"), evald.evaluate("45", model="default-fast"))
        self.assertIs(evald.board("07x6x4"), evald.board("7x6x4"))
        self.assertIs(evald.Board("7x6x4"), evald.board("7x6x4"))
        for of in (p, evald.evaluate("44", model="default-fast")):
            with self.assertRaises(TypeError):
                hash(of)
        for name in ("columns", "rules", "cells"):
            with self.assertRaises(AttributeError):
                setattr(evald.board("7x6x4"), name, 9)


class Sequences(unittest.TestCase):
    def test_ends(self) -> None:
        """Every object with a length has an iteration that ends, or none, and numpy takes it."""
        for name in classes():
            of = example(name).make()
            if not hasattr(of, "__len__"):
                continue
            with self.subTest(name):
                np.asarray(of)
                if hasattr(of, "__getitem__") or hasattr(of, "__iter__"):
                    self.assertEqual(len(list(itertools.islice(of, len(of) + 5))), len(of))
                    for wrong in (len(of), -len(of) - 1, 1 << 70, None, True, np.True_, (0, 1), (), "0", 0.5, ..., [0.5], [[0]], [0, True], [True], [len(of)], {0}, slice("a"), slice(0, 1, 0)):
                        with self.assertRaises(evald.IndexingError, msg=repr(wrong)) as raised:
                            of[wrong]
                        self.assertIsInstance(raised.exception, (evald.EvaldError, IndexError))
                        self.assertTrue(isinstance(raised.exception, IndexError))
                else:
                    with self.assertRaises(TypeError):
                        iter(of)

    def test_rows_are_those_of_numpy(self) -> None:
        p = evald.Positions(["4", "44", "445", "4455"])
        words = p.words.copy()
        for index in (slice(1, 3), slice(None, None, -1), slice(-2, None), slice(np.int64(1), np.int64(4), 2), slice(9, 20), [0, -1, 2], [], np.array([3, 0], np.uint8),
                      [True, False, True, False], np.array([False] * 4), (words[:, 1] == 0), range(2)):
            with self.subTest(str(index)):
                want = words[np.asarray(index, int) if isinstance(index, (list, range)) and not (index and isinstance(index[0], bool)) else index]
                np.testing.assert_array_equal(p[index].words, want)
        for index in (0, -1, np.int32(2), np.uint64(3), np.array(1)):
            np.testing.assert_array_equal(p[index].words, words[int(index)][None])
        self.assertEqual([str(one.stones) for one in reversed(p)], ["[4]", "[3]", "[2]", "[1]"])

    def test_joined(self) -> None:
        p = evald.Positions(["11", "23"], "4x4x3")
        self.assertEqual(evald.Positions([p[0], p[1]]), p)
        self.assertEqual(evald.Positions(list(p) + [p], "4x4x3"), p[[0, 1, 0, 1]])
        self.assertEqual(evald.Evaluator(backend="bitsquares").evaluate([p[0], p[1]]).policy.shape, (2, 4))
        for of, says in [([p[0], evald.Positions("4")], "positions 1 are of 7x6x4"), ([p[0], "11"], "position 0 is <"), (["11", p[0]], "position 1 is <")]:
            with self.assertRaises(evald.EvaldError) as raised:
                evald.Positions(of, "4x4x3")
            self.assertIn(says, str(raised.exception))

    def test_contains(self) -> None:
        p = evald.Positions(["44", "45"])
        self.assertTrue("45" in p and p[1] in p and "46" not in p and evald.Positions("44", "7x6x5") not in p)
        with self.assertRaises(evald.EvaldError):
            p in p  # noqa: B015

    def test_numpy(self) -> None:
        p = evald.Positions(["44", "45"])
        np.testing.assert_array_equal(np.asarray(p), p.words)
        self.assertEqual(evald.Positions(np.asarray(p)), p)
        self.assertEqual(np.asarray(p, np.float64).dtype, np.float64)
        self.assertFalse(np.shares_memory(np.asarray(p), p.words) or np.shares_memory(np.array(p), p.words))


class Kept(unittest.TestCase):
    def test_results(self) -> None:
        """Nothing that a method or a property has returned changes when the object does, or when its argument does."""
        kept: list[tuple[str, Any, str]] = []
        for name in classes():
            e = example(name)
            of = e.make()
            for member, found in inspect.getmembers(type(of)):
                if member.startswith("_") or name == "Positions" and member == "words" or not (callable(found) or isinstance(found, property)):
                    continue
                if isinstance(found, property):
                    got = getattr(of, member)
                elif member in ("reset", "close") or not inspect.isfunction(found) or not found.__module__.startswith("evald") or any(
                    p.default is p.empty and p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL) for p in list(inspect.signature(found).parameters.values())[1:]
                ):
                    continue
                else:
                    got = getattr(of, member)()
                kept.append((f"{name}.{member}", got, repr(plain(got))))
            for k in range(2):
                got = e.change(of)
                kept.append((f"{name}, change {k}", got, repr(plain(got))))
            if hasattr(of, "reset"):
                of.reset()
        self.assertGreater(len(kept), 20)
        for where, got, before in kept:
            self.assertEqual(repr(plain(got)), before, where)

    def test_arguments(self) -> None:
        """Positions, answers and searches keep a copy of an argument."""
        words = evald.Positions(["44", "45"]).words
        for given in (words, words[:, ::2].copy(), evald.Positions(words), np.asfortranarray(words)):
            kept = [evald.Positions(given), evald.evaluate(given, model="default-fast").positions, evald.search(given, visits=2, network="default-fast").positions]
            want = evald.Positions(["44", "45"])
            (given.words if isinstance(given, evald.Positions) else given)[:] = 0
            for one in kept:
                self.assertEqual(one, want)
            words = want.words

    def test_environment(self) -> None:
        """The last position of a finished game stays, and positions that are assigned are those of the games."""
        games = evald.Environment(1, "4x4x3", reset=False)
        for a in (0, 1, 0, 1, 0):
            rewards, done = games.step([a])
        last = games.positions
        games.reset()
        self.assertEqual((last.results()[0], rewards[0], done[0], games.positions.stones[0]), (-1, 1, True, 0))
        games.positions = last[:]
        last.words[:] = 0
        self.assertEqual(games.positions.results()[0], -1)
        with self.assertRaises(evald.EvaldError):
            games.positions = evald.Positions(["1", "2"], "4x4x3")


class Impossible(unittest.TestCase):
    def test_every_function(self) -> None:
        """Words that no board has are an error of every function and method that uses positions."""
        for rules in ("7x6x4", "12x9x6", "3x3x3free"):
            p, e = evald.Positions.empty(2, rules), evald.Evaluator(backend="bitsquares")
            calls = {f"Positions.{name}": (lambda name=name: getattr(p, name)()) for name, f in inspect.getmembers(evald.Positions, inspect.isfunction)
                     if not name.startswith("_") and name != "play"}
            calls |= {"Positions.play": lambda: p.play([0, 0]), "Positions.stones": lambda: p.stones, "_repr_svg_": lambda: p[1]._repr_svg_(), "Evaluator.evaluate": lambda: e.evaluate(p)}
            for name, f in public().items():
                if inspect.isfunction(f) and "positions" in inspect.signature(f).parameters:
                    calls[name] = lambda f=f: f(p)
            self.assertGreater(len(calls), 10)
            for words in ([2**64 - 1] * 4, [1, 0, 0, 0], [0, 0, 6, 0], [0, 2**63, 0, 2**63]):
                p.words[1] = words
                for name, call in calls.items():
                    with self.subTest(name, rules=rules, words=words), self.assertRaisesRegex(evald.EvaldError, f"position {0 if name == '_repr_svg_' else 1}: "):
                        call()


if __name__ == "__main__":
    unittest.main()
