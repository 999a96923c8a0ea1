"""Checks and runs ONNX files: reads cases from standard input and writes onnxruntime's outputs to standard output.

../example.py computes the planes from Kaggle boards, so it is tested as well.
"""
import json
import pathlib
import sys

import numpy
import onnx
import onnxruntime

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent))
import example  # noqa: E402

answers = []
for model in json.load(sys.stdin):
    onnx.checker.check_model(model["file"], full_check=True)
    session = onnxruntime.InferenceSession(model["file"], providers=["CPUExecutionProvider"])
    metadata = session.get_modelmeta().custom_metadata_map
    names = [o.name for o in session.get_outputs()]
    batches = []
    for b in model["batches"]:
        planes = numpy.concatenate([example.planes(board, mark, b["rows"], b["columns"], b["inarow"], b["gravity"])
                                    for board, mark in zip(b["boards"], b["marks"])])
        outputs = session.run(names, {"planes": planes})
        batches.append({name: {"shape": list(o.shape), "values": o.flatten().tolist()} for name, o in zip(names, outputs)})
    answers.append({"metadata": metadata, "batches": batches})
json.dump(answers, sys.stdout)
