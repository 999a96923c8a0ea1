"""Positions of one game as an array, and their forms."""
from __future__ import annotations

import ctypes
import json
from typing import Any, Iterable, Iterator, Literal, Mapping, Sequence, Union

import numpy as np
import numpy.typing as npt

from . import _arguments as arguments
from ._library import EvaldError, error_text, failed, library, thread

Words = npt.NDArray[np.uint64]

LAYOUTS = ("NCHW", "NHWC", "NHW", "NF")
OWN_PLANES = ("own", "other", "playable", "parity", "inarow")  # those of evald's own networks

# The forms of positions that functions of this package accept; see Positions.
PositionsLike = Union["Positions", str, Sequence[Any], npt.NDArray[Any], Mapping[str, Any]]


class Board:
    """A game: its `rules`, such as "7x6x4" (columns x rows x in-a-row) or "3x3x3free" (without
    gravity), and the numbers that follow from them: `columns`, `rows`, `in_a_row`, `actions` and
    `cells`. Board(rules) is board(rules). Boards of the same rules are the same object, and none
    can be changed."""

    __slots__ = ("rules", "columns", "rows", "in_a_row", "actions", "cells", "_number")

    rules: str
    columns: int
    rows: int
    in_a_row: int
    actions: int
    cells: int
    _number: int  # in the library of this process

    def __new__(cls, rules: str | Board) -> Board:
        return board(rules)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{name}: a board cannot be changed")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"{name}: a board cannot be changed")

    def __reduce__(self) -> Any:  # another process gives the board another number
        return Board, (self.rules,)

    def __repr__(self) -> str:
        return f"Board({self.rules!r})"


_boards: dict[str, Board] = {}


def board(rules: str | Board) -> Board:
    """The board of `rules`, which are text such as "7x6x4", or a Board. Invalid rules raise an
    EvaldError."""
    if isinstance(rules, Board):
        return rules
    known = _boards.get(rules) if isinstance(rules, str) else None
    if known is None:
        text, shape, error = rules_text(rules), (ctypes.c_longlong * 5)(), error_text()
        number = library.board(text.encode(), shape, error)
        if number < 0:
            raise failed(number, error)
        columns, rows, in_a_row, actions, cells = shape
        usual = f"{columns}x{rows}x{in_a_row}" + ("free" if text.endswith("free") else "")  # 07x6x4 are the same rules
        made = object.__new__(Board)
        for name, value in dict(rules=usual, columns=columns, rows=rows, in_a_row=in_a_row, actions=actions, cells=cells, _number=number).items():
            object.__setattr__(made, name, value)
        known = _boards[text] = _boards.setdefault(usual, made)
    return known


def rules_text(rules: str | Board) -> str:
    """The text of rules, without a call of the library, so that the process can still be forked. `board` says whether it is valid."""
    if not isinstance(rules, (str, Board)):
        raise EvaldError(f"rules are {rules!r:.100}, and must be text such as '7x6x4', or a Board")
    return rules.rules if isinstance(rules, Board) else arguments.text("rules", rules)


