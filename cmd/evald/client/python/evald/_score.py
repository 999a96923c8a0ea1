"""Exact results of positions, and the accuracy of networks and searches against them."""
from __future__ import annotations

import json
import os
import pathlib
from typing import TYPE_CHECKING, Any, Iterable, Iterator, Literal, Mapping, Sequence, Union

import numpy as np
import numpy.typing as npt

from . import _arguments as arguments
from ._evaluator import Evaluator
from ._library import EvaldError, error_text, failed, library, told
from ._match import columns
from ._positions import Board, Positions, PositionsLike, board
from ._progress import Progress, progress_of
from ._search import NO_MOVE, AnyNetwork, _asks, _solved, asked, chosen_of, padding
from ._values import Value
from ._work import Work

if TYPE_CHECKING:
    from ._search import SearchOptions, Unpack

Path = Union[str, "os.PathLike[str]"]


class Labels(Value):
    """Positions with their exact results for the side to move.

    `positions` [N]; `result` [N] with best play: 1 won, 0 drawn, -1 lost, NO_MOVE if it is not
    known; and `moves` [N,A], the same after each action, NO_MOVE for illegal ones.
    """

    __slots__ = ("positions", "result", "moves")

    def __init__(self, positions: Positions, moves: npt.NDArray[np.int32]) -> None:
        self.positions, self.moves = positions, moves
        self.result: npt.NDArray[np.int32] = moves.max(1, initial=NO_MOVE)

    def __len__(self) -> int:
        return len(self.result)

    def __repr__(self) -> str:
        counts = ", ".join(f"{int((self.result == r).sum())} {word}" for r, word in ((1, "won"), (0, "drawn"), (-1, "lost"), (NO_MOVE, "unknown")))
        return f"<labels of {self.positions!r}: {counts}>"


Set = Union[Path, Labels, tuple[PositionsLike, Union[Labels, npt.NDArray[Any]]]]


def labels(positions: PositionsLike, rules: str | Board | None = None, *, nodes: int | None = None, threads: int | None = None,
           progress: Progress | None = None) -> Labels:
    """The exact result of each action in each of `positions` of the game `rules` (see Positions),
    by a solver: 1 wins, 0 draws, -1 loses. This is much faster than `solve`, whose scores say how
    fast too. With `nodes` all actions of a position in which one takes more nodes have NO_MOVE, and
    so has its result. `threads` is the number of processors, None for all. `progress` is called
    with the numbers of positions that are done and of all; True shows a bar of tqdm. No game may be
    over.

    >>> labels("4444437").moves[0].tolist()      # column 6 wins, the others lose
    [-1, -1, -1, -1, -1, 1, -1]
    """
    of = Positions(positions, rules)
    return Labels(of, _solved(of, nodes, threads, progress, results=True))


