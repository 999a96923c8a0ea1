"""A network that does not know a board is an error, wherever the caller named it. The functions and classes that take networks are found by their
parameters."""
import importlib
import importlib.util
import inspect
import pathlib
import pkgutil
import shutil
import tempfile
import unittest
from typing import Any, Callable, Iterator

import numpy as np

import evald

FILES = pathlib.Path(__file__).parents[5] / "nn" / "encoding" / "testdata"
RULES, POSITION = "9x5x4", "4455"
REFUSAL = f"does not know {RULES}: it knows 7x6x4 alone; name another, such as any .*model=any"

# Values of the parameters without a default, and of those that decide the board.
GIVEN: dict[str, Callable[[], Any]] = {
    "positions": lambda: [POSITION], "data": lambda: importlib.import_module("pandas").Series([POSITION]), "games": lambda: 1,
    "connection": lambda: importlib.import_module("duckdb").connect(), "num_envs": lambda: 1, "rules": lambda: RULES,
    "sets": lambda: ([POSITION], np.zeros((1, 9), int)),
    "records": lambda: written(evald.selfplay(1, RULES, network=lambda p: (np.ones((len(p), 9)), np.zeros(len(p))), visits=2, fast_visits=2)),
}


def by_duckdb(connection: Any, name: str) -> object:
    return connection.sql(f"SELECT {name}('{POSITION}').best").fetchall()


def written(games: Any) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        evald.write(games, folder + "/games.parquet")
        return evald.read(folder + "/games.parquet")


def state() -> Any:
    return importlib.import_module("pyspiel").load_game("connect_four(rows=5,columns=9)").new_initial_state()


# What asks the network of an object that a call returns, by class.
ASKS: dict[str, Callable[[Any], object]] = {
    "evald.Evaluator": lambda e: e.evaluate(POSITION, RULES),
    "evald.kaggle.Agent": lambda a: a({"board": [0] * 45, "mark": 1}, {"rows": 5, "columns": 9, "inarow": 4, "actTimeout": 2}),
    "evald.mctx.Model": lambda m: m.root(np.zeros((1, 5, 9, 2), bool)),
    "evald.openspiel.Bot": lambda b: b.step(state()),
    "evald.openspiel.Evaluator": lambda e: e.evaluate(state()),
    "evald.gymnasium.VectorConnectX": lambda v: [v.reset(seed=n) for n in range(20)],  # in some games the opponent begins
    "evald.gymnasium.ConnectX": lambda v: [v.reset(seed=n) for n in range(20)],
}


def doors() -> Iterator[tuple[str, Any, str]]:
    """Each function and class of the package with the parameter that takes a network."""
    modules: list[Any] = [evald]
    for module in pkgutil.iter_modules(evald.__path__, "evald."):
        if not module.name.startswith("evald._"):
            try:
                modules.append(importlib.import_module(module.name))
            except ImportError:  # a framework that this Python has not
                pass
    for module in modules:
        for name in getattr(module, "__all__", dir(module)):
            door = getattr(module, name)
            if name.startswith("_") or not callable(door) or module is not evald and getattr(door, "__module__", "") != module.__name__:
                continue
            try:
                parameters = inspect.signature(door).parameters
            except ValueError:
                continue
            for parameter in ("model", "network", "opponent"):
                if parameter in parameters:
                    yield f"{module.__name__}.{name}", door, parameter


class Networks(unittest.TestCase):
    def ask(self, name: str, door: Any, **given: Any) -> None:
        parameters = inspect.signature(door).parameters
        for p in parameters.values():
            if p.name not in given and p.name in GIVEN and (p.default is p.empty or p.name == "rules"):
                given[p.name] = GIVEN[p.name]()
        found = door(**given)
        if name == "evald.duckdb.register":
            found = by_duckdb(given["connection"], "evald")
        elif name in ASKS:
            found = ASKS[name](found)
        elif hasattr(found, "__iter__"):
            found = list(found)
        self.fail(f"{name}: answers {found!r:.200}")

    def test_boards(self) -> None:
        names, files = [], ["default-fast"]
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        if importlib.util.find_spec("onnxruntime"):
            for end in ("onnx", "yaml"):
                shutil.copy(FILES / f"lightzero.{end}", folder.name)
            files.append(folder.name + "/lightzero.onnx")
        opened = {file: evald.Evaluator(file) for file in files}
        for e in opened.values():
            self.addCleanup(e.close)
        for name, door, parameter in doors():
            names.append(name)
            for file in files:
                value = file if name == "evald.Evaluator" else opened[file]
                with self.subTest(name, file=file), self.assertRaisesRegex(Exception, REFUSAL) as raised:
                    self.ask(name, door, **{parameter: value})
                if "duckdb" not in name and "mctx" not in name:  # these wrap the error
                    self.assertIsInstance(raised.exception, evald.EvaldError, name)
        self.assertLessEqual({"evald.evaluate", "evald.search", "evald.selfplay", "evald.Evaluator"}, set(names))
        with self.assertRaisesRegex(evald.EvaldError, REFUSAL):  # by its name, also if the rules decide the position or the game is over
            evald.evaluate("1212121", RULES, model="default-fast")
        with self.assertRaisesRegex(evald.EvaldError, REFUSAL):
            evald.search("1212121", RULES, network="default-fast")

    def test_chosen(self) -> None:
        """Without a name, evald chooses, and the board is one that its choice knows."""
        self.assertEqual(evald.evaluate([POSITION], RULES).source, ["cpu"])
        self.assertEqual(evald.evaluate([POSITION], RULES, model="any").source, ["cpu"])

    def test_heuristics(self) -> None:
        """A heuristic is named as a model, as a network or as a backend, with the same bits. A parameter makes it another one."""
        positions = ["4453", "41523617"]
        with evald.Evaluator(backend="bitsquares") as by, evald.Evaluator("bitsquares") as named, evald.Evaluator("bitsquares:power=3") as other:
            want = by.evaluate(positions)
            for got in (named.evaluate(positions), evald.evaluate(positions, model="bitsquares:power=1.75"), evald.evaluate(positions, model="bitsquares:width=7:power=1.75")):
                np.testing.assert_array_equal(got.wdl, want.wdl)
                np.testing.assert_array_equal(got.policy, want.policy)
            self.assertTrue((other.evaluate(positions).policy != want.policy).any())
            odds, wider = (answers.wdl[:, 0] / answers.wdl[:, 2] for answers in (want, evald.evaluate(positions, model="bitsquares:width=14")))
            np.testing.assert_allclose(wider ** 2, odds, rtol=1e-5)  # a sigmoid twice as wide
            self.assertEqual(evald.search(positions, network="bitsquares", visits=50).visits.tolist(), evald.search(positions, network=by, visits=50).visits.tolist())
        for wrong, says in {"bitsquares:power=9": "want a number from 0 to 8", "oddeven:width=0": "want a number from 0.01 to 1000", "nosuch": "nor a heuristic .bitsquares, ", "solver": "evald solve"}.items():
            with self.subTest(wrong), self.assertRaisesRegex(evald.EvaldError, says):
                evald.evaluate(positions, model=wrong)


if __name__ == "__main__":
    unittest.main()
