"""The argument progress of long calls."""
from __future__ import annotations

from typing import Any, Callable, Union

from . import _arguments as arguments
from ._library import EvaldError

Progress = Union[Callable[[int, int], object], bool]  # a function of the numbers of items done and of all; True: a bar


def progress_of(progress: Progress | None) -> Callable[[int, int], object] | None:
    """The function for the argument progress. True is a bar of tqdm."""
    if isinstance(progress, bool):
        return _Bar() if progress else None
    checked: Callable[[int, int], object] | None = arguments.function("progress", progress)
    return checked


class _Bar:
    """A bar of tqdm, in notebooks as a widget."""

    def __init__(self) -> None:
        try:
            from tqdm.auto import tqdm
        except ImportError:
            raise EvaldError("progress is True, and needs tqdm, which is not installed: pip install tqdm; or give a function of the numbers done and all") from None
        self._make: Callable[..., Any] = tqdm
        self._bar: Any = None  # appears with the first numbers

    def __call__(self, done: int, all: int) -> None:
        if self._bar is None:
            self._bar = self._make(total=all or None)
        self._bar.update(done - self._bar.n)
        if done == all:
            self._bar.close()
