"""Positions of one game as an array, and their forms."""
from __future__ import annotations

import ctypes
import json
from typing import Any, Iterable, Mapping, NamedTuple, Sequence, Union

import numpy as np
import numpy.typing as npt

from ._library import EvaldError, error_text, failed, library, thread

Words = npt.NDArray[np.uint64]

# The forms of positions that functions of this package accept; see Positions.
PositionsLike = Union["Positions", str, Sequence[Any], npt.NDArray[Any], Mapping[str, Any]]


class Board(NamedTuple):
    """A game: its rules, such as "7x6x4" (columns x rows x in-a-row), and the numbers that follow from them."""

    number: int  # in the library
    rules: str
    columns: int
    rows: int
    in_a_row: int
    actions: int
    cells: int


_boards: dict[str, Board] = {}


def board(rules: str | Board) -> Board:
    """The board of rules. Invalid rules raise an EvaldError."""
    if isinstance(rules, Board):
        return rules
    if not isinstance(rules, str):
        raise EvaldError(f"rules are {rules!r}, and must be text such as '7x6x4'")
    known = _boards.get(rules)
    if known is None:
        shape, error = (ctypes.c_longlong * 5)(), error_text()
        number = library.board(rules.encode(), shape, error)
        if number < 0:
            raise failed(number, error)
        known = _boards[rules] = Board(number, rules, *shape)
    return known


