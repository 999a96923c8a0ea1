"""Runs a model with onnxruntime in batches of several sizes: run.py MODEL PLANES OUTPUT ROWS COLUMNS BATCH...

PLANES has float32 [N,5,ROWS,COLUMNS]; OUTPUT gets, for every size of batches, the raw outputs wdl and cells of all positions, a row of
wdl before each row of cells.
"""
import sys

import numpy
import onnxruntime

model, planes, output = sys.argv[1:4]
rows, columns, *batches = map(int, sys.argv[4:])
x = numpy.fromfile(planes, numpy.float32).reshape(-1, 5, rows, columns)
session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
with open(output, "wb") as file:
    for n in batches:
        for i in range(0, len(x), n):
            wdl, cells = session.run(["wdl", "cells"], {"planes": x[i:i + n]})
            file.write(numpy.concatenate([wdl, cells.reshape(len(cells), -1)], axis=1).tobytes())
