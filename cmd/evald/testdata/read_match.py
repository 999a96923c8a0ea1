"""Prints what DuckDB and pandas see in a file that `evald match -o` wrote."""
import sys

import duckdb
import pandas

for name, type in duckdb.sql(f"select column_name, column_type from (describe from '{sys.argv[1]}')").fetchall():
    print(name, type)
for row in duckdb.sql(f"select game, pair, opening, first, second, points, reason, plies, opening_moves, moves "
                      f"from '{sys.argv[1]}' order by game").fetchall():
    print(*row, sep=" | ")
print(pandas.read_parquet(sys.argv[1]).shape)
