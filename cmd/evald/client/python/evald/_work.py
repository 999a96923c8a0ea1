"""Calls that take long: waiting for them in short turns, so that an interrupt ends them, and a function of the user's as their network."""
from __future__ import annotations

import ctypes
from types import TracebackType
from typing import Any, Callable, Protocol, Sequence

import numpy as np
import numpy.typing as npt

from ._library import EvaldError, Event, error_text, failed, library
from ._positions import Board, Positions

ENDED, NOTHING, ASKED, PLAYED = range(4)
TURN = 100  # milliseconds of a wait: what an interrupt takes at most

Array = npt.NDArray[Any]


class Network(Protocol):
    """A function as a network. It takes Positions, whose planes(), cells() or words it uses, and returns the policy [N,A] and either win, draw
    and loss [N,3] or the value [N], -1 to 1, for the side to move. They may be numpy arrays or torch tensors; rows need not sum to 1. Moves that
    cannot be played are masked."""

    def __call__(self, positions: Positions, /) -> tuple[Any, Any]: ...


class Work:
    """A call of the library that takes long. It is a context manager, which ends the call at its end."""

    def __init__(self, number: int, of: Board, network: Network | None, error: ctypes.Array[ctypes.c_char], keep: Sequence[Any]) -> None:
        if number < 0:
            raise failed(number, error)
        self._number, self._board, self._network = number, of, network
        self._error, self._event = error, Event()
        self._keep = keep  # the memory that the call writes to

    def __enter__(self) -> Work:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        library.release(self._number)

    @property
    def done(self) -> int:
        """The number of things that the call has done."""
        return int(self._event.done)

    def wait(self, progress: Callable[[int, int], object] | None = None) -> Event | None:
        """The next game, or None when the call has ended. progress is called with the number of things that are done, and that of
        all."""
        while True:
            what = library.wait(self._number, TURN, self._event, self._error)
            if progress is not None:
                progress(self._event.done, self._event.all)
            if what < 0:
                raise failed(what, self._error)
            if what == ENDED:
                return None
            if what == PLAYED:
                return self._event
            if what == ASKED:
                self._answer()

    def _answer(self) -> None:
        """Lets the user's function compute a batch."""
        assert self._network is not None
        rows = int(self._event.rows)
        words = np.empty((rows, 4), np.uint64)
        if rows > 0:
            library.batch(self._number, rows, library.pointer(words), self._error)
        try:
            policy, value = self._network(Positions.of_words(words, self._board)) if rows > 0 else ([], [])
            policy = _array("policy", policy, (rows, self._board.actions))
            wdl = _wdl(value, rows)
        except BaseException as error:
            library.answer(self._number, 0, None, None, f"the network's function raised {error!r}"[:1000].encode(), self._error)
            raise
        status = library.answer(self._number, rows, library.pointer(wdl), library.pointer(policy), None, self._error)
        if status != 0:
            raise failed(status, self._error)


def _numpy(of: Any) -> Array:
    if hasattr(of, "detach"):  # torch's tensors, also those on a GPU or of bfloat16, which numpy does not know
        of = of.detach().float().cpu().numpy()
    return np.asarray(of)


def _array(name: str, of: Any, shape: tuple[int, ...]) -> Array:
    array = _numpy(of)
    if array.shape != shape:
        raise EvaldError(f"the network's function answers {name} of shape {list(array.shape)}, want {list(shape)}")
    return np.ascontiguousarray(array, np.float32)


def _wdl(of: Any, rows: int) -> Array:
    """Win, draw and loss [N,3], also from values alone: half of what is left of 1 goes to each side."""
    array = _numpy(of)
    if array.shape in ((rows,), (rows, 1)):
        value = np.asarray(array, np.float32).reshape(rows)
        if not (np.abs(value) <= 1.001).all():
            raise EvaldError(f"the network's function answers values from {value.min()} to {value.max()}, want -1 to 1")
        value = value.clip(-1, 1)
        return np.stack([(1 + value) / 2, np.zeros_like(value), (1 - value) / 2], 1)
    return _array("win, draw and loss, or value,", array, (rows, 3))

