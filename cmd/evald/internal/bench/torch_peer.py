"""Measures a network on a GPU in PyTorch, TensorRT or ONNX Runtime, for `evald bench eval --backend gpu --peer`.

    torch_peer.py WAY PRECISION DEVICE MODEL.safetensors MODEL.onnx PLANES ROWS COLUMNS

WAY is a function below, PRECISION bf16 or fp16, DEVICE cuda, or cpu for tests. PLANES is float32 [N,5,ROWS,COLUMNS]. The
first line of output is {"version": .., "how": ..}. Then each line of input is answered with a line, in this order:

    {"peak": SECONDS}                        {"flops": F}   the rate of large matrix products, in PRECISION
    {"batch": N}                             {"wdl": [..], "policy": [..], "seconds": S}   made ready for this batch, in S
                                             seconds; the probabilities of the first of its positions, at most those of PLANES
    {"seconds": S, "end_to_end": true}       {"rate": R}    positions a second, over about S seconds

A rate is for the graph alone or, with end_to_end, also for the copies of pinned planes and answers. The answer to a request
that fails is {"error": ..}; the next batch may be requested after it.
"""

import json
import os
import sys
import time

import numpy
import torch
from torch_model import column_logits, load

# The compilers print to standard output, which must contain only answers.
answers = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)

way, precision, device, weights, onnx, planes, rows, columns = sys.argv[1:]
cuda = device == "cuda"
dtype = {"bf16": torch.bfloat16, "fp16": torch.float16}[precision]
planes = torch.from_numpy(numpy.fromfile(planes, numpy.float32).reshape(-1, 5, int(rows), int(columns)))
wait = torch.cuda.synchronize if cuda else lambda: None
torch.backends.cudnn.benchmark = True  # use the fastest algorithm for each convolution


class Answers(torch.nn.Module):
    def __init__(self, net):
        super().__init__()
        self.net = net

    def forward(self, planes):
        wdl, _, cells = self.net(planes)
        logits = column_logits(cells, planes).float()
        logits = logits.masked_fill(planes[:, 2].sum(1) == 0, float("-inf"))
        return wdl.float().softmax(1), logits.softmax(1)


def graph_of(f, x):
    """A function that computes f(x) again, and the tensors to which it writes the answers."""
    if not cuda:
        out = [o.clone() for o in f(x)]
        return lambda: [to.copy_(o) for to, o in zip(out, f(x))], out
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            f(x)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = f(x)
    return graph.replay, out


# Each WAY is a function, which fails at once if its packages are missing. It returns a description, and a function that prepares a batch: from planes on
# the device it returns the work and the tensors to which the work writes the answers.


def pytorch(compile=False):
    net, _ = load(weights)
    model = Answers(net).to(device, dtype).to(memory_format=torch.channels_last).eval()

    def ready(x):
        f = model
        if compile:
            torch._dynamo.reset()
            f = torch.compile(model, mode="max-autotune-no-cudagraphs", dynamic=False)
        return graph_of(f, x)

    return f"PyTorch {torch.__version__}, {precision}, channels_last, cudnn.benchmark" + ", CUDA graph" * cuda, ready


def pytorch_compile():
    how, ready = pytorch(compile=True)
    return how + ", torch.compile max-autotune", ready


def outputs(n):
    return [torch.empty(n, width, device=device) for width in (3, int(columns))]


def tensorrt():
    import tensorrt as trt

    log = trt.Logger(trt.Logger.ERROR)
    runtime = trt.Runtime(log)

    def ready(x):
        builder = trt.Builder(log)
        network = builder.create_network(0)
        parser = trt.OnnxParser(network, log)
        if not parser.parse_from_file(onnx):
            raise RuntimeError(f"TensorRT reads no network: {parser.get_error(0)}")
        config, profile = builder.create_builder_config(), builder.create_optimization_profile()
        config.set_flag(getattr(trt.BuilderFlag, precision.upper()))
        profile.set_shape("planes", *[tuple(x.shape)] * 3)
        config.add_optimization_profile(profile)
        plan = builder.build_serialized_network(network, config)
        if plan is None:
            raise RuntimeError("TensorRT builds no engine; its log is on stderr")
        engine = runtime.deserialize_cuda_engine(plan)
        context = engine.create_execution_context()
        context.set_input_shape("planes", tuple(x.shape))
        spare = []
        for i in range(engine.num_io_tensors):
            name = engine.get_tensor_name(i)
            tensor = {"planes": x}.get(name)
            if tensor is None:
                tensor = torch.empty(tuple(context.get_tensor_shape(name)), device=device)
            spare.append((name, tensor))
            context.set_tensor_address(name, tensor.data_ptr())
        named = dict(spare)

        def run(_):
            if not context.execute_async_v3(torch.cuda.current_stream().cuda_stream):
                raise RuntimeError("TensorRT does not run the network")
            return named["outcome"], named["policy"]

        work, out = graph_of(run, x)
        return (lambda: (work(), engine, context)), out  # keeps engine and context alive

    return f"TensorRT {trt.__version__}, {precision} allowed, CUDA graph", ready


