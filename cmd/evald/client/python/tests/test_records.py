"""Records of one's own games: what write writes, read reads and evald train learns from, and
searches of old positions."""
from __future__ import annotations

import itertools
import os
import pathlib
import subprocess
import tempfile
import unittest
from typing import Any

import numpy as np
from public import uniform
from reference import needs

import evald

RULES = "5x4x4"
COLUMNS = ("visits", "policy", "q", "weight", "z", "gameover", "ply", "move", "game", "source")


def program(*arguments: str) -> None:
    done = subprocess.run([os.environ.get("EVALD_PROGRAM") or os.environ["EVALD_LIBRARY"], *arguments], capture_output=True, text=True)
    if done.returncode != 0:
        raise AssertionError(done.stderr)


class Records(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.path = os.path.join(folder.name, "games.parquet")

    def same(self, a: evald.Records, b: evald.Records, columns: Any = COLUMNS) -> None:
        self.assertEqual(a.positions, b.positions)
        for name in columns:
            np.testing.assert_array_equal(getattr(a, name), getattr(b, name), name)

    def test_as_the_command(self) -> None:
        """Games of selfplay, written, have the records that evald selfplay writes, also if games
        end by a proof or a resignation."""
        for flags, options in (
            ([], {}), (["--exact=500"], dict(exact=500)), (["--resign", "0.3"], dict(resign=0.3)), (["--policy", "--selection", "gumbel"], dict(policy=True, selection="gumbel")),
        ):
            with self.subTest(str(flags)):
                out = os.path.join(self.folder, "run" + "".join(flags))
                program("selfplay", "--backend", "bitsquares", "--games", "12", "--visits", "8", "--seed", "5", "--rules", RULES, "-o", out, *flags)
                want = evald.read(out + "/*.parquet")
                evald.write(evald.selfplay(12, RULES, network="bitsquares", visits=8, seed=5, order="number", **options), self.path)
                self.same(evald.read(self.path), want)
                self.assertEqual(evald.read(self.path), want)
                self.assertEqual((want.gameover > 0).any(), not options.get("exact"))

    def test_round_trip(self) -> None:
        for rules in (RULES, "3x3x3free", "12x9x6"):
            games = list(evald.selfplay(3, rules, network=uniform, visits=2, fast_visits=2, full_share=0.5))
            evald.write(games, pathlib.Path(self.path))
            records = evald.read(self.path)
            self.assertIn("function", records.source)
            records.weight[:] = np.linspace(0, 2, len(records))
            evald.write(records, self.path)
            self.same(evald.read(self.path), records)
            evald.write([records, games[0], records], self.path)
            again = evald.read(self.path)
            self.assertGreater(len(again), 2 * len(records))
            self.same(evald.read(self.path), again)

    def test_policy(self) -> None:
        """Records of games with policy=True have the games' policies, and others the shares of their
        visits, also in one file. What a file has is written again, byte for byte."""
        made = {column: list(evald.selfplay(6, RULES, network="bitsquares", visits=4, full_share=0.7, selection="gumbel", policy=column, seed=2, order="number")) for column in (True, False)}
        evald.write(made[False], self.path)
        without = pathlib.Path(self.path).read_bytes()
        plain = evald.read(self.path)
        evald.write(plain, self.path)
        self.assertEqual(pathlib.Path(self.path).read_bytes(), without)
        evald.write(made[True], self.path)
        records, on = evald.read(self.path), plain.visits.any(1)
        np.testing.assert_array_equal(records.policy[records.gameover == 0], np.concatenate([g.policy for g in made[True]]))
        self.assertTrue(on.any() and not on.all())
        np.testing.assert_array_equal(records.policy[~on], 0)
        self.assertGreater(np.abs(records.policy[on] - plain.policy[on]).max(), 0.05)
        np.testing.assert_allclose(records.policy[on].sum(1), 1, atol=1e-5)
        np.testing.assert_allclose(plain.policy[on].sum(1), 1, atol=1e-5)
        evald.write([records, plain], self.path)
        both = evald.read(self.path)
        np.testing.assert_array_equal(both.policy, np.concatenate([records.policy, plain.policy]))
        records.policy = None
        self.same(records, plain)
        evald.write(records, self.path)
        self.assertEqual(pathlib.Path(self.path).read_bytes(), without)

    def test_train(self) -> None:
        """evald train learns from them."""
        evald.write(evald.selfplay(6, RULES, network=uniform, visits=4, fast_visits=4), self.path)
        run = os.path.join(self.folder, "run")
        program("train", self.path, "-o", run, "--rules", RULES, "--network", "1x4/4/6", "--batch", "16", "--steps", "2", "--threads", "1")
        file = pathlib.Path(run, "network.safetensors")
        with evald.Evaluator(file) as e:
            self.assertEqual(e.evaluate("1", RULES).policy.shape, (1, 5))
            for call in (
                lambda f: evald.match({"mine": f, "r": "random"}, RULES, games=4, visits=4).wins.tolist(),
                lambda f: evald.score(f, evald.labels(["1", "12"], RULES), visits=(0, 4)).report,
            ):
                self.assertEqual(call(file), call(e))

    def test_refused(self) -> None:
        """A wrong shape or value is an error, and the old file stays."""
        game = next(evald.selfplay(1, RULES, network=uniform, visits=4))
        evald.write(game, self.path)
        old = pathlib.Path(self.path).read_bytes()
        n, a = evald.read(self.path).visits.shape
        full = evald.read(self.path).positions.legal().argmin(1)
        for name, value, says in (
            ("q", np.zeros(n + 1), "q of the shape"), ("visits", np.ones((n, a + 1), int), "visits of the shape"), ("q", np.full(n, 2.0), "record 0: column q is 2"),
            ("q", ["x"] * n, "q of <U1, and must have numbers"), ("z", np.full(n, 3), "column z is 3"), ("z", np.full(n, 0.5), "z 0 is 0.5"), ("game", np.full(n, -2), "column game"),
            ("weight", np.full(n, np.nan), "column weight is NaN"), ("move", np.full(n, a), "move is 5, and must be an action"), ("visits", np.full((n, a), -1), r"visits \[0, 0\] is -1"),
            ("ply", np.zeros(n, int) + 21, "column ply is 21"), ("gameover", np.full(n, 3), "column gameover is 3"), ("visits", np.ones((n, a), int), "column visits"),
            ("positions", evald.Positions(["1"], RULES), "of the shape"), ("policy", np.full((n, a - 1), 1 / a), "policy of the shape"),
            ("policy", np.full((n, a), 1 / a / 2), r"record 0: column policy is .*, which sums to 0\.5, must be 1"),
            ("policy", np.eye(a)[np.zeros(n, int)] * np.nan, "record 0: column policy is .*, but action 0 has NaN: must be 0 to 1"),
            ("policy", np.full((n, a), -1), "record 0: column policy is .*, but action 0 has -1: must be 0 to 1"),
        ):
            if name == "visits" and says == "column visits" and full.max() == 0:
                continue
            with self.subTest(says), self.assertRaisesRegex(evald.EvaldError, says):
                records = evald.read(self.path)
                setattr(records, name, value)
                evald.write(records, self.path)
        with self.assertRaisesRegex(evald.EvaldError, "positions 1 are of 4x4x3"):
            evald.write([game, next(evald.selfplay(1, "4x4x3", network=uniform, visits=4))], self.path)
        with self.assertRaisesRegex(evald.EvaldError, "there are none"):
            evald.write([], self.path)
        with self.assertRaisesRegex(evald.EvaldError, "no such file or directory|not found|cannot find"):
            evald.write(game, os.path.join(self.folder, "none", "x.parquet"))
        self.assertEqual(pathlib.Path(self.path).read_bytes(), old)
        self.assertEqual(os.listdir(self.folder), ["games.parquet"])

    def test_reanalyse(self) -> None:
        """Visits and q are those of searches of the positions that go on; the rest stays."""
        evald.write(evald.selfplay(4, RULES, network=uniform, visits=4, full_share=0.3), self.path)
        records = evald.read(self.path)
        for selection, network in itertools.product(("puct", "gumbel"), (uniform, "bitsquares")):
            new = evald.reanalyse(records, network=network, visits=16, selection=selection, seed=3)
            on = records.positions.results() == 2
            self.assertTrue((records.visits[on].sum(1) == 0).any() and not on.all())
            found = evald.search(records.positions[on], network=network, visits=16, selection=selection, seed=3)
            np.testing.assert_array_equal(new.q[on], found.value)
            np.testing.assert_array_equal(new.visits[on], np.rint(found.policy * 16))
            np.testing.assert_array_equal(new.policy[on], found.policy)
            self.assertTrue((new.visits[on].sum(1) > 0).all() and (new.visits[~on] == 0).all() and (new.policy[~on] == 0).all())
            self.assertEqual({s for s, o in zip(new.source, on) if o}, {"function" if network is uniform else "bitsquares"})
            self.same(new, records, ("weight", "z", "gameover", "ply", "move", "game"))
            evald.write(new, self.path)
            self.same(evald.read(self.path), new)
            self.assertEqual(evald.read(self.path), new)
        self.assertEqual(len(evald.reanalyse(evald.read(self.path, "4x4x3"), network=uniform)), 0)


class Parquet(unittest.TestCase):
    def test_pyarrow(self) -> None:
        """Other programs read the file, whose columns are those of the format."""
        needs("pyarrow")
        import pyarrow.parquet as parquet

        with tempfile.TemporaryDirectory() as folder:
            evald.write(evald.selfplay(2, RULES, network=uniform, visits=4, policy=True), folder + "/x.parquet")
            table, records = parquet.read_table(folder + "/x.parquet"), evald.read(folder + "/x.parquet")
            table = table.replace_schema_metadata({"evald.records": "2"})  # without the checksum of the other file
            parquet.write_table(table, folder + "/y.parquet", compression="zstd")
            self.assertEqual(evald.read(folder + "/y.parquet"), records)
        self.assertEqual([v or [0] * 5 for v in table["policy"].to_pylist()], records.policy.tolist())
        np.testing.assert_array_equal(table["q"].to_numpy(), records.q)
        self.assertEqual(table["rules"].to_pylist(), [RULES] * len(records))
        self.assertEqual([v or [0] * 5 for v in table["visits"].to_pylist()], records.visits.tolist())


if __name__ == "__main__":
    unittest.main()
