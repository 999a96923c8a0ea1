"""How much of the time a function as the network is busy, in a search of 2,000 positions and in self-play on 7x6x4: one that sleeps as long as a network
on a GPU would compute, and a PyTorch network of nine convolutions.

    EVALD_LIBRARY=bin/libevald.so python compare_busy.py [--seconds 25]
"""
from __future__ import annotations

import argparse
import random
import time
from typing import Any, Callable

import numpy as np
import torch

import compare_selfplay
import evald


class Watched:
    """A function that notes when it is busy."""

    def __init__(self, network: Callable[[evald.Positions], tuple[Any, Any]]) -> None:
        self.network, self.rows, self.calls, self.busy, self.first, self.last = network, 0, 0, 0.0, 0.0, 0.0

    def __call__(self, positions: evald.Positions) -> tuple[Any, Any]:
        begun = time.perf_counter()
        answer = self.network(positions)
        self.last = time.perf_counter()
        self.first = self.first or begun
        self.busy += self.last - begun
        self.rows += len(positions)
        self.calls += 1
        return answer

    def __str__(self) -> str:
        return f"busy {self.busy / (self.last - self.first):.1%}, {self.rows / self.calls:.0f} rows a batch"


def asleep(positions: evald.Positions) -> tuple[Any, Any]:
    """4 ms and 8 us a row."""
    time.sleep(0.004 + len(positions) * 8e-6)
    return np.zeros((len(positions), 7), np.float32), np.zeros(len(positions), np.float32)


def convolutions() -> Callable[[evald.Positions], tuple[Any, Any]]:
    torch.manual_seed(1)
    torch.set_num_threads(1)  # the trees have the other core
    net = compare_selfplay.Net().eval()

    def network(positions: evald.Positions) -> tuple[Any, Any]:
        with torch.no_grad():
            policy, value = net(torch.from_numpy(positions.planes()))
        return policy.softmax(1), value

    return network


def drawn(count: int) -> evald.Positions:
    """Positions after random moves."""
    chance, all = random.Random(1), list[str]()
    while len(all) < count:
        moves = "".join(str(chance.randint(1, 7)) for _ in range(chance.randint(2, 24)))
        try:
            if evald.Positions([moves]).results()[0] == 2:  # not over
                all.append(moves)
        except evald.EvaldError:  # a full column, or the game is over before the last move
            pass
    return evald.Positions(all)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=25, help="of self-play")
    seconds = parser.parse_args().seconds
    positions = drawn(2000)
    for name, network, visits in ("asleep", asleep, 100), ("nine convolutions", convolutions(), 20):
        watched = Watched(network)
        evald.search(positions, network=watched, visits=visits)
        print(f"{name}, search of {len(positions)} positions, {visits} visits: {watched}")
        watched = Watched(network)
        end = time.perf_counter() + seconds
        for _ in evald.selfplay(1_000_000, network=watched, visits=visits, seed=1):
            if time.perf_counter() > end:
                break
        print(f"{name}, self-play, {visits} visits: {watched}")


if __name__ == "__main__":
    main()