class Positions:
    """Positions of one game.

    They can be made of

    - moves as text, "445566", "-" for the empty board, or a list, an array or a pandas Series of such texts; columns count from 1,
    - boards as integers [N,H,W] or [H,W], top row first. 1 and 2 are the first and the second player, and the side to move follows from the numbers
      of stones; or 1 is the side to move and -1 the other side,
    - bitboards as uint64 [N,2], own and all stones, where cell r of column c, counted from 0 at the bottom left, is bit c * (rows + 1) + r; or [N,4],
      own low and high, all low and high, which boards of more than 64 bits require,
    - observations of Kaggle's connectx, with `board` and `mark`, or a list of them,
    - other Positions.

    `words` is uint64 [N,4] as above. Positions that no game reaches raise an EvaldError that names the first one.
    """

    __slots__ = ("board", "words")

    def __init__(self, of: PositionsLike, rules: str | Board | None = None) -> None:
        self.board: Board
        self.words: Words
        if isinstance(of, Positions):
            if rules is not None and board(rules) != of.board:
                raise EvaldError(f"positions are of {of.board.rules}, and the rules are {board(rules).rules}")
            self.board, self.words = of.board, of.words
            return
        self.board = board("7x6x4" if rules is None else rules)
        if isinstance(of, np.ndarray):
            self.words = self._from_array(of)
        elif isinstance(of, str):
            self.words = self._from_text([of])
        elif _observed(of):
            self.words = self._from_observations([of])
        elif isinstance(of, Sequence) and all(isinstance(one, str) for one in of):
            self.words = self._from_text(of)
        elif isinstance(of, Sequence) and all(_observed(one) for one in of):
            self.words = self._from_observations(of)
        else:
            try:
                array = np.asarray(of)
            except ValueError as error:
                raise EvaldError(f"positions have an unknown form: {error}") from None
            self.words = self._from_array(array)

    @classmethod
    def of_words(cls, words: Words, of: Board) -> Positions:
        """Positions that use the given memory [N,4], which is not checked."""
        self = cls.__new__(cls)
        self.board, self.words = of, words
        return self

    @classmethod
    def empty(cls, n: int, rules: str | Board = "7x6x4") -> Positions:
        """n empty boards."""
        return cls.of_words(np.zeros((n, 4), np.uint64), board(rules))

    def _call(self, name: str, *arguments: Any) -> None:
        error = thread.error
        status = getattr(library, name)(self.board.number, len(self.words), *arguments, error)
        if status != 0:
            raise failed(status, error)

    def _from_text(self, lines: Sequence[str]) -> Words:
        try:
            text = "\n".join(lines).encode(errors="replace")
        except TypeError:
            i, line = next((i, line) for i, line in enumerate(lines) if not isinstance(line, str))
            raise EvaldError(f"position {i} is {line!r}, and must be text") from None
        n = len(lines)
        self.words = np.zeros((n, 4), np.uint64)
        if n > 0:
            if text.count(b"\n") != n - 1:
                raise EvaldError("a position in text is one line")
            self._call("parse", text, len(text), library.pointer(self.words))
        return self.words

    def _from_observations(self, observations: Sequence[Any]) -> Words:
        boards = []
        for i, one in enumerate(observations):
            cells = np.asarray(_field(one, "board"))
            if cells.size != self.board.cells:
                raise EvaldError(f"position {i}: board has {cells.size} cells, and {self.board.rules} has {self.board.cells}")
            boards.append(cells.reshape(self.board.rows, self.board.columns))
        words = self._from_array(np.asarray(boards, np.int64))
        for i, one in enumerate(observations):
            stones = int((np.asarray(boards[i]) != 0).sum())
            if _field(one, "mark") != 1 + stones % 2:
                raise EvaldError(f"position {i}: mark is {_field(one, 'mark')}, but with {stones} stones player {1 + stones % 2} is to move")
        return words

    def _from_array(self, array: npt.NDArray[Any]) -> Words:
        b = self.board
        if array.dtype.kind in "UOT" and array.ndim == 1:
            return self._from_text(array.tolist())
        words = bitboards(array)
        if words is not None:
            self.words = words
            self._call("check", library.pointer(words))
            return words
        if array.ndim not in (2, 3) or array.shape[-2:] != (b.rows, b.columns) or array.dtype.kind not in "iub":
            raise EvaldError(
                f"positions are an array of {array.dtype} {list(array.shape)}, and must be text [N], uint64 [N,2] or [N,4], or integers "
                f"[N,{b.rows},{b.columns}] with the cells of {b.rules}"
            )
        small = array.reshape(-1, b.rows, b.columns)
        low, high = (int(small.min()), int(small.max())) if small.size else (0, 0)
        if low < -1 or high > 2 or (low < 0 and high > 1):
            raise EvaldError(f"positions have cells from {low} to {high}, and must have 0, 1 and 2 (players), or 0, 1 and -1 (sides)")
        cells = np.ascontiguousarray(small, np.int8)
        self.words = np.empty((len(cells), 4), np.uint64)
        if len(cells) > 0:
            self._call("from_cells", library.pointer(cells), int(low >= 0), library.pointer(self.words))
        return self.words

    def __len__(self) -> int:
        return len(self.words)

    def __getitem__(self, rows: Any) -> Positions:
        if isinstance(rows, (int, np.integer)):
            rows = slice(rows, rows + 1 or None)
        return Positions.of_words(np.ascontiguousarray(self.words[rows]), self.board)

    def __repr__(self) -> str:
        return f"<{len(self)} positions of {self.board.rules}>"

    @property
    def stones(self) -> npt.NDArray[np.int64]:
        """[N] the number of stones on each board."""
        bits = np.unpackbits(self.words[:, 2:].copy().view(np.uint8), axis=1)
        stones: npt.NDArray[np.int64] = bits.sum(1, dtype=np.int64)
        return stones

    def cells(self) -> npt.NDArray[np.int8]:
        """[N,H,W], top row first: 1 the side to move, -1 the other side, 0 empty."""
        cells = np.empty((len(self), self.board.rows, self.board.columns), np.int8)
        self._call("cells", library.pointer(self.words), library.pointer(cells))
        return cells

    def planes(self, planes: Sequence[str] | None = None, *, layout: str = "NCHW", rows: str = "top") -> npt.NDArray[np.float32]:
        """[N,5,H,W] the input of evald's own networks: own stones, the other side's stones, playable cells, parity (1 in the rows that the side to move
        will fill if the columns fill up to the end), and a plane of in-a-row / 4.

        With `planes`, the input of another network: each plane is a sum of own, other, first, second, empty, ones, player (0 or 1), playable, parity and
        inarow. `layout` is NCHW, NHWC, NHW (one plane) or NF (flat); `rows` says whether the first row is the top or the bottom one.

        >>> Positions("445", "7x2x4").planes(["own-other"], layout="NHW")[0]
        array([[ 0.,  0.,  0.,  1.,  0.,  0.,  0.],
               [ 0.,  0.,  0., -1., -1.,  0.,  0.]], dtype=float32)
        """
        h, w = self.board.rows, self.board.columns
        shape: tuple[int, ...] = (5, h, w)
        description = b""
        if planes is not None:
            c = len(planes)
            shapes: dict[str, tuple[int, ...]] = {"NHWC": (h, w, c), "NHW": (h, w), "NF": (c * h * w,)}
            shape = shapes.get(layout, (c, h, w))
            description = json.dumps(dict(planes=list(planes), layout=layout, rows=rows)).encode()
        filled = np.empty((len(self), *shape), np.float32)
        self._call("planes", description, library.pointer(self.words), library.pointer(filled))
        return filled

    def legal(self) -> npt.NDArray[np.bool_]:
        """[N,A] True for legal actions; all False if the game is over."""
        mask = np.empty((len(self), self.board.actions), np.uint8)
        self._call("legal", library.pointer(self.words), library.pointer(mask))
        return mask.view(np.bool_)

    def results(self) -> npt.NDArray[np.int8]:
        """[N] results of the games for the side to move: 1 won, -1 lost, 0 drawn, 2 not over."""
        results = np.empty(len(self), np.int8)
        self._call("results", library.pointer(self.words), library.pointer(results))
        return results

    def play(self, actions: Iterable[int] | npt.NDArray[Any] | int) -> Positions:
        """The positions after one action in each, counted from 0."""
        after = Positions.of_words(self.words.copy(), self.board)
        n = len(self)
        moves = np.ascontiguousarray(np.broadcast_to(np.asarray(actions), (n,)), np.int32)
        rewards, done = np.empty(n, np.float32), np.empty(n, np.uint8)
        after._call("step", library.pointer(after.words), library.pointer(moves), library.pointer(rewards), library.pointer(done), 0)
        return after

    def text(self) -> list[str]:
        """[N] boards as lines of text, top row first: X is the first player, O the second, . an empty cell.

        >>> print(Positions("445", "7x2x4").text()[0])
        . . . O . . .
        . . . X X . .
        """
        first = np.where(self.stones % 2 == 0, 1, -1)[:, None, None]  # the first player's stones in cells()
        return ["\n".join(" ".join(".XO"[cell] for cell in row) for row in board) for board in self.cells() * first]

    def _repr_svg_(self) -> str:
        """A picture of the first position, for notebooks."""
        return svg(self[:1])


