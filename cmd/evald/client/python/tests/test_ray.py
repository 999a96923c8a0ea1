"""evald.ray with a real Ray: data sets equal to direct answers, and self-play equal to that of one process while actors are killed."""
import contextlib
import faulthandler
import io
import os
import pathlib
import re
import shutil
import signal
import subprocess
import tempfile
import threading
import unittest
import unittest.mock

import numpy as np
from reference import needs, random_games, require

needs("ray", "pandas", "pyarrow")

import evald  # noqa: E402
import evald.ray  # noqa: E402
import ray  # noqa: E402

MOVES = [game.text() for game in random_games(200, 1)] + ["1212121", "445566"]
HOST = pathlib.Path(evald.__file__).parent.parent
SECONDS = float(os.environ.get("EVALD_RAY_SECONDS", "10"))  # of killing actors


def network(positions: evald.Positions):
    """Likes the middle, and those who have more stones."""
    n, actions = len(positions), positions.board.actions
    policy = np.exp(-np.abs(np.arange(actions) - actions / 2) / 2, dtype=np.float32)
    return np.tile(policy / policy.sum(), (n, 1)), np.sin(positions.words[:, 0] % 1000)


class Ray(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        # See frameworks.md for these settings.
        settings = {"RAY_worker_niceness": "0", "RAY_DATA_PARQUET_FOOTER_NUM_ACTORS": "1", "PYTHONPATH": f"{HOST}:{pathlib.Path(__file__).parent}"}
        environment = unittest.mock.patch.dict(os.environ, settings)
        environment.start()
        cls.addClassCleanup(environment.stop)
        faulthandler.dump_traceback_later(900 + 3 * SECONDS, exit=True)
        cls.addClassCleanup(faulthandler.cancel_dump_traceback_later)
        ray.init(num_cpus=6, object_store_memory=256 << 20, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
        cls.addClassCleanup(ray.shutdown)
        ray.data.DataContext.get_current().enable_progress_bars = False

    def rows(self, dataset):
        return sorted(dataset.take_all(), key=lambda row: row["id"])

    def dataset(self, moves):
        return ray.data.from_items([{"id": i, "moves": text} for i, text in enumerate(moves)])

    def test_evaluate(self) -> None:
        direct = evald.evaluate(MOVES)
        wrong = {3: "48", 50: "x"}
        rows = self.rows(evald.ray.evaluate(self.dataset([wrong.get(i, text) for i, text in enumerate(MOVES)]), "default", batch_size=64, actors=2))
        self.assertEqual(len(rows), len(MOVES))
        for i, row in enumerate(rows):
            self.assertEqual(bool(row["error"]), i in wrong)
            if i not in wrong:
                self.assertTrue(np.allclose([row["win"], row["draw"], row["loss"]], direct.wdl[i], atol=1e-6))
                self.assertTrue(np.allclose(row["policy"], direct.policy[i], atol=1e-6))
        with self.assertRaisesRegex(Exception, 'moves "48"'):
            evald.ray.evaluate(self.dataset(["4", "48"]), "bitsquares", errors="raise").take_all()

    def test_solve_and_score(self) -> None:
        moves = [text for text in MOVES if len(text) > 20] + ["1212121", "x"]
        going = [text for text in moves[:-2] if evald.Positions(text).results()[0] == 2]
        want = dict(zip(going, evald.solve(going)))
        solved = evald.ray.solve(self.dataset(moves), batch_size=16).materialize()
        for row in self.rows(solved):
            np.testing.assert_array_equal(row["scores"], want.get(row["moves"], np.full(7, evald.NO_MOVE)))
            self.assertEqual(bool(row["error"]), row["moves"] == "x")
        results = self.rows(evald.ray.solve(self.dataset(going), results=True))
        np.testing.assert_array_equal([row["scores"] for row in results], evald.labels(going).moves)
        for visits in (0, 30):
            scored = self.rows(evald.ray.score(solved, "default", visits=visits, batch_size=16))
            direct = evald.score("default", (going, evald.solve(going)), visits=visits)
            for name in ("good", "perfect", "regret"):
                values = np.array([row[name] for row in scored])
                self.assertEqual(int(np.isnan(values).sum()), len(moves) - len(going))
                self.assertAlmostEqual(float(np.nanmean(values)), float(getattr(direct, name)[0]), 5)

    def same(self, got, want) -> None:
        self.assertEqual([game.number for game in got], [game.number for game in want])
        for a, b in zip(got, want):
            self.assertEqual((a.positions, a.result), (b.positions, b.result))
            for name in ("actions", "visits", "q", "policy"):
                np.testing.assert_array_equal(getattr(a, name), getattr(b, name))

    def test_selfplay(self) -> None:
        options = dict(visits=20, seed=7)
        for of in (network, "bitsquares"):
            want = list(evald.selfplay(60, "5x4x4", network=of, first=10, order="number", **options))
            for actors in (1, 3):
                with evald.ray.SelfPlay("5x4x4", network=of, actors=actors, chunk=7, **options) as play:
                    self.same(list(play.games(60, first=10)), want)
                    play.network = "uniform"
                    self.same(list(play.games(5)), list(evald.selfplay(5, "5x4x4", network="uniform", order="number", **options)))
        with self.assertRaisesRegex(evald.EvaldError, "order is not for self-play by actors"):
            evald.ray.SelfPlay(order="finished")

    def test_files(self) -> None:
        """A call that is repeated writes only the files that are missing, and evald reads them all."""
        with tempfile.TemporaryDirectory() as folder, evald.ray.SelfPlay("5x4x4", network="bitsquares", actors=2, visits=20, seed=3) as play:
            to = pathlib.Path(folder, "games")
            names = play.write(25, to, per_file=10)
            self.assertEqual(names, ["games-000000-000009.parquet", "games-000010-000019.parquet", "games-000020-000024.parquet"])
            before = {file.name: (file.read_bytes(), file.stat().st_mtime_ns) for file in to.iterdir()}
            (to / names[1]).unlink()
            play.write(25, to.as_uri(), per_file=10)
            after = {file.name: (file.read_bytes(), file.stat().st_mtime_ns) for file in to.iterdir()}
            self.assertEqual(before[names[0]], after[names[0]])
            self.assertEqual([before[name][0] for name in names], [after[name][0] for name in names])
            records = evald.read(f"{to}/*.parquet")
            self.assertEqual(sorted(set(records.game)), list(range(25)))

    def test_bucket(self) -> None:
        program = shutil.which("moto_server")
        if not program:
            self.skipTest("there is no moto_server: install .ci/s3.txt into an environment and add its programs to PATH")
        server = subprocess.Popen([program, "-H", "127.0.0.1", "-p", "0"], stderr=subprocess.PIPE, text=True)
        self.addCleanup(server.wait)
        self.addCleanup(server.stderr.close)
        self.addCleanup(server.kill)
        host = next(re.findall(r"http://([\d.:]+)", line)[0] for line in server.stderr if "Running on" in line)
        where = f"s3://key:secret@games/run?endpoint_override={host.replace(':', '%3A')}&scheme=http&region=us-east-1&allow_bucket_creation=true"
        with evald.ray.SelfPlay("4x4x3", network="bitsquares", visits=8) as play, tempfile.TemporaryDirectory() as folder:
            names = play.write(20, where, per_file=10)
            play.write(20, folder, per_file=10)
            import pyarrow.fs

            files, path = pyarrow.fs.FileSystem.from_uri(where)
            for name in names:
                self.assertEqual(files.open_input_file(f"{path}/{name}").read(), pathlib.Path(folder, name).read_bytes())
            for some in (None, names[1:]):
                got, want = evald.ray.read(where, some), evald.read([f"{folder}/{name}" for name in some or names])
                self.assertEqual(got.positions, want.positions)
                np.testing.assert_array_equal(got.visits, want.visits)

    def test_learn(self) -> None:
        """The example learns, and a run that was interrupted continues as if it had not been."""
        require("torch")
        with tempfile.TemporaryDirectory() as folder:
            def run(name: str, generations: int) -> "list[str]":
                command = ["--generations", str(generations), "--games", "60", "--visits", "16", "--to", str(pathlib.Path(folder, name))]
                with unittest.mock.patch("sys.argv", ["ray_learn.py", *command]), contextlib.redirect_stdout(io.StringIO()) as out:
                    ray_learn.main()
                return [line.split(", ")[-1] for line in out.getvalue().splitlines()]

            import ray_learn

            whole = run("whole", 3)
            run("parts", 1)
            self.assertEqual(run("parts", 3), whole)
            self.assertEqual(len(whole), 3)

    def test_killed_actors(self) -> None:
        """Actors are killed again and again: no game is lost, none is there twice, and all are those of one process."""
        killed, over = 0, threading.Event()
        with evald.ray.SelfPlay("5x4x4", network="bitsquares", actors=2, chunk=20, visits=40, seed=5) as play:
            pids = lambda: ray.get([actor.pid.remote() for actor in play._actors])  # noqa: E731

            def kill() -> None:
                nonlocal killed
                while not over.wait(min(SECONDS / 4, 5)):
                    os.kill(pids()[killed % 2], signal.SIGKILL)
                    killed += 1

            killer = threading.Thread(target=kill)
            killer.start()
            got, n = [], 0
            try:
                while killed < max(3, SECONDS / 5) or n < 200:
                    got += play.games(100, first=n)
                    n += 100
            finally:
                over.set()
                killer.join()
        self.same(got, list(evald.selfplay(n, "5x4x4", network="bitsquares", order="number", visits=40, seed=5)))
        print(f"{n} games, {killed} kills", end=" ")


if __name__ == "__main__":
    unittest.main()