class Positions:
    """Positions of one game, that of `rules`. None stands for 7x6x4, or for the game of Positions
    that are given.

    `of` can be

    - moves as text, "445566", "-" for the empty board, or a list, an array or a pandas Series of such texts; columns count from 1,
    - boards as integers [N,H,W] or [H,W], top row first. 1 and 2 are the first and the second player, and the side to move follows from the numbers
      of stones; or 1 is the side to move and -1 the other side,
    - bitboards as uint64 [N,2], own and all stones, where cell r of column c, counted from 0 at the bottom left, is bit c * (rows + 1) + r; or [N,4],
      own low and high, all low and high, which boards of more than 64 bits require,
    - observations of Kaggle's connectx, with `board` and `mark`, or a list of them,
    - other Positions, or a list of them.

    `words` is uint64 [N,4] as above, a copy of what was given, and `board` is the game. Positions that no game reaches raise an EvaldError that names
    the first one, here and, if `words` are changed to such, in every later use.

    Positions are a sequence: an index, a slice, or an array of indexes or of True and False chooses rows, as in numpy, and the result is always
    Positions, of their own memory. A wrong index raises an IndexingError. `one in positions` finds a position in any form. Positions with the same
    board and the same rows are equal. numpy.asarray(positions) has a copy of the words.

    >>> p = Positions(["44", "45", "445"])
    >>> p[-1] == Positions("445"), "45" in p, len(list(p)), Positions([p[2], p[0]]) == p[[2, 0]]
    (True, True, 3, True)
    """

    __slots__ = ("_board", "_words")
    __hash__: Any = None

    def __init__(self, of: PositionsLike, rules: str | Board | None = None) -> None:
        self._board: Board
        self._words: Words
        if isinstance(of, Positions):
            self._board, self._words = of._board, of._words.copy()
            if rules is not None and board(rules) is not of._board:
                raise EvaldError(f"positions are of {of._board.rules}, and the rules are {board(rules).rules}")
            return
        if not isinstance(of, (str, Sequence)) and not _observed(of):
            of = _array(of)
        if isinstance(of, np.ndarray) and of.dtype == object and of.ndim == 1:
            of = of.tolist()
        parts = [one for one in of if isinstance(one, Positions)] if isinstance(of, (list, tuple)) and has_board(of) else []
        if parts and len(parts) == len(of):
            self._board = parts[0]._board if rules is None else board(rules)
            for i, one in enumerate(parts):
                if one._board is not self._board:
                    raise EvaldError(f"positions {i} are of {one._board.rules}, and the rules are {self._board.rules}")
            self._words = np.concatenate([one._words for one in parts])
            return
        self._board = board("7x6x4" if rules is None else rules)
        if isinstance(of, np.ndarray):
            self._from_array(of)
        elif isinstance(of, str):
            self._from_text([of])
        elif _observed(of):
            self._from_observations([of])
        elif isinstance(of, Sequence) and any(isinstance(one, (str, Positions)) for one in of):
            self._from_text(of)
        elif isinstance(of, Sequence) and any(_observed(one) for one in of):
            self._from_observations(of)
        elif len(of) == 0:
            self._from_text([])
        else:
            self._from_array(_array(of))

    @classmethod
    def _of(cls, words: Words, of: Board) -> Positions:
        """Positions in the given memory [N,4], which only they use. It is checked when it is used."""
        self = cls.__new__(cls)
        self._board, self._words = of, words
        return self

    @classmethod
    def empty(cls, n: int, rules: str | Board = "7x6x4") -> Positions:
        """`n` empty boards of the game `rules`."""
        return cls._of(np.zeros((arguments.count("n", n, 0, arguments.MOST), 4), np.uint64), board(rules))

    @classmethod
    def from_played(cls, played: Any, player: Any, rules: str | Board = "7x6x4") -> Positions:
        """The positions of bitboards in the layout of Kaggle's board: bit n is cell n, row by row from the top left, in place of the columns of
        `words`. `played` has the cells with a stone, and `player` those of them whose stone is the second player's. Both are an integer, or [N]
        integers, of any size. `rules` is the game; the side to move follows from the numbers of stones. So are the bitboards of
        JamesMcGuigan/ai-games, `list_to_bitboard`.

        >>> Positions.from_played(0b1100001 << 35, 0b0100000 << 35).cells()[0, -1]  # stones in columns 1, 6 and 7
        array([-1,  0,  0,  0,  0,  1, -1], dtype=int8)
        """
        b = board(rules)
        bits = []
        for name, value in (("played", played), ("player", player)):
            array = np.atleast_1d(np.asarray(value, object))
            for i, one in enumerate(array.flat):
                if array.ndim != 1 or isinstance(one, (bool, np.bool_)) or not isinstance(one, (int, np.integer)):
                    raise EvaldError(f"{name} is {value!r:.100}, and must be an integer, or integers [N]")
                if not 0 <= int(one) < 1 << b.cells:
                    raise EvaldError(f"{name} {i} is {hex(one):.40}, and {b.rules} has {b.cells} cells: must be from 0 to {(1 << b.cells) - 1:#x}")
            bits.append([int(one) for one in array.flat])
        if len(bits[0]) != len(bits[1]):
            raise EvaldError(f"played has {len(bits[0])} positions and player {len(bits[1])}: must have equally many")
        for i, (all_stones, second) in enumerate(zip(*bits)):
            if second & ~all_stones:
                raise EvaldError(f"position {i}: player has the cells {second & ~all_stones:#x}, in which played has no stone")
        size = (b.cells + 7) // 8
        planes = [
            np.unpackbits(np.frombuffer(b"".join(one.to_bytes(size, "little") for one in of), np.uint8).reshape(-1, size), axis=1, bitorder="little")[:, : b.cells]
            for of in bits
        ]
        return cls((planes[0] + planes[1]).astype(np.int8).reshape(-1, b.rows, b.columns), b)

    def played(self) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
        """`played` and `player` [N], as from_played takes them: uint64, or Python's integers (object) on boards of more than 64 cells.

        >>> [f"{int(bits[0]):#x}" for bits in Positions("445").played()]
        ['0xc080000000', '0x80000000']
        """
        second = self.stones % 2 == 1  # is to move
        cells = self.cells()
        stones = cells != 0
        planes = (stones, stones & ((cells == 1) == second[:, None, None]))
        kind = np.uint64 if self.board.cells <= 64 else object
        packed = [np.packbits(plane.reshape(len(self), -1), axis=1, bitorder="little") for plane in planes]
        played, player = (np.array([int.from_bytes(row.tobytes(), "little") for row in rows], kind) for rows in packed)
        return played, player

    @property
    def board(self) -> Board:
        """The game."""
        return self._board

    @property
    def words(self) -> Words:
        """The bitboards [N,4]."""
        return self._words.view()  # a caller that changes its shape leaves this one as it is

    def _call(self, name: str, *arguments: Any) -> None:
        error = thread.error
        status = getattr(library, name)(self._board._number, len(self._words), *arguments, error)
        if status != 0:
            raise failed(status, error)

    def _from_text(self, lines: Sequence[str]) -> None:
        try:
            text = "\n".join(lines).encode(errors="replace")
        except TypeError:
            i, line = next((i, line) for i, line in enumerate(lines) if not isinstance(line, str))
            raise EvaldError(f"position {i} is {line!r:.100}, and must be text") from None
        n = len(lines)
        self._words = np.zeros((n, 4), np.uint64)
        if n > 0:
            if text.count(b"\n") != n - 1:
                raise EvaldError("a position in text is one line")
            self._call("parse", text, len(text), library.pointer(self._words))

    def _from_observations(self, observations: Sequence[Any]) -> None:
        boards, marks = [], []
        for i, one in enumerate(observations):
            if not _observed(one):
                raise EvaldError(f"position {i} is {one!r:.100}, and must have board and mark")
            cells = arguments.whole(f"position {i}: cell", _field(one, "board"))
            if cells.size != self.board.cells:
                raise EvaldError(f"position {i}: board has {cells.size} cells, and {self.board.rules} has {self.board.cells}")
            boards.append(cells.reshape(self.board.rows, self.board.columns))
            marks.append(arguments.count(f"position {i}: mark", _field(one, "mark")))
        self._from_array(np.asarray(boards))
        for i, mark in enumerate(marks):
            stones = int((boards[i] != 0).sum())
            if mark != 1 + stones % 2:
                raise EvaldError(f"position {i}: mark is {mark}, but with {stones} stones player {1 + stones % 2} is to move")

    def _from_array(self, array: npt.NDArray[Any]) -> None:
        b = self.board
        if array.dtype.kind in "UOT" and array.ndim == 1:
            return self._from_text(array.tolist())
        words = bitboards(array)
        if words is not None:
            self._words = words
            return self._call("check", library.pointer(words))
        if array.dtype.kind == "f" and not np.isnan(array).any() and (array == np.floor(array)).all():  # whole numbers; the check of their range is below
            array = array.clip(-99, 99).astype(np.int8)
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
        self._words = np.empty((len(cells), 4), np.uint64)
        if len(cells) > 0:
            self._call("from_cells", library.pointer(cells), int(low >= 0), library.pointer(self._words))

    def __len__(self) -> int:
        return len(self._words)

    def __getitem__(self, rows: Any) -> Positions:
        return Positions._of(np.array(self._words[arguments.rows(rows, len(self))], order="C"), self._board)

    def __iter__(self) -> Iterator[Positions]:
        return (self[i] for i in range(len(self)))

    def __contains__(self, one: PositionsLike) -> bool:
        of = one if isinstance(one, Positions) else Positions(one, self._board)
        if len(of) != 1:
            raise EvaldError(f"{len(of)} positions are looked for, and must be one")
        return of._board is self._board and bool((self._words == of._words).all(1).any())

    def __eq__(self, other: object) -> Any:
        if not isinstance(other, Positions):
            return NotImplemented
        return self._board is other._board and np.array_equal(self._words, other._words)

    def __reduce__(self) -> Any:  # copies share no memory
        return _restored, (type(self), self._board, self._words.copy())

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[Any]:
        if copy is False:
            return np.array(self.words, dtype, copy=False)
        return np.array(self._words, dtype)

    def __repr__(self) -> str:
        return f"<{len(self)} positions of {self.board.rules}>"

    @property
    def stones(self) -> npt.NDArray[np.int64]:
        """[N] the number of stones on each board."""
        self._call("check", library.pointer(self._words))
        bits = np.unpackbits(self._words[:, 2:].copy().view(np.uint8), axis=1)
        stones: npt.NDArray[np.int64] = bits.sum(1, dtype=np.int64)
        return stones

    def cells(self) -> npt.NDArray[np.int8]:
        """[N,H,W], top row first: 1 the side to move, -1 the other side, 0 empty."""
        cells = np.empty((len(self), self.board.rows, self.board.columns), np.int8)
        self._call("cells", library.pointer(self._words), library.pointer(cells))
        return cells

    def planes(self, planes: Sequence[str] | None = None, *, layout: Literal["NCHW", "NHWC", "NHW", "NF"] = "NCHW",
               rows: Literal["top", "bottom"] = "top") -> npt.NDArray[np.float32]:
        """[N,5,H,W] the input of evald's own networks: own stones, the other side's stones, playable cells, parity (1 in the rows that the side to move
        will fill if the columns fill up to the end), and a plane of in-a-row / 4.

        With `planes`, the input of another network: each plane is a sum of own, other, first, second, empty, ones, player (0 or 1), playable, parity and
        inarow. `layout` is NCHW, NHWC, NHW (one plane) or NF (flat); `rows` says whether the first row is the top or the bottom one. Both work with
        the planes of evald's own networks too.

        >>> Positions("445", "7x2x4").planes(["own-other"], layout="NHW")[0]
        array([[ 0.,  0.,  0.,  1.,  0.,  0.,  0.],
               [ 0.,  0.,  0., -1., -1.,  0.,  0.]], dtype=float32)
        """
        h, w = self.board.rows, self.board.columns
        shape: tuple[int, ...] = (5, h, w)
        description = b""
        arguments.text("layout", layout, LAYOUTS), arguments.text("rows", rows, ("top", "bottom"))
        if planes is None and (layout, rows) != ("NCHW", "top"):
            planes = OWN_PLANES
        if planes is not None:
            if isinstance(planes, str) or not isinstance(planes, Sequence):
                raise arguments.wrong("planes", planes, "a list of texts")
            for i, plane in enumerate(planes):
                arguments.text(f"planes[{i}]", plane)
            c = len(planes)
            if layout == "NHW" and c != 1:
                raise EvaldError(f"layout is 'NHW', which has one plane, and there are {c}: give planes=['own-other'], or another layout")
            shapes: dict[str, tuple[int, ...]] = {"NHWC": (h, w, c), "NHW": (h, w), "NF": (c * h * w,)}
            shape = shapes.get(layout, (c, h, w))
            description = json.dumps(dict(planes=list(planes), layout=layout, rows=rows)).encode()
        filled = np.empty((len(self), *shape), np.float32)
        self._call("planes", description, library.pointer(self._words), library.pointer(filled))
        return filled

    def legal(self) -> npt.NDArray[np.bool_]:
        """[N,A] True for legal actions; all False if the game is over."""
        mask = np.empty((len(self), self.board.actions), np.uint8)
        self._call("legal", library.pointer(self._words), library.pointer(mask))
        return mask.view(np.bool_)

    def results(self) -> npt.NDArray[np.int8]:
        """[N] results of the games for the side to move: 1 won, -1 lost, 0 drawn, 2 not over."""
        results = np.empty(len(self), np.int8)
        self._call("results", library.pointer(self._words), library.pointer(results))
        return results

    def play(self, actions: Iterable[int] | npt.NDArray[Any] | int) -> Positions:
        """The positions after one of the `actions` [N] in each, counted from 0. For a single
        position it may be a number."""
        moves = arguments.each("actions", actions, len(self), "position")
        self._call("check", library.pointer(self._words))
        return self._played(moves)

    def _played(self, moves: npt.NDArray[np.int64]) -> Positions:
        """play for positions that are known to be valid."""
        after, moves, n = Positions._of(self._words.copy(), self._board), np.ascontiguousarray(moves), len(self)
        rewards, done = np.empty(n, np.float32), np.empty(n, np.uint8)
        after._call("step", library.pointer(after._words), library.pointer(moves), library.pointer(rewards), library.pointer(done), 0)
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


def _restored(kind: type[Positions], of: Board, words: npt.NDArray[Any]) -> Positions:
    """Positions of a pickle or a copy."""
    return kind._of(np.array(words, np.uint64, order="C").reshape(-1, 4), of)


def bitboards(array: npt.NDArray[Any]) -> Words | None:
    """A copy of an array of bitboards in one of the forms that Positions accepts, as words [N,4] that are not checked. None for another array."""
    if array.dtype != np.uint64 or array.ndim not in (1, 2) or array.shape[-1] not in (2, 4):
        return None
    if array.shape[-1] == 4:
        return np.array(array.reshape(-1, 4), order="C")
    words = np.zeros((array.size // 2, 4), np.uint64)
    words[:, ::2] = array.reshape(-1, 2)
    return words


def has_board(of: Any) -> bool:
    """Whether positions of this form know their board: Positions, and lists of them."""
    return isinstance(of, Positions) or isinstance(of, (list, tuple)) and len(of) > 0 and isinstance(of[0], Positions)


def _array(of: Any) -> npt.NDArray[Any]:
    try:
        return np.asarray(of)
    except (ValueError, TypeError) as error:
        raise EvaldError(f"positions have an unknown form: {error}") from None


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
