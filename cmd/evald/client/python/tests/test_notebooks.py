"""The notebooks run from top to bottom, in a short form. EVALD_SOAK runs them as they are."""
from __future__ import annotations

import importlib.util
import io
import json
import os
import pathlib
import unittest
from contextlib import redirect_stdout
from typing import Any

import numpy as np

NOTEBOOKS = pathlib.Path(__file__).parent.parent / "notebooks"


# In place of the PyTorch network of population.ipynb: layers that are linear in the planes.
LINEAR = """
class Network:
    def __init__(self, seed):
        self.weights = np.random.default_rng(seed).normal(0, 0.01, (5 * board.cells, board.actions + 1))

    def __call__(self, positions):
        return self.answers(positions.planes())

    def answers(self, planes):
        x = planes.reshape(len(planes), -1) @ self.weights
        policy = np.exp(x[:, :-1])
        return policy / policy.sum(1, keepdims=True), np.tanh(x[:, -1])

    def learn(self, planes, policy, value, steps):
        for _ in range(steps):
            p, v = self.answers(planes)
            errors = np.column_stack([policy - p, (value - v) * (1 - v * v)])
            self.weights += 0.1 * planes.reshape(len(planes), -1).T @ errors / len(planes)
"""


def run(name: str, short: dict[str, Any], network: str = "") -> tuple[dict[str, Any], str]:
    """Runs a notebook's cells, the first of which has its constants. Without EVALD_SOAK it has the
    constants of `short`, and `network`, if it is not empty, in place of the cell with the tag
    "network". Returns what they have defined and printed."""
    import matplotlib

    matplotlib.use("Agg")
    space: dict[str, Any] = {}
    said = io.StringIO()
    cells = [cell for cell in json.loads((NOTEBOOKS / name).read_text())["cells"] if cell["cell_type"] == "code"]
    for i, cell in enumerate(cells):
        source = "".join(cell["source"])
        if network and not os.environ.get("EVALD_SOAK") and "network" in cell["metadata"].get("tags", ()):
            source = network
        with redirect_stdout(said):
            exec(compile(source, f"{name}, code {i}", "exec"), space)
        if i == 0 and not os.environ.get("EVALD_SOAK"):
            missing = [constant for constant in short if constant not in space]
            assert not missing, f"{name} has no {missing}"
            space.update(short)
    return space, said.getvalue()


class Outputs(unittest.TestCase):
    def test_outputs(self) -> None:
        """Each notebook has the outputs of one run from top to bottom, with a picture, and says what
        its networks and searches are."""
        for path in sorted(NOTEBOOKS.glob("*.ipynb")):
            with self.subTest(path.name):
                cells = json.loads(path.read_text())["cells"]
                code = [cell for cell in cells if cell["cell_type"] == "code"]
                self.assertEqual([cell["execution_count"] for cell in code], list(range(1, len(code) + 1)))
                outputs = [output for cell in code for output in cell["outputs"]]
                self.assertEqual(sum("image/png" in output.get("data", ()) for output in outputs), 1)
                self.assertTrue(any(output["output_type"] == "stream" for output in outputs))
                self.assertEqual([output for output in outputs if output["output_type"] == "error" or output.get("name") == "stderr"], [])
                text = " ".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")
                for word in ("visits", "convolutions", "PUCT"):
                    self.assertIn(word, text)


@unittest.skipUnless(importlib.util.find_spec("matplotlib"), "matplotlib is not installed")
class Notebooks(unittest.TestCase):
    def test_accuracy(self) -> None:
        space, said = run("accuracy.ipynb", dict(GAMES=400, STONES=range(18, 28)))
        self.assertGreater(len(space["positions"]), 300)
        self.assertGreater(space["right"]["with 100 visits"].mean(), 0.98)
        self.assertGreater(space["right"]["the network alone"].mean(), 0.93)
        self.assertIn("results foretold", said)

    @unittest.skipUnless(importlib.util.find_spec("torch"), "torch is not installed")
    def test_train(self) -> None:
        space, said = run("train.ipynb", dict(ROUNDS=2, GAMES=120, VISITS=24, STEPS=80))
        first, last = space["curve"][0], space["curve"][-1]
        self.assertGreater(last[0], first[0] + 5, said)
        if os.environ.get("EVALD_SOAK"):
            self.assertGreater(last[1], 97, said)

    def test_population(self) -> None:
        if os.environ.get("EVALD_SOAK") and not importlib.util.find_spec("torch"):
            self.skipTest("torch is not installed")
        space, said = run("population.ipynb", dict(ROUNDS=2, GAMES=30, MATCH=2, STEPS=30), LINEAR)
        games = space["new"][0]
        on = np.append(games.game[:-1] == games.game[1:], False)
        self.assertGreater(on.sum(), 50)
        np.testing.assert_allclose(space["td"](games, 1.0), games.z)
        np.testing.assert_allclose(space["td"](games, 0.0), np.where(on, -np.roll(games.q, -1), games.z))
        one_step = np.where(on, -(0.5 * np.roll(games.q, -1) + 0.5 * np.roll(space["td"](games, 0.5), -1)), games.z)
        np.testing.assert_allclose(space["td"](games, 0.5), one_step, atol=1e-6)
        planes, policy, _ = space["targets"](games, 0.5)
        self.assertEqual(len(planes), (games.gameover == 0).sum())
        np.testing.assert_allclose(policy.sum(1), 1, atol=1e-5)
        self.assertGreater(np.abs(policy * 4 - np.rint(policy * 4)).max(), 0.1, "the policies are shares of 4 visits")
        self.assertEqual(sum(map(len, space["files"])), len(list(space["records"].iterdir())))
        self.assertEqual(len(space["good"]), space["ROUNDS"])
        if os.environ.get("EVALD_SOAK"):
            self.assertGreater(min(space["good"][-1]), max(space["good"][0]) + 5, said)


if __name__ == "__main__":
    unittest.main()
