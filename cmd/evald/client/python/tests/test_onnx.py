"""Networks of ONNX files, by the installed package onnxruntime."""
import importlib.util
import pathlib
import shutil
import tempfile
import unittest

import numpy as np

import evald

FILES = pathlib.Path(__file__).parents[5] / "nn" / "encoding" / "testdata"


@unittest.skipUnless(importlib.util.find_spec("onnxruntime"), "onnxruntime is not installed")
class ONNX(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def file(self, name: str, description: str = "") -> str:
        """A copy of a network with its description, or with another one."""
        shutil.copy(FILES / f"{name}.onnx", self.folder)
        (self.folder / f"{name}.yaml").write_text(description or (FILES / f"{name}.yaml").read_text())
        return str(self.folder / f"{name}.onnx")

    def test_answers(self) -> None:
        """The answers are those of onnxruntime in Python to the same planes."""
        import onnxruntime

        with evald.Evaluator(self.file("pgx")) as e:
            self.assertIn("ONNX Runtime", e.about["how"])
            positions = evald.Positions(["-", "4", "44", "4453", "1234567", "112233"])
            answers = e.evaluate(positions)
        own, other = (positions.cells() == side for side in (1, -1))
        planes = np.stack([own, other], -1)
        session = onnxruntime.InferenceSession(self.folder / "pgx.onnx", providers=["CPUExecutionProvider"])
        by_name = dict(zip((o.name for o in session.get_outputs()), session.run(None, {session.get_inputs()[0].name: planes})))
        value = next(v for v in by_name.values() if v.size == len(positions)).ravel()
        asked = np.array([source == "ort-cpu" for source in answers.source])
        self.assertGreater(asked.sum(), 2)
        np.testing.assert_allclose(answers.value[asked], value[asked], atol=1e-6)

    def test_searches(self) -> None:
        """Searches and self-play take such a file by its name, as they take functions."""
        file = self.file("open_spiel")
        found = evald.search(["44", "4453"], network=file, visits=30)
        self.assertTrue((found.visits.sum(1) > 0).all())
        games = list(evald.selfplay(2, network=file, visits=6))
        self.assertEqual(len(games), 2)

    def test_errors(self) -> None:
        """A description that does not fit, and a library that is none, are errors with the way out."""
        with self.assertRaisesRegex(evald.EvaldError, "layout NCHW with 2 planes"):
            evald.Evaluator(self.file("pgx", "rules: 7x6x4\n"))
        with self.assertRaisesRegex(evald.EvaldError, "ort-cuda|cuda"):
            evald.Evaluator(self.file("pgx"), backend="ort-cuda")
        with self.assertRaisesRegex(evald.EvaldError, "pip install onnxruntime"):
            evald.Evaluator(self.file("pgx"), ort=dict(library="/nowhere/libonnxruntime.so"))


if __name__ == "__main__":
    unittest.main()
