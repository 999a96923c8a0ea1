"""Objects that are values: equal if their contents are, with pickles and copies that share nothing with the original."""
from __future__ import annotations

import copy
from typing import Any, Iterator

import numpy as np


class Value:
    """Base of classes whose attributes are arrays, Positions, numbers and sources. Sources are codes of this process, and travel as names."""

    __slots__ = ()
    __hash__: Any = None

    def _contents(self) -> Iterator[tuple[str, Any]]:
        slots = [name for kind in type(self).__mro__ for name in kind.__dict__.get("__slots__", ())]
        for name in [*slots, *getattr(self, "__dict__", ())]:
            if name == "_codes":
                yield name, self._names()
            elif hasattr(self, name):
                yield name, getattr(self, name)

    def _names(self) -> list[str]:
        from ._evaluator import names

        return names(getattr(self, "_codes"))

    def __getstate__(self) -> dict[str, Any]:
        return {name: copy.copy(value) for name, value in self._contents()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        for name, value in state.items():
            setattr(self, name, value)

    def __eq__(self, other: object) -> Any:
        if not isinstance(other, Value) or type(self) is not type(other):
            return NotImplemented
        mine, theirs = dict(self._contents()), dict(other._contents())
        return mine.keys() == theirs.keys() and all(_same(mine[name], theirs[name]) for name in mine)


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        return np.array_equal(a, b, equal_nan=a.dtype.kind == "f" and b.dtype.kind == "f")
    return type(a) is type(b) and bool(a == b)
