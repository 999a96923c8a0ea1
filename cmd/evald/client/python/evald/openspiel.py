"""For OpenSpiel: an evaluator for its searches, and a bot, for connect_four on boards of any size.

    evaluator = evald.openspiel.Evaluator()
    mcts.MCTSBot(game, uct_c=1.5, max_simulations=200, evaluator=evaluator, child_selection_fn=mcts.SearchNode.puct_value)
    evald.openspiel.Bot(visits=800)        # evald's own search
"""
from __future__ import annotations

import functools
import os
import sys
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt
import pyspiel
from open_spiel.python.algorithms import mcts

from ._evaluator import Evaluator as _Evaluator
from ._evaluator import evaluator
from ._library import EvaldError
from ._positions import Positions
from . import _arguments as arguments
from ._search import SEARCHING, AnyNetwork, asked, chosen_of, search

if TYPE_CHECKING:
    from ._search import SearchOptions, Unpack

__all__ = ["Bot", "Evaluator", "positions"]

CELLS = {".": 0, "x": 1, "o": 2}  # x is player 0, who begins


def positions(state: Any) -> Positions:
    """The position of a `state` of connect_four.

    >>> state = pyspiel.load_game("connect_four(rows=5,columns=6)").new_initial_state()
    >>> state.apply_action(2)
    >>> positions(state).cells()[0, 4]
    array([ 0,  0, -1,  0,  0,  0], dtype=int8)
    """
    return _parse(str(state), _rules(state))


def _rules(state: Any) -> str:
    if not isinstance(state, pyspiel.State):
        raise arguments.wrong("state", state, "a state of connect_four")
    game = state.get_game()
    name = game.get_type().short_name
    if name != "connect_four":
        raise EvaldError(f"the state is of {name}, and must be of connect_four")
    shape = game.get_parameters()
    return f"{shape['columns']}x{shape['rows']}x{shape['x_in_row']}"


def _parse(text: str, rules: str) -> Positions:
    return Positions(np.array([[CELLS[c] for c in line] for line in text.split()], np.int8), rules)


class Evaluator(mcts.Evaluator):
    """An evaluator for open_spiel.python.algorithms.mcts. It caches the answers to the last `cache`
    states (0: none), because a search asks first for a state's value and later for its prior.
    `model` is as in evald.evaluate."""

    def __init__(self, model: str | os.PathLike[str] | _Evaluator | None = None, *, cache: int = 1 << 16) -> None:
        self._evaluator, self._cache = evaluator(model), arguments.count("cache", cache, 0, sys.maxsize)
        self._answer = functools.lru_cache(self._cache)(self._evaluate)

    def __reduce__(self) -> Any:  # a copy begins with an empty cache
        return functools.partial(type(self), self._evaluator, cache=self._cache), ()

    def _evaluate(self, text: str, rules: str) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float32]]:
        of = _parse(text, rules)
        answers = self._evaluator.evaluate(of)
        value = float(answers.value[0])  # for the side to move
        return np.array([value, -value] if of.stones[0] % 2 == 0 else [-value, value]), answers.policy[0]

    def evaluate(self, state: Any) -> npt.NDArray[np.float64]:
        """[2] the values of a `state` for player 0 and player 1, -1 to 1."""
        return self._answer(str(state), _rules(state))[0].copy()  # searches may change the array

    def prior(self, state: Any) -> list[tuple[int, float]]:
        """Each legal action of a `state` with its probability."""
        policy = self._answer(str(state), _rules(state))[1]
        return [(action, float(policy[action])) for action in state.legal_actions()]


class Bot(pyspiel.Bot):
    """A bot that plays the best action of evald's search. `network`, `visits`, `selection`,
    `exact`, `lookahead`, `seed` and further `options` are arguments of evald.search."""

    def __init__(self, network: AnyNetwork = None, *, visits: int = SEARCHING["visits"].default, selection: Literal["puct", "uct", "gumbel", "flat"] = "puct",
                 exact: int | bool | None = None, lookahead: bool | None = None, seed: int = 0, **options: Unpack[SearchOptions]) -> None:
        super().__init__()
        self._network, self._visits = asked(network), arguments.count("visits", visits, 1)
        self._options: dict[str, Any] = dict(selection=selection, exact=exact, lookahead=lookahead, seed=seed, **options)
        chosen_of(self._options)

    def __reduce__(self) -> Any:
        return functools.partial(type(self), self._network, visits=self._visits, **self._options), ()

    def __copy__(self) -> Bot:
        return type(self)(self._network, visits=self._visits, **self._options)

    def restart_at(self, state: Any) -> None:
        """Has no effect: the bot keeps nothing from one `state` to the next."""

    def provides_policy(self) -> bool:
        return True

    def step(self, state: Any) -> int:
        """The action to play in `state`."""
        return self.step_with_policy(state)[1]

    def step_with_policy(self, state: Any) -> tuple[list[tuple[int, float]], int]:
        """Each legal action of `state` with its share of the visits, and the action to play."""
        of = positions(state)
        found = search(of, network=self._network, visits=self._visits, **self._options)
        return [(action, float(found.policy[0, action])) for action in state.legal_actions()], int(found.best[0])
