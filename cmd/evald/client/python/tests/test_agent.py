"""The Kaggle agent when time is short, on a clock that only its network advances, and on boards that
evald cannot hold."""
from __future__ import annotations

import contextlib
import io
import random
import unittest
from typing import Any, Callable

import numpy as np
from reference import Game, random_games

import evald
from evald.kaggle import Agent
from evald._thumb import Thumb

ACT, OVERAGE = 2, 60  # Kaggle's, in seconds


class Network:
    """Prefers some columns, on a clock that each call advances by takes(number of the call from 1)
    seconds. The call with number `fails` and later ones raise an error."""

    def __init__(self, takes: Callable[[int], float], fails: int = 1 << 30) -> None:
        self.takes, self.fails = takes, fails
        self.now, self.calls, self.asked = 0.0, 0, []

    def __call__(self, positions: evald.Positions) -> Any:
        self.calls += 1
        self.now += self.takes(self.calls)
        if self.calls >= self.fails:
            raise RuntimeError("out of order")
        self.asked.append(positions.words.tobytes())
        return preference(positions)


def preference(positions: evald.Positions) -> Any:
    """A policy that depends on the position, and a value of 0."""
    n, a = len(positions), positions.board.actions
    seeds = positions.words[:, 0].astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15) >> np.uint64(40)
    return np.array([np.random.default_rng(int(seed)).dirichlet(np.ones(a)) for seed in seeds]).reshape(n, a), np.zeros(n)


def on_clock(network: Network, **settings: Any) -> Agent:
    agent = Agent(network=network, **settings)
    agent._clock = lambda: network.now
    return agent


def observed(game: Game, overage: float = OVERAGE) -> dict[str, Any]:
    return dict(board=[cell for row in game.cells for cell in row], mark=game.player(), remainingOverageTime=overage)


def configured(game: Game) -> dict[str, Any]:
    return dict(rows=game.rows, columns=game.columns, inarow=game.in_a_row, actTimeout=ACT)


def play(agent: Agent, game: Game, overage: float = OVERAGE) -> tuple[int, str]:
    """The agent's move and what it says on standard error."""
    said = io.StringIO()
    with contextlib.redirect_stderr(said):
        action = agent(observed(game, overage), configured(game))
    assert isinstance(action, int)
    return action, said.getvalue()


def found(game: Game, visits: int) -> evald.Searched:
    """The agent's search, which has all help."""
    return evald.search(game.text(), network=preference, visits=visits, lookahead=True, exact=True, priors="flat", transpositions=True)


def searched(game: Game, visits: int) -> int:
    return int(found(game, visits).best[0])


