"""Moves by rules of thumb, on boards of any size. The Kaggle agent plays them when it has no time for
its network, or when evald cannot hold the board."""
from __future__ import annotations

from typing import Sequence


class Thumb:
    """A position in Kaggle's form. `cells` are row by row from the top left: 0 empty, 1 and 2 the
    players. `mark` is the player to move."""

    def __init__(self, cells: Sequence[int], columns: int, rows: int, in_a_row: int, mark: int) -> None:
        self.cells, self.columns, self.rows, self.in_a_row, self.mark = cells, columns, rows, in_a_row, mark

    def over(self) -> bool:
        """Whether a player has a line, or the board is full."""
        lines = (cell != 0 and self._completes(i % self.columns, i // self.columns, cell) for i, cell in enumerate(self.cells))
        return all(self.cells[: self.columns]) or any(lines)

    def move(self) -> int:
        """A column, counted from 0: one that wins at once, else one that prevents the other side from
        winning with its next stone, else one that puts no stone below a cell in which the other side
        wins. Of these it is the one nearest to the centre. The game must not be over."""
        legal = [column for column in range(self.columns) if self.cells[column] == 0]
        legal.sort(key=lambda column: abs(2 * column + 1 - self.columns))
        other = 3 - self.mark
        wins = [c for c in legal if self._completes(c, self._row(c), self.mark)]
        blocks = [c for c in legal if self._completes(c, self._row(c), other)]
        safe = [c for c in legal if not self._completes(c, self._row(c) - 1, other)]
        return (wins or blocks or safe or legal)[0]

    def _row(self, column: int) -> int:
        """The row from the top in which a stone lands."""
        return max(row for row in range(self.rows) if self.cells[row * self.columns + column] == 0)

    def _completes(self, column: int, row: int, player: int) -> bool:
        """Whether a stone of the player in a cell is or would be part of a line. Row -1 is no cell."""

        def run(right: int, down: int) -> int:
            c, r, n = column + right, row + down, 0
            while 0 <= c < self.columns and 0 <= r < self.rows and self.cells[r * self.columns + c] == player:
                c, r, n = c + right, r + down, n + 1
            return n

        return row >= 0 and any(
            run(right, down) + 1 + run(-right, -down) >= self.in_a_row for right, down in ((1, 0), (0, 1), (1, 1), (1, -1))
        )
