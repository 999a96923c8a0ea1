"""Which rounding to fp16 moves a network's answers, in float32 on the CPU. Each line rounds some numbers and not the others.

    python3 rounding.py model.safetensors random.txt plausible.txt openings.txt

The files are those of `evald positions`, on 7x6; the first 400 positions of each count. Needs torch and safetensors.
"""
import sys

import torch
from safetensors.torch import load_file
from torch.nn.functional import conv2d, linear, relu, softmax

ROWS, COLUMNS, EACH = 6, 7, 400


def planes(moves):
    """The input of the network, as package net of evald defines it, after moves such as 4453."""
    height, stones = [0] * COLUMNS, {}
    for ply, move in enumerate(moves):
        column = int(move) - 1
        stones[height[column], column] = ply % 2
        height[column] += 1
    x = torch.zeros(5, ROWS, COLUMNS)
    for row in range(ROWS):
        for column in range(COLUMNS):
            at = ROWS - 1 - row, column
            if (row, column) in stones:
                x[0 if stones[row, column] == len(moves) % 2 else 1, *at] = 1
            x[2, *at] = height[column] == row
            x[3, *at] = (row + ROWS * COLUMNS - ROWS + len(moves) + 1) % 2
            x[4, *at] = 1
    return x


def read(path, first, end):
    lines = [line.split()[0] for line in open(path) if line[0].isdigit()]
    return [planes(moves) for moves in lines[first:end]]


def same(name, x):
    return x


def fp16(name, x):
    return x.half().float()


def forward(weights, x, weight=same, stream=same, operand=same, middle=same, head=same):
    """WDL and policy. Each function rounds what it is given, and gets its name: the weights of convolutions, the residual
    stream as it is stored, the stream as it is multiplied, the output of a block's first convolution, and of the heads'."""
    def conv(name, x, padding=0):
        return conv2d(x, weight(name, weights[name + ".weight"]), weights[name + ".bias"], padding=padding)

    legal = x[:, 2] > 0
    x = stream("stem", relu(conv("stem", x, 1)))
    blocks = len({name.split(".")[1] for name in weights if name.startswith("blocks.")})
    for block in range(blocks):
        name = f"blocks.{block}"
        t = middle(name, relu(conv(name + ".conv1", operand("stem" if block == 0 else f"blocks.{block - 1}", x), 1)))
        x = stream(name, relu(x + conv(name + ".conv2", t, 1)))
    x = operand(name, x)
    value, policy = head("value", relu(conv("value.conv", x))), head("policy", relu(conv("policy.conv", x)))
    pooled = torch.cat([value.mean((2, 3)), value.amax((2, 3))], 1)
    features = relu(linear(pooled, weights["value.fc.weight"], weights["value.fc.bias"]))
    wdl = softmax(linear(features, weights["value.wdl.weight"], weights["value.wdl.bias"]), 1)
    cells = conv2d(policy, weights["policy.logit.weight"].reshape(1, -1, 1, 1), weights["policy.logit.bias"])[:, 0]
    return wdl, softmax(cells.masked_fill(~legal, -1e9).amax(1), 1)


class Centred:
    """Rounds x - c in place of x. A channel's c is the multiple of its standard deviation that rounds other positions best."""

    def __init__(self):
        self.c = {}

    def learn(self, kind):
        def see(name, x):
            values = x.permute(1, 0, 2, 3).flatten(1)
            c = torch.stack([values.std(1) * k for k in (0, .25, .5, .75, 1, 1.5, 2, 3)]).half().float()[:, :, None]
            error = ((values - c).half().float() + c - values).square().mean(2)
            self.c[kind, name] = c.gather(0, error.argmin(0)[None, :, None]).reshape(1, -1, 1, 1)
            return x
        return see

    def round(self, kind):
        return lambda name, x: (x - self.c[kind, name]).half().float() + self.c[kind, name]


def main():
    weights, paths = load_file(sys.argv[1]), sys.argv[2:]
    x = torch.stack([p for path in paths for p in read(path, 0, EACH)])
    centred = Centred()
    forward(weights, torch.stack([p for path in paths for p in read(path, EACH, EACH + 100)]),
            stream=centred.learn("stream"), middle=centred.learn("middle"))
    stream, middle = centred.round("stream"), centred.round("middle")
    want = forward(weights, x)
    print(f"{len(x)} positions: difference of WDL: root mean square, 99th percentile, most; of the policy: the same")
    for text, rounded in (
        ("all, as the kernels do", dict(weight=fp16, stream=fp16, middle=fp16, head=fp16)),
        ("weights", dict(weight=fp16)),
        ("stored stream", dict(stream=fp16)),
        ("output of first convolutions", dict(middle=fp16)),
        ("output of the heads' convolutions", dict(head=fp16)),
        ("all, but the stream is stored in float32", dict(weight=fp16, operand=fp16, middle=fp16, head=fp16)),
        ("the same, but the weights and heads", dict(operand=fp16, middle=fp16)),
        ("all, centred", dict(weight=fp16, stream=stream, middle=middle, head=fp16)),
        ("operands centred, stream and heads float32", dict(weight=fp16, operand=stream, middle=middle)),
        ("the same, but the weights", dict(operand=stream, middle=middle)),
    ):
        got, line = forward(weights, x, **rounded), ""
        for ours, theirs in zip(got, want):
            d = (ours - theirs).abs().amax(1).sort()[0]
            line += f"  {d.square().mean().sqrt():.5f} {d[len(d) * 99 // 100]:.5f} {d[-1]:.5f}"
        print(f"{text:44}{line}", flush=True)


torch.set_num_threads(1)
with torch.no_grad():
    main()
