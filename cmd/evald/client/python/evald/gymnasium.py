"""For Gymnasium: games against an opponent, one or thousands at once.

    env = gymnasium.make("evald.gymnasium:evald/ConnectX-v0", rules="7x6x4")
    envs = evald.gymnasium.VectorConnectX(4096, opponent=evald.Evaluator())

Observations [H,W,2] are the agent's stones and the opponent's stones. info["action_mask"] [A] is 1 for legal actions. The reward at the end of a
game is 1 for a win, -1 for a loss and 0 for a draw. An illegal action loses; one that is no whole number is an EvaldError.
"""
from __future__ import annotations

import copy
from typing import Any, Callable, Union

import gymnasium
import numpy as np
import numpy.typing as npt
from gymnasium import spaces
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space

from . import _arguments as arguments
from ._evaluator import Evaluator
from ._library import EvaldError
from ._positions import Board, Positions, board

__all__ = ["ConnectX", "VectorConnectX"]

# A function of Positions [N] that returns actions [N], or an evaluator, which plays its likeliest action. None plays random actions.
Opponent = Union[Callable[[Positions], Any], Evaluator, None]

Array = npt.NDArray[Any]
Info = dict[str, Any]
Step = tuple[Array, Array, Array, Array, Info]


class VectorConnectX(gymnasium.vector.VectorEnv[Array, Array, Array]):
    """`num_envs` games of the same `rules` against an opponent, which gets the positions of all
    games at once.

    `opponent` is a function of Positions, such as `lambda p: evald.search(p, visits=50).best`, an
    Evaluator, or None for random play. `begins` is the probability that the agent makes the first
    move of a game. `autoreset_mode` is one of Gymnasium's, all of which are supported. With
    DISABLED, reset(options={"reset_mask": mask}) begins new games. NEXT_STEP ignores the action in
    the step after the end of a game, so the action_mask of a game that is over allows every action.
    `render_mode` must be None: many games are not drawn.

    >>> envs = VectorConnectX(2, begins=1)
    >>> observation, info = envs.reset(seed=1)
    >>> observation, rewards, terminated, truncated, info = envs.step(np.array([3, 4]))
    >>> observation.sum((1, 2)).tolist()         # one stone of each side in both games
    [[1, 1], [1, 1]]
    """

    def __init__(self, num_envs: int = 1, rules: str | Board = "7x6x4", opponent: Opponent = None, *, begins: float = 0.5,
                 autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP, render_mode: None = None) -> None:
        num_envs = arguments.count("num_envs", num_envs, 1, arguments.MOST)
        if opponent is not None and not isinstance(opponent, Evaluator) and not callable(opponent):
            raise arguments.wrong("opponent", opponent, "a function, an Evaluator or None")
        if render_mode is not None:
            raise arguments.wrong("render_mode", render_mode, "None")
        self.num_envs, self.board, self.opponent, self.begins = num_envs, board(rules), opponent, arguments.number("begins", begins, 0, 1)
        try:
            self.autoreset_mode = AutoresetMode(autoreset_mode)
        except ValueError:
            raise arguments.wrong("autoreset_mode", autoreset_mode, f"one of {[mode.value for mode in AutoresetMode]}") from None
        self.metadata = {"render_modes": [], "autoreset_mode": self.autoreset_mode}
        self.single_observation_space = spaces.Box(0, 1, (self.board.rows, self.board.columns, 2), np.int8)
        self.single_action_space = spaces.Discrete(self.board.actions)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self._words = Positions.empty(num_envs, self.board).words
        self._ours = np.ones(num_envs, np.bool_)  # whether the agent is the side to move
        self._over = np.zeros(num_envs, np.bool_)

    def __copy__(self) -> VectorConnectX:
        """Games in the same state, which are then played independently, against the same opponent."""
        other = object.__new__(type(self))
        own = ("_words", "_ours", "_over", "_np_random")
        other.__dict__.update({name: copy.deepcopy(value) if name in own else value for name, value in self.__dict__.items()})
        return other

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Array, Info]:
        """Begins all games, or those of the mask [N] under "reset_mask" in `options`. `seed`
        decides who begins and what a random opponent plays; None continues the random numbers.
        Returns observations [N,H,W,2] and info."""
        super().reset(seed=arguments.optional(arguments.count, "seed", seed))
        mask = {} if options is None else arguments.mapping("options", options)
        self._begin(np.arange(self.num_envs) if mask.get("reset_mask") is None else np.flatnonzero(arguments.mask("reset_mask", mask["reset_mask"], self.num_envs)))
        return self._observe(), self._info()

    def step(self, actions: Array) -> Step:
        """Plays `actions` [N], counted from 0, and the opponent's replies. Returns observations
        [N,H,W,2], rewards [N], terminated [N], truncated [N], which is always False, and info."""
        actions = arguments.each("actions", actions, self.num_envs)
        ended = np.flatnonzero(self._over)
        if len(ended) > 0 and self.autoreset_mode == AutoresetMode.DISABLED:
            raise EvaldError(f"game {ended[0]} is over: begin it anew by reset(options={{'reset_mask': mask}})")
        rows = np.flatnonzero(~self._over)  # the games that are not over
        self._begin(ended)
        rewards = self._play(rows, actions[rows])
        terminated, info = self._over.copy(), {}
        if self.autoreset_mode == AutoresetMode.SAME_STEP and terminated.any():
            info = self._final(terminated)
            self._begin(np.flatnonzero(terminated))
        return self._observe(), rewards, terminated, np.zeros(self.num_envs, np.bool_), {**self._info(), **info}

    def positions(self) -> Positions:
        """A copy of the positions [N]. The agent is to move, unless the game is over."""
        return self._at(slice(None))

    def _at(self, rows: Any) -> Positions:
        return Positions._of(np.array(self._words[rows], order="C"), self.board)

    def _begin(self, rows: Array) -> None:
        """Begins the games of rows. In some of them the opponent makes the first move."""
        if len(rows) == 0:
            return
        self._words[rows], self._ours[rows], self._over[rows] = 0, True, False
        answered = rows[self.np_random.random(len(rows)) >= self.begins]
        self._put(answered, self._answer(answered))

    def _play(self, rows: Array, actions: Array) -> Array:
        """Plays actions in rows, and the opponent's replies. Returns rewards [N]."""
        rewards = np.zeros(self.num_envs)
        possible = (actions >= 0) & (actions < self.board.actions)
        possible[possible] = self._at(rows[possible]).legal()[np.arange(possible.sum()), actions[possible]]
        rewards[rows[~possible]], self._over[rows[~possible]] = -1, True
        rows, actions = rows[possible], actions[possible]
        self._ours[rows] = False
        rewards[rows] = self._put(rows, actions)
        rows = rows[~self._over[rows]]
        self._ours[rows] = True
        rewards[rows] = -self._put(rows, self._answer(rows))
        return rewards

    def _put(self, rows: Array, actions: Array) -> Array:
        """Plays one action in each of rows. Returns 1 for an action that wins, else 0."""
        after = self._at(rows)._played(actions)
        results = after.results()  # for the other side
        self._words[rows], self._over[rows] = after.words, results != 2
        return np.asarray(results == -1, np.float64)

    def _answer(self, rows: Array) -> Array:
        """The opponent's actions in rows."""
        positions = self._at(rows)
        if len(rows) == 0:
            return np.empty(0, np.int64)
        if self.opponent is None:
            legal = positions.legal()
            return np.asarray((self.np_random.random(legal.shape) * legal).argmax(1))
        if isinstance(self.opponent, Evaluator):
            return np.asarray(self.opponent.evaluate(positions).best)
        return arguments.each("the opponent's actions", self.opponent(positions), len(rows), "position")

    def _observe(self) -> Array:
        cells = self.positions().cells()
        mine = np.where(self._ours, 1, -1).astype(np.int8)[:, None, None]
        return np.stack([cells == mine, cells == -mine], -1).astype(np.int8)

    def _info(self) -> Info:
        mask = self.positions().legal() | self._over[:, None]
        return {"action_mask": mask.astype(np.int8), "_action_mask": np.ones(self.num_envs, np.bool_)}

    def _final(self, terminated: Array) -> Info:
        """The last observations of games that are over, in the form of Gymnasium's own vector environments."""
        observations = np.full(self.num_envs, None, object)
        observed, info = self._observe(), self._info()
        for row in np.flatnonzero(terminated):
            observations[row] = observed[row]
        final = {"action_mask": info["action_mask"], "_action_mask": terminated.copy()}
        return {"final_obs": observations, "_final_obs": terminated.copy(), "final_info": final, "_final_info": terminated.copy()}


