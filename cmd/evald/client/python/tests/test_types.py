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
            done = subprocess.run([*mypy, "evald"], cwd=folder, capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            # A wrong type in a user's program is found, so the package's own types reach it.
            wrong = pathlib.Path(cache) / "wrong.py"
            wrong.write_text("import evald\nvalue: str = evald.evaluate('4').value\n")
            done = subprocess.run([*mypy, str(wrong)], cwd=folder, capture_output=True, text=True)
            self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
            self.assertIn("wrong.py:2: error: Incompatible types", done.stdout)


if __name__ == "__main__":
    unittest.main()
