"""Measures a network in onnxruntime or OpenVINO on the CPU, for `evald bench eval --peer`.

    peer.py LIBRARY MODEL.onnx ROWS COLUMNS THREADS CALIBRATION POSITIONS

LIBRARY is onnxruntime or openvino. MODEL.onnx is what `evald model export` writes. CALIBRATION and POSITIONS are planes,
float32 [N,5,ROWS,COLUMNS]; the int8 network is calibrated on the former. The first line of output is {"version": ..,
"settings": .., "precisions": [..]}. Then each line of input is answered with a line:

    {"precision": P}                               {"wdl": [..], "policy": [..]}   the probabilities of POSITIONS
    {"precision": P, "batch": N, "seconds": S}     {"rate": R}                     positions a second
"""

import json
import os
import sys
import time

import numpy


class Onnxruntime:
    def __init__(self, path, threads, calibration):
        import onnxruntime

        self.library, self.path, self.threads, self.calibration = onnxruntime, path, threads, calibration
        self.version = onnxruntime.__version__
        self.precisions = ["f32", "int8"]
        self.settings = (f"intra_op_num_threads={threads}, fixed batch; int8 by quantize_static: QDQ, MinMax, "
                         "uint8 activations, int8 weights per channel, Conv, Gemm, Add and Relu")

    def quantize(self, path):
        # Quantise only the layers, because the policy's mask contains a constant of -1e30.
        from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static
        from onnxruntime.quantization.shape_inference import quant_pre_process

        class Reader(CalibrationDataReader):
            def __init__(self, planes):
                self.batches = iter([{"planes": planes}])

            def get_next(self):
                return next(self.batches, None)

        quant_pre_process(self.path, "prepared.onnx", skip_symbolic_shape=True)
        quantize_static("prepared.onnx", path, Reader(self.calibration), quant_format=QuantFormat.QDQ, per_channel=True,
                        op_types_to_quantize=["Conv", "Gemm", "Add", "Relu"],
                        activation_type=QuantType.QUInt8, weight_type=QuantType.QInt8)

    def compile(self, precision, shape):
        path = self.path if precision == "f32" else "int8.onnx"
        if not os.path.exists(path):
            self.quantize(path)
        options = self.library.SessionOptions()
        options.intra_op_num_threads = self.threads
        options.inter_op_num_threads = 1
        for name, size in zip(["N", "H", "W"], [shape[0], *shape[2:]]):
            options.add_free_dimension_override_by_name(name, size)
        session = self.library.InferenceSession(path, options, ["CPUExecutionProvider"])
        return lambda planes: session.run(["outcome", "policy"], {"planes": planes})


class Openvino:
    def __init__(self, path, threads, calibration):
        os.environ["NNCF_CI"] = "1"  # turns telemetry off
        import nncf
        import openvino

        self.nncf, self.core, self.threads, self.calibration = nncf, openvino.Core(), threads, calibration
        self.float, self.int8 = self.core.read_model(path), None
        self.version = openvino.__version__.split("-")[0]
        self.precisions = ["f32", "int8"]
        without = ", no bf16 on this processor"
        if "BF16" in self.core.get_property("CPU", "OPTIMIZATION_CAPABILITIES"):
            self.precisions.insert(1, "bf16")
            without = ""
        self.settings = (f"INFERENCE_NUM_THREADS={threads}, NUM_STREAMS=1, PERFORMANCE_HINT=LATENCY, fixed batch, "
                         f"INFERENCE_PRECISION_HINT=bf16 for bf16 and else f32{without}; "
                         f"int8 by NNCF {nncf.__version__}: quantize with its defaults")

    def quantized(self):
        positions = [self.calibration[i : i + 1] for i in range(len(self.calibration))]
        return self.nncf.quantize(self.float, self.nncf.Dataset(positions), subset_size=len(positions))

    def compile(self, precision, shape):
        if precision == "int8" and not self.int8:
            self.int8 = self.quantized()
        model = (self.int8 if precision == "int8" else self.float).clone()
        model.reshape({"planes": list(shape)})
        compiled = self.core.compile_model(model, "CPU", {
            "INFERENCE_NUM_THREADS": self.threads,
            "NUM_STREAMS": 1,
            "PERFORMANCE_HINT": "LATENCY",
            "INFERENCE_PRECISION_HINT": "bf16" if precision == "bf16" else "f32",
        })

        def answers(planes):
            out = compiled(planes)
            return out["outcome"], out["policy"]

        return answers


def rate(work, planes, seconds):
    calls, start = 0, time.perf_counter()
    while calls == 0 or time.perf_counter() - start < seconds:
        work(planes)
        calls += 1
    return calls * len(planes) / (time.perf_counter() - start)


def main():
    # The libraries' tools print to standard output, which must contain only answers.
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    def say(answer):
        print(json.dumps(answer), file=out, flush=True)

    library, path, rows, columns, threads, *files = sys.argv[1:]
    calibration, positions = (numpy.fromfile(f, numpy.float32).reshape(-1, 5, int(rows), int(columns)) for f in files)
    peer = {"onnxruntime": Onnxruntime, "openvino": Openvino}[library](path, int(threads), calibration)
    say({"version": peer.version, "settings": peer.settings, "precisions": peer.precisions})

    compiled = {}  # networks by batch and precision
    for line in sys.stdin:
        ask = json.loads(line)
        batch = ask.get("batch", len(positions))
        planes = numpy.resize(positions, (batch, *positions.shape[1:]))
        key = batch, ask["precision"]
        if key not in compiled:
            compiled[key] = peer.compile(ask["precision"], planes.shape)
        if "seconds" in ask:
            say({"rate": rate(compiled[key], planes, ask["seconds"])})
        else:
            wdl, policy = compiled[key](planes)
            say({"wdl": wdl.ravel().tolist(), "policy": policy.ravel().tolist()})


main()
