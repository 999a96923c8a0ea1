"""The steps of package train in PyTorch. torch.go starts Python with the text of torch_model.py and of this file, and
exchanges messages with it over stdin and stdout. All numbers are little-endian.

    a line of JSON    the run: see torchRun in torch.go
    int32 [P]         the mirror of each trained value, if the network is symmetric
 -> a line of JSON    {"about": the device and precision}

and then, any number of times, one of

    "P", the state                       replaces the state
    "G"                 -> the state
    "S", float64 [5], a batch -> result  makes a step; the numbers are those of update below
    "M", a batch        -> result        measures the moving average instead, in float32

The state is float32: the P trained values (those of AdamW, then Muon's), their moving average if there is one, the
first moments, and AdamW's second moments. A batch is of one board: float32 H, W and the last plane's value; rows as package train
defines them, float32 wdl [N,3], policy by cell [N,H*W], gameover [N,4]; and a byte per cell with planes 0 to 3 in its lowest bits. The
result is float64: the gradient's norm, and for each loss of the run its value, its rows by class, and those of them that are right.
"""
import contextlib
import json
import os
import struct
import sys
import time

import torch
from torch.func import functional_call
from torch.linalg import vector_norm

pipe_in, pipe_out = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
os.dup2(2, 1)  # all other output must not mix with the answers
os.dup2(os.open(os.devnull, os.O_RDONLY), 0)


def read(size):
    data = bytearray(size)
    if pipe_in.readinto(data) != size:
        sys.exit()  # the parent has ended
    return data


run = json.loads(pipe_in.readline())
torch.set_num_threads(run["threads"])
cuda = torch.cuda.is_available()
if cuda:  # on the CPU all that is used here is deterministic, and the call takes a second
    torch.use_deterministic_algorithms(True, warn_only=True)
torch.set_default_device("cuda" if cuda else "cpu")


@torch.no_grad()
def bfloat16_is_faster():
    """Whether the CPU convolves at least 1.15 times faster in bfloat16: some emulate its products, or make them slowly."""
    def least(dtype):
        planes = torch.zeros(256, 64, 6, 7, dtype=dtype).to(memory_format=torch.channels_last)
        kernel, times = torch.zeros(64, 64, 3, 3, dtype=dtype), []
        for _ in range(8):
            start = time.perf_counter()
            torch.nn.functional.conv2d(planes, kernel, padding=1)
            times.append(time.perf_counter() - start)
        return min(times)
    return least(torch.float32) > 1.15 * least(torch.bfloat16)


bfloat16 = cuda or run["bfloat16"] and bfloat16_is_faster()
names, shapes = [t["name"] for t in run["tensors"]], [t["shape"] for t in run["tensors"]]
sizes = [torch.Size(shape).numel() for shape in shapes]
P = sum(sizes)
muon = P - run["muon"]  # where Muon's values begin
heads = [(i, weight) for i, weight in enumerate(run["weights"]) if weight > 0]
decayed = torch.cat([torch.full((size,), float(len(shape) > 1)) for size, shape in zip(sizes, shapes)])
mirror = torch.frombuffer(read(4 * P), dtype=torch.int32).to(decayed.device).long() if run["symmetric"] else None
net = Net(**run["network"]).requires_grad_(False)  # noqa: F821: the class of torch_model.py
weights, first = torch.zeros(P, requires_grad=True), torch.zeros(P)
average = torch.zeros(P) if run["average"] else None
second = torch.zeros(muon)
state = [t for t in (weights, average, first, second) if t is not None]


def get_state():
    for t in state:
        data = bytearray(4 * t.numel())
        if data:
            torch.frombuffer(data, dtype=torch.float32).copy_(t.detach())
        pipe_out.write(data)


@torch.no_grad()
def put_state():
    for t in state:
        if t.numel():
            t.copy_(torch.frombuffer(read(4 * t.numel()), dtype=torch.float32))


def batch(n):
    """Planes [n,5,H,W] and the targets of each head, from the pipe."""
    rows, columns, plane = struct.unpack("<3f", read(12))
    rows, columns = int(rows), int(columns)
    cells = rows * columns
    widths = (3, cells, 4)
    floats = 4 * n * sum(widths)
    data = torch.frombuffer(read(floats + n * cells), dtype=torch.uint8).to(decayed.device)
    targets = data[:floats].view(torch.float32).split([n * w for w in widths])
    bits = data[floats:].view(n, rows, columns, 1) >> torch.arange(4, dtype=torch.uint8) & 1
    board = torch.full((n, rows, columns, 1), plane)
    planes = torch.cat([bits.float(), board], 3).permute(0, 3, 1, 2)
    return planes, [t.view(n, w) for t, w in zip(targets, widths)]


