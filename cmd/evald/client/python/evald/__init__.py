"""Evaluates, searches, solves and plays ConnectX positions (Connect Four on any board) in large batches.

    import evald
    evald.evaluate("4453")                               # the network that ships
    evald.search(positions, network=f, visits=400)       # evald's batched search with your network
    for game in evald.selfplay(1000, network=f): ...
    evald.Forest(positions, network=f)                   # the same search, step by step
    evald.solve(positions)                               # exact scores of all moves
    evald.labels(positions)                              # exact results of all moves
    evald.score(f, "positions.txt", visits=(0, 100))     # accuracy against exact scores
    evald.match({"new": f, "old": g}, "5x4x4")           # Elo with intervals
    evald.read("games/*.parquet")                        # records, as arrays
    evald.write(games, "games.parquet")                  # records for evald train
    evald.reanalyse(records, network=f)                  # new searches for old records

For each framework there is a module to import: evald.torch, evald.gymnasium, evald.pettingzoo,
evald.openspiel, evald.mctx, evald.kaggle, evald.ray, evald.columns (pandas, Spark, Dask) and evald.duckdb.

Positions have many forms: see Positions. Actions count from 0. All values are for the side to move.

Objects are values: pickles and copies are equal to the original and share nothing with it, also in another process, and what a call has returned
never changes afterwards. Wrong arguments raise an EvaldError, which names argument and value.
"""
from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ._environment import Environment as Environment
    from ._evaluator import Answers as Answers, Evaluator as Evaluator, evaluate as evaluate, version as version
    from ._forest import Forest as Forest
    from ._library import ClosedError as ClosedError, EvaldError as EvaldError, IndexingError as IndexingError, UnavailableError as UnavailableError
    from ._match import Match as Match, match as match
    from ._positions import Board as Board, Positions as Positions, board as board
    from ._records import Records as Records, read as read, reanalyse as reanalyse, write as write
    from ._score import Labels as Labels, Scores as Scores, labels as labels, score as score
    from ._search import NO_MOVE as NO_MOVE, Game as Game, Searched as Searched, Tree as Tree, search as search, selfplay as selfplay, solve as solve
    from ._work import Network as Network

_modules = {
    "_environment": ["Environment"],
    "_evaluator": ["Answers", "Evaluator", "evaluate", "version"],
    "_forest": ["Forest"],
    "_library": ["ClosedError", "EvaldError", "IndexingError", "UnavailableError"],
    "_match": ["Match", "match"],
    "_positions": ["Board", "Positions", "board"],
    "_records": ["Records", "read", "reanalyse", "write"],
    "_score": ["Labels", "Scores", "labels", "score"],
    "_search": ["NO_MOVE", "Game", "Searched", "Tree", "search", "selfplay", "solve"],
    "_work": ["Network"],
}
_homes = {name: module for module, names in _modules.items() for name in names}
__all__ = sorted(_homes)


def __getattr__(name: str) -> Any:  # imports numpy only when it is needed: __main__.py, which also imports this file, does not need it
    if name == "__version__":
        from importlib.metadata import PackageNotFoundError, version

        try:
            return version("evald")
        except PackageNotFoundError:  # the files of a checkout
            return "0.0.0.dev0"
    if name not in _homes:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        module = importlib.import_module("." + _homes[name], __name__)
    except ImportError as error:
        why = str(error).strip().rpartition("\n")[2]
        if "per process" in why or "subinterpreter" in why:
            raise ImportError(f"evald needs numpy, which a second interpreter of a process cannot use ({why}): use evald in the main interpreter, or in another process") from error
        raise
    found = getattr(module, name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return __all__
