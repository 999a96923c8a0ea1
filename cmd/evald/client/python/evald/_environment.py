"""Games to play in, thousands at once."""
from __future__ import annotations

from typing import Any, Sequence

import numpy as np
import numpy.typing as npt

from ._library import error_text, failed, library
from ._positions import Board, Positions, board


class Environment:
    """n games of the same rules, played at once. The caller plays both sides.

    `step` plays one action in each game. The reward is 1 for an action that wins, else 0. With `reset=True`, step resets a game that is over;
    otherwise the game stays over and accepts no action.

    >>> games = Environment(2)
    >>> rewards, done = games.step([3, 3])
    >>> int(games.cells()[0, 5, 3])          # the other side's stone: the sides take turns
    -1
    """

    def __init__(self, n: int = 1, rules: str | Board = "7x6x4", *, reset: bool = True) -> None:
        self.board = board(rules)
        self.positions = Positions.empty(n, self.board)
        self._reset = int(reset)
        self._rewards, self._done = np.empty(n, np.float32), np.empty(n, np.uint8)
        self._actions, self._error = np.empty(n, np.int32), error_text()
        self._step = library.step
        self._at = (self.board.number, n, *(library.pointer(a) for a in (self.positions.words, self._actions, self._rewards, self._done)))

    def __len__(self) -> int:
        return len(self._done)

    def reset(self, which: npt.NDArray[np.bool_] | None = None) -> None:
        """Empties all boards, or those of a mask [N]."""
        self.positions.words[slice(None) if which is None else which] = 0

    def step(self, actions: Sequence[int] | npt.NDArray[Any]) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.bool_]]:
        """Plays actions [N], counted from 0. Returns rewards [N] for the sides that played, and done [N], True for games that are over. The next
        step overwrites both arrays. An illegal action raises an EvaldError that names the game, and no action is played."""
        self._actions[:] = actions
        status = self._step(*self._at, self._reset, self._error)
        if status != 0:
            raise failed(status, self._error)
        return self._rewards, self._done.view(np.bool_)

    def legal(self) -> npt.NDArray[np.bool_]:
        """[N,A] True for legal actions."""
        return self.positions.legal()

    def cells(self) -> npt.NDArray[np.int8]:
        """[N,H,W] as Positions.cells: 1 the side to move, -1 the other side."""
        return self.positions.cells()

    def observation(self) -> npt.NDArray[np.bool_]:
        """[N,H,W,2] stones of the side to move, then of the other side, as in PettingZoo and Pgx."""
        cells = self.cells()
        return np.stack([cells == 1, cells == -1], -1)