class Late(unittest.TestCase):
    def test_best_so_far(self) -> None:
        for takes, least, most in ((0.1, 8, 14), (0.4, 2, 3), (0.69, 2, 2), (0.71, 1, 1), (1.3, 1, 1), (1.9, 1, 1), (3, 1, 1)):
            for game in random_games(4, 1):
                network = Network(lambda _: takes)
                action, said = play(on_clock(network), game)
                with self.subTest(takes=takes, game=game.text()):
                    if network.calls not in (0, *range(least, most + 1)):  # 0: the rules know a win
                        self.assertNotEqual(found(game, network.calls).proved[0], 2)
                    self.assertEqual(action, searched(game, max(1, network.calls)))
                    self.assertLessEqual(network.now, max(0.7 * ACT, takes))
                    self.assertEqual(len(set(network.asked)), network.calls, "a position is asked about once")
                    self.assertEqual("overage time of 60.0 s" in said, takes > ACT and network.calls > 0)

    def test_slow_first_call(self) -> None:
        agent = on_clock(network := Network(lambda call: 2.5 if call == 1 else 0.01))
        first, second = Game(), Game()
        second.play(3), second.play(4)
        self.assertEqual(play(agent, first), (searched(first, 1), "evald: a move took 2.5 s, which is 0.5 s of the overage time of 60.0 s\n"))
        self.assertEqual(network.calls, 1)
        action, said = play(agent, second)
        self.assertEqual((action, said), (searched(second, network.calls - 1), ""))
        self.assertGreater(network.calls, 64)

    def test_whole_games_within_all_their_time(self) -> None:
        for name, takes in dict(
            lazy=lambda call: 40 if call == 1 else 0.05, three=lambda _: 3, ten=lambda _: 10, thirty=lambda _: 30,
            growing=lambda call: 0.5 * call, unsteady=lambda call: (0.02, 3)[call % 9 == 0],
        ).items():
            agent, game, overage = on_clock(network := Network(takes)), Game(), float(OVERAGE)
            rng, by_thumb = random.Random(5), 0
            while not game.over():
                start = network.now
                action, said = play(agent, game, overage)
                overage -= max(0, network.now - start - ACT)
                self.assertGreaterEqual(overage, 0, name)
                self.assertEqual("overage time of" in said, network.now - start > ACT, name)
                by_thumb += "playing by rules of thumb" in said
                game.play(action)
                if not game.over():
                    game.play(rng.choice(game.legal()))
            if name in ("lazy", "three", "unsteady", "thirty"):
                self.assertEqual(by_thumb > 0, name == "thirty", name)

    def test_no_time_left(self) -> None:
        agent = on_clock(network := Network(lambda _: 5))
        for _ in range(3):
            play(agent, Game())
        before = network.calls
        for moves, want in (((0, 1, 0, 1, 0, 1), 0), ((0, 1, 0, 1, 0), 0), ((), 3)):  # wins, blocks, the centre
            game = Game()
            for move in moves:
                game.play(move)
            self.assertEqual(play(agent, game, overage=1), (want, "evald: the network takes 5.0 s, and only 2.2 s are left: playing by rules of thumb\n"))
        self.assertEqual(network.calls, before)

    def test_a_network_that_fails(self) -> None:
        empty = Game()
        self.assertEqual(play(on_clock(Network(lambda _: 0.1, fails=1)), empty), (3, "evald: the network failed with RuntimeError('out of order'): playing by rules of thumb\n"))
        network = Network(lambda _: 0.1, fails=6)
        self.assertEqual(play(on_clock(network), empty), (searched(empty, 4), "evald: the network failed with RuntimeError('out of order'): playing the best move so far\n"))
        action, said = play(Agent(network=lambda positions: (np.ones((len(positions), 3)), np.zeros(len(positions)))), empty)
        self.assertEqual(action, 3)
        self.assertIn("answers policy of shape [1, 3], want [1, 7]", said)
        with self.assertRaises(evald.EvaldError):  # a mistake of the caller, not of a game
            play(Agent(network="no such network"), empty)

    def test_an_answer_that_the_function_overwrites(self) -> None:
        policy, value = np.zeros((1, 7)), np.zeros(1)

        def network(positions: evald.Positions) -> Any:
            own.now += 0.1
            policy[:], value[:] = preference(positions)
            return policy, value

        own = Network(lambda _: 0.1)
        agent = Agent(network=network)
        agent._clock = lambda: own.now
        for game in random_games(6, 2):
            start = own.now
            action = play(agent, game)[0]
            if own.now > start:
                self.assertEqual(action, searched(game, round((own.now - start) / 0.1)))


def completes(game: Game, column: int, player: int, drop: int = 0) -> bool:
    """Whether a stone of the player in a column, `drop` cells above the lowest empty one, makes a line."""
    row = max(r for r in range(game.rows) if game.cells[r][column] == 0) - drop
    if row < 0:
        return False
    game.cells[row][column] = player
    won = game.line() == player
    game.cells[row][column] = 0
    return won


