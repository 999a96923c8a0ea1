"""The training step of package train in PyTorch, for comparison: positions per second, and per second of CPU time.

    python nn/train/peer.py [--threads 2] [--batch 256] [--blocks 6] [--channels 64]
    go test -run '^$' -bench Step -cpu 2 ./nn/train

Both make whole training steps on one batch of random data: three losses, their gradient, clipped to a norm, AdamW, and the
moving average of the weights.
"""
import argparse
import pathlib
import sys
import time

import torch
from torch.nn.functional import cross_entropy

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "net"))
from torch_model import Net, column_logits  # noqa: E402

args = argparse.ArgumentParser()
for name, value in dict(threads=2, batch=256, blocks=6, channels=64, seconds=20).items():
    args.add_argument("--" + name, type=int, default=value)
args.add_argument("--channels-last", action="store_true")
args = args.parse_args()

torch.set_num_threads(args.threads)
torch.manual_seed(0)
net = Net(args.blocks, args.channels, 32, 64)
planes = torch.zeros(args.batch, 5, 6, 7)
planes[:, 2, 5] = 1  # every column's lowest cell is playable
planes[:, 0] = torch.randint(0, 2, (args.batch, 6, 7))
wdl = torch.softmax(torch.randn(args.batch, 3), 1)
policy = torch.softmax(torch.randn(args.batch, 7), 1)
gameover = torch.randint(0, 4, (args.batch,))
if args.channels_last:
    net = net.to(memory_format=torch.channels_last)
    planes = planes.contiguous(memory_format=torch.channels_last)
weights = [p for n, p in net.named_parameters() if n.endswith("weight")]
biases = [p for n, p in net.named_parameters() if n.endswith("bias")]
optimizer = torch.optim.AdamW([dict(params=weights, weight_decay=0.01), dict(params=biases, weight_decay=0)], lr=1e-3)
average = [p.detach().clone() for p in net.parameters()]


def step():
    w, g, cells = net(planes)
    loss = cross_entropy(w, wdl) + cross_entropy(g, gameover) + cross_entropy(column_logits(cells, planes), policy)
    optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(net.parameters(), 1)
    optimizer.step()
    with torch.no_grad():
        torch._foreach_lerp_(average, list(net.parameters()), 0.1)


for _ in range(3):
    step()
steps, start, cpu = 0, time.perf_counter(), time.process_time()
while time.perf_counter() - start < args.seconds:
    step()
    steps += 1
print(f"PyTorch {torch.__version__}, {args.blocks}x{args.channels}, batch {args.batch}, {args.threads} threads: "
      f"{steps * args.batch / (time.perf_counter() - start):.0f} positions/s, "
      f"{steps * args.batch / (time.process_time() - cpu):.0f} a second of CPU time")
