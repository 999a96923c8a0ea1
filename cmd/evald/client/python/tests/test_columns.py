"""Answers as columns: pandas, DuckDB, Dask, Ray and Spark, each from Parquet to Parquet, equal to direct answers."""
import faulthandler
import os
import pathlib
import pickle
import shutil
import sys
import tempfile
import unittest
import unittest.mock

import numpy as np
from reference import needs, random_games, require

needs("pandas", "pyarrow")

import evald  # noqa: E402
import evald.columns  # noqa: E402
import pandas as pd  # noqa: E402

WRONG = 7
MOVES = [game.text() for game in random_games(300, 1)] + ["1212121", "445566"]
HOST = pathlib.Path(evald.__file__).parent.parent


def answered(frames):
    """The frames with answers, as in frameworks.md."""
    with evald.Evaluator(errors="column") as e:
        for frame in frames:
            answers = e(frame)
            yield pd.DataFrame({**answers, "policy": list(answers["policy"])}, index=frame.index)


class Columns(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        words = evald.Positions(MOVES).words
        self.frame = pd.DataFrame({"id": range(len(MOVES)), "moves": MOVES, "own": words[:, 0], "all": words[:, 2]})
        self.frame.to_parquet(self.folder / "in.parquet", row_group_size=100)
        self.direct = evald.evaluate(MOVES)

    def check(self, rows) -> None:
        """Compares a list of dicts with the direct answers."""
        self.assertEqual(len(rows), len(MOVES))
        for row in rows:
            i = int(row["id"])
            self.assertEqual(row["moves"], MOVES[i])
            wdl = self.direct.wdl[i]
            self.assertTrue(np.allclose([row["win"], row["draw"], row["loss"]], wdl, atol=1e-6))
            self.assertTrue(np.allclose(np.asarray(row["policy"], float), self.direct.policy[i], atol=1e-6))
            self.assertEqual(row["source"], self.direct.source[i])
            if "best" in row:
                self.assertEqual(row["best"], self.direct.best[i])
                self.assertAlmostEqual(row["value"], float(wdl[0] - wdl[2]), 5)

    def one_wrong(self) -> pathlib.Path:
        """A file as in.parquet, but row WRONG is no position."""
        self.frame.loc[WRONG, "moves"] = "1111111"
        self.frame[["id", "moves"]].to_parquet(self.folder / "wrong.parquet", row_group_size=100)
        return self.folder / "wrong.parquet"

    def check_one_wrong(self, rows) -> None:
        rows = sorted(rows, key=lambda row: row["id"])
        self.assertEqual([row["error"] for row in rows], ['moves "1111111": move 7 goes to "1", which is full' if i == WRONG else "" for i in range(len(MOVES))])
        self.assertTrue(pd.isna(rows[WRONG]["win"]) and not np.any(rows[WRONG]["policy"]))
        for row in rows[:WRONG] + rows[WRONG + 1:]:
            i = row["id"]
            self.assertEqual([row["moves"], row["win"], row["loss"], list(row["policy"]), row["source"]],
                             [MOVES[i], self.direct.wdl[i, 0], self.direct.wdl[i, 2], self.direct.policy[i].tolist(), self.direct.source[i]])

    def test_pandas(self) -> None:
        for columns in (["moves"], ["own", "all"]):
            odd = self.frame[columns][1::2]  # its index has gaps
            self.check(self.frame.join(pd.concat([evald.columns.answers(odd), evald.columns.answers(self.frame[columns][::2])])).to_dict("records"))
        answers = evald.columns.answers(self.frame.moves)
        self.assertEqual([str(kind) for kind in answers.dtypes], [str(kind) for kind in evald.columns.META.dtypes])
        self.assertEqual(list(answers), list(evald.columns.META))
        self.assertEqual(list(evald.columns.answers(self.frame[:0])), list(evald.columns.META))
        self.assertEqual(evald.columns.answers(pd.Series(["-"]), "5x4x3", "default").shape, (1, 7))
        with self.assertRaisesRegex(evald.EvaldError, "position 1 is None"):
            evald.columns.answers(pd.Series(["4", None], dtype=object))

    def test_errors(self) -> None:
        """With errors="column" each wrong row has its own error, and the others have their answers."""
        with evald.Evaluator(errors="column") as e:
            for seed in range(20):
                random = np.random.default_rng(seed)
                wrong = np.flatnonzero(random.random(len(MOVES)) < random.choice([0, 0.01, 0.5, 1]))
                moves = np.array(MOVES, object)
                moves[wrong] = random.choice(np.array(["48", "x", None, "9x9x4:4", 5.5], object), len(wrong))
                got = e({"id": np.arange(len(MOVES)), "moves": moves})
                right = np.setdiff1d(np.arange(len(MOVES)), wrong)
                self.assertEqual([bool(text) for text in got["error"]], [i in wrong for i in range(len(MOVES))])
                self.check_rows(got, right, wrong)
            words = evald.Positions(MOVES).words
            own, stones = words[:, 0].copy(), words[:, 2].copy()
            stones[7] = 1 << 63
            got = e({"own": own, "all": stones})
            self.check_rows(got, np.setdiff1d(np.arange(len(MOVES)), [7]), np.array([7]))
            self.assertNotRegex(got["error"][7], "position")
            empty = e({"moves": np.array([], str)})
            self.assertEqual((len(empty["error"]), empty["policy"].shape), (0, (0, 7)))
            with self.assertRaisesRegex(KeyError, "a batch has the columns \\['x'\\]"):
                e({"x": moves})
            with self.assertRaisesRegex(evald.EvaldError, "columns of the same length"):
                e({"own": own, "all": stones[1:]})
            copy = pickle.loads(pickle.dumps(e))
            self.assertEqual(copy.errors, "column")
            copy.close()
        with self.assertRaisesRegex(evald.EvaldError, "errors is 'ignore'"):
            evald.Evaluator(errors="ignore")

    def check_rows(self, got, right, wrong) -> None:
        self.assertTrue(np.array_equal(np.stack([got["win"], got["draw"], got["loss"]], 1)[right], self.direct.wdl[right]))
        self.assertTrue(np.array_equal(got["policy"][right], self.direct.policy[right]))
        self.assertEqual(got["source"][right].tolist(), [self.direct.source[i] for i in right])
        self.assertTrue(np.isnan(got["win"][wrong]).all() and (got["policy"][wrong] == 0).all() and (got["source"][wrong] == "").all())

    def test_duckdb(self) -> None:
        require("duckdb")
        import duckdb
        import evald.duckdb

        connection = duckdb.connect()
        evald.duckdb.register(connection)
        for arguments in ("moves", '"own", "all"', "b.own_lo, b.own_hi, b.all_lo, b.all_hi"):
            connection.execute(
                f"COPY (SELECT id, moves, unnest(evald({arguments})) FROM (SELECT *, evald_bits(moves) AS b FROM '{self.folder}/in.parquet')) "
                f"TO '{self.folder}/out.parquet'"
            )
            self.check(pd.read_parquet(self.folder / "out.parquet").to_dict("records"))
        values = connection.sql(f"SELECT id, evald_value(moves) FROM '{self.folder}/in.parquet' ORDER BY id").fetchall()
        self.assertTrue(np.allclose([value for _, value in values], self.direct.value))

    def test_duckdb_scores_nulls_and_errors(self) -> None:
        require("duckdb")
        import duckdb
        import evald.duckdb

        connection = duckdb.connect()
        evald.duckdb.register(connection)
        evald.duckdb.register(connection, "5x4x3", name="small")
        scores = connection.sql("SELECT evald_scores(x) FROM (VALUES ('4444437'), ('1212121'), (NULL), ('444444')) t(x)").fetchall()
        want = [None if score == evald.NO_MOVE else score for score in evald.solve(["4444437", "444444"]).tolist()[0]]
        self.assertEqual(scores[:3], [(want,), ([],), (None,)])
        self.assertIsNone(scores[3][0][3])
        self.assertEqual(connection.sql("SELECT evald(NULL::VARCHAR), len(small('-').policy)").fetchall(), [(None, 5)])
        rows = connection.sql("SELECT evald_value(x) FROM (VALUES ('4'), (NULL), ('44')) t(x)").fetchall()
        self.assertTrue(np.allclose([rows[0][0], rows[2][0]], evald.evaluate(["4", "44"]).value))
        self.assertIsNone(rows[1][0])
        with self.assertRaisesRegex(duckdb.Error, 'moves "48"'):
            connection.sql("SELECT evald_value('48')").fetchall()

    def test_dask(self) -> None:
        require("dask.dataframe")
        import dask
        import dask.dataframe

        frame = dask.dataframe.read_parquet(self.folder / "in.parquet", split_row_groups=True).repartition(npartitions=3)
        joined = dask.dataframe.concat([frame, frame.map_partitions(evald.columns.answers, meta=evald.columns.META)], axis=1)
        with dask.config.set(scheduler="threads", num_workers=2, **{"dataframe.convert-string": False}):
            self.check(joined.compute().to_dict("records"))
            wrong = dask.dataframe.read_parquet(self.one_wrong(), split_row_groups=True).map_partitions(lambda frame: next(answered([frame])))
            self.check_one_wrong(wrong.compute().to_dict("records"))

    def test_ray(self) -> None:
        require("ray")
        import ray

        # Of the two CPUs the evaluator's actor takes one, and the tasks that read and write the other. By itself Ray 2.60 runs its workers at niceness 15,
        # where they wait for other programs, and reads the footers of Parquet files, even of one, with 32 actors, each a process.
        settings = {"RAY_worker_niceness": "0", "RAY_DATA_PARQUET_FOOTER_NUM_ACTORS": "1", "PYTHONPATH": str(HOST)}
        environment = unittest.mock.patch.dict(os.environ, settings)
        environment.start()  # Ray's processes get it
        self.addCleanup(environment.stop)
        faulthandler.dump_traceback_later(600, exit=True)  # Ray waits without end if it finds too few resources
        self.addCleanup(faulthandler.cancel_dump_traceback_later)
        ray.init(num_cpus=2, object_store_memory=128 << 20, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
        self.addCleanup(ray.shutdown)
        ray.data.DataContext.get_current().enable_progress_bars = False
        dataset = ray.data.read_parquet(str(self.folder / "in.parquet")).map_batches(evald.Evaluator, batch_size=64, compute=ray.data.ActorPoolStrategy(size=1))
        dataset.write_parquet(str(self.folder / "out"))
        self.check(pd.read_parquet(self.folder / "out").to_dict("records"))

    def test_spark(self) -> None:
        require("pyspark")
        if not (shutil.which("java") or os.environ.get("JAVA_HOME")):
            self.skipTest("java is missing, which pyspark starts")
        from pyspark.sql import SparkSession
        from pyspark.sql.functions import pandas_udf

        for name in ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"):
            os.environ[name] = sys.executable
        spark = (SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").config("spark.driver.memory", "1g")
                 .config("spark.sql.execution.arrow.maxRecordsPerBatch", "128").getOrCreate())
        self.addCleanup(spark.stop)

        @pandas_udf(evald.columns.SCHEMA)
        def answers(moves: pd.Series) -> pd.DataFrame:
            return evald.columns.answers(moves)

        frame = spark.read.parquet(str(self.folder / "in.parquet"))
        frame.select("id", "moves", answers("moves").alias("a")).select("id", "moves", "a.*").write.parquet(str(self.folder / "spark"))
        self.check([row.asDict() for row in spark.read.parquet(str(self.folder / "spark")).collect()])
        schema = "id bigint, moves string, win float, draw float, loss float, policy array<float>, source string, error string"
        self.check_one_wrong([row.asDict() for row in spark.read.parquet(str(self.one_wrong())).mapInPandas(answered, schema).collect()])


if __name__ == "__main__":
    unittest.main()
