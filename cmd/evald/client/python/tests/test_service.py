"""Answers of a service, beside those of this process, and of services that fail."""
from __future__ import annotations

import http.server
import json
import os
import pickle
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest

import numpy as np

import evald

PROGRAM = os.environ.get("EVALD_PROGRAM") or os.environ["EVALD_LIBRARY"]


def free() -> int:
    """A port that no one uses."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])


class Serving:
    """A service on this machine."""

    def __init__(self, *flags: str) -> None:
        port = free()
        self.url = f"http://127.0.0.1:{port}"
        self.process = subprocess.Popen(
            [PROGRAM, "serve", "--http", f"127.0.0.1:{port}", "--grpc", "127.0.0.1:0", "--metrics", "127.0.0.1:0", *flags], stderr=subprocess.DEVNULL
        )
        end = time.monotonic() + 60
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                return
            except OSError:
                if self.process.poll() is not None or time.monotonic() > end:
                    raise
                time.sleep(0.05)

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()


LINES = ["4", "44", "445", "1234567", "445566", "1212121", "-"]


class Answers(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        with tempfile.TemporaryDirectory() as folder:
            models = os.path.join(folder, "models.yaml")
            with open(models, "w") as f:
                f.write("models:\n  - name: default-fast\n  - backend: bitsquares\n")
            cls.serving = Serving("--models", models)
        cls.url = cls.serving.url

    @classmethod
    def tearDownClass(cls) -> None:
        cls.serving.stop()

    def test_evaluate(self) -> None:
        """A service answers what this process answers, on boards of every kind, more positions than a request takes, and in other threads."""
        for model, rules in (("default-fast", "7x6x4"), ("bitsquares", "5x4x4"), ("bitsquares", "3x3x3free"), ("bitsquares", "12x9x6")):
            here = evald.Evaluator(model) if model != "bitsquares" else evald.Evaluator(backend=model)
            games = evald.Environment(5000 if rules == "7x6x4" else 50, rules)
            rng = np.random.default_rng(2)
            for _ in range(6):
                legal = games.legal()
                games.step((rng.random(legal.shape) * legal).argmax(1))
            with evald.Evaluator(model, url=self.url) as there:
                want, got = here.evaluate(games.positions), there.evaluate(games.positions)
                np.testing.assert_allclose(got.wdl, want.wdl, atol=1e-6)
                np.testing.assert_allclose(got.policy, want.policy, atol=1e-6)
                self.assertEqual(got.source, want.source)
                again = pickle.loads(pickle.dumps(there))
                np.testing.assert_array_equal(again.evaluate(games.positions[:9]).wdl, got.wdl[:9])
                wrong: list[int] = []
                threads = [threading.Thread(target=lambda: wrong.append(1) if (there.evaluate(games.positions[:9]).wdl != got.wdl[:9]).any() else None) for _ in range(5)]
                for t in threads:
                    t.start()
                for t in threads:
                    t.join()
                self.assertFalse(wrong)
            with self.assertRaises(evald.ClosedError):
                there.evaluate("-")
        self.assertEqual(evald.Evaluator("default-fast", url=self.url).evaluate([]).policy.shape, (0, 7))

    def test_search(self) -> None:
        os.environ["EVALD_URL"] = self.url
        try:
            heard: list[tuple[int, int]] = []
            got = evald.search(LINES * 20, visits=60, progress=lambda done, all_: heard.append((done, all_)))
            named = evald.evaluate(LINES, model="bitsquares")
            with self.assertRaises(evald.EvaldError) as raised:
                evald.search("4", visits=60, network="bitsquares")
            self.assertIn("leave out model='bitsquares'", str(raised.exception))
            with self.assertRaises(evald.EvaldError) as raised:
                evald.search("4", visits=60, leaves=4)
            self.assertIn("its own leaves", str(raised.exception))
        finally:
            del os.environ["EVALD_URL"]
        self.assertEqual(heard[-1], (140, 140))
        want = evald.search(LINES * 20, visits=60, network="default-fast")
        self.assertTrue(got.rule.endswith(": " + want.rule), got.rule)
        for name in ("visits", "policy", "q", "wdl", "best", "proved"):
            np.testing.assert_allclose(getattr(got, name), getattr(want, name), atol=1e-5, err_msg=name)
        np.testing.assert_allclose(named.wdl, evald.Evaluator(backend="bitsquares").evaluate(LINES).wdl, atol=1e-6)

    def test_alone(self) -> None:
        """Without the library and the program a service answers all forms of positions, and what it cannot do is a clear error."""
        forms = f"""
