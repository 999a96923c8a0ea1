"""Times the work of BenchmarkTower in PyTorch on the CPU, for comparison. Needs the Python package torch.

    python peer.py [threads]

Prints milliseconds and GFLOP/s (counted as in BenchmarkTower) of six residual blocks of 64 channels for 256 boards of
7x6, forward alone and with the backward pass, in both of PyTorch's memory orders.
"""

import sys
import time

import torch
from torch import nn
from torch.nn import functional as F

BLOCKS, CHANNELS, BATCH, ROWS, COLUMNS = 6, 64, 256, 6, 7


class Tower(nn.Module):
    def __init__(self):
        super().__init__()
        self.convs = nn.ModuleList(nn.Conv2d(CHANNELS, CHANNELS, 3, padding=1) for _ in range(2 * BLOCKS))

    def forward(self, x):
        for first, second in zip(self.convs[::2], self.convs[1::2]):
            x = F.relu(x + second(F.relu(first(x))))
        return x


def seconds(step):
    """The median time of a repetition, over half a second and at least 5 repetitions."""
    for _ in range(3):
        step()
    times, end = [], time.perf_counter() + 0.5
    while len(times) < 5 or time.perf_counter() < end:
        start = time.perf_counter()
        step()
        times.append(time.perf_counter() - start)
    return sorted(times)[len(times) // 2]


def main():
    threads = int(sys.argv[1]) if len(sys.argv) > 1 else 2
    torch.set_num_threads(threads)
    torch.manual_seed(1)
    flops = 2 * 9 * 2 * BLOCKS * BATCH * CHANNELS * CHANNELS * ROWS * COLUMNS
    for name, order in [("planes", torch.contiguous_format), ("channels-last", torch.channels_last)]:
        tower = Tower().to(memory_format=order)
        x = torch.randn(BATCH, CHANNELS, ROWS, COLUMNS).to(memory_format=order).requires_grad_()
        dy = torch.randn(BATCH, CHANNELS, ROWS, COLUMNS).to(memory_format=order)

        def forward():
            with torch.no_grad():
                tower(x)

        def training():
            tower.zero_grad(set_to_none=True)
            x.grad = None
            tower(x).backward(dy)

        for what, step, passes in [("forward", forward, 1), ("training", training, 3)]:
            s = seconds(step)
            print(f"{what}/torch-{torch.__version__}/{name}/threads={threads}: "
                  f"{1e3 * s:.2f} ms  {passes * flops / s / 1e9:.1f} GFLOP/s", flush=True)


if __name__ == "__main__":
    main()
