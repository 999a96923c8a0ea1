"""Prints what DuckDB and pandas see in a file of records, draws a board of it, and writes it anew with pyarrow."""
import sys

import duckdb
import pandas
import pyarrow
import pyarrow.parquet

ours, theirs = sys.argv[1:]
for name, type in duckdb.sql(f"select column_name, column_type from (describe from '{ours}')").fetchall():
    print(name, type)
print(duckdb.sql(f"select count(*), count(distinct rules), sum(ply), sum(z), sum(len(visits)) from '{ours}'").fetchall())
print(duckdb.sql(f"select count(distinct game), min(game), count(*) filter (move = 0), count(*) filter (visits[move] > 0) from '{ours}'").fetchall())

frame = pandas.read_parquet(ours)
print(frame.shape, frame.isna().sum().sum())
last = frame.iloc[-1]
print(last.rules, last.visits.tolist(), last.q, last.z, last.source, last.game, last.move)
for r in reversed(range(6)):  # own stones o, the other side's x
    print("".join("." if not last.all_lo >> (7 * c + r) & 1 else "o" if last.own_lo >> (7 * c + r) & 1 else "x" for c in range(7)))

# Records made in Python: all columns required, and the version in the metadata.
required = lambda name, type: pyarrow.field(name, type, nullable=False)
schema = pyarrow.schema([
    required("rules", pyarrow.string()),
    required("own_lo", pyarrow.uint64()), required("own_hi", pyarrow.uint64()),
    required("all_lo", pyarrow.uint64()), required("all_hi", pyarrow.uint64()),
    required("visits", pyarrow.list_(required("element", pyarrow.uint32()))),
    required("q", pyarrow.float32()), required("z", pyarrow.int8()), required("gameover", pyarrow.uint8()),
    required("ply", pyarrow.int32()), required("source", pyarrow.string()), required("network", pyarrow.string()),
    required("weight", pyarrow.float32()), required("game", pyarrow.int64()), required("move", pyarrow.uint8()),
], metadata={"evald.records": "2"})
pyarrow.parquet.write_table(pyarrow.Table.from_pandas(frame, schema, preserve_index=False).replace_schema_metadata(schema.metadata), theirs,
                            compression="zstd")