import evald, hashlib, numpy as np
rng, digest = np.random.default_rng(5), hashlib.sha256()
for rules in ("7x6x4", "5x4x4", "12x9x6", "11x10x5", "35x2x3"):
    board = evald.board(rules)
    lines = []
    for n in range(30):
        columns = rng.permutation(np.repeat(np.arange(board.columns), board.rows))[: n % 4]
        lines.append("".join("123456789abcdefghijklmnopqrstuvwxyz"[c] for c in columns) or "-")
    p = evald.Positions(lines, rules)
    cells = p.cells()
    players = np.where(cells == 0, 0, np.where((cells == 1) == (p.stones % 2 == 0)[:, None, None], 1, 2))
    for form in (cells, players, p.words, [rules + ":" + line for line in lines]):
        assert (evald.Positions(form, rules).words == p.words).all(), (rules, form)
    digest.update(p.words.tobytes() + cells.tobytes())
free = np.zeros((2, 3, 3), int); free[1, 0, 2] = -1
p = evald.Positions(free, "3x3x3free")
digest.update(p.words.tobytes() + p.cells().tobytes())
print(digest.hexdigest())
a = evald.Evaluator("bitsquares", url={self.url!r}).evaluate(["4", "445", "445566"])
print(a.source, a.wdl.tolist())
"""
        refused = """
for wrong in ("48", "4444444", "9x5x4:1"):
    try:
        evald.Positions(wrong)
    except evald.EvaldError as e:
        print("position 0:" in str(e))
there = evald.Evaluator("bitsquares", url=%r)
network = lambda p: (np.ones((len(p), 7)), np.zeros(len(p)))
for call in (lambda: evald.solve("4"), lambda: next(evald.selfplay(1, network=there)), lambda: evald.search("4", network=network), lambda: evald.read("x"),
             lambda: evald.Environment(1).step([0]), lambda: evald.evaluate("4"), lambda: evald.Positions("4").legal()):
    try:
        call()
    except ImportError as e:
        print("EVALD_PROGRAM" in str(e))
""" % self.url

        def run(code: str, env: dict[str, str]) -> str:
            done = subprocess.run([sys.executable, "-W", "ignore", "-c", code], env=env, capture_output=True, text=True, timeout=60)
            self.assertEqual(done.returncode, 0, done.stderr)
            return done.stdout

        alone = {k: v for k, v in os.environ.items() if k not in ("EVALD_LIBRARY", "EVALD_PROGRAM", "PATH")} | {"PATH": os.devnull}
        want = run(forms, dict(os.environ))
        self.assertEqual(run(forms + refused, alone), want + "True\n" * 10)

    def test_network(self) -> None:
        """Self-play and searches here take their answers from the service."""
        with evald.Evaluator("bitsquares", url=self.url) as there, evald.Evaluator(backend="bitsquares") as here:
            want = {g.number: g.positions.words for g in evald.selfplay(3, "5x4x4", network=here.network, visits=8)}
            for g in evald.selfplay(3, "5x4x4", network=there, visits=8):
                np.testing.assert_array_equal(g.positions.words, want[g.number])
            played = [evald.match({"a": of, "b": "random"}, "5x4x4", games=2, visits=4).wins.tolist() for of in (there, here.network)]
            self.assertEqual(played[0], played[1])
            found = evald.search("44", visits=30, network=there.network, selection="gumbel")
            self.assertEqual(found.visits.sum(), evald.search("44", visits=30, network=here.network, selection="gumbel").visits.sum())

    def test_refused(self) -> None:
        """What is wrong is an EvaldError with the service's words."""
        for call, says in [
            (lambda: evald.Evaluator("no-such-model", url=self.url), "no-such-model"),
            (lambda: evald.Evaluator(backend="cpu", url=self.url), "backend"),
            (lambda: evald.Evaluator(url="127.0.0.1:8000"), "must be like http://"),
            (lambda: evald.Evaluator(url="http://127.0.0.1:8000/v2"), "without a path"),
            (lambda: evald.Evaluator(url="http://127.0.0.1:port"), "port"),
            (lambda: evald.evaluate("4", model=evald.Evaluator(url=self.url), raw=True), "raw is True, and must be False with a service"),
            (lambda: evald.score(evald.Evaluator(url=self.url), (["12"], evald.solve("12", "4x4x3")), "4x4x3", visits=0, raw=True), "raw is True, and must be False with a service"),
            (lambda: evald.search("4", visits=1 << 25, network=evald.Evaluator(url=self.url, model=None)), ""),
        ]:
            with self.assertRaises(evald.EvaldError) as raised:
                call()
            self.assertIn(says, str(raised.exception))

    def test_idle(self) -> None:
        """A connection that was closed meanwhile is opened again."""
        with evald.Evaluator("bitsquares", url=self.url) as e:
            e.evaluate("4")
            assert e.service is not None
            e.service._here.connection[1].sock.shutdown(socket.SHUT_RDWR)
            self.assertEqual(len(e.evaluate("4")), 1)


