"""Wrong calls of the library: every call in CALLS with arrays that end at a page that cannot be touched, and every public function with arrays of wrong
shapes, strides, types and contents. Nothing may end the process, write beside an array, or change later answers. EVALD_SOAK is the time; EVALD_SEED
repeats a run."""
from __future__ import annotations

import collections
import ctypes
import ctypes.util
import inspect
import json
import os
import pathlib
import random
import re
import subprocess
import sys
import tempfile
import time
import unittest
import warnings
from typing import Any

import numpy as np

import evald
import public
from evald._library import CALLS, ERROR_SIZE, Event, library

SEED = int(os.environ.get("EVALD_SEED") or random.randrange(1 << 32))
PAGE = 1 << 12
UNUSED = 1 << 20  # from here on, numbers are no handles of this process
CALL_TIME = 4  # seconds after which a long call is released


def seconds() -> float:
    """The time of each test: a second, or half of EVALD_SOAK."""
    text = os.environ.get("EVALD_SOAK", "")
    units = {"ms": 0.001, "s": 1, "m": 60, "h": 3600}
    return sum(float(n) * units[unit] for n, unit in re.findall(r"([\d.]+)(ms|s|m|h)", text)) / 2 or 1


class Guarded:
    """Memory of exactly size bytes between a page that cannot be touched and guard bytes, or the other way round."""

    def __init__(self, size: int, end: bool) -> None:
        pages = (size + PAGE - 1) // PAGE
        self.length = (pages + 2) * PAGE
        self.base = _mmap(None, self.length, 0, 0x22, -1, 0)
        if self.base in (None, ctypes.c_void_p(-1).value):
            raise MemoryError
        if pages and _mprotect(self.base + PAGE, pages * PAGE, 3) != 0:
            raise OSError("mprotect")
        self.size, self.pages = size, pages * PAGE
        self.at = self.base + PAGE + (pages * PAGE - size if end else 0)
        if pages:
            ctypes.memset(self.base + PAGE, 0xA5, pages * PAGE)

    def fill(self, content: bytes) -> None:
        ctypes.memmove(self.at, content[: self.size], min(self.size, len(content)))

    def bytes(self) -> bytes:
        return ctypes.string_at(self.at, self.size)

    def harmed(self) -> bool:
        """Whether a byte beside the array was written."""
        around = ctypes.string_at(self.base + PAGE, self.pages)
        before = self.at - self.base - PAGE
        rest = around[:before] + around[before + self.size :]
        return rest != b"\xa5" * len(rest)

    def free(self) -> None:
        _munmap(self.base, self.length)


_c = ctypes.CDLL(None) if sys.platform == "linux" else None
if _c is not None:
    _mmap, _mprotect, _munmap = _c.mmap, _c.mprotect, _c.munmap
    _mmap.restype = ctypes.c_void_p
    _mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
    _mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    _munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]

# The size in bytes of each array of a call, in order, for n positions on a board with a actions and c cells; r is the number of rows that the last wait
# has named, and m the room of trees. A call with arrays that is not here, and has more than one, fails the test.
SIZES: dict[str, str] = {
    "about": "TEXT", "evaluator": "TEXT", "records": "TEXT", "board": "40", "parse": "32*n", "check": "32*n", "from_cells": "c*n 32*n", "cells": "32*n c*n",
    "planes": "32*n p*n", "legal": "32*n a*n", "results": "32*n n", "step": "32*n 8*n 4*n n", "evaluate": "32*n 12*n 4*a*n n", "score": "32*n 4*a*n", "score_rules": "TEXT", "result": "TEXT", "write": "32*n 4*a*n 4*n 4*n n n 4*n 4*n 8*n 4*a*n 2*n n",
    "search": "32*n 4*a*n 4*a*n 4*a*n 12*n 4*n n 4*a*n 4*n 4*n*m*(5+6*a)", "rule": "TEXT", "plant": "32*n", "grow": "4*a*n 4*a*n 4*a*n 12*n 4*n n 4*a*n 4*n 4*n*m*(5+6*a)", "priors": "4*a*n", "advance": "8*n", "solve": "32*n 4*a*n", "read": "32*n 4*a*n 4*n 4*n n n 4*n 4*n 8*n 4*a*n 2*n n",
    "batch": "32*r", "answer": "12*r 4*a*r", "game": "32*r 4*a*r 4*r r 4*r 4*a*r 4*a*r 4*r",
}
WORDS = [0, 1, -1, 2, 7, 255, 1 << 31, (1 << 31) - 1, 1 << 32, 1 << 40, 1 << 61, 1 << 62, -(1 << 62), (1 << 63) - 1, -(1 << 63)]
VALUES: list[Any] = [0, 1, -1, 2, 3, 0.5, 1e9, 1e300, 1 << 62, -(1 << 62), 1 << 70, True, False, None, "", "x", "puct", "gumbel", "uct", [], [1], {}, {"a": 1}]


