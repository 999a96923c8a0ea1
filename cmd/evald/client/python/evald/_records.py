"""Training records that evald's commands write."""
from __future__ import annotations

import glob
import os
from typing import Any, Iterable, Union

import numpy as np
import numpy.typing as npt

from ._evaluator import names
from . import _arguments as arguments
from ._library import EvaldError, error_text, failed, library
from ._positions import Board, Positions, board
from ._search import Progress
from ._values import Value
from ._work import Work


class Records(Value):
    """Records of one game, one row per position. Values are for the side to move.

    `positions`; `visits` [N,A] of the search (all 0 without a search); `q` [N] the search's value; `z` [N] the game's result (1, 0, -1); `gameover` [N]
    (0 not over, 2 the other side has won, 3 drawn); `ply` [N] the number of stones; `weight` [N] in the loss; `game` [N] the number of the game in its
    run (-1: none); `move` [N] the action that was played (-1: none); and `source` [N] of the answer.
    """

    def __init__(self, positions: Positions, columns: dict[str, npt.NDArray[Any]], codes: npt.NDArray[np.uint8]) -> None:
        self.positions = positions
        self.visits: npt.NDArray[np.uint32] = columns["visits"]
        self.q: npt.NDArray[np.float32] = columns["q"]
        self.weight: npt.NDArray[np.float32] = columns["weight"]
        self.z: npt.NDArray[np.int8] = columns["z"]
        self.gameover: npt.NDArray[np.uint8] = columns["gameover"]
        self.ply: npt.NDArray[np.int32] = columns["ply"]
        self.move: npt.NDArray[np.int32] = columns["move"]
        self.game: npt.NDArray[np.int64] = columns["game"]
        self._codes = codes

    @property
    def source(self) -> list[str]:
        """[N] the sources of the answers."""
        return names(self._codes)

    @property
    def policy(self) -> npt.NDArray[np.float32]:
        """[N,A] each action's share of the visits; all 0 without a search."""
        total = self.visits.sum(1, keepdims=True)
        shares: npt.NDArray[np.float32] = np.divide(self.visits, total, out=np.zeros(self.visits.shape, np.float32), where=total > 0)
        return shares

    def __len__(self) -> int:
        return len(self.q)

    def __repr__(self) -> str:
        return f"<{len(self)} records of {self.positions.board.rules}>"


def read(paths: Union[str, os.PathLike[str], Iterable[Union[str, os.PathLike[str]]]], rules: str | Board | None = None, *, progress: Progress | None = None) -> Records:
    """The records of Parquet files, given by paths or patterns such as "games/*.parquet". With `rules`, records of other games are skipped; otherwise
    all records must be of one game."""
    if isinstance(paths, bytes) or not isinstance(paths, (str, os.PathLike, Iterable)):
        raise arguments.wrong("paths", paths, "text, an os.PathLike, or a list of them")
    patterns = [arguments.path("paths", paths)] if isinstance(paths, (str, os.PathLike)) else [arguments.path(f"paths[{i}]", path) for i, path in enumerate(paths)]
    arguments.function("progress", progress)
    files: list[str] = []
    for pattern in patterns:
        found = sorted(glob.glob(pattern)) if glob.has_magic(pattern) else [pattern]
        if not found:
            raise EvaldError(f"{pattern}: there are no such files")
        files += found
    chosen, first, error = arguments.options(dict(files=files)), error_text(), error_text()
    n = library.records(chosen, first, len(first), error)
    if n < 0:
        raise failed(n, error)
    of = board(first.value.decode() or "7x6x4" if rules is None else rules)
    types = dict(visits=np.uint32, q=np.float32, weight=np.float32, z=np.int8, gameover=np.uint8, ply=np.int32, move=np.int32, game=np.int64)
    columns: dict[str, npt.NDArray[Any]] = {name: np.empty((n, of.actions) if name == "visits" else n, kind) for name, kind in types.items()}
    words, codes = np.empty((n, 4), np.uint64), np.empty(n, np.uint8)
    call = library.read(of._number, n, chosen, int(rules is not None), library.pointer(words), *(library.pointer(c) for c in columns.values()), library.pointer(codes), error)
    with Work(call, of, None, error, (words, columns, codes)) as work:
        work.wait(progress)
        rows = work.done
    return Records(Positions._of(words[:rows], of), {name: c[:rows] for name, c in columns.items()}, codes[:rows])