class Canned(http.server.BaseHTTPRequestHandler):
    """Answers everything with the status and text of the server."""

    def do_POST(self) -> None:
        status, text = self.server.canned  # type: ignore[attr-defined]
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    do_GET = do_POST

    def log_message(self, *of: object) -> None:
        pass


class Failing(unittest.TestCase):
    def test_no_service(self) -> None:
        with self.assertRaises(evald.UnavailableError) as raised:
            evald.Evaluator(url=f"http://secret:password@127.0.0.1:{free()}")
        self.assertIn("http://127.0.0.1:", str(raised.exception))
        self.assertNotIn("password", str(raised.exception))

    def test_silent(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as silent, self.assertRaises(evald.UnavailableError) as raised:
            evald.Evaluator(url=f"http://127.0.0.1:{silent.getsockname()[1]}", timeout=0.3)
        self.assertIn("no answer within 0.3 seconds", str(raised.exception))

    def test_answers(self) -> None:
        """Errors of the service, and answers that are none."""
        with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Canned) as server:
            threading.Thread(target=server.serve_forever, daemon=True).start()
            url = f"http://127.0.0.1:{server.server_address[1]}"
            server.canned = 200, b"{}"  # type: ignore[attr-defined]
            e = evald.Evaluator(url=url)
            for status, text, kind, says in [
                (200, b"{}", evald.UnavailableError, "not one of evald serve"),
                (200, b"\xff\xfe", evald.UnavailableError, "not one of evald serve"),
                (429, json.dumps({"error": "the queue is full"}).encode(), evald.UnavailableError, "the queue is full (HTTP 429)"),
                (500, b"a proxy's page", evald.UnavailableError, "a proxy's page (HTTP 500)"),
                (401, json.dumps({"error": "no token"}).encode(), evald.EvaldError, "no token (HTTP 401)"),
            ]:
                server.canned = status, text  # type: ignore[attr-defined]
                with self.assertRaises(kind) as raised:
                    e.evaluate("4")
                self.assertIn(says, str(raised.exception))
                self.assertIn(url, str(raised.exception))
            server.shutdown()

    def test_killed(self) -> None:
        """A service that is killed while it answers is one error, and so is each call after it."""
        serving = Serving("--model", "default", "--max-visits", "300000", "--timeout", "1h")
        try:
            e = evald.Evaluator(url=serving.url)
            e.evaluate("4")
            threading.Timer(0.5, serving.process.kill).start()
            with self.assertRaises(evald.UnavailableError) as raised:
                evald.search("4", visits=300_000, exact=False, network=e)
            self.assertIn(serving.url, str(raised.exception))
            with self.assertRaises(evald.UnavailableError):
                e.evaluate("4")
        finally:
            serving.stop()


if __name__ == "__main__":
    unittest.main()
