"""For PettingZoo: the game for two agents on any board, with the spaces of pettingzoo.classic.connect_four_v3.

    env = evald.pettingzoo.env("9x7x5")

Observations are dicts: `observation` [H,W,2] has the agent's stones and the other agent's, and `action_mask` [A] is 1 for legal actions. The winner's
reward is 1, the loser's -1.
"""
from __future__ import annotations

import copy
from typing import Any

import numpy as np
import numpy.typing as npt
from gymnasium import spaces
from pettingzoo import AECEnv
from pettingzoo.utils import wrappers

from . import _arguments as arguments
from ._environment import Environment
from ._positions import Board

__all__ = ["env", "raw_env"]

AGENTS = ["player_0", "player_1"]


def env(rules: str | Board = "7x6x4", *, render_mode: str | None = None) -> Any:
    """The environment for the game `rules` with PettingZoo's usual checks: an illegal action ends
    the game with a reward of -1. One that is no whole number, or that the board does not have, is
    an EvaldError. `render_mode` is "ansi", "human" or None: see raw_env.render.

    >>> game = env("4x4x3")
    >>> game.reset()
    >>> for action in (0, 1, 0, 1, 0):
    ...     game.step(action)
    >>> game.rewards
    {'player_0': 1, 'player_1': -1}
    """
    checked: Any = wrappers.TerminateIllegalWrapper(raw_env(rules, render_mode=render_mode), illegal_reward=-1)
    return _Ordered(wrappers.AssertOutOfBoundsWrapper(checked))


class _Ordered(wrappers.OrderEnforcingWrapper):
    """PettingZoo's wrapper, with errors that name a wrong action. Its copies continue the same game, each for itself."""

    def __copy__(self) -> _Ordered:
        return copy.deepcopy(self)

    def step(self, action: Any) -> None:
        """Plays the selected agent's action, counted from 0; None if that agent's game is over."""
        space = self.action_space(AGENTS[0])
        super().step(arguments.optional(arguments.count, "action", action, 0, space.n - 1))


class raw_env(AECEnv[str, dict[str, Any], Any]):
    """The environment for the game `rules` without checks. `render_mode` is "ansi", "human" or
    None. Its pickles and copies continue the same game, each for itself. The agents are player_0,
    who begins, and player_1."""

    metadata = {"render_modes": ["ansi", "human"], "name": "evald_v0", "is_parallelizable": False, "render_fps": 2}

    def __init__(self, rules: str | Board = "7x6x4", *, render_mode: str | None = None) -> None:
        super().__init__()
        self.render_mode = arguments.optional(arguments.text, "render_mode", render_mode, self.metadata["render_modes"])
        self._game = Environment(1, rules, reset=False)
        of = self._game.board
        self.possible_agents = AGENTS[:]
        space = spaces.Dict({
            "observation": spaces.Box(0, 1, (of.rows, of.columns, 2), np.int8),
            "action_mask": spaces.Box(0, 1, (of.actions,), np.int8),
        })
        self.observation_spaces = {agent: space for agent in AGENTS}
        self.action_spaces = {agent: spaces.Discrete(of.actions) for agent in AGENTS}

    def __copy__(self) -> raw_env:
        return copy.deepcopy(self)

    def observation_space(self, agent: str) -> Any:
        """The space of the observations of an `agent`."""
        return self.observation_spaces[arguments.text("agent", agent, AGENTS)]

    def action_space(self, agent: str) -> Any:
        """The space of the actions of an `agent`."""
        return self.action_spaces[arguments.text("agent", agent, AGENTS)]

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> None:
        """Begins a game. `seed` and `options` have no effect, because the game has no
        randomness."""
        arguments.optional(arguments.count, "seed", seed)
        arguments.optional(arguments.mapping, "options", options)
        self._game.reset()
        self._plies = 0
        self.agents = AGENTS[:]
        self.agent_selection = AGENTS[0]
        self.rewards = dict.fromkeys(AGENTS, 0)
        self._cumulative_rewards = dict.fromkeys(AGENTS, 0)
        self.terminations = dict.fromkeys(AGENTS, False)
        self.truncations = dict.fromkeys(AGENTS, False)
        self.infos: dict[str, dict[str, Any]] = {agent: {} for agent in AGENTS}

    def step(self, action: Any) -> None:
        """Plays the selected agent's `action`, counted from 0."""
        agent = self.agent_selection
        if self.terminations[agent] or self.truncations[agent]:
            self._was_dead_step(action)
            return
        rewards, done = self._game.step(arguments.each("action", action, 1))
        other = AGENTS[1 - AGENTS.index(agent)]
        reward = int(rewards[0])
        self._plies += 1
        self._cumulative_rewards[agent] = 0
        self.rewards = {AGENTS[0]: 0, AGENTS[1]: 0, agent: reward, other: -reward}
        self.terminations = dict.fromkeys(AGENTS, bool(done[0]))
        self.agent_selection = other
        self._accumulate_rewards()
        if self.render_mode == "human":
            self.render()

    def observe(self, agent: str) -> dict[str, npt.NDArray[np.int8]]:
        """The observation of an `agent`. Its action_mask is all 0 if the other agent is to act."""
        arguments.text("agent", agent, AGENTS)
        stones = self._game.observation()[0]
        mask = self._game.legal()[0]
        if agent != AGENTS[self._plies % 2]:  # agent_selection does not tell who is to act once the game is over
            stones, mask = stones[..., ::-1], np.zeros_like(mask)
        return {"observation": stones.astype(np.int8), "action_mask": mask.astype(np.int8)}

    def render(self) -> str | None:
        """The board as text: returned for render_mode "ansi", printed for "human"."""
        text = self._game.positions.text()[0]
        if self.render_mode == "human":
            print(text, end="\n\n")
        return text if self.render_mode == "ansi" else None

    def close(self) -> None:
        pass
