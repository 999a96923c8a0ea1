"""Conversions of positions in Python, for clients of a service without the library and the program."""
from __future__ import annotations

import re
from typing import Any, Callable

import numpy as np
import numpy.typing as npt

from ._library import ERROR_SIZE

COLUMNS = "123456789abcdefghijklmnopqrstuvwxyz"

Words = npt.NDArray[np.uint64]


class Rules:
    """A transport with only the calls that convert positions. All other calls raise an ImportError. The service checks the positions."""

    def __init__(self, missing: str) -> None:
        self._missing = missing
        self._boards: list[tuple[bytes, int, int, bool]] = []  # rules, columns, rows, gravity

    def call(self, name: str) -> Callable[..., int]:
        answer: Callable[..., None] | None = getattr(self, "_" + name, None)

        def call(*arguments: Any) -> int:
            if answer is None:
                raise ImportError(f"evald: {name} needs the library or the program, and cannot be answered by a service. {self._missing}")
            if name == "board":
                return self.board(*arguments)
            try:
                answer(*arguments[:-1])
            except ValueError as error:
                arguments[-1].value = str(error).encode()[: ERROR_SIZE - 1]
                return 1
            return 0

        return call

    def pointer(self, array: Any) -> Any:
        return array

    def ended(self, number: int) -> bool:
        return False

    def forget(self) -> None:
        pass

    def program(self) -> str | None:
        return None

    def board(self, rules: bytes, shape: Any, error: Any) -> int:
        parts = re.fullmatch(rb"(\d+)x(\d+)x(\d+)(free)?", rules)
        if parts is None:
            error.value = b"rules " + rules[:100] + b": want columns x rows x in-a-row, such as 7x6x4 or 3x3x3free"
            return -1
        columns, rows, in_a_row = (int(parts[i]) for i in (1, 2, 3))
        if not (0 < columns <= len(COLUMNS) and 0 < rows and columns * (rows + 1) <= 128):
            error.value = b"rules " + rules[:100] + b": the board is too large, or too small"
            return -1
        gravity = parts[4] is None
        shape[:] = [columns, rows, in_a_row, columns if gravity else columns * rows, columns * rows]
        self._boards.append((rules, columns, rows, gravity))
        return len(self._boards) - 1

    _board = board

    def _parse(self, board: int, n: int, lines: bytes, size: int, words: Words) -> None:
        rules, columns, rows, gravity = self._boards[board]
        for i, line in enumerate(lines.decode().split("\n")):
            of, _, moves = line.rpartition(":")
            if of and of.encode() != rules:
                raise ValueError(f"position {i}: is of {of}, and the others are of {rules.decode()}")
            if not gravity:
                raise ValueError(f"position {i}: moves in text are for boards with gravity here: give cells")
            heights, sides = [0] * columns, [0, 0]
            for k, letter in enumerate("" if moves == "-" else moves):
                column = COLUMNS.find(letter)
                if not 0 <= column < columns or heights[column] == rows:
                    raise ValueError(f"position {i}: move {k + 1}, {letter!r}, cannot be played")
                sides[k % 2] |= 1 << column * (rows + 1) + heights[column]
                heights[column] += 1
            own, all_ = sides[sum(heights) % 2], sides[0] | sides[1]
            words[i] = [own & (1 << 64) - 1, own >> 64, all_ & (1 << 64) - 1, all_ >> 64]

    def _check(self, board: int, n: int, words: Words) -> None:
        pass

    def _bits(self, board: int) -> npt.NDArray[np.int64]:
        """[H,W] the bit of each cell, top row first."""
        _, columns, rows, _ = self._boards[board]
        bits: npt.NDArray[np.int64] = np.arange(columns) * (rows + 1) + np.arange(rows)[::-1, None]
        return bits

    def _from_cells(self, board: int, n: int, cells: npt.NDArray[np.int8], players: int, words: Words) -> None:
        bits, stones = self._bits(board), (cells != 0).sum((1, 2))
        own = cells == (np.where(stones % 2 == 0, 1, 2)[:, None, None] if players else 1)
        words[:] = 0
        for k, stone in ((0, own), (2, cells != 0)):
            for high in (0, 1):
                inside = bits // 64 == high
                words[:, k + high] = (stone[:, inside].astype(np.uint64) << (bits[inside] % 64).astype(np.uint64)).sum(1, dtype=np.uint64)

    def _cells(self, board: int, n: int, words: Words, cells: npt.NDArray[np.int8]) -> None:
        bits = self._bits(board)
        own, all_ = ((words[:, k + bits // 64] >> (bits % 64).astype(np.uint64) & np.uint64(1)).astype(np.int8) for k in (0, 2))
        cells[:] = 2 * own - all_

