import contextlib
import copy
import io
import pickle
import random
import unittest
import warnings

import numpy as np
from reference import Game, needs

needs("pettingzoo")

import evald  # noqa: E402
import evald.pettingzoo  # noqa: E402
from pettingzoo.test import api_test, render_test, seed_test  # noqa: E402
from pettingzoo.utils.env_logger import EnvLogger  # noqa: E402

RULES = [("7x6x4", (7, 6, 4)), ("5x4x3", (5, 4, 3)), ("9x8x5", (9, 8, 5))]


class PettingZoo(unittest.TestCase):
    def setUp(self) -> None:
        EnvLogger.suppress_output()
        self.addCleanup(EnvLogger.unsuppress_output)

    def test_api(self) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # they are about the empty board and observations that are dicts, as in connect_four_v3
            for rules in ("7x6x4", "9x8x5", "3x3x3free"):
                api_test(evald.pettingzoo.env(rules), num_cycles=200)
                seed_test(lambda: evald.pettingzoo.env(rules), num_cycles=50)
        with contextlib.redirect_stdout(io.StringIO()):
            render_test(evald.pettingzoo.raw_env)

    def test_games_are_those_of_the_reference(self) -> None:
        rng, results = random.Random(1), set()
        for rules, shape in RULES:
            env = evald.pettingzoo.env(rules)
            for _ in range(30):
                env.reset()
                game = Game(*shape)
                totals = {"player_0": 0, "player_1": 0}
                for agent in env.agent_iter():
                    observation, reward, terminated, truncated, _ = env.last()
                    totals[agent] += reward
                    player = 1 + env.possible_agents.index(agent)
                    self.assertTrue((observation["observation"] == game.observation(player)).all())
                    self.assertEqual(terminated, game.over())
                    self.assertFalse(truncated)
                    if terminated:
                        env.step(None)
                        continue
                    self.assertEqual(player, game.player())
                    self.assertEqual(observation["action_mask"].tolist(), game.mask())
                    other = env.observe(env.possible_agents[2 - player])
                    self.assertTrue((other["observation"] == game.observation(3 - player)).all())
                    self.assertFalse(other["action_mask"].any())
                    action = rng.choice(game.legal())
                    game.play(action)
                    env.step(action)
                winner = game.winner()
                results.add(winner)
                self.assertEqual(totals, {"player_0": (winner == 1) - (winner == 2), "player_1": (winner == 2) - (winner == 1)})
        self.assertEqual(results, {0, 1, 2})

    def test_same_as_connect_four_v3(self) -> None:
        try:
            from pettingzoo.classic import connect_four_v3
        except ImportError as error:
            self.skipTest(f"pettingzoo[classic] is missing: {error}")
        ours, theirs, rng = evald.pettingzoo.env(), connect_four_v3.env(), random.Random(2)
        for agent in ("player_0", "player_1"):
            self.assertEqual(ours.observation_space(agent), theirs.observation_space(agent))
            self.assertEqual(ours.action_space(agent), theirs.action_space(agent))
        for number in range(15):
            ours.reset(), theirs.reset()
            while theirs.agents:
                a, b = ours.last(), theirs.last()
                self.assertEqual(ours.agent_selection, theirs.agent_selection)
                for name in ("observation", "action_mask"):
                    self.assertEqual(a[0][name].dtype, b[0][name].dtype)
                    if name == "observation" or not b[2]:  # of games that are over, theirs allows actions
                        self.assertEqual(a[0][name].tolist(), b[0][name].tolist())
                self.assertEqual(a[1:4], b[1:4])
                legal = b[0]["action_mask"].nonzero()[0].tolist()
                full = [c for c in range(7) if c not in legal]
                action = None if b[2] or b[3] else rng.choice(full if full and number % 3 == 0 else legal)  # some games end by a wrong action
                ours.step(action), theirs.step(action)
            self.assertEqual(ours.agents, theirs.agents)

    def test_wrong_actions(self) -> None:
        env = evald.pettingzoo.raw_env("4x4x3")
        env.reset()
        for _ in range(4):
            env.step(0)
        with self.assertRaisesRegex(evald.EvaldError, "column is full"):
            env.step(0)
        checked = evald.pettingzoo.env("4x4x3")
        checked.reset()
        for wrong in (3.9, "3", True, 99, -1, 2**32 + 3, [3, 3], float("nan")):
            with self.subTest(repr(wrong)), self.assertRaisesRegex(evald.EvaldError, "action is .* and must be a whole number from 0 to 3"):
                checked.step(wrong)
        checked.step(np.float32(3))

    def test_rendering_and_copies(self) -> None:
        env = evald.pettingzoo.env("4x2x3", render_mode="ansi")
        env.reset()
        env.step(1)
        env.step(1)
        self.assertEqual(env.render(), ". O . .\n. X . .")
        for copied in (copy.copy, copy.deepcopy, lambda of: pickle.loads(pickle.dumps(of))):  # continue the same game, each for itself
            again = copied(env)
            again.step(2)
            self.assertEqual((again.render(), env.render()), (". O . .\n. X X .", ". O . .\n. X . ."))
        fresh = pickle.loads(pickle.dumps(evald.pettingzoo.raw_env("4x2x3")))
        fresh.reset()
        self.assertEqual(fresh.observe("player_0")["observation"].shape, (2, 4, 2))


if __name__ == "__main__":
    unittest.main()