class Scores(Value):
    """The accuracy of a network, and of its searches, over positions with exact results: a row for
    each of V numbers of visits.

    `visits` [V], 0 for the policy without a search; `good` [V] the share of moves that keep win,
    draw or loss; `perfect` [V] the share of those with the best exact score; `critical` [V] `good`
    over the positions in which a move can worsen the result, NaN if there are none; `regret` [V]
    the mean score given away. All have 95% intervals [V,2]: `good_interval`, `perfect_interval`,
    `critical_interval` and `regret_interval`. `positions` and `critical_positions` are the numbers
    of positions. `report` is all of this and more, also for each set and by stones on the board, as
    `evald score --json` writes it.

    Equally likely moves share the credit. With exact results instead of scores, good is perfect,
    and regret is in results.
    """

    __slots__ = ("names", "visits", "positions", "critical_positions", "good", "perfect", "critical", "regret",
                 "good_interval", "perfect_interval", "critical_interval", "regret_interval", "_report")

    good: npt.NDArray[np.float64]
    perfect: npt.NDArray[np.float64]
    critical: npt.NDArray[np.float64]
    regret: npt.NDArray[np.float64]
    good_interval: npt.NDArray[np.float64]
    perfect_interval: npt.NDArray[np.float64]
    critical_interval: npt.NDArray[np.float64]
    regret_interval: npt.NDArray[np.float64]

    def __init__(self, visits: Sequence[int], report: list[dict[str, Any]]) -> None:
        self._report = json.dumps(report)
        self.names, self.visits = [one["model"] for one in report], np.array(visits)
        self.positions, self.critical_positions = int(report[0]["all"]["positions"]), int(report[0]["all"]["critical"])
        for name, field in dict(good="good", perfect="perfect", critical="critical_good", regret="regret").items():
            means = [one["all"][field] for one in report]
            if name == "critical" and self.critical_positions == 0:
                means = [dict.fromkeys(("value", "low", "high"), np.nan)] * len(report)
            setattr(self, name, np.array([mean["value"] for mean in means]))
            setattr(self, name + "_interval", np.array([[mean["low"], mean["high"]] for mean in means]))

    @property
    def report(self) -> list[dict[str, Any]]:
        """The report of `evald score --json`, with an entry for each number of visits."""
        report: list[dict[str, Any]] = json.loads(self._report)
        return report

    def __len__(self) -> int:
        return len(self.visits)

    def __repr__(self) -> str:
        """A line for each number of visits."""
        def share(of: npt.NDArray[np.float64], interval: npt.NDArray[np.float64], unit: int, digits: int) -> str:
            return "-" if np.isnan(of) else f"{unit * of:.{digits}f} ±{unit * max(interval[1] - of, of - interval[0]):.{digits}f}"

        rows = [[f"{self.positions} positions", "perfect %", "good %", "regret", f"good % of {self.critical_positions} critical"]]
        for k, name in enumerate(self.names):
            rows.append([name, share(self.perfect[k], self.perfect_interval[k], 100, 1), share(self.good[k], self.good_interval[k], 100, 1),
                         share(self.regret[k], self.regret_interval[k], 1, 3), share(self.critical[k], self.critical_interval[k], 100, 1)])
        return columns(rows)


def score(network: AnyNetwork, sets: Set | Iterable[Path] | Mapping[str, Set], rules: str | Board | None = None, *, visits: int | Sequence[int] = (0, 100),
          selection: Literal["puct", "uct", "gumbel", "flat"] = "puct", exact: int | bool | None = None, lookahead: bool | None = None, raw: bool = False,
          sizes: Sequence[int] | None = None, progress: Progress | None = None, **search: Unpack[SearchOptions]) -> Scores:
    """Compares the likeliest moves of a network, and of searches with it, with exact scores, as
    `evald score` does.

    `network` is a function (see Network), a module of PyTorch, an Evaluator, or the name or path of
    a model. `sets` is a file with positions and exact scores (`evald solve --scores`, `evald help
    score`), a list of such files, Labels, or positions with the scores [N,A] of `solve` or the
    results [N,A] of `labels`, whose rows of NO_MOVE alone are left out. A dict of sets gives them
    names; several sets have a row each in `Scores.report`. All positions must be of one game; with
    `rules`, positions of other games in files are skipped.

    `visits` is one number of visits or several, each 0 or from 2 to 2^30. 0 is the policy without a
    search. Unless `raw` is True, the rules answer positions that the next stones decide, and leave
    out moves that lose to the next stone; with `raw` the policy is the network's own. `selection`,
    `exact` and `lookahead` are as in search: functions are searched plainly, unless these say
    otherwise. `search` are its further arguments that change what it finds, such as explore=2.
    With `sizes` a function sees only batches of these numbers of positions. `progress` is called
    with the numbers of answers so far and of all; True shows a bar of tqdm.

    >>> score("bitsquares", (["12", "3"], labels(["12", "3"], "4x4x3")), "4x4x3", visits=20).good.shape
    (1,)
    """
    of = asked(network)
    several = visits if isinstance(visits, (Sequence, np.ndarray)) and np.ndim(visits) == 1 else [visits]
    numbers = [arguments.count("visits", one, 0, 1 << 30) for one in several]
    if not numbers or 1 in numbers:
        raise arguments.wrong("visits", visits, "0 or from 2 on, or several of these")
    raw, told_to = arguments.flag("raw", raw), progress_of(progress)
    if raw and 0 not in numbers:
        raise arguments.wrong("raw", raw, "False, unless visits has 0, the policy itself")
    padded = padding(sizes, of)
    named, where = list(_named(sets)), None if rules is None else board(rules)
    if not named:
        raise arguments.wrong("sets", sets, "a file, Labels, positions with their scores, or several of these")
    parts: list[tuple[Positions, npt.NDArray[np.int32]]] = []
    given: list[dict[str, Any]] = []
    for name, one in named:
        if isinstance(one, str):
            if where is None:
                where = board(_rules_of(one))
            given.append(dict(name=name, file=one))
            continue
        part = _scored(name, one, where)
        where = part[0].board
        parts.append(part)
        given.append(dict(name=name, rows=len(part[0])))
    assert where is not None
    words = np.concatenate([np.empty((0, 4), np.uint64)] + [positions._words for positions, _ in parts])
    scores = np.concatenate([np.empty((0, where.actions), np.int32)] + [scores for _, scores in parts])
    number, function, held = _asks(of)
    if raw and held is not None and held.service is not None:
        raise EvaldError("raw is True, and must be False with a service, whose answers have the rules' help: open the network here, without url")
    options = arguments.options(dict(sets=given, visits=numbers, raw=raw, other=rules is not None, search=chosen_of(dict(selection=selection, exact=exact, lookahead=lookahead, **search))))
    error = error_text()
    call = library.score(number, where._number, len(words), library.pointer(words), options, library.pointer(scores), error)
    with Work(call, where, function, error, (words, scores, held), padded) as work:
        work.wait(told_to)
        return Scores(numbers, work.result())


