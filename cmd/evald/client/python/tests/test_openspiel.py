import random
import unittest

import numpy as np
from reference import needs, random_games

needs("pyspiel")

import evald  # noqa: E402
import evald.openspiel  # noqa: E402
import pyspiel  # noqa: E402
from open_spiel.python.algorithms import evaluate_bots, mcts  # noqa: E402
from open_spiel.python.bots import uniform_random  # noqa: E402

WIN = [3, 3, 4, 4, 5, 5]  # the side to move completes a line by 2 or 6


def state_after(moves, name="connect_four"):
    state = pyspiel.load_game(name).new_initial_state()
    for move in moves:
        state.apply_action(move)
    return state


class OpenSpiel(unittest.TestCase):
    def test_positions_are_those_of_the_moves(self) -> None:
        for name, shape in (("connect_four", (7, 6, 4)), ("connect_four(columns=6,rows=5,x_in_row=3)", (6, 5, 3))):
            rules = "x".join(map(str, shape))
            for game in random_games(100, 1, shape):
                state = state_after(game.moves, name)
                of = evald.openspiel.positions(state)
                self.assertTrue((of.words == evald.Positions(game.text(), rules).words).all(), game.text())
                self.assertEqual(of.legal()[0].nonzero()[0].tolist(), state.legal_actions())

    def test_values_of_both_players(self) -> None:
        evaluator = evald.openspiel.Evaluator()
        self.assertEqual(evaluator.evaluate(state_after(WIN)).tolist(), [1, -1])  # player 0 is to move and wins
        self.assertEqual(evaluator.evaluate(state_after([0, 3, 0, 3, 1, 3, 6])).tolist(), [-1, 1])  # player 1 is to move and wins
        for game in random_games(50, 2):
            answers = evald.evaluate(game.text())
            values = evaluator.evaluate(state_after(game.moves))
            self.assertAlmostEqual(values[game.player() - 1], float(answers.value[0]), 6)
            self.assertAlmostEqual(values.sum(), 0)
            prior = evaluator.prior(state_after(game.moves))
            self.assertEqual([action for action, _ in prior], game.legal())
            self.assertTrue(np.allclose([p for _, p in prior], answers.policy[0][game.legal()], atol=1e-6))
            self.assertAlmostEqual(sum(p for _, p in prior), 1, 5)

    def test_values_of_games_that_are_over(self) -> None:
        rng, evaluator, results = random.Random(3), evald.openspiel.Evaluator(), set()
        for _ in range(40):
            state = state_after([], "connect_four(columns=4,rows=4,x_in_row=4)")
            while not state.is_terminal():
                state.apply_action(rng.choice(state.legal_actions()))
            self.assertEqual(evaluator.evaluate(state).tolist(), state.returns())
            self.assertEqual(evaluator.prior(state), [])
            results.add(state.returns()[0])
        self.assertEqual(results, {-1, 0, 1})

    def test_a_callers_change_stays_its_own(self) -> None:
        evaluator, state = evald.openspiel.Evaluator(), state_after(WIN)
        values = evaluator.evaluate(state)
        values += 5
        self.assertEqual(evaluator.evaluate(state).tolist(), [1, -1])

    def test_mcts_with_the_evaluator(self) -> None:
        game = pyspiel.load_game("connect_four")
        bot = mcts.MCTSBot(game, 1.5, 60, evald.openspiel.Evaluator(), random_state=np.random.RandomState(1),
                           child_selection_fn=mcts.SearchNode.puct_value)
        # The only move that does not lose at once, for each player.
        self.assertEqual(bot.step(state_after([0, 3, 1, 3, 6, 3])), 3)
        self.assertEqual(bot.step(state_after([3, 0, 3, 1, 3])), 3)
        wins = 0
        for seed in range(2):
            bots = [bot, uniform_random.UniformRandomBot(1, np.random.RandomState(seed))]
            wins += evaluate_bots.evaluate_bots(game.new_initial_state(), bots, np.random)[0]
        self.assertEqual(wins, 2)

    def test_bot_wins_as_either_player(self) -> None:
        game = pyspiel.load_game("connect_four")
        for player in (0, 1):
            bots = [uniform_random.UniformRandomBot(1 - player, np.random.RandomState(player))] * 2
            bots[player] = evald.openspiel.Bot(visits=50)
            self.assertEqual(evaluate_bots.evaluate_bots(game.new_initial_state(), bots, np.random)[player], 1)

    def test_bot_with_a_function_and_a_policy(self) -> None:
        calls = []

        def network(positions):
            calls.append(len(positions))
            return np.ones((len(positions), positions.board.actions)), np.zeros(len(positions))

        bot = evald.openspiel.Bot(network, visits=30, exact=False)
        state = state_after([3, 2, 3, 2, 1])
        policy, action = bot.step_with_policy(state)
        self.assertGreater(sum(calls), 5)
        self.assertEqual([a for a, _ in policy], state.legal_actions())
        self.assertAlmostEqual(sum(p for _, p in policy), 1, 5)
        self.assertIn(action, state.legal_actions())

    def test_another_game(self) -> None:
        state = pyspiel.load_game("tic_tac_toe").new_initial_state()
        with self.assertRaisesRegex(evald.EvaldError, "tic_tac_toe, and must be of connect_four"):
            evald.openspiel.Evaluator().evaluate(state)


if __name__ == "__main__":
    unittest.main()
