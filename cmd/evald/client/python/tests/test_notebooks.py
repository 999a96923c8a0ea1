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

NOTEBOOKS = pathlib.Path(__file__).parent.parent / "notebooks"


def run(name: str, short: dict[str, Any]) -> tuple[dict[str, Any], str]:
    """Runs a notebook's cells, the first of which has its constants. Returns what they have defined and printed."""
    import matplotlib

    matplotlib.use("Agg")
    space: dict[str, Any] = {}
    said = io.StringIO()
    cells = [cell for cell in json.loads((NOTEBOOKS / name).read_text())["cells"] if cell["cell_type"] == "code"]
    for i, cell in enumerate(cells):
        with redirect_stdout(said):
            exec(compile("".join(cell["source"]), f"{name}, code {i}", "exec"), space)
        if i == 0 and not os.environ.get("EVALD_SOAK"):
            missing = [constant for constant in short if constant not in space]
            assert not missing, f"{name} has no {missing}"
            space.update(short)
    return space, said.getvalue()


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


if __name__ == "__main__":
    unittest.main()
