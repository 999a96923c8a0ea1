"""Measures a network in onnxruntime, float32 on the CPU, for `evald bench eval --peer onnxruntime`.

    peer.py MODEL.safetensors PLANES BATCH ROWS COLUMNS THREADS

PLANES is float32 [BATCH,5,ROWS,COLUMNS]. The first line of output is {"version": .., "wdl": [..], "gameover": [..],
"cells": [..]}, the logits of the batch; then each line of input, a number of seconds, is answered with the positions a
second of a round of about that length.
"""

import json
import sys
import time

import numpy
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper
from safetensors import safe_open


def graph(path, batch, rows, columns):
    """The layers of nn/net as an ONNX model."""
    nodes, weights = [], []
    with safe_open(path, "numpy") as file:
        for name in file.keys():
            weights.append(numpy_helper.from_array(file.get_tensor(name), name))
        blocks = json.loads(file.metadata()["evald.config"])["blocks"]

    def node(op, inputs, out, **attributes):
        nodes.append(helper.make_node(op, inputs, [out], **attributes))
        return out

    def conv(x, layer, out, pad):
        return node("Conv", [x, layer + ".weight", layer + ".bias"], out, pads=[pad] * 4)

    def linear(x, layer, out):
        return node("Gemm", [x, layer + ".weight", layer + ".bias"], out, transB=1)

    x = node("Relu", [conv("planes", "stem", "stem", 1)], "x")
    for i in range(blocks):
        name = f"blocks.{i}"
        t = node("Relu", [conv(x, name + ".conv1", name + ".1", 1)], name + ".t")
        u = conv(t, name + ".conv2", name + ".2", 1)
        x = node("Relu", [node("Add", [x, u], name + ".sum")], name)
    v = node("Relu", [conv(x, "value.conv", "value.0", 0)], "value")
    mean = node("Flatten", [node("GlobalAveragePool", [v], "mean.0")], "mean")
    most = node("Flatten", [node("GlobalMaxPool", [v], "max.0")], "max")
    pool = node("Concat", [mean, most], "pool", axis=1)
    f = node("Relu", [linear(pool, "value.fc", "fc.0")], "fc")
    linear(f, "value.wdl", "wdl")
    linear(f, "value.gameover", "gameover")
    q = node("Relu", [conv(x, "policy.conv", "policy.0", 0)], "policy")
    conv(q, "policy.logit", "cells", 0)

    def info(name, *shape):
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, [batch, *shape])

    outputs = [info("wdl", 3), info("gameover", 4), info("cells", 1, rows, columns)]
    g = helper.make_graph(nodes, "evald", [info("planes", 5, rows, columns)], outputs, weights)
    model = helper.make_model(g, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model)
    return model.SerializeToString()


def main():
    path, planes = sys.argv[1:3]
    batch, rows, columns, threads = map(int, sys.argv[3:])
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(graph(path, batch, rows, columns), options, ["CPUExecutionProvider"])
    feed = {"planes": numpy.fromfile(planes, numpy.float32).reshape(batch, 5, rows, columns)}
    answer = {"version": onnxruntime.__version__}
    for name, values in zip(["wdl", "gameover", "cells"], session.run(["wdl", "gameover", "cells"], feed)):
        answer[name] = values.ravel().tolist()
    print(json.dumps(answer), flush=True)
    for line in sys.stdin:
        calls, start = 0, time.perf_counter()
        while time.perf_counter() - start < float(line):
            session.run(None, feed)
            calls += 1
        print(calls * batch / (time.perf_counter() - start), flush=True)


main()
