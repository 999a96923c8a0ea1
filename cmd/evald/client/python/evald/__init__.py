"""Evaluates, searches, solves and plays ConnectX positions (Connect Four on any board) in large batches.

    import evald
    evald.evaluate("4453")                               # the network that ships
    evald.search(positions, network=f, visits=400)       # your network, our batched search
    for game in evald.selfplay(1000, network=f): ...
    evald.solve(positions)                               # exact scores of all moves

A module of its own, which is imported by its name, connects evald with each framework: evald.torch, evald.gymnasium, evald.pettingzoo,
evald.openspiel, evald.mctx, evald.kaggle, evald.columns (pandas, Spark, Dask, Ray) and evald.duckdb.

Positions come in many forms: see Positions. Actions count from 0. All values are those of the side to move.
"""
from ._environment import Environment
from ._evaluator import Answers, Evaluator, evaluate, version
from ._library import ClosedError, EvaldError
from ._positions import Board, Positions, board
from ._search import NO_MOVE, Game, Searched, search, selfplay, solve
from ._work import Network

__all__ = [
    "NO_MOVE", "Answers", "Board", "ClosedError", "Environment", "EvaldError", "Evaluator", "Game", "Network", "Positions", "Searched", "board",
    "evaluate", "search", "selfplay", "solve", "version",
]
