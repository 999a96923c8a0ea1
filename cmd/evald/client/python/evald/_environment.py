"""Games to play in, thousands at once."""
from __future__ import annotations

from typing import Any, Sequence

import numpy as np
import numpy.typing as npt

from . import _arguments as arguments
from ._library import EvaldError, error_text, failed, library
from ._positions import Board, Positions, PositionsLike, board


class Environment:
    """`n` games of the same `rules`, played at once. The caller plays both sides.

    `step` plays one action in each game. The reward is 1 for an action that wins, else 0. With
    `reset` True, step resets a game that is over; otherwise the game stays over and accepts no
    action. What the methods return never changes afterwards.

    >>> games = Environment(2)
    >>> rewards, done = games.step([3, 3])
    >>> int(games.cells()[0, 5, 3])          # the other side's stone: the sides take turns
    -1
    """

    def __init__(self, n: int = 1, rules: str | Board = "7x6x4", *, reset: bool = True) -> None:
        self.board = board(rules)
        self._reset = int(arguments.flag("reset", reset))
        self._connect(Positions.empty(n, self.board).words)

    def _connect(self, words: npt.NDArray[np.uint64]) -> None:
        """Plays in the given memory [N,4], and allocates that of the other arguments of each step."""
        n = len(words)
        self._words, self._shape = words, (n,)
        self._rewards, self._done = np.empty(n, np.float32), np.empty(n, np.uint8)
        self._over = self._done.view(np.bool_)
        self._actions, self._error = np.empty(n, np.int64), error_text()
        self._step = library.step
        self._at = (self.board._number, n, *(library.pointer(a) for a in (self._words, self._actions, self._rewards, self._done)))

    def __getstate__(self) -> dict[str, Any]:
        of_calls = ("_shape", "_rewards", "_done", "_over", "_actions", "_error", "_step", "_at")  # memory and numbers of this process
        return {**{name: value for name, value in self.__dict__.items() if name not in of_calls}, "_words": self._words.copy()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._connect(np.array(self._words, order="C"))

    def __len__(self) -> int:
        return len(self._words)

    @property
    def positions(self) -> Positions:
        """A copy of the positions [N]. Positions that are assigned replace those of the games."""
        return Positions._of(self._words.copy(), self.board)

    @positions.setter
    def positions(self, of: PositionsLike) -> None:
        given = Positions(of, self.board)
        if len(given) != len(self):
            raise EvaldError(f"there are {len(given)} positions, and must be one for each of {len(self)} games")
        self._words[:] = given.words

    def reset(self, which: Sequence[bool] | npt.NDArray[np.bool_] | None = None) -> None:
        """Empties all boards, or those of a mask `which` [N]."""
        self._words[slice(None) if which is None else arguments.mask("which", which, len(self))] = 0

    def step(self, actions: Sequence[int] | npt.NDArray[Any]) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.bool_]]:
        """Plays `actions` [N], counted from 0. Returns rewards [N] for the sides that played, and
        done [N], True for games that are over. An illegal action raises an EvaldError that names
        the game, and no action is played."""
        if type(actions) is not np.ndarray or actions.dtype.kind != "i" or actions.shape != self._shape:
            actions = arguments.each("actions", actions, len(self))
        self._actions[:] = actions
        status = self._step(*self._at, self._reset, self._error)
        if status != 0:
            raise failed(status, self._error)
        return self._rewards.copy(), self._over.copy()

    def legal(self) -> npt.NDArray[np.bool_]:
        """[N,A] True for legal actions."""
        return Positions._of(self._words, self.board).legal()

    def cells(self) -> npt.NDArray[np.int8]:
        """[N,H,W] as Positions.cells: 1 the side to move, -1 the other side."""
        return Positions._of(self._words, self.board).cells()

    def observation(self) -> npt.NDArray[np.bool_]:
        """[N,H,W,2] stones of the side to move, then of the other side, as in PettingZoo and Pgx."""
        cells = self.cells()
        return np.stack([cells == 1, cells == -1], -1)