def _named(sets: Any) -> Iterator[tuple[str, Any]]:
    """The sets with their names: files as text, the others as they are."""
    def one(name: str, of: Any) -> Any:
        return arguments.path(name, of) if isinstance(of, (str, os.PathLike)) else of

    if isinstance(sets, Mapping):
        for name, of in arguments.mapping("sets", sets).items():
            yield name, one(f"sets[{name!r}]", of)
    elif isinstance(sets, Labels) or isinstance(sets, tuple) and len(sets) == 2 and not isinstance(sets[1], (str, os.PathLike)):
        yield "labels", sets
    elif isinstance(sets, (str, os.PathLike)):
        yield pathlib.PurePath(sets).stem, one("sets", sets)
    elif isinstance(sets, Iterable) and not isinstance(sets, (bytes, np.ndarray, Positions)):
        files = [arguments.path(f"sets[{i}]", of) for i, of in enumerate(sets)]
        names = [pathlib.PurePath(file).stem for file in files]
        for i, name in enumerate(names):
            if name in names[:i]:
                raise EvaldError(f"sets: {files[names.index(name)]} and {files[i]} are both called {name}: give a dict, whose keys are their names")
        yield from zip(names, files)
    else:
        raise arguments.wrong("sets", sets, "a file, Labels, positions with their scores, or several of these")


def _rules_of(file: str) -> str:
    """The rules of the first position of a file."""
    error, rules = error_text(), error_text()
    size = library.score_rules(file.encode(errors="surrogateescape"), rules, len(rules), error)
    if size < 0:
        raise failed(size, error)
    return rules.value.decode()


def _scored(name: str, of: Any, where: Board | None) -> tuple[Positions, npt.NDArray[np.int32]]:
    """Positions with the scores of their moves, without those that are not known."""
    if isinstance(of, Labels):
        of = (of.positions, of)
    if not isinstance(of, tuple) or len(of) != 2:
        raise arguments.wrong(f"sets[{name!r}]", of, "a file, Labels, or positions with their scores")
    positions, scores = Positions(of[0], where), of[1]
    if isinstance(scores, Labels):
        if scores.positions != positions:
            raise EvaldError(f"sets[{name!r}]: the labels are of other positions")
        scores = scores.moves
    array = arguments.whole(f"sets[{name!r}]: scores", scores, np.int32)
    if array.shape != (len(positions), positions.board.actions):
        raise EvaldError(f"sets[{name!r}]: scores have the shape {list(array.shape)}, and must have [{len(positions)},{positions.board.actions}]")
    known = (array != NO_MOVE).any(1)
    return positions[known], np.ascontiguousarray(array[known])
