"""Docstrings name every argument of the public functions, classes and methods."""
from __future__ import annotations

import inspect
import re
import unittest

from public import callables, public

from evald._values import Value


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


if __name__ == "__main__":
    unittest.main()
