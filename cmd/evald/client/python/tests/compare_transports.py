"""What a call takes by the library, by the program and by a service on this machine, as multiples of the library's time. Prints the second table of
README.md.

    EVALD_LIBRARY=bin/libevald.so EVALD_PROGRAM=bin/evald python compare_transports.py [--seconds 2]

Each figure compares the shortest of all single calls in that time, which other work on the machine changes the least.
"""
from __future__ import annotations

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
from typing import Callable

import numpy as np

import evald


def calls(url: str | None) -> dict[str, Callable[[], object]]:
    """The calls that are compared. A service has only those of evaluators."""
    e = evald.Evaluator("bitsquares", url=url) if url else evald.Evaluator(backend="bitsquares")
    network = evald.Evaluator("default", url=url)
    many, some = evald.Positions(["4453"] * 4096), evald.Positions(["4453"] * 64)
    of: dict[str, Callable[[], object]] = {
        '`evaluate("4453")`, bitsquares': lambda: e.evaluate("4453"),
        "`evaluate`, bitsquares, 4096 positions": lambda: e.evaluate(many),
        '`evaluate("4453")`, the network `default`': lambda: network.evaluate("4453"),
        "`evaluate`, the network `default`, 64 positions": lambda: network.evaluate(some),
    }
    if url:
        return of
    one, all_ = evald.Environment(1), evald.Environment(4096)
    move, moves = np.array([3]), np.full(4096, 3)
    return of | {
        "`Environment.reset` and `step`, 1 game": lambda: first(one, move),
        "`Environment.reset` and `step`, 4096 games": lambda: first(all_, moves),
        "`search`, a function of numpy as the network, 64 positions, 50 visits": lambda: evald.search(
            some, network=lambda p: (np.ones((len(p), 7), np.float32), np.zeros(len(p), np.float32)), visits=50
        ),
    }


def first(games: evald.Environment, moves: np.ndarray) -> object:
    """Begins the games anew and plays their first moves."""
    games.reset()
    return games.step(moves)


def shortest(call: Callable[[], object], seconds: float) -> float:
    """The seconds of the shortest of many calls."""
    call()
    best, end = float("inf"), time.perf_counter() + seconds
    while (start := time.perf_counter()) < end:
        call()
        best = min(best, time.perf_counter() - start)
    return best


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--seconds", type=float, default=2, help="of each figure")
    arguments.add_argument("--only", choices=("library", "program", "url"), help=argparse.SUPPRESS)
    given = arguments.parse_args()
    if given.only:  # in a process of its own, which prints its times
        from test_service import Serving

        serving = None
        if given.only == "url":
            with tempfile.TemporaryDirectory() as folder:
                models = pathlib.Path(folder) / "models.yaml"
                models.write_text("models:\n  - name: default\n  - backend: bitsquares\n")
                serving = Serving("--models", str(models))
        try:
            json.dump({name: shortest(call, given.seconds) for name, call in calls(serving.url if serving else None).items()}, sys.stdout)
        finally:
            if serving:
                serving.stop()
        return
    times = {}
    for only in ("library", "program", "url"):
        env = {k: v for k, v in os.environ.items() if k != "EVALD_URL" and not (only == "program" and k == "EVALD_LIBRARY")}
        done = subprocess.run([sys.executable, __file__, "--only", only, "--seconds", str(given.seconds)], env=env, stdout=subprocess.PIPE, check=True)
        times[only] = json.loads(done.stdout)
    print("| | library | program | URL |\n|---|---|---|---|")
    for name, base in times["library"].items():
        cells = [f"{times[only][name] / base:.1f}" if name in times[only] else "" for only in times]
        print(f"| {name} | {' | '.join(cells)} |")
    if hasattr(os, "getloadavg"):
        print(f"\nThe load of this machine is {os.getloadavg()[0]:.1f}, on {os.cpu_count()} processors.")


if __name__ == "__main__":
    main()
