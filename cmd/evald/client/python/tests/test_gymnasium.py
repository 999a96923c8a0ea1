import unittest
import warnings

import numpy as np
from reference import Game, needs

needs("gymnasium")

import evald  # noqa: E402
import evald.gymnasium  # noqa: E402
import gymnasium  # noqa: E402
from evald.gymnasium import ConnectX, VectorConnectX  # noqa: E402
from gymnasium.utils.env_checker import check_env  # noqa: E402
from gymnasium.vector import AutoresetMode  # noqa: E402


def lowest(positions):
    """An opponent that plays the lowest action."""
    return positions.legal().argmax(1)


class Reference:
    """One game against `lowest`, as the environment should play it. The agent begins if first is 1."""

    def __init__(self, shape, first):
        self.game, self.us = Game(*shape), 1 if first else 2
        if not first:
            self.game.play(self.game.legal()[0])

    def step(self, action):
        """The reward, and whether the game is over."""
        if action not in self.game.legal():
            return -1, True
        self.game.play(action)
        if not self.game.over():
            self.game.play(self.game.legal()[0])
        winner = self.game.winner()
        return {0: 0, self.us: 1, 3 - self.us: -1}[winner], self.game.over()

    def observation(self):
        return self.game.observation(self.us).astype(np.int8)


def began(observation):
    """Whether the agent makes the game's first move."""
    return observation.sum() == 0


class Single(unittest.TestCase):
    def test_checker(self) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            for rules in ("7x6x4", "4x4x3", "3x3x3free"):
                check_env(gymnasium.make("evald/ConnectX-v0", rules=rules).unwrapped)
                check_env(ConnectX(rules, lowest, begins=0), skip_render_check=True)

    def test_games_are_those_of_the_reference(self) -> None:
        rng, ends = np.random.default_rng(1), set()
        env = ConnectX("5x4x3", lowest)
        for seed in range(40):
            observation, info = env.reset(seed=seed)
            reference, done = Reference((5, 4, 3), began(observation)), False
            while not done:
                self.assertEqual(observation.tolist(), reference.observation().tolist())
                self.assertEqual(info["action_mask"].tolist(), reference.game.mask())
                action = int(rng.integers(5)) if seed % 4 == 0 else int(rng.choice(info["action_mask"].nonzero()[0]))
                want, done = reference.step(action)
                observation, reward, terminated, truncated, info = env.step(action)
                self.assertEqual((reward, terminated, truncated), (want, done, False))
            self.assertEqual(observation.tolist(), reference.observation().tolist())
            ends.add(reward)
        self.assertEqual(ends, {-1, 1})

    def test_a_seed_gives_the_same_game(self) -> None:
        def play(seed):
            env, boards = ConnectX(), []
            env.reset(seed=seed)
            env.action_space.seed(1)
            done = False
            while not done:
                observation, _, done, _, _ = env.step(int(env.action_space.sample(env.positions().legal()[0].astype(np.int8))))
                boards.append(observation.tobytes())
            return boards

        self.assertEqual(play(5), play(5))
        self.assertGreater(len({tuple(play(seed)) for seed in range(6)}), 1)

    def test_rendering(self) -> None:
        env = ConnectX("4x2x3", lowest, begins=1, render_mode="ansi")
        env.reset()
        env.step(1)
        self.assertEqual(env.render(), ". . . .\nO X . .")


