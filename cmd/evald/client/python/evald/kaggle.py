"""For kaggle-environments: an agent for any board. A submission's main.py is one line:

    from evald.kaggle import agent

or, with other settings, `agent = evald.kaggle.Agent(seconds=1.0, network="default-fast")`.
"""
from __future__ import annotations

import json
import sys
import time
from typing import Any, Callable, Iterator, Mapping

import numpy as np

from . import _arguments as arguments
from ._evaluator import Evaluator, evaluator
from ._library import EvaldError, UnavailableError
from ._positions import Positions, board
from ._search import AnyNetwork, asked, search
from ._thumb import Thumb
from ._work import Network, _numpy

__all__ = ["Agent", "agent"]

MOST_VISITS = 1 << 20
USUAL_SECONDS, MOST_SECONDS = 2, 10  # Kaggle's actTimeout, and the longest move without `seconds`
# The share of the time that is used; the rest is for stopping a search, up to 0.1 s, and for Kaggle.
MARGIN = 0.7
LIMIT = 0.9  # likewise, of the overage time too, for the first call of the network in a move


class _TimeIsUp(Exception):
    """There is no time for another call of the network. The text is for the log."""


class Agent:
    """A function agent(observation, configuration) for two environments: for `connectx` it returns a column, counted from 0, for
    `open_spiel_connect_four` it returns {"submission": column}.

    It asks the network about the position, then repeats its search with twice the visits until 70%
    of `seconds` are over. Without `seconds` it uses the environment's actTimeout, but at most 10
    seconds. `network` is as in evald.search.

    When the time is over, it plays the best move of the last search that has ended, or the policy's
    best move. Only the first call of the network in a move may take longer: it may use Kaggle's
    remainingOverageTime, for example to load the network. A function is asked about a position once
    per move, and no call begins that would, by the calls before it, take longer than the time that
    is left. If the function raises an error, the agent plays the best move so far. If it knows
    none, or if evald cannot hold the board (more than 128 bits), the agent plays by rules of thumb:
    it wins at once, blocks, or else plays near the centre. Standard error has a line about each of
    these moves, and about each that took overage time.

    Observations that do not fit the configuration, that no game reaches, or whose game is over
    raise an EvaldError.
    """

    def __init__(self, seconds: float | None = None, *, network: AnyNetwork = None) -> None:
        self.seconds, self.network = arguments.optional(arguments.number, "seconds", seconds), asked(network)
        self._clock: Callable[[], float] = time.monotonic
        self._calls = 0  # number of calls of the network so far
        self._call = 0.0  # estimate of a call's duration in seconds

    def __call__(self, observation: Any, configuration: Any) -> int | dict[str, int]:
        began = self._clock()
        cells = _get(observation, "board")
        if cells is not None or _get(configuration, "columns") is not None:
            columns, rows, in_a_row = (arguments.count(name, _get(configuration, name, usual), 1) for name, usual in (("columns", 7), ("rows", 6), ("inarow", 4)))
            thumb = Thumb(_cells(cells, columns, rows), columns, rows, in_a_row, arguments.count("mark", _get(observation, "mark"), 1))
            return self._move(thumb, began, observation, configuration)
        text = _get(observation, "observationString")
        if text is None:  # the first call does not ask for a move
            return {"submission": -1}
        seen = [[".xo".index(cell) for cell in row] for row in json.loads(text)["board"]][::-1]  # the bottom row comes first
        flat = [cell for row in seen for cell in row]
        in_a_row = configuration["openSpielGameParameters"]["x_in_row"]
        thumb = Thumb(flat, len(seen[0]), len(seen), in_a_row, 1 + sum(cell != 0 for cell in flat) % 2)
        if thumb.over():
            return {"submission": -1}
        return {"submission": self._move(thumb, began, observation, configuration)}

    def _move(self, thumb: Thumb, began: float, observation: Any, configuration: Any) -> int:
        position = _position(thumb)
        act = max(0.0, float(_get(configuration, "actTimeout", max(USUAL_SECONDS, self.seconds or 0))))
        overage = max(0.0, float(_get(observation, "remainingOverageTime", 0)))
        seconds = min(MOST_SECONDS, act) if self.seconds is None else self.seconds
        limit = began + LIMIT * act + max(0.0, LIMIT * overage - 0.5)
        deadline = min(began + MARGIN * seconds, limit)
        best = None
        if position is not None:
            try:
                for best in self._actions(position, deadline, limit):
                    pass
            except _TimeIsUp as reason:
                if best is None:
                    _say(f"{reason}: playing by rules of thumb")
            except Exception as error:
                if not self._asks_function() and not isinstance(error, UnavailableError):
                    raise
                _say(f"the network failed with {error!r}: playing {'by rules of thumb' if best is None else 'the best move so far'}")
        spent = self._clock() - began
        if spent > act:
            _say(f"a move took {spent:.1f} s, which is {spent - act:.1f} s of the overage time of {overage:.1f} s")
        return thumb.move() if best is None else best

    def _asks_function(self) -> bool:
        return not (self.network is None or isinstance(self.network, (str, Evaluator)))

    def _actions(self, position: Positions, deadline: float, limit: float) -> Iterator[int]:
        """The best actions known, each from more visits than the one before: the policy's best action,
        which may take until the limit, and those of searches that end before the deadline."""
        function = self._asks_function()
        given: Any = self.network
        network: Any = self._remembering(deadline) if function else evaluator(given)
        # A game is to be won: the solver helps, also the network of a user.
        helped: Any = dict(lookahead=True, exact="free" not in position.board.rules, priors="flat", transpositions=True) if function else {}
        start = self._clock()
        if self._calls > 1 and start + self._call > limit:
            raise _TimeIsUp(f"the network takes {self._call:.1f} s, and only {limit - start:.1f} s are left")
        if function:
            found = search(position, network=network, visits=1, **helped)
            yield int(found.best[0])
            if found.proved[0] != 2:
                return
        else:
            yield int(network.evaluate(position).best[0])
            self._measure(self._clock() - start)

        def check(_done: int, _all: int) -> None:
            if self._clock() > deadline:
                raise _TimeIsUp

        visits, new = 1, 1  # of the last search, and of these those that asked the network
        while True:
            now = self._clock()
            each = max((now - start) / new, 1e-9)
            more = min(2 * visits, MOST_VISITS, (visits if function else 0) + int(min((deadline - now) / each, MOST_VISITS)))
            if more < visits + max(1, visits // 4):
                return
            start = now
            found = search(position, network=network, visits=more, progress=check, **helped)
            yield int(found.best[0])
            if found.proved[0] != 2:
                return
            visits, new = more, more - visits if function else more

    def _remembering(self, deadline: float) -> Network:
        """The function, which is called once for each position, so that a longer search repeats no
        call. After the first call none begins that would probably end after the deadline."""
        known: dict[bytes, Any] = {}
        ask: Any = self.network

        def network(positions: Positions) -> Any:
            key = positions.words.tobytes()
            if key not in known:
                start = self._clock()
                if known and start + self._call > deadline:
                    raise _TimeIsUp
                policy, value = ask(positions)
                known[key] = np.array(_numpy(policy)), np.array(_numpy(value))
                self._measure(self._clock() - start)
            return known[key]

        return network

    def _measure(self, seconds: float) -> None:
        """Updates the estimate of a call's duration. The first call may load the network, so the
        second one replaces it; then the slowest calls count longest."""
        self._call = seconds if self._calls < 2 else max(seconds, 0.9 * self._call)
        self._calls += 1


def _say(line: str) -> None:
    print("evald:", line, file=sys.stderr, flush=True)


def _get(of: Any, name: str, default: Any = None) -> Any:
    """A field of an observation or a configuration, or the default if it is missing or None."""
    value = of.get(name) if isinstance(of, Mapping) else getattr(of, name, None)
    return default if value is None else value


def _cells(of: Any, columns: int, rows: int) -> list[int]:
    """The cells of an observation's board, flat or as rows, 0, 1 or 2."""
    try:
        array = np.asarray(of)
    except ValueError:
        array = np.empty(0, object)
    if array.dtype.kind not in "iubf" or not np.isin(array, (0, 1, 2)).all():
        raise EvaldError("the observation's board must be a list of cells, each 0, 1 or 2, row by row from the top")
    if array.size != columns * rows:
        raise EvaldError(f"the observation's board has {array.size} cells, and the configuration has {columns} columns and {rows} rows")
    cells: list[int] = array.reshape(-1).astype(int).tolist()
    return cells


def _position(thumb: Thumb) -> Positions | None:
    """The position for evald, or None if evald cannot hold the board."""
    stones = sum(cell != 0 for cell in thumb.cells)
    if thumb.mark != 1 + stones % 2:
        raise EvaldError(f"mark is {thumb.mark}, but with {stones} stones player {1 + stones % 2} is to move")
    floating = (i for i, below in enumerate(thumb.cells[thumb.columns :]) if below == 0 and thumb.cells[i] != 0)
    if (i := next(floating, None)) is not None:
        raise EvaldError(f"the stone in cell {i} of the observation's board has nothing below it: the first row is the top one")
    if thumb.over():
        raise EvaldError("the observation's game is over: there is no move")
    try:
        of = board(f"{thumb.columns}x{thumb.rows}x{thumb.in_a_row}")
    except EvaldError as error:
        _say(f"{error}: playing by rules of thumb")
        return None
    return Positions(np.array(thumb.cells, np.int8).reshape(1, thumb.rows, thumb.columns), of)


def agent(observation: Any, configuration: Any) -> int | dict[str, int]:
    """An Agent with the shipped network, within the environment's actTimeout. Kaggle calls it with
    an `observation` and its `configuration`.

    >>> agent({"board": [0] * 35 + [1, 1, 1, 0, 2, 2, 2], "mark": 1}, {"columns": 7, "rows": 6, "inarow": 4, "actTimeout": 2})
    3
    """
    return _agent(observation, configuration)


_agent = Agent()
