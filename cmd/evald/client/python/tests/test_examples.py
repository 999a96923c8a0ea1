"""The examples in docstrings, as tests."""
import doctest
import importlib
import pkgutil
import unittest

import evald

# The module of evald that a framework is for, with what it needs.
FRAMEWORKS = {
    "openspiel": "pyspiel", "pettingzoo": "pettingzoo", "gymnasium": "gymnasium", "torch": "torch", "mctx": "mctx", "columns": "pandas", "duckdb": "duckdb",
    "ray": "ray",
}


class Examples(unittest.TestCase):
    def test_all_modules(self) -> None:
        tried = 0
        for module in pkgutil.iter_modules(evald.__path__):
            with self.subTest(module.name):
                needed = FRAMEWORKS.get(module.name)
                if needed is not None:
                    try:
                        importlib.import_module(needed)
                    except ImportError:
                        self.skipTest(f"{needed} is missing")
                result = doctest.testmod(importlib.import_module("evald." + module.name), verbose=False)
                self.assertEqual(result.failed, 0)
                tried += result.attempted
        self.assertGreater(tried, 5, "examples are found")


if __name__ == "__main__":
    unittest.main()
