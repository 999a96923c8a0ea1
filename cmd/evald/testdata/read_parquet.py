"""Prints what DuckDB and pandas see in a file that `evald eval --format parquet` wrote."""
import sys

import duckdb
import pandas

for name, type in duckdb.sql(f"select column_name, column_type from (describe from '{sys.argv[1]}')").fetchall():
    print(name, type)
for row in duckdb.sql(f"select line, position, to_move, len(policy), round(wdl[1], 4), best, source, model, error "
                      f"from '{sys.argv[1]}' order by line").fetchall():
    print(*row, sep=" | ")
frame = pandas.read_parquet(sys.argv[1])
print(frame.shape, round(float(frame.policy[0].sum()), 5), frame.error.notna().sum())
