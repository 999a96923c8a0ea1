"""How often the answers of evald and of other programs keep the result, and how long an answer takes on one processor. Draws engine/score/accuracy.svg.

    evald positions -o sets --count 100 --seed 1
    EVALD_LIBRARY=bin/libevald.so python compare_accuracy.py sets/*.txt -o accuracy.svg

Each position is asked for alone, from Python, on one processor. The others are Kaggle's agent negamax, OpenSpiel's MCTS in C++, whose leaves are random games, and the
network `default` in PyTorch. An agent that takes a minute for all positions is stopped, and its share is that of those it has answered.
"""
from __future__ import annotations

import argparse
import os
import pathlib
import random
import statistics
import sys
import time
from typing import Any, Callable

import numpy as np

if hasattr(os, "sched_setaffinity"):  # before a library counts the processors
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})

import torch  # noqa: E402

import evald  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[5]
Agent = Callable[[str], int]  # from the moves of a position to a move, from 0


def read(paths: list[str]) -> dict[str, list[int]]:
    """The exact scores of all moves, of each position in the files; -1000 is a full column."""
    sets = {}
    for path in paths:
        for line in pathlib.Path(path).read_text().splitlines():
            if not line.startswith("#"):
                moves, *scores = line.split()
                sets[moves] = [int(s) for s in scores]
    return sets


def good(scores: list[int], move: int) -> bool:
    """Whether the move keeps win, draw or loss."""
    return np.sign(scores[move]) == np.sign(max(scores))


def ours() -> dict[str, dict[str, Agent]]:
    def network(name: str, *visits: int) -> dict[str, Agent]:
        def new() -> evald.Evaluator:  # one for each agent, so that no agent finds answers of another in its cache
            return evald.Evaluator(backend="bitsquares") if name == "bitsquares" else evald.Evaluator(name, backend="cpu")

        def search(n: int, e: evald.Evaluator) -> Agent:
            return lambda moves: int(evald.search(moves, network=e, visits=n).best[0])

        alone = new()
        return {"alone": lambda moves: int(alone.evaluate(moves).best[0])} | {f"{n} visits": search(n, new()) for n in visits}

    return {
        "evald, no network (bitsquares)": network("bitsquares", 100, 800),
        "evald, default-fast": network("default-fast", 100, 800),
        "evald, default": network("default", 100, 800),
        "evald, solver": {"solve": lambda moves: int(np.argmax(evald.solve(moves)[0]))},
    }


def kaggle() -> dict[str, Agent]:
    from kaggle_environments.envs.connectx.connectx import negamax_agent
    from kaggle_environments.utils import structify

    configuration = structify(dict(columns=7, rows=6, inarow=4))

    def play(moves: str) -> int:
        cells = evald.Positions(moves).cells()[0].reshape(-1)
        mine = 1 + len(moves) % 2
        board = [0 if c == 0 else mine if c > 0 else 3 - mine for c in cells]
        return int(negamax_agent(structify(dict(board=board, mark=mine)), configuration))

    return {"depth 4": play}


def openspiel() -> dict[str, Agent]:
    import pyspiel

    game = pyspiel.load_game("connect_four")

    def searches(n: int) -> Agent:
        def play(moves: str) -> int:
            state = game.new_initial_state()
            for move in moves:
                state.apply_action(int(move) - 1)
            leaves = pyspiel.RandomRolloutEvaluator(1, 1)
            return int(pyspiel.MCTSBot(game, leaves, 2, n, 1000, True, 1, False).step(state))

        return play

    return {f"{n} simulations": searches(n) for n in (100, 1000, 10000)}


def pytorch() -> dict[str, Agent]:
    sys.path.insert(0, str(ROOT / "nn/net"))
    import torch_model

    net, _ = torch_model.load(ROOT / "models/default.safetensors")

    def play(moves: str) -> int:
        of = evald.Positions(moves)
        with torch.inference_mode():
            planes = torch.from_numpy(of.planes())
            logits = torch_model.column_logits(net(planes)[2], planes)[0].numpy()
        return int(np.argmax(np.where(of.legal()[0], logits, -np.inf)))

    return {"alone": play}


def measure(agent: Agent, sets: dict[str, list[int]], seconds: float) -> tuple[float, float, int]:
    """The share of good moves, the mean of the seconds of an answer, and how many positions that is of."""
    kept, times, end = 0, [], time.perf_counter() + seconds
    agent(next(iter(sets)))
    for moves, scores in sets.items():
        start = time.perf_counter()
        move = agent(moves)
        times.append(time.perf_counter() - start)
        kept += good(scores, move)
        if time.perf_counter() > end:
            break
    return kept / len(times), statistics.fmean(times), len(times)


def draw(points: dict[str, list[tuple[str, float, float]]], path: str) -> None:
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams.update({"svg.hashsalt": "evald", "font.size": 10})
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(9.6, 4.4))
    for n, name in enumerate(points):
        mine = name.startswith("evald")
        x, y = [1e3 * s for _, _, s in points[name]], [100 * g for _, g, _ in points[name]]
        axes.plot(x, y, "o-" if mine else "s--", color=pyplot.cm.tab10(n), markersize=6, linewidth=2 if mine else 1.2, label=name)
        for (label, _, _), a, b in zip(points[name], x, y):
            number = label.split()[0]
            if number.isdigit() and not mine:
                axes.annotate(number, (a, b), xytext=(0, -13), textcoords="offset points", ha="center", fontsize=8, color=pyplot.cm.tab10(n))
    axes.set_xscale("log")
    axes.set_xlabel("milliseconds for one answer, from Python, on one processor")
    axes.set_ylabel("moves that keep win, draw or loss, %")
    axes.grid(True, alpha=0.3)
    axes.set_title("7x6, four in a row: how good a move is after how long", fontsize=11)
    axes.legend(fontsize=8.5, loc="center left", bbox_to_anchor=(1.01, 0.5), title="evald: alone, 100 and 800 visits\nOpenSpiel: simulations", title_fontsize=8)
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", help="positions with exact scores of all moves")
    parser.add_argument("-o", "--out", default=str(ROOT / "engine/score/accuracy.svg"))
    parser.add_argument("--seconds", type=float, default=60, help="for each agent, at most")
    given = parser.parse_args()
    torch.set_num_threads(1)
    drawn = list(read(given.files).items())
    random.Random(1).shuffle(drawn)
    sets = dict(drawn)
    contenders: dict[str, Any] = ours() | {"Kaggle's negamax": kaggle(), "OpenSpiel's MCTS": openspiel(), "default in PyTorch": pytorch()}
    points: dict[str, list[tuple[str, float, float]]] = {}
    print(f"| agent | good moves of {len(sets)} positions | time of an answer |\n|---|---|---|")
    for name, agents in contenders.items():
        for label, agent in agents.items():
            share, mean, n = measure(agent, sets, given.seconds)
            points.setdefault(name, []).append((label, share, mean))
            print(f"| {name}, {label} | {100 * share:.1f}%{'' if n == len(sets) else f' of {n}'} | {1e3 * mean:.3g} ms |", flush=True)
    draw(points, given.out)


if __name__ == "__main__":
    main()
