"""Docstrings name every argument of the public functions, classes and methods."""
from __future__ import annotations

import ast
import inspect
import pathlib
import re
import sys
import unittest

from public import callables, public

import evald
from evald._values import Value

HERE = pathlib.Path(evald.__file__).parent


def documented(name: str) -> set[str]:
    """The names in backticks in the docstring of a public name, and of a method's class."""
    of, (owner, _, member) = public(), name.rpartition(".")
    told = [of[name]] if name in of else [of[owner], getattr(of[owner], member)]
    return set(re.findall(r"`(\w+)`", "\n".join(inspect.getdoc(one) or "" for one in told)))


class Docstrings(unittest.TestCase):
    def test_arguments(self) -> None:
        of, found = public(), callables()
        made = {name for name in found if name in of and inspect.isclass(of[name]) and issubclass(of[name], Value)}  # by evald, never by callers
        for name in sorted(found.keys() - made):
            with self.subTest(name):
                self.assertEqual(found[name].parameters.keys() - documented(name), set(), f"the docstring of evald.{name} does not say what these arguments are: name them in `backticks`")

    def test_frameworks(self) -> None:
        """docs/build.py documents the modules without the frameworks that they import at their top."""
        tree = ast.parse((HERE.parent / "docs" / "build.py").read_text())
        replaced = next(ast.literal_eval(one.value) for one in tree.body if isinstance(one, ast.Assign) and ast.unparse(one.targets[0]) == "FRAMEWORKS")
        for file in sorted(HERE.glob("[!_]*.py")):
            for one in ast.parse(file.read_text()).body:
                names = [a.name for a in one.names] if isinstance(one, ast.Import) else [one.module or ""] if isinstance(one, ast.ImportFrom) and not one.level else []
                for name in (name.partition(".")[0] for name in names):
                    known = name in replaced or name in sys.stdlib_module_names or name == "numpy"
                    self.assertTrue(known, f"{file.name} imports {name}, which FRAMEWORKS of docs/build.py does not replace")


if __name__ == "__main__":
    unittest.main()
