"""Measures a network in PyTorch, bf16, for `evald bench eval --backend gpu --peer pytorch`.

    torch_peer.py MODEL.safetensors PLANES ROWS COLUMNS DEVICE

PLANES is float32 [N,5,ROWS,COLUMNS], DEVICE cuda or cpu. The first line of output is {"version": .., "device": ..,
"wdl": [..], "policy": [..]}, the probabilities of the N positions. Then each line of input is answered with a line:

    {"peak": SECONDS}                   {"flops": F}     the rate of large matrix products
    {"batch": N, "seconds": SECONDS}    {"device": R, "end_to_end": R, "how": ".."}     positions a second

What is measured is the fastest that PyTorch has: channels_last, torch.compile with max-autotune, and a CUDA graph of it.
"device" is the graph alone, "end_to_end" with copies of planes (bf16, pinned) and answers around it.
"""
import json
import sys
import time

import numpy
import torch
from torch_model import column_logits, load


class Answers(torch.nn.Module):
    def __init__(self, net):
        super().__init__()
        self.net = net

    def forward(self, planes):
        wdl, _, cells = self.net(planes)
        logits = column_logits(cells, planes).float()
        logits = logits.masked_fill(planes[:, 2].sum(1) == 0, float("-inf"))
        return wdl.float().softmax(1), logits.softmax(1)


def rate(seconds, n, work, wait):
    """How often a second n things are done: the median of five rounds of about that length together."""
    work()
    wait()
    calls, rates = 1, []
    while len(rates) < 5:
        start = time.perf_counter()
        for _ in range(calls):
            work()
        wait()
        took = time.perf_counter() - start
        if took < seconds / 10:
            calls *= 2
            continue
        rates.append(calls * n / took)
    return sorted(rates)[2]


def main():
    path, planes, rows, columns, device = sys.argv[1:]
    cuda = device == "cuda"
    wait = torch.cuda.synchronize if cuda else lambda: None
    net, _ = load(path)
    model = Answers(net).to(device, torch.bfloat16).to(memory_format=torch.channels_last).eval()
    planes = torch.from_numpy(numpy.fromfile(planes, numpy.float32).reshape(-1, 5, int(rows), int(columns))).to(torch.bfloat16)

    def batch_of(n):
        x = planes.repeat(-(-n // len(planes)), 1, 1, 1)[:n]
        return x.contiguous(memory_format=torch.channels_last)

    def peak(seconds):
        size = 8192 if cuda else 256
        a, b = (torch.randn(size, size, device=device, dtype=torch.bfloat16) for _ in range(2))
        return {"flops": rate(seconds, 2 * size**3, lambda: a @ b, wait)}

    def graph_of(f, x):
        """Work that computes f(x) again, and the tensors that it leaves the answers in."""
        if not cuda:
            out = f(x)
            return (lambda: f(x)), out
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

    def measure(batch, seconds):
        host = batch_of(batch)
        ways = [("eager, channels_last", model)]
        if cuda:
            host = host.pin_memory()
            torch._dynamo.reset()
            ways.append(("torch.compile max-autotune, channels_last", torch.compile(model, mode="max-autotune-no-cudagraphs", dynamic=False)))
        best, failed = None, []
        for how, f in ways:
            try:
                x = host.to(device)
                work, out = graph_of(f, x)
                back = [torch.empty_like(o, device="cpu", pin_memory=cuda) for o in out]

                def whole():
                    x.copy_(host, non_blocking=True)
                    work()
                    for to, o in zip(back, out):
                        to.copy_(o, non_blocking=True)
                    wait()

                got = {"device": rate(seconds, batch, work, wait), "end_to_end": rate(seconds, batch, whole, wait),
                       "how": how + (", CUDA graph" if cuda else "")}
                if best is None or got["device"] > best["device"]:
                    best = got
            except Exception as e:  # an out of memory, or a compiler's: the other way counts
                failed.append(f"{how}: {type(e).__name__}: {str(e).splitlines()[0] if str(e) else ''}")
        if best is None:
            return {"how": "failed: " + "; ".join(failed)}
        if failed:
            best["how"] += " (failed: " + "; ".join(failed) + ")"
        return best

    with torch.no_grad():
        wdl, policy = model(batch_of(len(planes)).to(device))
        print(json.dumps({"version": torch.__version__, "device": torch.cuda.get_device_name() if cuda else "cpu",
                          "wdl": wdl.ravel().tolist(), "policy": policy.ravel().tolist()}), flush=True)
        for line in sys.stdin:
            ask = json.loads(line)
            print(json.dumps(peak(ask["peak"]) if "peak" in ask else measure(ask["batch"], ask["seconds"])), flush=True)


main()
