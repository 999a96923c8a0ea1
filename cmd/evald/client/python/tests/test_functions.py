"""Functions as networks: the sizes of their batches, the forms of their answers, the order of
games, and bars of progress."""
from __future__ import annotations

import sys
import tempfile
import types
import unittest
from typing import Any
from unittest import mock

import numpy as np
from public import uniform

import evald

RULES = "5x4x4"


class Sizes(unittest.TestCase):
    def test_sizes(self) -> None:
        """A function sees batches of the sizes alone, padded with copies of the last position, and
        its answers are those without sizes."""
        rows: list[int] = []

        def f(positions: evald.Positions) -> Any:
            rows.append(len(positions))
            self.assertEqual(len(positions), len(positions.results()))  # the copies are valid
            words = positions.words
            return 1 + words[:, :1] % 7 * np.arange(positions.board.actions), np.tanh((words[:, 2] % 11).astype(float) - 5)

        labels = evald.labels(["1", "12", "13", "14", "15"], RULES)
        calls: dict[str, Any] = {
            "selfplay": lambda **k: [(g.number, g.q.tolist(), g.visits.tolist()) for g in evald.selfplay(10, RULES, network=f, visits=8, order="number", **k)],
            "match": lambda **k: evald.match({"f": f, "r": "uct:sims=4"}, RULES, games=10, visits=8, **k).elo.tolist(),
            "score": lambda **k: [dict(one, model="") for one in evald.score(f, labels, visits=(0, 8), exact=False, **k).report],
        }
        for name, call in calls.items():
            want = call()
            self.assertTrue(set(rows) - {1, 4, 16}, rows)
            for sizes in ((1, 4, 16), [np.int64(6)], np.array([8, 2])):
                del rows[:]
                with self.subTest(name, sizes=str(sizes)):
                    self.assertEqual(call(sizes=sizes), want)
                    self.assertLessEqual(set(rows), set(sizes))
            del rows[:]

    def test_refused(self) -> None:
        for network in ("bitsquares", None, evald.Evaluator(backend="bitsquares")):
            with self.assertRaisesRegex(evald.EvaldError, "sizes is .*, and must be None, unless the network is a function"):
                evald.selfplay(1, RULES, network=network, sizes=(1, 2))


class Forms(unittest.TestCase):
    def test_answers(self) -> None:
        """Arrays with DLPack alone, tensors with detach, lists and other types of numbers are the
        same answers."""
        class Capsule:
            """An array that has DLPack and nothing else, on the device of the kind: 1 is the
            processor, 2 a GPU."""

            def __init__(self, of: Any, kind: int = 1) -> None:
                self.of, self.kind = np.asarray(of), kind

            def __dlpack__(self, **options: Any) -> Any:
                if self.kind != 1:
                    raise BufferError("not on this device")
                return self.of.__dlpack__(**{k: v for k, v in options.items() if k != "dl_device"})

            def __dlpack_device__(self) -> tuple[int, int]:
                return self.kind, 0

        class Tensor:
            def __init__(self, of: Any) -> None:
                self.of = np.asarray(of)

            def detach(self) -> Tensor:
                return self

            float = cpu = detach

            def numpy(self) -> Any:
                return self.of

        def answer(form: Any) -> Any:
            return lambda p: tuple(form(part) for part in (1.0 + np.arange(len(p) * 5).reshape(len(p), 5) % 3, np.zeros(len(p))))

        want = evald.search(["1", "12"], RULES, network=answer(np.asarray), visits=8, exact=False, leaves=1).visits
        for form in (Capsule, Tensor, np.ndarray.tolist, np.float16, lambda of: Capsule(of.astype(np.float64)), lambda of: Capsule(of.astype(np.int32))):
            np.testing.assert_array_equal(evald.search(["1", "12"], RULES, network=answer(form), visits=8, exact=False).visits, want)
        with self.assertRaisesRegex(evald.EvaldError, "answers Capsule, whose memory numpy cannot read"):
            evald.search("1", RULES, network=answer(lambda of: Capsule(of, 2)), visits=8, exact=False)


class Order(unittest.TestCase):
    def test_number(self) -> None:
        """The same games, in the order of their numbers; early numbers are no shorter."""
        finished = list(evald.selfplay(60, RULES, network=uniform, visits=2, fast_visits=2, first=5))
        ordered = list(evald.selfplay(60, RULES, network=uniform, visits=2, fast_visits=2, first=5, order="number"))
        self.assertEqual([game.number for game in ordered], list(range(5, 65)))
        self.assertNotEqual([game.number for game in finished], list(range(5, 65)))
        self.assertEqual(sorted(finished, key=lambda game: game.number), ordered)
        with self.assertRaisesRegex(evald.EvaldError, "order is 'numbr', and must be 'finished' or 'number'"):
            evald.selfplay(1, RULES, order="numbr")  # type: ignore[arg-type]

    def test_given_up(self) -> None:
        games = evald.selfplay(1000, RULES, network=uniform, visits=2, fast_visits=2, order="number")
        self.assertEqual([next(games).number, next(games).number], [0, 1])
        games.close()


class Bars(unittest.TestCase):
    def test_tqdm(self) -> None:
        """progress=True is a bar of tqdm in every function with progress."""
        for name in evald.__all__:
            getattr(evald, name)  # imports its module, which the patches below would drop again
        bars: list[Any] = []

        class tqdm:
            def __init__(self, total: int | None) -> None:
                self.total, self.n, self.closed = total, 0, False
                bars.append(self)

            def update(self, more: int) -> None:
                self.n += more

            def close(self) -> None:
                self.closed = True

        module = types.ModuleType("tqdm.auto")
        module.tqdm = tqdm  # type: ignore[attr-defined]
        with tempfile.TemporaryDirectory() as folder:
            path = folder + "/x.parquet"
            calls = {
                "write": lambda p: evald.write(evald.selfplay(3, RULES, network=uniform, visits=2), path, progress=p), "read": lambda p: evald.read(path, progress=p),
                "selfplay": lambda p: list(evald.selfplay(3, RULES, network=uniform, visits=2, progress=p)), "search": lambda p: evald.search(["1", "2"], RULES, visits=2, network=uniform, progress=p),
                "solve": lambda p: evald.solve(["12", "1"], "4x4x3", progress=p), "labels": lambda p: evald.labels(["12", "1"], "4x4x3", progress=p),
                "match": lambda p: evald.match({"a": "random", "b": "random"}, RULES, games=4, progress=p),
                "score": lambda p: evald.score(uniform, evald.labels(["1", "2"], "4x4x3"), visits=0, progress=p),
                "reanalyse": lambda p: evald.reanalyse(evald.read(path), network=uniform, visits=2, progress=p),
            }
            for name, call in calls.items():
                with self.subTest(name):
                    with mock.patch.dict(sys.modules, {"tqdm": types.ModuleType("tqdm"), "tqdm.auto": module}):
                        call(True)
                    bar = bars.pop()
                    self.assertEqual((bar.n, bar.closed, bars), (bar.total, True, []))
                    self.assertGreater(bar.n, 1)
                    with mock.patch.dict(sys.modules, {"tqdm": None}), self.assertRaisesRegex(evald.EvaldError, "progress is True, and needs tqdm, which is not installed: pip install tqdm"):
                        call(True)
                    with mock.patch.dict(sys.modules, {"tqdm": None}):
                        call(False)


if __name__ == "__main__":
    unittest.main()
