"""For DuckDB: functions of positions in SQL.

    evald.duckdb.register(connection)
    connection.sql("SELECT moves, evald(moves).value, evald_scores(moves) FROM 'positions.parquet'")

The arguments are the moves (VARCHAR), own and all stones (UBIGINT), or own_lo, own_hi, all_lo and all_hi (UBIGINT) of a position; see
evald.Positions. If an argument is NULL, the result is NULL. Actions count from 0.

| function | result |
|---|---|
| evald(...) | STRUCT(win, draw, loss, value, best, policy, source): a network's answer |
| evald_value(...) | FLOAT: win minus loss, by the same network |
| evald_scores(...) | INTEGER[]: the exact score of each action (see evald.solve), NULL for illegal ones, [] if the game is over |
| evald_bits(...) | STRUCT(own_lo, own_hi, all_lo, all_hi), UBIGINT |
"""
from __future__ import annotations

import os
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa

from ._arguments import text, wrong
from ._evaluator import Evaluator, evaluator, stacked
from ._library import EvaldError
from ._positions import Board, Positions, board
from ._search import NO_MOVE, solve

__all__ = ["register"]

ANSWER = "STRUCT(win FLOAT, draw FLOAT, loss FLOAT, value FLOAT, best INTEGER, policy FLOAT[], source VARCHAR)"
NAMES = {2: ("own", "all"), 4: ("own_lo", "own_hi", "all_lo", "all_hi")}
BITS = "STRUCT(own_lo UBIGINT, own_hi UBIGINT, all_lo UBIGINT, all_hi UBIGINT)"


def register(connection: duckdb.DuckDBPyConnection, rules: str | Board = "7x6x4", model: str | os.PathLike[str] | Evaluator | None = None, *, name: str = "evald") -> None:
    """Adds the functions to a `connection`, for positions of the game `rules`. `model` is as in
    evald.evaluate. `name` is the prefix of their names, so that a connection can have functions for
    several rules.

    >>> connection = duckdb.connect()
    >>> register(connection)
    >>> connection.sql("SELECT evald('445566').best, evald_value('445566'), evald_bits('4').all_lo").fetchall()
    [(2, 1.0, 2097152)]
    """
    opened, rules = evaluator(model), board(rules)
    text("name", name)
    if not isinstance(connection, duckdb.DuckDBPyConnection):
        raise wrong("connection", connection, "a connection of duckdb")

    def answer(*columns: Any) -> pa.StructArray:
        a = opened.evaluate(_positions(columns, rules))
        fields = [*a.wdl.T, a.value, a.best.astype(np.int32)]
        arrays = [*(pa.array(np.ascontiguousarray(field)) for field in fields), _lists(a.policy), pa.array(a.source, pa.string())]
        return pa.StructArray.from_arrays(arrays, ["win", "draw", "loss", "value", "best", "policy", "source"])

    def value(*columns: Any) -> pa.Array:
        return pa.array(opened.evaluate(_positions(columns, rules)).value)

    def scores(*columns: Any) -> pa.Array:
        of = _positions(columns, rules)
        going = np.flatnonzero(of.results() == 2)
        found = np.full((len(of), of.board.actions), NO_MOVE, np.int32)
        found[going] = solve(of[going])
        lists: list[list[int | None]] = [[] for _ in range(len(of))]
        for row in going:
            lists[row] = [None if score == NO_MOVE else score for score in found[row].tolist()]
        return pa.array(lists, pa.list_(pa.int32()))

    def bits(*columns: Any) -> pa.StructArray:
        words = _positions(columns, rules).words
        return pa.StructArray.from_arrays([pa.array(np.ascontiguousarray(column)) for column in words.T], ["own_lo", "own_hi", "all_lo", "all_hi"])

    create: Any = connection.create_function  # its type annotations lack functions on Arrow arrays
    for suffix, function, result in (("", answer, ANSWER), ("_value", value, "FLOAT"), ("_scores", scores, "INTEGER[]"), ("_bits", bits, BITS)):
        create(name + suffix, function, None, result, type="arrow")


def _positions(columns: tuple[Any, ...], rules: Board) -> Positions:
    if len(columns) not in (1, *NAMES):
        raise EvaldError(f"there are {len(columns)} arguments, and must be 1 (moves), 2 (own, all) or 4 (own_lo, own_hi, all_lo, all_hi)")
    if len(columns) == 1:
        return Positions(columns[0].to_pylist(), rules)
    return Positions(stacked(NAMES[len(columns)], [column.to_numpy() for column in columns]), rules)


def _lists(rows: Any) -> pa.Array:
    """Converts rows [N,A] to lists."""
    n, a = rows.shape
    return pa.ListArray.from_arrays(pa.array(np.arange(0, n * a + 1, a, dtype=np.int32)), pa.array(rows.reshape(-1)))