def onnxruntime():
    import onnxruntime as ort

    provider = "CUDAExecutionProvider" if cuda else "CPUExecutionProvider"
    if provider not in ort.get_available_providers():
        raise RuntimeError(f"onnxruntime {ort.__version__} has no {provider}, only {', '.join(ort.get_available_providers())}")

    def ready(x):
        options = ort.SessionOptions()
        for name, size in zip(["N", "H", "W"], [x.shape[0], *x.shape[2:]]):
            options.add_free_dimension_override_by_name(name, size)
        session = ort.InferenceSession(onnx, options, [(provider, {"enable_cuda_graph": "1"} if cuda else {})])
        if session.get_providers()[0] != provider:
            raise RuntimeError(f"onnxruntime does not start {provider}")
        out, bound = outputs(len(x)), session.io_binding()
        bound.bind_input("planes", device, 0, numpy.float32, list(x.shape), x.data_ptr())
        for name, o in zip(["outcome", "policy"], out):
            bound.bind_output(name, device, 0, numpy.float32, list(o.shape), o.data_ptr())
        return (lambda: session.run_with_iobinding(bound)), out

    return f"ONNX Runtime {ort.__version__}, {provider}, float32 with its default of TF32" + ", CUDA graph, waits for each batch" * cuda, ready


def calls_for(seconds, work):
    """The number of calls, at least one, that take about the given time."""
    calls = 1
    while True:
        start = time.perf_counter()
        for _ in range(calls):
            work()
        wait()
        took = time.perf_counter() - start
        if took >= seconds / 10:
            return max(1, round(calls * seconds / took))
        calls *= 2


def rate(calls, n, work):
    start = time.perf_counter()
    for _ in range(calls):
        work()
    wait()
    return calls * n / (time.perf_counter() - start)


class Batch:
    def __init__(self, n, ready):
        start = time.perf_counter()
        own = dtype if way.startswith("pytorch") else torch.float32
        host = planes.to(own).repeat(-(-n // len(planes)), 1, 1, 1)[:n]
        host = host.contiguous(memory_format=torch.channels_last if own == dtype else torch.contiguous_format)
        if cuda:
            host = host.pin_memory()
        x = host.to(device)
        self.n, (self.work, self.out), self.calls = n, ready(x), {}
        back = [torch.empty_like(o, device="cpu", pin_memory=cuda) for o in self.out]

        def whole():
            x.copy_(host, non_blocking=True)
            self.work()
            for to, o in zip(back, self.out):
                to.copy_(o, non_blocking=True)
            wait()

        self.whole = whole
        whole()
        if not all(o.isfinite().all() for o in back):
            raise RuntimeError("its answers are not finite")
        first = [o[: len(planes)].float().ravel().tolist() for o in back]
        self.answer = {"wdl": first[0], "policy": first[1], "seconds": time.perf_counter() - start}

    def rate(self, seconds, end_to_end):
        work = self.whole if end_to_end else self.work
        if end_to_end not in self.calls:
            self.calls[end_to_end] = calls_for(seconds, work)
        return {"rate": rate(self.calls[end_to_end], self.n, work)}


def peak(seconds):
    size = 8192 if cuda else 256
    a, b = (torch.randn(size, size, device=device, dtype=dtype) for _ in range(2))
    work = lambda: a @ b
    calls = calls_for(seconds, work)
    return {"flops": sorted(rate(calls, 2 * size**3, work) for _ in range(5))[2]}


def say(answer):
    print(json.dumps(answer), file=answers, flush=True)


def main():
    how, ready = {"pytorch": pytorch, "pytorch-compile": pytorch_compile, "tensorrt": tensorrt, "onnxruntime": onnxruntime}[way]()
    say({"version": torch.__version__, "how": how})
    batch = None
    with torch.no_grad():
        for line in sys.stdin:
            ask = json.loads(line)
            try:
                if "peak" in ask:
                    say(peak(ask["peak"]))
                elif "batch" in ask:
                    batch = None  # frees its memory before the next batch is prepared
                    batch = Batch(ask["batch"], ready)
                    say(batch.answer)
                else:
                    say(batch.rate(ask["seconds"], ask["end_to_end"]))
            except Exception as e:  # such as out of memory, or an error of a compiler
                say({"error": f"{type(e).__name__}: {(str(e).splitlines() or [''])[0]}"})


main()