class ConnectX(gymnasium.Env[Array, int]):
    """One game against an opponent. `rules`, `opponent` and `begins` are those of VectorConnectX.
    With `render_mode` "ansi", `render` returns the board as text; with None it returns None."""

    metadata = {"render_modes": ["ansi"], "render_fps": 2}

    def __init__(self, rules: str | Board = "7x6x4", opponent: Opponent = None, *, begins: float = 0.5, render_mode: str | None = None) -> None:
        arguments.optional(arguments.text, "render_mode", render_mode, self.metadata["render_modes"])
        self._games = VectorConnectX(1, rules, opponent, begins=begins, autoreset_mode=AutoresetMode.DISABLED)
        self.observation_space, self.action_space = self._games.single_observation_space, self._games.single_action_space
        self.render_mode = render_mode

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Array, Info]:
        """Begins the game. `seed` decides who begins and what a random opponent plays; None
        continues the random numbers. `options` have no effect. Returns the observation [H,W,2] and
        info."""
        super().reset(seed=arguments.optional(arguments.count, "seed", seed))
        arguments.optional(arguments.mapping, "options", options)
        self._games.np_random = self.np_random
        observations, info = self._games.reset()
        return observations[0], {"action_mask": info["action_mask"][0]}

    def step(self, action: int) -> tuple[Array, float, bool, bool, Info]:
        """Plays an `action`, counted from 0, and the opponent's reply. Returns observation, reward,
        terminated, truncated and info."""
        self._games.np_random = self.np_random  # of a copy too
        observations, rewards, terminated, _, info = self._games.step(arguments.each("action", action, 1))
        return observations[0], float(rewards[0]), bool(terminated[0]), False, {"action_mask": info["action_mask"][0]}

    def __copy__(self) -> ConnectX:
        """A game in the same state, which is then played independently, against the same opponent."""
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__)
        other._games, other._np_random = copy.copy(self._games), copy.deepcopy(self._np_random)
        return other

    def positions(self) -> Positions:
        """A copy of the position [1]."""
        return self._games.positions()

    def render(self) -> str | None:  # type: ignore[override]
        """The board as text, for render_mode "ansi"."""
        return self.positions().text()[0] if self.render_mode == "ansi" else None


gymnasium.register("evald/ConnectX-v0", f"{__name__}:ConnectX", vector_entry_point=f"{__name__}:VectorConnectX")