@unittest.skipUnless(sys.platform == "linux" and os.environ.get("EVALD_LIBRARY"), "guard pages need the library, on Linux")
class Calls(unittest.TestCase):
    def test_sizes(self) -> None:
        """Every call with arrays has their sizes, so that a new one is fuzzed."""
        arrays = {name: sum(kind in "rwul" for kind in kinds.split(":")[1]) for name, kinds in CALLS.items()}
        self.assertEqual({name: n for name, n in arrays.items() if n}, {name: len(sizes.split()) for name, sizes in SIZES.items()})

    def test_panic(self) -> None:
        """A real panic becomes an EvaldError with what a report needs, and its stack goes to standard error. Later calls are as before. A call that writes
        cells over the positions from which it reads them panics."""
        code = (
            "import numpy as np, evald\n"
            "from evald._library import library, thread, failed\n"
            "before = evald.evaluate('4453').policy\n"
            "b = evald.board('7x6x4')._number\n"
            "for i in range(3):\n"
            "    words = np.ascontiguousarray(np.concatenate([evald.Positions(['1234567', '7654321', '4', '44', '445']).words, np.zeros((40, 4), np.uint64)]))\n"
            "    status = library.cells(b, 5, library.pointer(words), library.pointer(words), thread.error)\n"
            "    print(status, repr(failed(status, thread.error)))\n"
            "assert (evald.evaluate('4453').policy == before).all()\n"
            "print(evald.search('4', visits=20, network='default-fast').visits.sum(), evald.version())\n"
        )
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
        self.assertEqual(done.returncode, 0, done.stderr)
        lines = done.stdout.splitlines()
        for line in lines[:3]:
            self.assertRegex(line, r"^-1 EvaldError\('evald has a fault: runtime error: index out of range .* \(at .*boards.go:\d+ .*this is a mistake in evald .*, not in the call; please report it")
        self.assertIn(lines[3].split()[-1], lines[0])
        self.assertEqual(done.stderr.count("goroutine"), 3, done.stderr)

    def test_fuzz(self) -> None:
        """Random calls with arrays of their exact sizes beside guard pages: valid and wrong contents, numbers, handles and texts, in any order."""
        print(f"EVALD_SEED={SEED}", end=" ", flush=True)
        fuzz = Fuzz(random.Random(SEED))
        want = answers()
        end = time.monotonic() + seconds()
        while time.monotonic() < end:
            fuzz.call(fuzz.next())
        fuzz.release()
        self.assertEqual(want, answers())
        total = sum(fuzz.counts.values())
        right = sum(n for (_, outcome), n in fuzz.counts.items() if outcome == "right")
        print(f"{total} calls, {right} right, {total - right} errors;", {name: [fuzz.counts[name, "right"], fuzz.counts[name, "error"]] for name in CALLS}, end=" ", flush=True)
        if total > 3000:  # on a busy machine fewer calls may miss some
            self.assertFalse([name for name in CALLS if not fuzz.counts[name, "right"]], "calls that never succeeded")


def answers() -> Any:
    """What must not change."""
    found = evald.search(["4", "445566"], visits=30, network="default-fast")
    return public.plain([evald.Evaluator(backend="bitsquares").evaluate(["4", "4453"]).policy, found.visits, found.wdl, evald.solve("4444437")])


