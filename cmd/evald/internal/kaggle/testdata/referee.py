"""Kaggle's own package is the referee: referee.py AGENT GAMES plays GAMES games with each colour against each of its
built-in agents, and prints one line of JSON per game. AGENT is a path or a URL."""

import gc
import json
import sys

from kaggle_environments import make

agent, games = sys.argv[1], int(sys.argv[2])
for opponent in "random", "negamax":
    for side in range(2):
        for _ in range(games):
            env = make("connectx")
            env.run([agent, opponent] if side == 0 else [opponent, agent])
            last = env.state
            turns = [step[side] for step in env.logs if len(step) > side and step[side].get("duration")]
            print(json.dumps({
                "opponent": opponent,
                "status": [last[side].status, last[1 - side].status],
                "reward": last[side].reward,
                "moves": "".join(str(step[(i - 1) % 2].action + 1) for i, step in enumerate(env.steps)
                                 if i > 0 and isinstance(step[(i - 1) % 2].action, int)),
                "slowest": max(turn["duration"] for turn in turns),
                "left": last[side].observation.remainingOverageTime,
                "said": [turn["stderr"] + turn["stdout"] for turn in turns if turn["stderr"] or turn["stdout"]],
            }), flush=True)
            del env, last
            gc.collect()  # collecting a packed agent closes its program's input, which ends the program