class Vector(unittest.TestCase):
    N, SHAPE, RULES = 24, (5, 4, 3), "5x4x3"

    def run_with(self, mode, steps=40):
        """Plays random actions, some of which cannot be played, beside references. Yields what a step returned, and the references before games
        that are over began anew."""
        rng = np.random.default_rng(2)
        envs = VectorConnectX(self.N, self.RULES, lowest, autoreset_mode=mode)
        observations, info = envs.reset(seed=1)
        references = [Reference(self.SHAPE, began(o)) for o in observations]
        self.assertEqual({began(o) for o in observations}, {True, False})
        over = np.zeros(self.N, bool)
        for _ in range(steps):
            actions = rng.integers(5, size=self.N)
            wants = [None if over[i] else references[i].step(int(actions[i])) for i in range(self.N)]
            step = envs.step(actions)
            yield envs, references, over, wants, step
            over = step[2].copy()

    def check_row(self, step, row, reference, want):
        observations, rewards, terminated, truncated, info = step
        self.assertEqual((rewards[row], terminated[row], truncated[row]), (*want, False))
        self.assertEqual(observations[row].tolist(), reference.observation().tolist())

    def test_next_step(self) -> None:
        ends = 0
        for envs, references, over, wants, step in self.run_with(AutoresetMode.NEXT_STEP):
            observations, rewards, terminated, _, info = step
            for i in range(self.N):
                if over[i]:  # the action was ignored, and a game begins
                    self.assertEqual((rewards[i], terminated[i]), (0, False))
                    references[i] = Reference(self.SHAPE, began(observations[i]))
                    self.assertEqual(observations[i].tolist(), references[i].observation().tolist())
                else:
                    self.check_row(step, i, references[i], wants[i])
                self.assertEqual(info["action_mask"][i].tolist(), [1] * 5 if terminated[i] else references[i].game.mask())
            ends += terminated.sum()
            self.assertTrue(envs.observation_space.contains(observations))
        self.assertGreater(ends, 50)

    def test_same_step(self) -> None:
        ends = 0
        for envs, references, over, wants, step in self.run_with(AutoresetMode.SAME_STEP):
            observations, rewards, terminated, _, info = step
            over[:] = False
            for i in np.flatnonzero(terminated):
                self.assertEqual((rewards[i], True), wants[i])
                self.assertEqual(info["final_obs"][i].tolist(), references[i].observation().tolist())
                self.assertTrue(info["_final_obs"][i] and info["_final_info"][i])
                references[i] = Reference(self.SHAPE, began(observations[i]))
                ends += 1
            for i in np.flatnonzero(~terminated):
                self.check_row(step, i, references[i], wants[i])
                if terminated.any():
                    self.assertIsNone(info["final_obs"][i])
            for i in range(self.N):
                self.assertEqual(observations[i].tolist(), references[i].observation().tolist())
                self.assertEqual(info["action_mask"][i].tolist(), references[i].game.mask())
            step[2][:] = False  # no row is ignored in the next step
        self.assertGreater(ends, 50)

    def test_disabled(self) -> None:
        envs = VectorConnectX(2, "4x4x3", lowest, begins=1, autoreset_mode="Disabled")
        envs.reset(seed=1)
        envs.step(np.array([2, 2]))
        envs.step(np.array([2, 0]))
        *_, terminated, _, _ = envs.step(np.array([2, 2]))
        self.assertEqual(terminated.tolist(), [True, False])
        with self.assertRaisesRegex(evald.EvaldError, "game 0 is over"):
            envs.step(np.array([0, 0]))
        observations, _ = envs.reset(options={"reset_mask": np.array([True, False])})
        self.assertEqual(observations.sum((1, 2, 3)).tolist(), [0, 6])

    def test_modes_and_keys_are_those_of_gymnasiums_own(self) -> None:
        for mode in AutoresetMode:
            theirs = gymnasium.vector.SyncVectorEnv([lambda: ConnectX("4x4x3", lowest, begins=1)] * 3, autoreset_mode=mode)
            ours = VectorConnectX(3, "4x4x3", lowest, begins=1, autoreset_mode=mode)
            self.assertEqual(ours.metadata["autoreset_mode"], theirs.metadata["autoreset_mode"])
            self.assertEqual((ours.observation_space, ours.action_space), (theirs.observation_space, theirs.action_space))
            a, b = ours.reset(seed=1), theirs.reset(seed=1)
            for columns in ([2, 1, 3], [2, 2, 1], [2, 3, 1], [0, 1, 2]):
                self.assertTrue((a[0] == b[0]).all())
                self.assertEqual(set(a[-1]), set(b[-1]))
                if len(a) == 5:
                    for ours_one, theirs_one in zip(a[1:4], b[1:4]):
                        self.assertEqual((ours_one.dtype, ours_one.tolist()), (theirs_one.dtype, theirs_one.tolist()))
                if mode == AutoresetMode.DISABLED and len(a) == 5 and a[2].any():
                    break
                a, b = ours.step(np.array(columns)), theirs.step(np.array(columns))

    def test_opponents(self) -> None:
        def score(opponent):
            envs = VectorConnectX(200 if opponent is None else 30, opponent=opponent)
            _, info = envs.reset(seed=3)
            rng, total, ended = np.random.default_rng(4), 0.0, 0
            for _ in range(25):
                actions = (rng.random(info["action_mask"].shape) * info["action_mask"]).argmax(1)
                _, rewards, terminated, _, info = envs.step(actions)
                total, ended = total + rewards.sum(), ended + terminated.sum()
            return total / ended

        self.assertLess(abs(score(None)), 0.2)
        self.assertLess(score(evald.Evaluator()), -0.9)
        self.assertLess(score(lambda p: evald.search(p, visits=10, exact=False).best), -0.9)

    def test_thousands_by_make_vec(self) -> None:
        envs = gymnasium.make_vec("evald.gymnasium:evald/ConnectX-v0", num_envs=2000, vectorization_mode="vector_entry_point", rules="9x7x5")
        observations, info = envs.reset(seed=1)
        self.assertEqual(observations.shape, (2000, 7, 9, 2))
        self.assertEqual(info["action_mask"].shape, (2000, 9))


if __name__ == "__main__":
    unittest.main()