class LargeBoards(unittest.TestCase):
    def test_rules_of_thumb(self) -> None:
        seen = dict(wins=0, blocks=0, safe=0)
        for shape, games in (((7, 6, 4), 20), ((4, 9, 3), 40), ((9, 9, 5), 2), ((1, 30, 2), 1), ((30, 1, 2), 1), ((4, 3, 130), 2)):
            for game in random_games(games, 3, shape):
                me, legal = game.player(), game.legal()
                wins = [c for c in legal if completes(game, c, me)]
                blocks = [c for c in legal if completes(game, c, 3 - me)]
                safe = [c for c in legal if not completes(game, c, 3 - me, 1)]
                thumb = Thumb([cell for row in game.cells for cell in row], *shape, me)
                self.assertFalse(thumb.over())
                kind, want = next((kind, moves) for kind, moves in dict(wins=wins, blocks=blocks, safe=safe, legal=legal).items() if moves)
                seen[kind] = seen.get(kind, 0) + 1
                self.assertEqual(thumb.move(), min(want, key=lambda c: (abs(c - (shape[0] - 1) / 2), c)), (shape, game.moves, kind))
        self.assertGreater(min(seen.values()), 5, seen)

    def test_whole_games(self) -> None:
        rng = random.Random(4)
        for shape in ((13, 12, 4), (20, 20, 4), (7, 30, 5), (7, 6, 9), (1, 200, 4), (200, 1, 4), (4, 3, 130)):
            agent, game = Agent(0.01), Game(*shape)
            while not game.over() and len(game.moves) < 30:
                action, said = play(agent, game)
                self.assertIn(action, game.legal())
                self.assertIn(": playing by rules of thumb\n", said)
                game.play(action)
                if not game.over():
                    game.play(rng.choice(game.legal()))

    def test_wrong_observations(self) -> None:
        agent, big = Agent(0.01), [0] * 156
        for board, mark, configuration, says in (
            ([0] * 41, 1, {}, "board has 41 cells, and the configuration has 7 columns and 6 rows"),
            (big, 1, {"rows": 13, "columns": 13}, "board has 156 cells, and the configuration has 13 columns and 13 rows"),
            (None, 1, {"columns": 7}, "the observation's board must be a list of cells"),
            ([[0], [0, 0]], 1, {}, "the observation's board must be a list of cells"),
            (["x"] * 42, 1, {}, "the observation's board must be a list of cells"),
            ([0] * 41 + [3], 1, {}, "each 0, 1 or 2"),
            (big[:-1] + [-1], 2, {"rows": 12, "columns": 13}, "each 0, 1 or 2"),
            ([1] + [0] * 41, 2, {}, "the stone in cell 0 of the observation's board has nothing below it"),
            ([1] + big[1:], 2, {"rows": 12, "columns": 13}, "the stone in cell 0 of the observation's board has nothing below it"),
            ([0] * 42, 2, {}, "mark is 2, but with 0 stones player 1 is to move"),
            (big, 2, {"rows": 12, "columns": 13}, "mark is 2, but with 0 stones player 1 is to move"),
            ([0] * 42, None, {}, "mark is None, and must be a whole number from 1"),
            ([0] * 42, 1, {"rows": 0}, "rows is 0, and must be a whole number from 1"),
            ([0] * 42, 1, {"inarow": 3.5}, "inarow is 3.5, and must be a whole number from 1"),
            ([0] * 42, 1, {"columns": "7"}, "columns is '7', and must be a whole number from 1"),
            ([1, 2, 1, 2], 1, {"rows": 1, "columns": 4}, "the observation's game is over"),
            ([0] * 35 + [1, 1, 1, 1, 2, 2, 2], 2, {}, "the observation's game is over"),
            (big[:-7] + [1, 1, 1, 1, 2, 2, 2], 2, {"rows": 12, "columns": 13}, "the observation's game is over"),
        ):
            with self.subTest(says=says, configuration=configuration):
                with self.assertRaisesRegex(evald.EvaldError, says.replace("'", ".")):
                    agent(dict(board=board, mark=mark), configuration)
        for board in ([0.0] * 42, np.zeros(42, np.uint8), [[0] * 7] * 6):  # other forms of the empty board
            self.assertEqual(agent(dict(board=board, mark=1), {}), 3)


if __name__ == "__main__":
    unittest.main()
