"""However often something goes wrong, nothing leaks and nothing hangs: memory, file descriptors and threads are the same at the end. EVALD_SOAK
repeats each fault 1,000 times. test_program.py kills the program as often."""
from __future__ import annotations

import faulthandler
import gc
import itertools
import os
import threading
import unittest
from typing import Callable

import numpy as np

import evald

SOAK = bool(os.environ.get("EVALD_SOAK"))
TIMES = 1000 if SOAK else 20
MOST = 3600.0 if SOAK else 600.0  # seconds: a test that takes longer hangs

Answer = tuple[np.ndarray, np.ndarray]


def program() -> str:
    """The process whose memory and threads count: the program's, where one answers, or this one."""
    found = [str(os.getpid())]
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat") as stat:
                    if stat.read().rpartition(")")[2].split()[1] == found[0]:
                        found.append(name)
            except OSError:
                pass
    return found[-1]


def used() -> dict[str, float]:
    """What this process and the program have."""
    gc.collect()
    all_ = {"MiB": 0.0, "descriptors": 0.0, "threads": 0.0}
    for process in {str(os.getpid()), program()}:
        with open(f"/proc/{process}/status") as status:
            fields = dict(line.split(":", 1) for line in status)
        all_["MiB"] += int(fields["VmRSS"].split()[0]) / 1024
        all_["threads"] += int(fields["Threads"])
        all_["descriptors"] += len(os.listdir(f"/proc/{process}/fd"))
    return all_


def uniform(p: evald.Positions) -> Answer:
    return np.ones((len(p), p.board.actions)), np.zeros(len(p))


def raises(p: evald.Positions) -> Answer:
    raise OverflowError("on purpose")


def late() -> Callable[[evald.Positions], Answer]:
    """A function that raises from its third batch on, in the middle of the work."""
    batches = itertools.count()

    def network(p: evald.Positions) -> Answer:
        return raises(p) if next(batches) >= 2 else uniform(p)

    return network


WRONG: dict[str, Callable[[evald.Positions], Answer]] = {
    "few moves": lambda p: (np.ones((len(p), 3)), np.zeros(len(p))),
    "few rows": lambda p: (np.ones((len(p) + 1, 7)), np.zeros(len(p))),
    "values": lambda p: (np.ones((len(p), 7)), np.zeros((len(p), 2))),
    "NaN": lambda p: (np.full((len(p), 7), np.nan), np.zeros(len(p))),
    "NaN value": lambda p: (np.ones((len(p), 7)), np.full(len(p), np.nan)),
}


@unittest.skipUnless(os.path.exists("/proc/self/status"), "this system has no /proc, which counts what a process has")
class Leaks(unittest.TestCase):
    def setUp(self) -> None:
        faulthandler.dump_traceback_later(MOST, exit=True)  # a call that hangs, with the place

    def tearDown(self) -> None:
        faulthandler.cancel_dump_traceback_later()

    def often(self, once: Callable[[int], object]) -> None:
        """Repeats a fault. Memory swings by what is not collected yet, and so its least in the second half counts, beside its most in the first."""
        for i in range(TIMES // 5):
            once(i)
        samples = []
        for i in range(TIMES):
            once(i)
            if i % (TIMES // 10) == 0:
                samples.append(used())
        first, last = samples[:5], samples[-5:]
        for what, more in ("MiB", 24), ("descriptors", 2), ("threads", 4):
            grown = min(s[what] for s in last) - max(s[what] for s in first)
            self.assertLessEqual(grown, more, f"{what} in the course of {TIMES} times: {[round(s[what]) for s in samples]}")
        np.testing.assert_array_equal(evald.Evaluator(backend="bitsquares").evaluate("445566").source, ["rules"])

    def test_wrong_answers(self) -> None:
        """Functions with answers of a wrong shape, and NaN, in searches and in self-play."""
        names = sorted(WRONG)

        def once(i: int) -> None:
            network = WRONG[names[i % len(names)]]
            with self.assertRaises(evald.EvaldError):
                evald.search(["4", "44", "3"], visits=9, network=network)
            with self.assertRaises(evald.EvaldError):
                next(evald.selfplay(20, network=network, visits=4))
            with self.assertRaises(evald.EvaldError):
                evald.match({"f": network, "g": uniform}, games=4, visits=4)
            with self.assertRaises(evald.EvaldError):
                evald.score(network, (["4"], np.zeros((1, 7), int)), visits=(0, 4))

        self.often(once)

    def test_raises(self) -> None:
        """Functions that raise, at once or in the middle, in searches and in self-play."""

        def once(i: int) -> None:
            for search, play in ((raises, raises), (late(), late())):
                with self.assertRaises(OverflowError):
                    evald.search(["4", "44", "3"], visits=50, network=search, exact=False)
                with self.assertRaises(OverflowError):
                    list(evald.selfplay(20, network=play, visits=4, parallel=8))
                with self.assertRaises(OverflowError):
                    evald.match({"f": play, "g": uniform}, "5x4x4", games=20, visits=8, exact=False)

        self.often(once)

    def test_given_up(self) -> None:
        """Self-play that is read no further, and searches that their progress ends."""

        def stop(done: int, of: int) -> None:
            raise InterruptedError

        def once(i: int) -> None:
            next(evald.selfplay(10_000, "4x4x3", network=uniform, visits=4, parallel=16))
            with self.assertRaises(InterruptedError):
                evald.search(["4", "44"], visits=10_000, network=uniform, progress=stop)
            with self.assertRaises(InterruptedError):
                evald.match({"f": uniform, "g": uniform}, games=20, visits=10_000, progress=stop)

        self.often(once)

    def test_wrong_positions(self) -> None:
        """Arrays of wrong shapes and positions that no game reaches."""
        e = evald.Evaluator(backend="bitsquares")
        wrong = [np.zeros((2, 7, 6), int), np.full((6, 7), 3), np.array([[1, 0]], np.uint64), np.zeros((3, 5), np.uint64), "48", ["4", "x"], "4" * 5000, [[1, 2], [3]]]

        def once(i: int) -> None:
            for of in wrong:
                with self.assertRaises(evald.EvaldError):
                    e.evaluate(of)
                with self.assertRaises(evald.EvaldError):
                    evald.search(of, visits=4, network=uniform)

        self.often(once)

    def test_evaluators(self) -> None:
        """Evaluators that are opened and closed, or forgotten, or cannot be opened."""

        def once(i: int) -> None:
            for model, backend in (("seeded-2x16", "cpu"), (None, "bitsquares")):  # a network that opens a hundred times faster than default-fast
                with evald.Evaluator(model, backend=backend) as e:
                    e.evaluate(["4", "44"])
                with self.assertRaises(evald.ClosedError):
                    e.evaluate("4")
            evald.Evaluator(backend="uniform").evaluate("4")
            with self.assertRaises(evald.EvaldError):
                evald.Evaluator("no such model")

        self.often(once)

    def test_threads(self) -> None:
        """Threads that end leave nothing, also if their function raised."""

        def one() -> None:
            evald.evaluate("4", model=e)
            try:
                evald.search("4", visits=9, network=raises)
            except OverflowError:
                ends.append(1)

        e, ends = evald.Evaluator(backend="bitsquares"), list[int]()

        def once(i: int) -> None:
            ends.clear()
            threads = [threading.Thread(target=one) for _ in range(4)]
            for t in threads:
                t.start()
            for t in threads:
                t.join()
            self.assertEqual(len(ends), 4)

        self.often(once)


if __name__ == "__main__":
    unittest.main()
