"""Steps a second of environments of 7x6x4: evald's beside PettingZoo's, OpenSpiel's and Pgx's. Prints the table of frameworks.md.

    pip install gymnasium pettingzoo pygame open_spiel jax pgx      # those that are missing are left out
    python compare_environments.py [--seconds 2]

All play the same random games, but VectorConnectX, whose opponent draws its own moves. Each row is the median of several runs, and in brackets the
best.
"""
from __future__ import annotations

import argparse
import functools
import importlib
import importlib.metadata
import os
import statistics
import sys
import time
from typing import Any, Callable, Iterator

import numpy as np

import evald

Step = Callable[[Any], object]
SIZES = (1, 64, 4096)
STEPS = {1: 2000, 64: 500, 4096: 60}  # of one run


def actions(n: int) -> np.ndarray:
    """[STEPS,N] moves of n random games, which begin anew at their ends."""
    games, random = evald.Environment(n), np.random.default_rng(n)
    all_ = np.empty((STEPS[n], n), np.int32)
    for row in all_:
        legal = games.legal()
        row[:] = (random.random(legal.shape) * legal).argmax(1)
        games.step(row)
    return all_


def environment(n: int) -> Step:
    return evald.Environment(n).step


def observed(n: int) -> Step:
    games = evald.Environment(n)

    def step(moves: Any) -> None:
        games.step(moves)
        games.observation(), games.legal()

    return step


def gymnasium(n: int) -> Step:
    from evald.gymnasium import VectorConnectX

    games, random = VectorConnectX(n), np.random.default_rng(n).random((n, 7))
    info = games.reset(seed=1)[1]

    def step(_: Any) -> None:
        nonlocal info
        info = games.step((random * info["action_mask"]).argmax(1))[4]

    return step


@functools.cache
def compiled() -> tuple[Any, Any]:
    """Pgx's functions, which are compiled once for each number of games."""
    import jax
    from pgx import make
    from pgx.experimental import auto_reset

    game = make("connect_four")
    return jax.jit(jax.vmap(game.init)), jax.jit(jax.vmap(auto_reset(game.step, game.init)))


def pgx(n: int) -> Step:
    import jax

    init, one = compiled()
    keys = jax.random.split(jax.random.PRNGKey(1), n)
    state = init(keys)

    def step(moves: Any) -> None:
        nonlocal state
        state = one(state, moves, keys)
        state.observation.block_until_ready()

    return step


def open_spiel(with_observation: bool) -> Callable[[int], Step]:
    def make(_: int) -> Step:
        import pyspiel

        game = pyspiel.load_game("connect_four")
        state = game.new_initial_state()

        def step(move: Any) -> None:
            nonlocal state
            state.apply_action(move)
            if state.is_terminal():
                state = game.new_initial_state()
            if with_observation:
                state.observation_tensor(), state.legal_actions_mask()

        return step

    return make


def pettingzoo(ours: bool, checked: bool) -> Callable[[int], Step]:
    def make(_: int) -> Step:
        module: Any = importlib.import_module("evald.pettingzoo" if ours else "pettingzoo.classic.connect_four_v3")
        game = module.env() if checked else module.raw_env()
        game.reset()

        def step(move: Any) -> None:
            game.step(move)
            if game.last()[2]:  # the game is over
                game.reset()

        return step

    return make


def version(package: str) -> str:
    try:
        return ".".join(importlib.metadata.version(package).split(".")[:2])
    except importlib.metadata.PackageNotFoundError:
        return "?"


ROWS: list[tuple[str, bool, Callable[[int], Step]]] = [  # name, whether it plays many games at once, how it is made
    ("`evald.Environment`, step", True, environment),
    ("`evald.Environment`, step, observation and mask", True, observed),
    ("`VectorConnectX`, step with the random opponent's answer, observation and mask", True, gymnasium),
    (f"Pgx {version('pgx')}, jit, vmap and auto_reset, on the CPU", True, pgx),
    (f"OpenSpiel {version('open_spiel')} from Python, apply_action", False, open_spiel(False)),
    (f"OpenSpiel {version('open_spiel')} from Python, apply_action, observation and mask", False, open_spiel(True)),
    ("`evald.pettingzoo.raw_env`, last and step", False, pettingzoo(True, False)),
    (f"PettingZoo {version('pettingzoo')} `connect_four_v3.raw_env`, last and step", False, pettingzoo(False, False)),
    ("`evald.pettingzoo.env`, with checks", False, pettingzoo(True, True)),
    (f"PettingZoo {version('pettingzoo')} `connect_four_v3.env`, with checks", False, pettingzoo(False, True)),
]


def runs(make: Callable[[int], Step], n: int, moves: list[Any], seconds: float) -> Iterator[float]:
    """Steps a second of all games together, of one run after the other. The first is not counted: it compiles."""
    end = 0.0
    while end == 0 or time.perf_counter() < end:
        step = make(n)
        start = time.perf_counter()
        for move in moves:
            step(move)
        taken = time.perf_counter() - start
        if end == 0:
            end = time.perf_counter() + seconds
            continue
        yield n * len(moves) / taken


def short(rate: float) -> str:
    return f"{rate / 1e6:.2f} M" if rate >= 1e6 else f"{rate / 1e3:.0f} k" if rate >= 1e5 else f"{rate / 1e3:.1f} k"


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--seconds", type=float, default=2, help="of each row and number of games")
    seconds = arguments.parse_args().seconds
    print("| |" + "".join(f" {n} game{'s' * (n > 1)} |" for n in SIZES) + "\n|---|" + "---|" * len(SIZES))
    for name, many, make in ROWS:
        cells = []
        try:
            for n in SIZES if many else SIZES[:1]:
                moves: list[Any] = list(actions(n)) if many else actions(n)[:, 0].tolist()
                rates = list(runs(make, n, moves, seconds))
                cells.append(f"{short(statistics.median(rates))} ({short(max(rates))})")
        except ImportError as error:
            print(f"{name}: left out: {error}", file=sys.stderr)
            continue
        print(f"| {name} |" + "".join(f" {cell} |" for cell in cells) + " |" * (len(SIZES) - len(cells)), flush=True)
    if hasattr(os, "getloadavg"):
        print(f"\nThe load of this machine is {os.getloadavg()[0]:.1f}, on {os.cpu_count()} processors.")


if __name__ == "__main__":
    main()
