"""Long calls. They are polled at short intervals, so that an interrupt can end them, and so that a Python function can be their network."""
from __future__ import annotations

import ctypes
from types import TracebackType
from typing import Any, Callable, Protocol, Sequence, Union

import numpy as np
import numpy.typing as npt

from ._library import LOST, EvaldError, Event, error_text, failed, library, thread, told
from ._positions import Board, Positions

ENDED, NOTHING, ASKED, PLAYED = range(4)
TURN = 100  # milliseconds of a wait, and so the maximum delay of an interrupt

Array = npt.NDArray[Any]


class Network(Protocol):
    """A function as a network. It is called with Positions, from which it can take planes(), cells() or words. It returns the policy [N,A], and either
    win, draw and loss [N,3] or the value [N], -1 to 1, for the side to move. These may be numpy arrays, torch tensors, lists, or arrays of any
    framework with DLPack, such as jax. Rows need not sum to 1, and illegal moves are masked.

    A call with `sizes`, such as (1, 8, 64, 256), calls the function with these numbers of positions
    alone, so that a compiler like jax.jit compiles it once for each: the last position is repeated
    up to the smallest size that has room for a batch, and the answers to the copies are dropped."""

    def __call__(self, positions: Positions, /) -> tuple[Any, Any]: ...


class Work:
    """A long call of the library, as a context manager that ends the call on exit. `network` is the caller's function, or several for a call that
    numbers them, and is called with batches of the `sizes`, if there are any."""

    def __init__(self, number: int, of: Board, network: Union[Network, list[Network], None], error: ctypes.Array[ctypes.c_char], keep: Sequence[Any],
                 sizes: Sequence[int] = ()) -> None:
        if number < 0:
            raise failed(number, error)
        self._number, self._board, self._sizes = number, of, sorted(sizes)
        self._networks = network if isinstance(network, list) else [network]
        self._error, self._event = error, Event()
        self._keep = keep  # keeps the memory alive to which the call writes

    def __enter__(self) -> Work:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        status = library.release(self._number, self._error)
        if status not in (0, LOST) and value is None:
            raise failed(status, self._error)

    @property
    def done(self) -> int:
        """The number of items that the call has processed."""
        return int(self._event.done)

    def wait(self, progress: Callable[[int, int], object] | None = None) -> Event | None:
        """Waits for the next game, and returns it, or None when the call has ended. Calls progress with the number of items processed, and of all
        items."""
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

    def result(self) -> Any:
        """The result of a call that has ended, of the calls that have one."""
        return told(library.result, self._number)

    def _answer(self) -> None:
        """Calls the user's function with a batch and passes on its answer."""
        network = self._networks[self._event.number]
        assert network is not None
        rows = int(self._event.rows)
        words = np.empty((rows, 4), np.uint64)
        if rows > 0:
            status = library.batch(self._number, rows, library.pointer(words), self._error)
            if status == LOST:  # the search has ended, and the next wait raises the reason
                return
            if status != 0:
                raise failed(status, self._error)
        try:
            thread.kept.append(self._keep)
            policy, wdl = self._ask(network, words)
        except BaseException as error:
            library.answer(self._number, 0, None, None, f"the network's function raised {error!r}"[:1000].encode(), self._error)
            raise
        finally:
            thread.kept.pop()
        status = library.answer(self._number, rows, library.pointer(wdl), library.pointer(policy), None, self._error)
        if status != 0:
            raise failed(status, self._error)


    def _ask(self, network: Network, words: npt.NDArray[np.uint64]) -> tuple[Array, Array]:
        """Policy and win, draw and loss of a batch."""
        if len(words) == 0:  # the search has ended
            return np.zeros((0, self._board.actions), np.float32), np.zeros((0, 3), np.float32)
        most = self._sizes[-1] if self._sizes else len(words)
        parts = []
        for i in range(0, len(words), most):
            part = words[i : i + most]
            rows = len(part)
            size = next((size for size in self._sizes if size >= rows), rows)
            if size > rows:
                part = np.concatenate([part, np.repeat(part[-1:], size - rows, 0)])
            policy, wdl = answered(network, Positions._of(part, self._board))
            parts.append((policy[:rows], wdl[:rows]))
        return parts[0] if len(parts) == 1 else (np.concatenate([p for p, _ in parts]), np.concatenate([w for _, w in parts]))


def answered(network: Network, positions: Positions) -> tuple[Array, Array]:
    """A function's policy [N,A], and win, draw and loss [N,3], as it answers them."""
    policy, value = network(positions)
    n = len(positions)
    return _array("policy", policy, (n, positions.board.actions)), _wdl(value, n)


def _numpy(of: Any) -> Array:
    if hasattr(of, "detach"):  # torch tensors, possibly on a GPU or in bfloat16, which numpy does not support
        of = of.detach().float().cpu().numpy()
    elif hasattr(of, "__dlpack__") and not hasattr(of, "__array__"):
        try:
            of = np.from_dlpack(of)
        except (BufferError, RuntimeError, TypeError) as error:
            raise EvaldError(f"the network's function answers {type(of).__name__}, whose memory numpy cannot read: {error}") from None
    return np.asarray(of)


def _array(name: str, of: Any, shape: tuple[int, ...]) -> Array:
    array = _numpy(of)
    if array.dtype.kind in "USTmM":
        raise EvaldError(f"the network's function answers {name} of {array.dtype}, want numbers")
    if array.shape != shape:
        raise EvaldError(f"the network's function answers {name} of shape {list(array.shape)}, want {list(shape)}")
    return np.ascontiguousarray(array, np.float32)


def _wdl(of: Any, rows: int) -> Array:
    """Win, draw and loss [N,3]. From values v alone they are (1+v)/2, 0 and (1-v)/2."""
    array = _numpy(of)
    if array.shape in ((rows,), (rows, 1)):
        value = np.asarray(array, np.float32).reshape(rows)
        if not (np.abs(value) <= 1.001).all():
            raise EvaldError(f"the network's function answers values from {value.min()} to {value.max()}, want -1 to 1")
        value = value.clip(-1, 1)
        return np.stack([(1 + value) / 2, np.zeros_like(value), (1 - value) / 2], 1)
    return _array("win, draw and loss, or value,", array, (rows, 3))