def bitboards(array: npt.NDArray[Any]) -> Words | None:
    """The words [N,4] of an array of bitboards in one of the forms that Positions accepts, which are not checked, or None for another array."""
    if array.dtype != np.uint64 or array.ndim not in (1, 2) or array.shape[-1] not in (2, 4):
        return None
    if array.shape[-1] == 4:
        return np.ascontiguousarray(array.reshape(-1, 4))
    words = np.zeros((array.size // 2, 4), np.uint64)
    words[:, ::2] = array.reshape(-1, 2)
    return words


def _field(observation: Any, name: str) -> Any:
    return observation[name] if isinstance(observation, Mapping) else getattr(observation, name)


def _observed(of: Any) -> bool:
    if isinstance(of, Mapping):
        return "board" in of and "mark" in of
    return not isinstance(of, (str, np.ndarray, list, tuple)) and hasattr(of, "board") and hasattr(of, "mark")


def svg(one: Positions, policy: npt.NDArray[np.float32] | None = None) -> str:
    """A picture of a position. The first player's stones are red, the second player's yellow. policy [A] shades the columns."""
    b, size = one.board, 40
    cells = one.cells()[0] if len(one) else np.zeros((b.rows, b.columns), np.int8)
    first = 1 if int((cells != 0).sum()) % 2 == 0 else -1  # the first player's stones in cells
    width, height = b.columns * size, b.rows * size
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}">'
        f'<title>{b.rules}</title><rect width="{width}" height="{height}" rx="6" fill="#1f4e9c"/>'
    ]
    if policy is not None and b.actions == b.columns:
        for column, share in enumerate(policy):
            parts.append(f'<rect x="{column * size}" width="{size}" height="{height}" fill="#fff" opacity="{0.6 * float(share):.3f}"/>')
    for row in range(b.rows):
        for column in range(b.columns):
            cell = int(cells[row, column])
            colour = "#f4f6fa" if cell == 0 else "#d6322c" if cell == first else "#f2c230"
            parts.append(f'<circle cx="{column * size + size // 2}" cy="{row * size + size // 2}" r="{size * 2 // 5}" fill="{colour}"/>')
    return "".join(parts) + "</svg>"
