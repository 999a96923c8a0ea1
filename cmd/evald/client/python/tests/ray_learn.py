"""A training loop with Ray and PyTorch: actors play, this process learns, and each generation's network plays the next games.

    python ray_learn.py --actors 2 --generations 10 --to s3://bucket/run      # or a folder

It can be repeated and resumed: the games of a generation have numbers of their own, files of
records that are there are not played again, and each generation's network is kept.
"""
from __future__ import annotations

import argparse
import io
import pathlib

import numpy as np
import pyarrow.fs
import ray
import torch
from torch import nn

import evald
import evald.ray
import evald.torch


class Net(nn.Module):
    """A small network: policy logits [N,A] and values [N]."""

    def __init__(self, board: evald.Board, width: int = 32) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(5, width, 3, padding=1), nn.ReLU(), nn.Conv2d(width, width, 3, padding=1), nn.ReLU(), nn.Flatten(),
            nn.Linear(width * board.cells, 128), nn.ReLU(),
        )
        self.policy, self.value = nn.Linear(128, board.actions), nn.Linear(128, 1)

    def forward(self, planes: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        h = self.body(planes)
        return self.policy(h), torch.tanh(self.value(h)).squeeze(1)


def learn(net: nn.Module, records: evald.Records, generator: torch.Generator, batch: int = 256, epochs: int = 2) -> float:
    """Trains on records; the mean loss of the last epoch."""
    searched = np.flatnonzero(records.visits.sum(1) > 0)
    data = [torch.from_numpy(a[searched]) for a in (records.positions.planes(), records.policy, records.z.astype(np.float32))]
    optimizer = torch.optim.AdamW(net.parameters(), 2e-3)
    net.train()
    for _ in range(epochs):
        losses = []
        for rows in torch.randperm(len(searched), generator=generator).split(batch):
            planes, policy, z = (a[rows] for a in data)
            logits, value = net(planes)
            loss = nn.functional.cross_entropy(logits, policy) + nn.functional.mse_loss(value, z)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(float(loss))
    return float(np.mean(losses))


def main() -> None:
    flags = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    flags.add_argument("--rules", default="5x4x4")
    flags.add_argument("--actors", type=int, default=1)
    flags.add_argument("--games", type=int, default=300, help="games of a generation")
    flags.add_argument("--generations", type=int, default=5)
    flags.add_argument("--visits", type=int, default=50)
    flags.add_argument("--seed", type=int, default=1)
    flags.add_argument("--to", default="ray-run", help="folder or URI of the run")
    a = flags.parse_args()
    torch.manual_seed(a.seed)
    generator = torch.Generator()
    net, board = Net(evald.board(a.rules)), evald.board(a.rules)
    files, folder = pyarrow.fs.FileSystem.from_uri(a.to if "://" in a.to else pathlib.Path(a.to).absolute().as_uri())
    files.create_dir(folder)
    exact = evald.labels(evald.Positions([game.positions[len(game) // 2] for game in evald.selfplay(200, a.rules, network="uniform", visits=8, seed=99)]))
    with evald.ray.SelfPlay(a.rules, actors=a.actors, visits=a.visits, seed=a.seed, reuse=True) as play:
        for generation in range(a.generations):
            play.network = evald.torch.ModuleNetwork(net) if generation else "uniform"
            names = play.write(a.games, f"{a.to}/games", first=generation * a.games, per_file=100)
            kept = f"{folder}/network-{generation:03d}.pt"
            if files.get_file_info(kept).type == pyarrow.fs.FileType.NotFound:
                loss = learn(net, evald.ray.read(f"{a.to}/games", names), generator.manual_seed(1000 * a.seed + generation))
                text = io.BytesIO()
                torch.save(net.state_dict(), text)
                with files.open_output_stream(kept) as out:
                    out.write(text.getvalue())
                print(f"generation {generation}: loss {loss:.3f}", end=", ")
            net.load_state_dict(torch.load(io.BytesIO(files.open_input_file(kept).read()), weights_only=True))
            net.eval()
            print(f"good moves with 50 visits: {evald.score(evald.torch.ModuleNetwork(net), exact, visits=50).good[0]:.3f}", flush=True)


if __name__ == "__main__":
    ray.init(include_dashboard=False, log_to_driver=False)
    main()
