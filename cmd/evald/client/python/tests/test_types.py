"""The types of the whole package, by mypy --strict. Those of Gymnasium, which take half of its time, are checked with EVALD_SOAK alone."""
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

from reference import needs

needs("mypy")


class Types(unittest.TestCase):
    def test_strict(self) -> None:
        folder = pathlib.Path(__file__).parent.parent
        with tempfile.TemporaryDirectory() as cache:
            config = pathlib.Path(cache) / "mypy.ini"
            config.write_text((folder / "mypy.ini").read_text() + ("" if os.environ.get("EVALD_SOAK") else "[mypy-gymnasium.*,pygame.*]\nfollow_imports = skip\n"))
            mypy = [sys.executable, "-m", "mypy", "--strict", "--config-file", str(config), "--cache-dir", cache]
            # Programs of users are checked too, one right and one wrong: the package's types reach them.
            users = []
            for name, text in (("right", PROGRAM), ("wrong", WRONG)):
                users.append(pathlib.Path(cache) / f"{name}.py")
                users[-1].write_text(text)
            done = subprocess.run([*mypy, "evald", *users], cwd=folder, capture_output=True, text=True)
            self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
            for line, says in WRONGS:
                self.assertRegex(done.stdout, rf"wrong.py:{line}: error: .*{says}")
            self.assertEqual(done.stdout.count(": error:"), len(WRONGS), done.stdout)


PROGRAM = '''import pathlib

import numpy as np
import numpy.typing as npt

import evald


def network(positions: evald.Positions) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
    planes = positions.planes(["own", "other"], layout="NHWC", rows="bottom")
    return np.ones((len(planes), positions.board.actions), np.float32), np.zeros(len(planes), np.float32)


games = evald.selfplay(10, "5x4x4", network=network, order="number", sizes=(1, 8), progress=True)
evald.write(games, pathlib.Path("games.parquet"))
records: evald.Records = evald.reanalyse(evald.read("games.parquet"), network=network, visits=64, selection="gumbel")
evald.write([records, next(games)], "again.parquet")
table = evald.match({"new": network, "old": evald.Evaluator("old.onnx"), "path": pathlib.Path("x.onnx"), "uct": "uct:sims=50"}, "5x4x4", games=200)
elo: npt.NDArray[np.float64] = table.elo + table.interval[:, 0] + table.score[0]
labels = evald.labels(["12", "13"], "5x4x4", nodes=1000)
scores = evald.score(network, {"solved": (["12"], evald.solve("12", "5x4x4")), "file": "set.txt", "labels": labels}, "5x4x4", visits=(0, 100), raw=True)
scores = evald.score("default", ["a.txt", pathlib.Path("b.txt")], visits=100)
good: float = float(scores.good[0] + scores.good_interval[0, 1])
scores = evald.score(network, labels, selection="gumbel", c_scale=0.1)
table = evald.match({"new": network, "old": "gumbel:visits=16"}, explore=2, noise=0.25)
forest = evald.Forest(["12", "13"], "5x4x4", network=network, noise=0.25)
found: evald.Searched = forest.run(8, tree=True)
forest.prior = found.prior
after: evald.Positions = forest.advance(found.best)
game = next(evald.selfplay(1, network={"a": network, "b": "default"}))
both: tuple[str, str] = game.networks
raw: evald.Answers = evald.evaluate("12", raw=True)
'''

WRONG = '''import evald
value: str = evald.evaluate("4").value
evald.selfplay(10, order="numbr")
evald.match({"a": "random", "b": "uct"}, game=10)
evald.match({"a": 3, "b": "uct"})
evald.score("default", "set.txt", visit=100)
evald.score("default", 3)
evald.labels("12", node=3)
evald.reanalyse(evald.read("x"), selection="gumbl")
evald.reanalyse(evald.read("x"), visit=3)
evald.write(3, "x")
evald.Positions("4").planes(layout="NCWH")
evald.evaluate("4", row=True)
evald.match({"a": "random", "b": "uct"}, explor=2)
evald.Forest("4", selection="gumbel")
evald.score("default", "set.txt", priors="sharp")
'''

WRONGS = [
    (2, "Incompatible types"), (3, 'Literal\\[.numbr'), (4, 'argument "game"'), (5, "Dict entry 0"), (6, 'argument "visit"'), (7, 'Argument 2 to "score"'), (8, 'argument "node"'),
    (9, "Literal\\[.gumbl"), (10, 'argument "visit"'), (11, 'Argument 1 to "write"'), (12, "Literal\\[.NCWH"), (13, 'argument "row"'), (14, 'argument "explor"'), (15, "Literal\\[.gumbel"), (16, "Literal\\[.sharp"),
]


if __name__ == "__main__":
    unittest.main()
