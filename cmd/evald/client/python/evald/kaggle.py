"""For kaggle-environments: an agent for any board. A submission's main.py is one line:

    from evald.kaggle import agent

or, with other settings, `agent = evald.kaggle.Agent(seconds=1.0, network="default-fast")`.
"""
from __future__ import annotations

import json
import time
from typing import Any

import numpy as np

from . import _arguments as arguments
from ._evaluator import Evaluator, evaluator
from ._positions import Positions
from ._search import AnyNetwork, asked, search

__all__ = ["Agent", "agent"]

FIRST_VISITS, MOST_VISITS = 16, 1 << 20
MOST_SECONDS = 10
MARGIN = 0.7  # share of the time that is used; the rest is for stopping a search, up to 0.1 s, and for Kaggle's own work


class _TimeIsUp(Exception):
    pass


class Agent:
    """A function agent(observation, configuration) for two environments: for `connectx` it returns a column, counted from 0, for
    `open_spiel_connect_four` it returns {"submission": column}.

    It repeats its search with twice the visits until 70% of `seconds` are over. Without `seconds` it uses the environment's actTimeout, but at most 10
    seconds. The first call also loads the network, for which Kaggle's remainingOverageTime is enough. `network` is as in evald.search.
    """

    def __init__(self, seconds: float | None = None, *, network: AnyNetwork = None) -> None:
        self.seconds, self.network = arguments.optional(arguments.number, "seconds", seconds), asked(network)

    def __call__(self, observation: Any, configuration: Any) -> int | dict[str, int]:
        if "columns" in configuration:
            rules = "x".join(str(configuration[name]) for name in ("columns", "rows", "inarow"))
            return self._play(Positions(observation, rules), configuration)
        text = observation.get("observationString")
        if text is None:  # the first call does not ask for a move
            return {"submission": -1}
        board = np.array([[".xo".index(cell) for cell in row] for row in json.loads(text)["board"]], np.int8)[::-1]  # the bottom row comes first
        in_a_row = configuration["openSpielGameParameters"]["x_in_row"]
        return {"submission": self._play(Positions(board, f"{board.shape[1]}x{board.shape[0]}x{in_a_row}"), configuration)}

    def _play(self, position: Positions, configuration: Any) -> int:
        seconds = min(MOST_SECONDS, configuration["actTimeout"]) if self.seconds is None else self.seconds
        if self.network is None or isinstance(self.network, (str, Evaluator)):  # the first answer also loads the network
            action = int(evaluator(self.network).evaluate(position).best[0])
        else:
            action = int(position.legal()[0].argmax())
        return self._search(position, action, time.monotonic() + MARGIN * seconds)

    def _search(self, position: Positions, action: int, deadline: float) -> int:
        """The best action that a search finds before the deadline, or the given one if no search ends in time."""

        def check(_done: int, _all: int) -> None:
            if time.monotonic() > deadline:
                raise _TimeIsUp

        visits = FIRST_VISITS
        while True:
            start = time.monotonic()
            try:
                found = search(position, network=self.network, visits=visits, progress=check)
            except _TimeIsUp:
                return action
            action = int(found.best[0])
            now = time.monotonic()
            if found.proved[0] != 2 or visits >= MOST_VISITS or now + 2 * (now - start) > deadline:
                return action
            visits *= 2


def agent(observation: Any, configuration: Any) -> int | dict[str, int]:
    """An Agent with the shipped network, within the environment's actTimeout.

    >>> agent({"board": [0] * 35 + [1, 1, 1, 0, 2, 2, 2], "mark": 1}, {"columns": 7, "rows": 6, "inarow": 4, "actTimeout": 2})
    3
    """
    return _agent(observation, configuration)


_agent = Agent()
