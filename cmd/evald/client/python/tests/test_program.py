"""The program in place of the library: the same answers, and what happens when it, or Python, ends."""
from __future__ import annotations

import faulthandler
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest

PROGRAM = os.environ.get("EVALD_PROGRAM") or os.environ["EVALD_LIBRARY"]
LIBRARY = {k: v for k, v in os.environ.items() if k != "EVALD_URL"}
WITHOUT = {k: v for k, v in LIBRARY.items() if k != "EVALD_LIBRARY"} | {"EVALD_PROGRAM": PROGRAM}
SOAK = bool(os.environ.get("EVALD_SOAK"))

os.environ.pop("EVALD_LIBRARY", None)
os.environ["EVALD_PROGRAM"] = PROGRAM

import numpy as np  # noqa: E402
from test_leaks import used  # noqa: E402

import evald  # noqa: E402


def run(code: str, env: dict[str, str] = WITHOUT, timeout: float = 120) -> str:
    """What a program prints."""
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", code], env=env, capture_output=True, text=True, timeout=timeout)
    if done.returncode != 0:
        raise AssertionError(f"status {done.returncode}: {done.stderr}")
    return done.stdout


def children() -> list[int]:
    """The processes that this one has started, also those that have ended and were not waited for."""
    found = []
    for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            if int(stat.read_text().rpartition(")")[2].split()[1]) == os.getpid():
                found.append(int(stat.parent.name))
        except (OSError, IndexError):
            pass
    return found


def alive(pid: int) -> bool:
    try:
        return "Z" not in pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False


def gone(pid: int, seconds: float = 10) -> bool:
    """Whether a process ends in time."""
    end = time.monotonic() + seconds
    while alive(pid) and time.monotonic() < end:
        time.sleep(0.02)
    return not alive(pid)


ANSWERS = """
import hashlib, numpy as np, evald
digest = hashlib.sha256()
def add(*arrays):
    for a in arrays:
        digest.update(np.ascontiguousarray(a).tobytes())
rng = np.random.default_rng(1)
for rules in ("7x6x4", "5x4x4", "3x3x3free", "12x9x6"):
    env = evald.Environment(50, rules)
    for _ in range(12):
        legal = env.legal()
        add(*env.step((rng.random(legal.shape) * legal).argmax(1)), env.positions.words)
    p = env.positions
    add(p.cells(), p.planes(), p.legal(), p.results(), evald.Positions(p.cells(), rules).words)
    a = evald.Evaluator(backend="bitsquares").evaluate(p)
    add(a.wdl, a.policy)
    print(rules, a.source[:5], digest.hexdigest())
    few = p[:4]
    for network in (evald.Evaluator(backend="bitsquares"), lambda p: (np.ones((len(p), p.board.actions)), np.zeros(len(p)))):
        s = evald.search(few, visits=40, network=network)
        add(s.visits, s.policy, s.q, s.wdl, s.best, s.proved)
    for g in sorted(evald.selfplay(2, rules, network=lambda p: (np.ones((len(p), p.board.actions)), np.zeros(len(p))), visits=8), key=lambda g: g.number):
        add(g.positions.words, g.visits, g.q, g.actions, [g.result])
    print(digest.hexdigest())
a = evald.evaluate(["4", "44", "445566"])
add(a.wdl, a.policy, evald.solve(["44444422222266666611", "444444222222666666"]))
print(a.source, evald.version(), digest.hexdigest())
"""


class Same(unittest.TestCase):
    def test_answers(self) -> None:
        """Both transports give the same bytes."""
        if not LIBRARY.get("EVALD_LIBRARY"):
            self.skipTest("there is no library to compare with")
        self.assertEqual(run(ANSWERS), run(ANSWERS, LIBRARY))

    def test_none(self) -> None:
        """Without a library and a program an error names the ways out."""
        env = {k: v for k, v in WITHOUT.items() if k not in ("EVALD_PROGRAM", "PATH")} | {"PATH": os.devnull}
        said = run("import evald\ntry:\n    evald.Environment(1).step([0])\nexcept ImportError as e:\n    print(e)", env)
        self.assertIn("step needs the library or the program", said)
        for way in ("EVALD_LIBRARY", "EVALD_PROGRAM", "url="):
            self.assertIn(way, said)

    def test_other_programs(self) -> None:
        """Another program in its place, or none, is a clear error."""
        with tempfile.TemporaryDirectory() as folder:
            other = pathlib.Path(folder) / "other"
            for text, says in [
                ("#!/bin/sh\necho I am another program\nexec sleep 60\n", "of another version, or another program"),
                ("#!/bin/sh\nexit 3\n", "ended with status 3"),
                ("#!/bin/sh\nkill -9 $$\n", "signal 9"),
            ]:
                other.write_text(text)
                other.chmod(0o755)
                said = run("import evald\ntry:\n    evald.board('7x6x4')\nexcept evald.UnavailableError as e:\n    print(e)", WITHOUT | {"EVALD_PROGRAM": str(other)})
                self.assertIn(says, said)
            other.unlink()
            said = run("import evald\ntry:\n    evald.board('7x6x4')\nexcept evald.UnavailableError as e:\n    print(e)", WITHOUT | {"EVALD_PROGRAM": str(other)})
            self.assertIn("cannot be started", said)