def cross_entropy(logits, targets, taste):
    """As crossEntropy in loss.go: the loss, and counts of rows and of right rows by class."""
    present = targets > -torch.inf
    right = present & (targets < 0)  # several classes are right
    several = right.any(1)
    logits = logits.double().masked_fill(~present, -1e30)
    log = logits.log_softmax(1)
    given = targets.double().masked_fill(~present, 0)
    weights = given.sum(1).abs()
    together = torch.where(several, log.masked_fill(~right, -1e30).logsumexp(1), 0)
    apart = torch.where(several[:, None], -taste * given, given)
    loss = -((apart * log).sum() + ((1 - taste) * weights * together).sum()) / weights.sum().clamp(min=1e-300)
    classes = torch.arange(targets.shape[1], device=targets.device)  # compiled, it would be on the CPU otherwise
    wanted = torch.where(several, log.masked_fill(~right, -torch.inf).argmax(1), given.argmax(1))
    counted = (classes == wanted[:, None]) & (weights > 0)[:, None]
    hit = counted & (log.argmax(1) == wanted)[:, None]
    return loss, torch.cat([loss.detach()[None], counted.sum(0).double(), hit.sum(0).double()])


def losses(values, taste, planes, targets):
    """The weighted sum of the losses of a network with these trained values, and the result without the norm."""
    parameters = {name: part.view(shape) for name, part, shape in zip(names, values.split(sizes), shapes)}
    with torch.autocast(planes.device.type, torch.bfloat16) if bfloat16 and values.requires_grad else contextlib.nullcontext():
        wdl, gameover, policy = functional_call(net, parameters, planes)
    logits = wdl, policy.flatten(1), gameover
    total, results = 0, []
    for i, weight in heads:
        loss, result = cross_entropy(logits[i], targets[i], taste)
        total = total + weight * loss
        results.append(result)
    return total, torch.cat(results)


def symmetrise(values, twins):
    return values if mirror is None else (values + values[twins]) / 2


def orthogonalise(x):
    """As in muon.go: x [matrices,rows,columns]."""
    x = x / (vector_norm(x, dim=(1, 2), keepdim=True, dtype=torch.float64) + 1e-12).float()
    for _ in range(5):
        gram = x @ x.mT
        x = 3.4445 * x + (2.0315 * (gram @ gram) - 4.7750 * gram) @ x
    return x


@torch.no_grad()
def update(grad, numbers):
    """One step of solver.go. numbers are: the step's size and epsilon of AdamW, the share that decay takes off a weight,
    the size of Muon's step, and the decay of the moving average."""
    size, epsilon, decay, muon_size, keep = numbers.float().unbind()
    values = weights.detach()
    grad = symmetrise(grad, mirror)
    norm = vector_norm(grad, dtype=torch.float64)
    if run["clip"] > 0:
        grad = grad * (run["clip"] / norm).clamp(max=1).float()
    g, m = grad[:muon], first[:muon]
    m.mul_(0.9).add_(g * 0.1)
    second.mul_(0.999).add_(g * g * 0.001)
    change = size * m / (second.sqrt() + epsilon)
    if muon < P:
        g, m = grad[muon:], first[muon:]
        m.mul_(0.95).add_(g * 0.05)
        u = orthogonalise((0.95 * m + 0.05 * g).view(-1, run["network"]["channels"], 9 * run["network"]["channels"])).flatten()
        change = torch.cat([change, muon_size * symmetrise(u, mirror[muon:] - muon if mirror is not None else None)])
    values.mul_(1 - decay * decayed).sub_(change)
    if average is not None:
        average.mul_(keep).add_(values * (1 - keep))
    return norm


step_losses, step_update = losses, update


def step_of(numbers, planes, targets):
    total, result = step_losses(weights, run["taste"], planes, targets)
    grad, = torch.autograd.grad(total, weights)
    return step_update(grad, numbers), result


def compile_steps():
    """Has the functions of a step compiled, which makes steps several times as fast on a GPU. Not every version of PyTorch compiles them
    for every GPU, so a step on a batch of zeros tries it; the state comes later. Returns what to say of it."""
    global step_losses, step_update
    step_losses, step_update = torch.compile(losses), torch.compile(update)
    rows = run["batch"]
    targets = [torch.full((rows, width), 1 / width) for width in (3, 42, 4)]
    try:
        step_of(torch.zeros(5, dtype=torch.float64), torch.zeros(rows, 5, 6, 7), targets)
        return "compiled"
    except torch.OutOfMemoryError:
        raise
    except Exception as e:
        step_losses, step_update = losses, update
        why = [line for line in str(e).splitlines() if line.strip()] or [type(e).__name__]
        return f"not compiled, which would be faster: {why[-1] if len(why) == 1 else ' '.join(why[:2])[:300]}"
    finally:
        for t in state:
            t.data.zero_()


def step():
    numbers = torch.frombuffer(read(40), dtype=torch.float64).to(decayed.device)
    return step_of(numbers, *batch(run["batch"]))


@torch.no_grad()
def measure():
    values = weights.detach() if average is None else average
    return torch.zeros((), dtype=torch.float64), losses(values, 0, *batch(run["judged"]))[1]


def answer(norm, result):
    result = [norm.item(), *result.tolist()]
    pipe_out.write(struct.pack(f"<{len(result)}d", *result))


how = f", {compile_steps()}" if cuda else ""
about = f"{torch.cuda.get_device_name() if cuda else 'the CPU'}, {'bfloat16' if bfloat16 else 'float32'}{how}"
pipe_out.write(json.dumps({"about": f"PyTorch {torch.__version__} on {about}"}).encode() + b"\n")
while True:
    pipe_out.flush()
    match read(1):
        case b"P":
            put_state()
        case b"G":
            get_state()
        case b"S":
            answer(*step())
        case b"M":
            answer(*measure())
