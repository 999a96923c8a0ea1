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



def answer(session, inputs):
    names = [o.name for o in session.get_outputs()]
    return {name: {"shape": list(o.shape), "values": o.flatten().tolist()} for name, o in zip(names, session.run(names, inputs))}


answers = []
for model in json.load(sys.stdin):
    onnx.checker.check_model(model["file"], full_check=True)
    session = onnxruntime.InferenceSession(model["file"], providers=["CPUExecutionProvider"])
    metadata = session.get_modelmeta().custom_metadata_map
    batches = []
    for b in model.get("batches", []):
        planes = numpy.concatenate([example.planes(board, mark, b["rows"], b["columns"], b["inarow"], b["gravity"])
                                    for board, mark in zip(b["boards"], b["marks"])])
        batches.append(answer(session, {"planes": planes}))
    for b in model.get("tables", []):
        batches.append(answer(session, {"rows": numpy.array(b["rows"], numpy.int64), "legal": numpy.array(b["legal"], numpy.float32)}))
    answers.append({"metadata": metadata, "batches": batches})
json.dump(answers, sys.stdout)