class Fuzz:
    """Makes random calls and counts their outcomes."""

    def __init__(self, random: random.Random) -> None:
        self.random = random
        self.counts: collections.Counter[tuple[str, str]] = collections.Counter()
        self.error = ctypes.create_string_buffer(ERROR_SIZE)
        self.boards = [evald.board(rules) for rules in ("7x6x4", "5x4x4", "3x3x3free", "12x9x5", "4x4x3")]
        self.positions = {b.rules: sample(b, random) for b in self.boards}
        self.evaluators: list[int] = []
        self.works: dict[int, tuple[list[Guarded], float, str]] = {}  # the arrays that a work writes, when it began, and the call that began it
        self.asked: dict[int, tuple[int, evald.Board]] = {}
        self.of: dict[int, evald.Board] = {}
        self.forests: dict[int, int] = {}  # the numbers of positions, by handle
        self.folder = public.recorded().name
        pathlib.Path(self.folder, "scores").write_text("12 0 0 0 0 0 0 0\n")

    def next(self) -> str:
        """The name of the next call: often one that answers an event."""
        r = self.random
        if self.asked and r.random() < 0.3:
            return r.choice(["batch", "answer", "game"])
        if self.works and r.random() < 0.2:
            return "wait"
        name = r.choice(list(CALLS))
        if name == "open" and len(self.evaluators) > 3:
            return "close"
        return name if name != "selfplay" or r.random() < 0.3 else "search"  # its cache takes the time of many calls

    def number(self) -> int:
        r = self.random
        return r.choice(WORDS) if r.random() < 0.7 else r.randrange(-(1 << 63), 1 << 63)

    def options(self, name: str) -> bytes:
        """JSON that is valid, or has wrong values, or is not JSON."""
        r = self.random
        valid: dict[str, dict[str, Any]] = {
            "open": r.choice([{"backend": "bitsquares"}, {"backend": "uniform"}] * 9 + [{"model": "default-fast"}]), "search": {"visits": 8, "exact": r.choice([False, 50])},
            "solve": {"nodes": 200}, "selfplay": {"games": 2, "visits": 4, "parallel": 4}, "planes": r.choice([{"planes": ["own", "other"]}, {"planes": ["own"], "layout": "NHW"}]),
            "match": {"players": [{"name": "a"}, {"name": "b", "agent": "random"}], "games": 2, "search": {"visits": 4}}, "score": {"sets": [{"name": "a", "rows": 99}], "visits": [0, 4]},
            "records": {"files": [os.path.join(self.folder, f) for f in os.listdir(self.folder) if f.endswith(".parquet")]},
        }
        chosen = dict(valid[{"read": "records", "rule": "search", "plant": "search"}.get(name, name)])
        if r.random() < 0.3:
            chosen[r.choice([*chosen, "visits", "batch", "leaves", "seed", "first", "threads", "x"])] = r.choice(VALUES)
            if name == "open":
                chosen.pop("program", None)
        text = json.dumps(chosen).encode()
        if r.random() < 0.1:
            text = bytes(r.randrange(1, 256) for _ in range(r.randrange(40)))
        return text

    def call(self, name: str) -> None:
        r = self.random
        result, kinds = CALLS[name].split(":")
        board = r.choice(self.boards)
        n = r.choice([0, 1, 2, 3, 17])
        handle = self.handle(name)
        if name in ("batch", "answer", "game", "wait", "release"):
            n, board = self.asked.get(handle, (0, board))
        if handle in self.forests:
            n, board = self.forests[handle], self.of[handle]
        elif name in ("grow", "priors", "advance"):
            n = 0  # the number is none of a forest
        options = self.options(name) if name in ("open", "search", "rule", "plant", "solve", "selfplay", "match", "score", "records", "read") else b""
        if name in ("write", "score_rules"):
            options = os.path.join(self.folder, "fuzz" if name == "write" else r.choice(["scores", "missing"])).encode()
        description = self.options(name) if name == "planes" and r.random() < 0.5 else b""
        if name == "read":
            board = evald.board("5x4x3")
            n = r.choice([0, 1, 100])
        moves = [r.choice(["-", "4", "445", "12121", "9", "x", "1" * 9]) for _ in range(n)] if r.random() < 0.5 else ["1"] * n
        lines = "\n".join(moves).encode()
        planes = json.loads(description)["planes"] if self.valid(description) else []
        p = 4 * board.cells * (len(planes) if description else 5)
        size = {"n": n, "r": n, "a": board.actions, "c": board.cells, "p": p, "TEXT": 5000, "m": r.choice([0, self.visits(options), 8 * (name == "grow")])}
        if name == "planes" and description and not planes:
            size["p"] = 4 * board.cells * 12
        arrays = [Guarded(eval(of, {}, size) if of != "TEXT" else 5000, r.random() < 0.8) for of in SIZES.get(name, "").split()]
        arguments: list[Any] = []
        at, numbers = iter(arrays), 0
        for kind in kinds:
            value: Any
            if kind == "h":
                value = handle
            elif kind in "ni":
                numbers += 1
                value = {1: board._number, 2: n}.get(numbers, 0)
                if name in ("batch", "answer"):
                    value = n
                elif name == "search" and numbers == 3:
                    value = size["m"]
                elif name == "grow":
                    value = {1: r.choice([0, 1, 8]), 2: size["m"]}[numbers]
                elif name == "rule" and numbers == 2:
                    value = 5000
                elif name == "selfplay":
                    value = board._number
                elif name == "wait":
                    value = r.choice([0, 1, 5, -1, -(1 << 63)])
                elif name in ("about", "evaluator", "records", "result", "score_rules"):
                    value = 5000
                elif name == "parse" and numbers == 3:
                    value = len(lines)
                if r.random() < 0.06 and self.harmless(name, numbers):
                    value = self.number()
                    if kind == "i":
                        value = ctypes.c_int(value & 0xFFFFFFFF).value
                    if value in range(UNUSED) and numbers == 1:
                        value += UNUSED  # not the number of another board, for which the arrays may be too small
            elif kind == "s":
                value = {"board": r.choice([b"7x6x4", b"99x99x9", b"", b"x", b"3x3x3free", b"6x5x4"]), "parse": lines, "planes": description, "answer": r.choice([None, None, None, b"no memory"])}.get(name, options)
                if name == "write" and len(arguments) == 3:
                    value = r.choice([b'{"networks":["new",""]}'] * 4 + [b'{"networks":[]}', b"{", b'{"networks":[3]}'])
                if r.random() < 0.02 and name not in ("parse", "planes"):  # there it would be another size of arrays
                    value = None
            elif kind in "rwul":
                array = next(at)
                array.fill(self.content(name, kind, array.size, board, n))
                value = array.at if r.random() > 0.02 else None
            elif kind == "v":
                event = Event()
                value = ctypes.byref(event) if r.random() > 0.02 else None
            else:
                value = self.error if r.random() > 0.02 else None
            arguments.append(value)
        if name == "close":  # it waits for the calls that use the evaluator, and a match waits for its function's answers
            for work in [work for work, (_, _, by) in self.works.items() if by == "match"]:
                library.release(work, self.error)
                self.freed(work)
        self.error.value = b""
        status = getattr(library, name)(*arguments)
        failed = status != 0 if result == "i" and name != "wait" else status < 0
        self.counts[name, "error" if failed else "right"] += 1
        said = self.error.value.decode("utf-8", "replace")
        text = f"EVALD_SEED={SEED}: {name}{arguments} = {status}, {said}"
        if "has a fault" in said:
            raise AssertionError("a panic: " + text)
        if any(array.harmed() for array in arrays):
            raise AssertionError("bytes beside an array are written: " + text)
        keep = result == "h" and not failed
        if keep and name == "open":
            self.evaluators.append(status)
        elif keep and name == "plant":
            self.forests[status], self.of[status] = n, board
        elif keep:
            self.works[status] = (arrays, time.monotonic(), name)
            self.of[status] = board
            arrays = []
        if name == "wait" and not failed:
            if status in (2, 3):
                self.asked[handle] = (event.rows, self.of[handle])
        if name == "close" and not failed:
            if handle in self.forests:
                del self.forests[handle], self.of[handle]
            else:
                self.evaluators.remove(handle)
        if name == "release" and not failed:
            self.freed(handle)
        for array in arrays:
            array.free()
        for work, (_, began, _) in list(self.works.items()):
            if len(self.works) > 6 or time.monotonic() - began > CALL_TIME:
                library.release(work, self.error)
                self.freed(work)

    def visits(self, options: bytes) -> int:
        """The number of visits of options of a search, for arrays of trees; 0 if they have none that is small."""
        try:
            visits = json.loads(options).get("visits", 0)
        except (ValueError, AttributeError):
            return 0
        return visits if type(visits) is int and 0 < visits < 1000 else 0

    def valid(self, description: bytes) -> bool:
        try:
            of = json.loads(description)
        except ValueError:
            return False
        return isinstance(of, dict) and isinstance(of.get("planes"), list)

    def handle(self, name: str) -> int:
        r = self.random
        if r.random() < 0.1:
            number = self.number()
            return number if not 0 <= number < UNUSED else UNUSED
        if name in ("grow", "grown", "priors", "advance") or name == "close" and len(self.forests) > 3:
            return r.choice(list(self.forests) or [UNUSED])
        if name in ("evaluator", "close", "evaluate"):
            return r.choice(self.evaluators or [UNUSED])
        if name in ("search", "rule", "plant", "selfplay", "score"):
            return r.choice([0, *self.evaluators])
        if name in ("batch", "answer", "game") and self.asked and r.random() < 0.9:
            return r.choice(list(self.asked))
        return r.choice(list(self.works) or [UNUSED])

    def harmless(self, name: str, numbers: int) -> bool:
        """Whether a wrong number must be noticed. A number of positions, or of bytes, that is larger than the array is the caller's mistake."""
        counts = {"parse": (2, 3), "about": (1,), "evaluator": (1,), "records": (1,), "result": (1,), "score_rules": (1,), "match": (), "wait": (1,), "selfplay": (), "search": (2, 3), "grow": (2,)}.get(name, (2,))
        return numbers not in counts

    def content(self, name: str, kind: str, size: int, board: evald.Board, n: int) -> bytes:
        r = self.random
        if kind == "w" or kind == "l" or size == 0:
            return b""
        if r.random() < 0.15:
            return r.randbytes(size)
        if name == "answer":
            return np.ones(size // 4, np.float32).tobytes()
        if name in ("step", "advance") and size == 8 * n:
            return np.array([r.choice([0, 1, 2, -1, 1 << 62]) for _ in range(n)], np.int64).tobytes()
        if name == "priors":
            return np.array([r.choice([0, 1, 0.3, -1, np.nan, np.inf]) if r.random() < 0.1 else 1 for _ in range(size // 4)], np.float32).tobytes()
        if name in ("from_cells", "score", "write"):
            return bytes(size)
        return r.choice(self.positions[board.rules])[:n].tobytes() if board.rules in self.positions else bytes(size)

    def freed(self, work: int) -> None:
        arrays, _, _ = self.works.pop(work)
        self.asked.pop(work, None)
        for array in arrays:
            if array.harmed():
                raise AssertionError(f"EVALD_SEED={SEED}: a long call has written beside an array")
            array.free()

    def release(self) -> None:
        for work in list(self.works):
            library.release(work, self.error)
            self.freed(work)
        for evaluator in self.evaluators:
            library.close(evaluator, self.error)


def sample(board: evald.Board, r: random.Random) -> list[Any]:
    """Arrays of positions: legal ones, finished ones, and words that no board has."""
    games = evald.Environment(20, board.rules, reset=True)
    for _ in range(r.randrange(board.cells // 2)):
        legal = games.legal()
        games.step([r.choice(np.flatnonzero(row).tolist()) for row in legal])
    legal = games.positions.words.copy()
    wrong = legal.copy()
    wrong[r.randrange(3)] = r.randrange(1 << 64)
    return [legal, legal, legal, np.zeros_like(legal), wrong, np.full_like(legal, (1 << 64) - 1)]


# What a call with wrong arguments may raise: the package's own errors, or Python's for a wrong type or value. NotImplementedError and others are not among them.
ALLOWED = (evald.EvaldError, evald.ClosedError, TypeError, ValueError, IndexError, KeyError, OverflowError)


class Package(unittest.TestCase):
    def test_fuzz(self) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of numpy, about casts
            self.fuzz()

    def fuzz(self) -> None:
        """Public functions and methods of positions with arrays in every wrong form."""
        print(f"EVALD_SEED={SEED}", end=" ", flush=True)
        r = random.Random(SEED)
        counts: collections.Counter[str] = collections.Counter()
        want = answers()
        end = time.monotonic() + seconds()
        made = 0
        while time.monotonic() < end:
            made += 1
            of, how = form(r)
            name, call = r.choice(CALLERS)
            try:
                call(of, r)
            except ALLOWED as error:
                counts[type(error).__name__] += 1
                self.assertNotIn("has a fault", str(error), f"EVALD_SEED={SEED}: {name} of {how}")
            except Exception as error:
                raise AssertionError(f"EVALD_SEED={SEED}: {name} of {how} raised {error!r}") from error
            else:
                counts["right"] += 1
        self.assertEqual(want, answers())
        self.assertGreater(counts["right"], 0)
        self.assertGreater(counts["EvaldError"], 0)
        print(f"{made} calls;", dict(counts), end=" ", flush=True)


def form(r: random.Random) -> tuple[Any, str]:
    """An array of positions in a valid or a wrong form."""
    n = r.choice([0, 1, 2, 5])
    start: Any = r.choice([
        lambda: np.zeros((n, 4), np.uint64), lambda: np.zeros((n, 2), np.uint64), lambda: np.zeros((n, 6, 7), np.int8), lambda: np.zeros((6, 7), np.int64),
        lambda: np.zeros((n, 3), np.uint64), lambda: np.zeros((n, 4, 4), np.uint64), lambda: np.zeros((7, 6), int), lambda: np.array(["4"] * n),
        lambda: np.array(["4", None, 3], object), lambda: np.zeros(n, np.uint64), lambda: np.array(3), lambda: evald.Positions(["4", "445"]).words.copy(),
    ])()
    how = []
    for _ in range(r.randrange(4)):
        change = r.choice(["bits", "strided", "fortran", "swapped", "read-only", "type", "unaligned", "transposed", "negative", "broadcast", "object"])
        how.append(change)
        try:
            if change == "bits" and start.dtype.kind in "iu" and start.size and start.flags.writeable:
                start.reshape(-1)[r.randrange(start.size)] = r.choice([1, 2, 3, 127, np.iinfo(start.dtype).max, np.iinfo(start.dtype).min])
            elif change == "strided":
                start = np.repeat(start, 2, 0)[::2]
            elif change == "fortran":
                start = np.asfortranarray(start)
            elif change == "swapped":
                start = start.astype(start.dtype.newbyteorder())
            elif change == "read-only":
                start.flags.writeable = False
            elif change == "type":
                start = start.astype(r.choice([np.int8, np.uint8, np.int16, np.int32, np.int64, np.float32, np.float64, np.complex128, bool, np.uint64]))
            elif change == "unaligned":
                whole = np.zeros(start.nbytes + 1, np.uint8)
                unaligned = whole[1:].view(start.dtype).reshape(start.shape)
                unaligned[...] = start
                start = unaligned
            elif change == "transposed":
                start = start.T
            elif change == "negative":
                start = start[::-1]
            elif change == "broadcast":
                start = np.broadcast_to(start[:1], start.shape)
            else:
                start = start.astype(object)
        except (TypeError, ValueError, IndexError, OverflowError):
            pass  # numpy has no such array
    return start, f"{start.dtype} {start.shape} {how}"


def network(p: evald.Positions, r: random.Random) -> Any:
    """A function whose answers are wrong at times."""
    n, a = len(p), p.board.actions
    policy = r.choice([np.ones((n, a)), np.ones((n, a), np.float16), np.ones((a, n)).T, np.ones((n, 2 * a))[:, ::2], np.ones((n, a + 1)), np.full((n, a), np.nan), None, [["x"] * a] * n])
    return policy, r.choice([np.zeros(n), np.ones((n, 3)), np.ones((3, n)).T, np.full(n, 5.0), np.zeros((n, 2)), -np.ones((n, 3)), None])


def words(of: Any) -> evald.Positions:
    """Positions whose words were replaced."""
    p = evald.Positions(["4", "445"])
    p.words[:] = of
    return p


METHODS = [name for name, of in inspect.getmembers(evald.Positions) if not name.startswith("__") and name not in ("empty", "of_words", "_of", "board", "words") and callable(of) and len(inspect.signature(of).parameters) == 1]
_bitsquares = evald.Evaluator(backend="bitsquares")
CALLERS: list[tuple[str, Any]] = [
    ("Positions", lambda of, r: evald.Positions(of)),
    ("evaluate", lambda of, r: _bitsquares.evaluate(of)),
    ("search", lambda of, r: evald.search(of, visits=4, exact=False, network=lambda p: network(p, r))),
    ("solve", lambda of, r: evald.solve(of, nodes=50)),
    ("play", lambda of, r: evald.Positions(["4", "445"]).play(of)),
    ("step", lambda of, r: evald.Environment(2).step(of)),
    ("index", lambda of, r: evald.Positions(["4", "445"])[of]),
    ("columns", lambda of, r: _bitsquares({r.choice(["moves", "own", "x"]): of, "all": of})),
    *((name, lambda of, r, name=name: getattr(words(of), name)()) for name in METHODS),
]


if __name__ == "__main__":
    unittest.main()
