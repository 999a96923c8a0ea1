"""The game in its slow and obvious form, to compare with. Tests import it; it has no test of its own."""
from __future__ import annotations

import importlib
import pathlib
import random
import sys
import unittest

import numpy as np


class Game:
    """A game of columns x rows x in_a_row, with gravity or, if free, without. cells[row][column] is 0, 1 or 2, row 0 at the top. Moves are
    columns, or without gravity cells, row by row from the top left."""

    def __init__(self, columns: int = 7, rows: int = 6, in_a_row: int = 4, free: bool = False) -> None:
        self.columns, self.rows, self.in_a_row, self.free = columns, rows, in_a_row, free
        self.cells = [[0] * columns for _ in range(rows)]
        self.moves: list[int] = []
        self.known = 0, 0  # a number of moves, and who has won after them

    @classmethod
    def of(cls, rules: str) -> Game:
        """The empty board of rules such as 3x3x3free."""
        return cls(*(int(x) for x in rules.removesuffix("free").split("x")), free=rules.endswith("free"))

    def legal(self) -> list[int]:
        if self.winner() or len(self.moves) == self.columns * self.rows:
            return []
        if self.free:
            return [i for i in range(self.columns * self.rows) if self.cells[i // self.columns][i % self.columns] == 0]
        return [c for c in range(self.columns) if self.cells[0][c] == 0]

    def play(self, move: int) -> None:
        if self.free:
            row, column = divmod(move, self.columns)
        else:
            row, column = max(r for r in range(self.rows) if self.cells[r][move] == 0), move
        self.cells[row][column] = self.player()
        self.moves.append(move)

    def player(self) -> int:
        """The player to move."""
        return 1 + len(self.moves) % 2

    def winner(self) -> int:
        """1 or 2, or 0. Looking takes most of the time of a test, so it is done once after each move."""
        if self.known[0] != len(self.moves):
            self.known = len(self.moves), self.line()
        return self.known[1]

    def line(self) -> int:
        """Who has a line: 1 or 2, or 0."""
        for row in range(self.rows):
            for column in range(self.columns):
                for down, right in ((0, 1), (1, 0), (1, 1), (1, -1)):
                    line = [(row + k * down, column + k * right) for k in range(self.in_a_row)]
                    if all(0 <= r < self.rows and 0 <= c < self.columns for r, c in line):
                        stones = {self.cells[r][c] for r, c in line}
                        if len(stones) == 1 and stones != {0}:
                            return stones.pop()
        return 0

    def over(self) -> bool:
        return not self.legal()

    def text(self) -> str:
        """The moves as evald writes them."""
        return "".join(str(1 + column) for column in self.moves) or "-"

    def observation(self, player: int) -> np.ndarray:
        """[H,W,2] the player's stones and the other player's."""
        cells = np.array(self.cells)
        return np.stack([cells == player, cells == 3 - player], -1)

    def mask(self) -> list[int]:
        legal = self.legal()
        return [int(column in legal) for column in range(self.columns)]


def random_games(n: int, seed: int, shape: tuple[int, int, int] = (7, 6, 4)) -> list[Game]:
    """n games that are played at random for a random number of moves, without those that are over."""
    rng, games = random.Random(seed), []
    while len(games) < n:
        game = Game(*shape)
        for _ in range(rng.randrange(shape[0] * shape[1])):
            if game.over():
                break
            game.play(rng.choice(game.legal()))
        if not game.over():
            games.append(game)
    return games


def require(*modules: str) -> None:
    """Skips the test unless all modules can be imported."""
    for name in modules:
        try:
            importlib.import_module(name)
        except ImportError as error:
            raise unittest.SkipTest(f"{name} is missing ({error}): .ci/requirements.txt has it, or .ci/frameworks.txt, which make soak installs") from None


def needs(*modules: str) -> None:
    """Skips the test file unless all modules can be imported. Called before the file's other imports."""
    try:
        require(*modules)
    except unittest.SkipTest as skipped:
        if pathlib.Path(sys.argv[0]).name.startswith("test_"):  # the file runs as a program, not under a runner of tests
            print("skipped:", skipped)
            sys.exit(0)
        raise
