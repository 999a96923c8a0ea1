"""For pandas, and for frameworks that call functions on pandas data, such as Spark and Dask: answers as columns.

    frame.join(evald.columns.answers(frame))                              # pandas
    ddf.map_partitions(evald.columns.answers, meta=evald.columns.META)    # Dask

    @pandas_udf(evald.columns.SCHEMA)                                     # Spark
    def answers(moves: pd.Series) -> pd.DataFrame:
        return evald.columns.answers(moves)

A row that is no position is an error of the whole column; frameworks.md has the lines with which it
has an error of its own. For Ray see evald.ray, and for DuckDB evald.duckdb.
"""
from __future__ import annotations

import os
from typing import Any, Union

import numpy as np
import pandas as pd

from ._arguments import wrong
from ._evaluator import Evaluator, evaluator, from_columns
from ._positions import Board

__all__ = ["META", "SCHEMA", "answers"]

# The columns of answers, in Spark's notation and as an empty frame.
SCHEMA = "win float, draw float, loss float, value float, best int, policy array<float>, source string"
META = pd.DataFrame({
    **{name: np.empty(0, np.float32) for name in ("win", "draw", "loss", "value")},
    "best": np.empty(0, np.int32), "policy": np.empty(0, object), "source": pd.Series([""])[:0],  # the dtype of text depends on the version of pandas
})


def answers(data: Union[pd.DataFrame, pd.Series[Any]], rules: str | Board = "7x6x4", model: str | os.PathLike[str] | Evaluator | None = None) -> pd.DataFrame:
    """The answers of a network to `data`: a column of moves, or a frame with the column `moves`, or
    `own` and `all`, or `own_lo`, `own_hi`, `all_lo` and `all_hi` (see Positions), of the game
    `rules`. They have the index of the data. `best` is the likeliest action, counted from 0, or -1
    if the game is over. `model` is as in evald.evaluate; a named model is opened once in each
    process.

    >>> answers(pd.Series(["445566", "1212121"]))[["best", "source"]].values.tolist()
    [[2, 'rules'], [-1, 'terminal']]
    """
    if not isinstance(data, (pd.DataFrame, pd.Series)):
        raise wrong("data", data, "a pandas Series or DataFrame")
    batch = {str(name): data[name] for name in data} if isinstance(data, pd.DataFrame) else {"moves": data}
    a = evaluator(model).evaluate(from_columns(batch, rules))
    return pd.DataFrame({
        "win": a.wdl[:, 0], "draw": a.wdl[:, 1], "loss": a.wdl[:, 2], "value": a.value, "best": a.best.astype(np.int32),
        "policy": list(a.policy), "source": pd.Series(a.source, data.index, META["source"].dtype),
    }, index=data.index)
