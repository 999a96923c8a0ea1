"""Games of self-play an hour with the same PyTorch network: evald, a plain search in Python, OpenSpiel's and alpha-zero-general's.

    python compare_selfplay.py [--seconds 60] [--visits 100] [--alpha-zero-general FOLDER]

FOLDER is a checkout of https://github.com/suragnair/alpha-zero-general, which is no package; for numpy 2 its connect4/*.py need tobytes in place of
tostring. All play 7x6x4. The others search one position at a
time, as they come, so the network gets one position a call; evald gives it batches from many games. Noise and probes are off, and moves are
drawn by visits in all.
"""
from __future__ import annotations

import argparse
import math
import random
import sys
import time
from typing import Any, Callable, Iterator

import numpy as np
import torch

import evald
import evald.torch

A = 7


class Net(torch.nn.Module):
    """Nine convolutions of 64 channels."""

    def __init__(self) -> None:
        super().__init__()
        tower: list[torch.nn.Module] = []
        for inputs in (5, *[64] * 8):
            tower += [torch.nn.Conv2d(inputs, 64, 3, padding=1), torch.nn.ReLU()]
        self.tower = torch.nn.Sequential(*tower)
        self.policy, self.value = torch.nn.Linear(64 * 42, A), torch.nn.Linear(64 * 42, 1)

    def forward(self, planes: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        x = self.tower(planes).flatten(1)
        return self.policy(x), self.value(x).tanh()[:, 0]


class Node:
    """A position of the plain search, with the statistics of its moves for the side to move."""

    def __init__(self, prior: Any) -> None:
        self.prior, self.visits, self.sums, self.children = prior, [0] * A, [0.0] * A, [None] * A


def winner(cells: list[int], at: int) -> bool:
    """Whether the stone at a cell completes four in a row. Cells count from the top left, row by row."""
    side, row, column = cells[at], at // 7, at % 7
    for dr, dc in ((0, 1), (1, 0), (1, 1), (1, -1)):
        n = 1
        for sign in (1, -1):
            r, c = row + sign * dr, column + sign * dc
            while 0 <= r < 6 and 0 <= c < 7 and cells[r * 7 + c] == side:
                n, r, c = n + 1, r + sign * dr, c + sign * dc
        if n >= 4:
            return True
    return False


def play(cells: list[int], column: int) -> int:
    """The cell in which a stone of side 1 lands; the board is then seen by the other side."""
    at = max(r for r in range(6) if cells[r * 7 + column] == 0) * 7 + column
    cells[at] = 1
    return at


def plain(network: Callable[[list[int]], tuple[Any, float]], visits: int) -> Iterator[None]:
    """The search of the textbook: PUCT, a tree of Python's objects."""

    def simulate(node: Node, cells: list[int]) -> float:
        total = math.sqrt(sum(node.visits) + 1)
        best, action = -math.inf, -1
        for a in range(A):
            if cells[a] == 0:
                q = node.sums[a] / node.visits[a] if node.visits[a] else 0.0
                u = q + 1.5 * float(node.prior[a]) * total / (1 + node.visits[a])
                if u > best:
                    best, action = u, a
        at = play(cells, action)
        if winner(cells, at):
            value = 1.0
        elif all(cells[a] != 0 for a in range(A)):
            value = 0.0
        else:
            for i, c in enumerate(cells):
                cells[i] = -c
            child = node.children[action]
            if child is None:
                prior, v = network(cells)
                node.children[action] = Node(prior)
                value = -v
            else:
                value = -simulate(child, cells)
        node.visits[action] += 1
        node.sums[action] += value
        return value

    while True:
        cells, over = [0] * 42, False
        while not over:
            root = Node(network(cells)[0])
            for _ in range(visits):
                simulate(root, cells.copy())
            at = play(cells, random.choices(range(A), root.visits)[0])
            over = winner(cells, at) or all(cells[a] != 0 for a in range(A))
            cells = [-c for c in cells]
        yield


def open_spiel(network: Callable[[list[int]], tuple[Any, float]], visits: int) -> Iterator[None]:
    import pyspiel
    from open_spiel.python.algorithms import mcts

    game = pyspiel.load_game("connect_four")

    class Evaluator(mcts.Evaluator):  # type: ignore[misc]
        """The network, asked once for a state."""

        def __init__(self) -> None:
            self.last: tuple[str, Any, float] = ("", None, 0.0)

        def ask(self, state: Any) -> tuple[str, Any, float]:
            text = str(state)
            if text != self.last[0]:
                mover = "xo"[state.current_player()]
                cells = [0 if c == "." else 1 if c == mover else -1 for c in text if c != "\n"]
                self.last = (text, *network(cells))
            return self.last

        def evaluate(self, state: Any) -> Any:
            value = self.ask(state)[2]
            return np.array([value, -value] if state.current_player() == 0 else [-value, value])

        def prior(self, state: Any) -> Any:
            policy = self.ask(state)[1]
            return [(a, float(policy[a])) for a in state.legal_actions()]

    bot = mcts.MCTSBot(game, 1.5, visits, Evaluator(), solve=False, child_selection_fn=mcts.SearchNode.puct_value)
    while True:
        state = game.new_initial_state()
        while not state.is_terminal():
            children = bot.mcts_search(state).children
            state.apply_action(random.choices([c.action for c in children], [c.explore_count for c in children])[0])
        yield


def alpha_zero_general(network: Callable[[list[int]], tuple[Any, float]], visits: int) -> Iterator[None]:
    for name, kind in (("int", int), ("bool", bool), ("float", float)):  # names of numpy before 1.24, for which it was written
        setattr(np, name, kind)
    from connect4.Connect4Game import Connect4Game  # type: ignore[import-not-found]
    from MCTS import MCTS  # type: ignore[import-not-found]

    class Wrapper:
        def predict(self, board: Any) -> tuple[Any, float]:
            return network(board.reshape(-1).astype(int).tolist())

    game = Connect4Game()
    args = argparse.Namespace(numMCTSSims=visits, cpuct=1.5)
    while True:
        search, board, player = MCTS(game, Wrapper(), args), game.getInitBoard(), 1
        while game.getGameEnded(board, player) == 0:
            probabilities = search.getActionProb(game.getCanonicalForm(board, player))
            board, player = game.getNextState(board, player, random.choices(range(A), probabilities)[0])
        yield


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--visits", type=int, default=100)
    parser.add_argument("--alpha-zero-general", default="")
    o = parser.parse_args()
    torch.manual_seed(1)
    random.seed(1)
    module = Net().eval()

    @torch.inference_mode()
    def network(cells: list[int]) -> tuple[Any, float]:
        """The module on one position, as the others ask it."""
        stones = sum(c != 0 for c in cells)
        board = torch.tensor(cells, dtype=torch.float32).reshape(6, 7)
        planes = torch.zeros(1, 5, 6, 7)
        planes[0, 0], planes[0, 1], planes[0, 4] = board == 1, board == -1, 1
        for column in range(7):
            for row in range(5, -1, -1):
                if cells[row * 7 + column] == 0:
                    planes[0, 2, row, column] = 1
                    break
        planes[0, 3, (5 - stones % 2) % 2 :: 2] = 1
        logits, value = module(planes)
        return logits[0].softmax(0).numpy(), float(value[0])

    def games(of: Iterator[Any]) -> str:
        n, begin = 0, time.perf_counter()
        while (took := time.perf_counter() - begin) < o.seconds:
            next(of)
            n += 1
        return f"{n / took * 3600:,.0f} games an hour ({n} games)"

    def ours() -> str:
        """Whole runs, because the first games of a run end late: many are played at once."""
        options: dict[str, Any] = dict(visits=o.visits, fast_visits=o.visits, full_share=1, noise=0, exact=False, temperature_plies=42, opening_plies=0)
        n, begin = 0, time.perf_counter()
        while (took := time.perf_counter() - begin) < o.seconds:
            n += sum(1 for _ in evald.selfplay(128, seed=n, network=evald.torch.ModuleNetwork(module), batch=128, **options))
        return f"{n / took * 3600:,.0f} games an hour ({n} games)"

    print(f"{o.visits} visits a move, {torch.get_num_threads()} threads, PyTorch {torch.__version__}")
    print("evald:", ours(), flush=True)
    print("a plain search in Python:", games(plain(network, o.visits)), flush=True)
    try:
        print("OpenSpiel:", games(open_spiel(network, o.visits)), flush=True)
    except ImportError as error:
        print("OpenSpiel:", error)
    if o.alpha_zero_general:
        sys.path.insert(0, o.alpha_zero_general)
        print("alpha-zero-general:", games(alpha_zero_general(network, o.visits)), flush=True)


if __name__ == "__main__":
    main()