@unittest.skipUnless(os.path.exists("/proc/self/stat"), "this system has no /proc")
class Ends(unittest.TestCase):
    def program(self) -> int:
        """The process of the program, which is started if there is none."""
        try:
            evald.board("7x7x4")
            evald.Positions("4", "7x7x4")
        except evald.UnavailableError:  # it was killed, and this call was the first to notice
            evald.Positions("4", "7x7x4")
        (pid,) = children()
        return pid

    def test_killed(self) -> None:
        """However often the program is killed, each call that waits fails once, the next one works, and nothing is left behind."""
        faulthandler.dump_traceback_later(3600 if SOAK else 600, exit=True)  # a call that hangs, with the place
        self.addCleanup(faulthandler.cancel_dump_traceback_later)
        e = evald.Evaluator(backend="bitsquares")
        games = evald.Environment(2, "5x4x4")
        want = e.evaluate(["4", "445"]).policy
        counts: list[tuple[int, int]] = []
        memory: list[float] = []
        for kills in range(1000 if SOAK else 10):
            pid = self.program()
            how, says = [(signal.SIGKILL, "was ended by signal 9"), (signal.SIGTERM, "ended with status 130")][kills % 2]
            with self.assertRaises(evald.UnavailableError) as raised:
                evald.solve("-", "9x8x4", progress=lambda *_: os.kill(pid, how))
            self.assertIn(says, str(raised.exception))
            self.assertIn(f"process {pid}", str(raised.exception))
            np.testing.assert_array_equal(e.evaluate(["4", "445"]).policy, want)
            games.step(games.legal().argmax(1))
            counts.append((len(os.listdir("/proc/self/fd")), threading.active_count()))
            self.assertEqual(len(children()), 1, "a process was not waited for")
            if kills % 100 == 0:
                memory.append(used()["MiB"])  # of Python and of a program that has just been started
        self.assertLessEqual(max(counts[2:]), max(counts[:2]), f"descriptors and threads after {len(counts)} kills")
        if SOAK:
            self.assertLessEqual(min(memory[5:]) - max(memory[:5]), 8, f"MiB after each 100 kills: {memory}")
        print(f"{len(counts)} kills: descriptors and threads {counts[0]} to {counts[-1]}, MiB {[round(m) for m in memory]}", end=" ", flush=True)

    def test_while_busy(self) -> None:
        """Kills at any moment of short calls: each raises the error or has its answer."""
        e = evald.Evaluator(backend="bitsquares")
        p = evald.Positions(["4", "445"] * 4000)
        want, errors = e.evaluate(p).policy, 0
        for i in range(20):
            killer = threading.Timer(0.01 * (i % 7), os.kill, (self.program(), signal.SIGKILL))
            killer.start()
            while killer.is_alive():
                try:
                    np.testing.assert_array_equal(e.evaluate(p).policy, want)
                except evald.UnavailableError:
                    errors += 1
            killer.join()
        self.assertTrue(3 < errors <= 20, errors)

    def test_threads(self) -> None:
        """All threads that wait get the error, and those that play games or search with a function too."""
        pid, errors = self.program(), []

        def tries(call: object) -> None:
            try:
                call()  # type: ignore[operator]
            except Exception as error:
                errors.append(error)

        def slow(p: evald.Positions) -> tuple[np.ndarray, np.ndarray]:
            time.sleep(0.05)
            return np.ones((len(p), 7)), np.zeros(len(p))

        calls = [
            lambda: evald.solve("-", "9x8x4"),
            lambda: evald.search("4", visits=100_000, network=slow),
            lambda: list(evald.selfplay(10_000, network=slow)),
            lambda: evald.search("4", "9x8x4", visits=1 << 24, network=evald.Evaluator(backend="bitsquares"), exact=False),
        ]
        threads = [threading.Thread(target=tries, args=(call,)) for call in calls]
        for t in threads:
            t.start()
        time.sleep(0.5)
        os.kill(pid, signal.SIGKILL)
        for t in threads:
            t.join(20)
            self.assertFalse(t.is_alive())
        self.assertEqual([type(e) for e in errors], [evald.UnavailableError] * len(calls), errors)

    def test_interrupts(self) -> None:
        """Ctrl-C ends calls, at any moment; the program continues and has no work left."""
        code = (
            "import evald, os, signal, threading, time\n"
            "signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # a shell may have started all of this in the background, where it is ignored
            "e = evald.Evaluator(backend='bitsquares')\n"
            "p = evald.Positions(['4'] * 20000)\n"
            "stop = 0\n"
            "def interrupt():\n"
            "    for i in range(40):\n"
            "        time.sleep(0.02 + 0.001 * i)\n"
            "        os.kill(os.getpid(), signal.SIGINT)\n"
            "thread = threading.Thread(target=interrupt)\n"
            "thread.start()\n"
            "heard = 0\n"
            "while thread.is_alive():\n"
            "    try:\n"
            "        while thread.is_alive():\n"
            "            evald.search('4', '9x8x4', visits=3000, network=e, exact=False)\n"
            "            e.evaluate(p)\n"
            "    except KeyboardInterrupt:\n"
            "        heard += 1\n"
            "print(heard, evald.evaluate('445566').source)\n"
        )
        heard, _, source = run(code).partition(" ")
        self.assertGreater(int(heard), 20)
        self.assertEqual(source, "['rules']\n")

    def test_python_ends(self) -> None:
        """The program ends with Python, however Python ends, and also if Python has forked."""
        code = (
            "import evald, os, pathlib, sys, threading, time\n"
            "evald.evaluate('4')\n"
            "threading.Thread(target=lambda: evald.solve('-', '9x8x4'), daemon=True).start()\n"
            "me = os.getpid()\n"
            "for stat in pathlib.Path('/proc').glob('[0-9]*/stat'):\n"
            "    if stat.read_text().rpartition(')')[2].split()[1] == str(me):\n"
            "        print(stat.parent.name, flush=True)\n"
            "if sys.argv[1] == 'forked' and os.fork() == 0:\n"
            "    os.close(1); time.sleep(20); os._exit(0)\n"
            "if sys.argv[1] != 'exits':\n"
            "    time.sleep(60)\n"
        )
        for how in ("exits", "killed", "forked"):
            with self.subTest(how), subprocess.Popen([sys.executable, "-W", "ignore", "-c", code, how], env=WITHOUT, stdout=subprocess.PIPE, text=True) as python:
                assert python.stdout is not None
                pid = int(python.stdout.readline())
                if how != "exits":
                    time.sleep(0.3)
                    python.kill()
                python.wait(20)
                self.assertTrue(gone(pid), "the program is still there")


class Interpreters(unittest.TestCase):
    def test_second(self) -> None:
        """A second interpreter of the process works or has a clear error; the first one still works."""
        code = (
            "import evald\n"
            "try:\n    import _interpreters as i\n"
            "except ImportError:\n    import _xxsubinterpreters as i\n"
            "evald.evaluate('445566')\n"
            "second = i.create()\n"
            "script = '''\n"
            "try:\n    import evald\n    print(evald.evaluate('445566').source)\n"
            "except (ImportError, evald.ClosedError) as e:\n    print('refused:', str(e).replace(chr(10), ' ')[:1000])\n"
            "'''\n"
            "done = (i.run_string if hasattr(i, 'run_string') else i.exec)(second, script)\n"
            "if done: print('refused:', done)\n"
            "i.destroy(second)\n"
            "print(evald.evaluate('445566').source)\n"
        )
        for env in (WITHOUT, LIBRARY):
            lines = run(code, env).splitlines()
            self.assertEqual(lines[-1], "['rules']")
            self.assertTrue(lines[0] == "['rules']" or lines[0].startswith("refused: "), lines)


if __name__ == "__main__":
    unittest.main()
