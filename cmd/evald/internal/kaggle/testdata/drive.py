"""Runs main.py as Kaggle does, without Kaggle's package: drive.py FOLDER SCENARIO, prints one line of JSON per answer."""

import json
import os
import signal
import sys

folder, scenario = sys.argv[1:]
path = os.path.join(folder, "main.py")
with open(path) as file:
    raw = file.read()
env = {}
configuration = {"rows": 6, "columns": 7, "inarow": 4, "actTimeout": 2}
if scenario == "nameless":  # the way that old releases run it
    configuration["__raw_path__"] = path
    exec(compile(raw, "<string>", "exec"), env)
else:
    exec(compile(raw, path, "exec"), env)
agent = [v for v in env.values() if callable(v)][-1]


def act(stones=0, overage=60):
    """Prints the answer to a position with stones in the columns 1 2 1 2 .., or the error."""
    board = [0] * 42
    for i in range(stones):
        board[35 - 7 * (i // 2) + i % 2] = 1 + i % 2
    observation = {"board": board, "mark": 1 + stones % 2, "step": stones, "remainingOverageTime": overage}
    try:
        answer = {"action": agent(observation, configuration)}
    except Exception as error:
        answer = {"error": type(error).__name__ + ": " + str(error)}
    print(json.dumps(answer), flush=True)


act(6)
if scenario == "killed":
    first = env["child"].pid
    os.kill(first, signal.SIGKILL)
    act(5)
    assert env["child"].pid != first
elif scenario == "stopped":
    # The child is alive but does not answer, so agent() waits for all of the game's time.
    os.kill(env["child"].pid, signal.SIGSTOP)
    os.waitpid(env["child"].pid, os.WUNTRACED)  # kill returns before the last thread has stopped
    configuration["actTimeout"] = 0.1
    act(5, overage=-1)
    act(5)
elif scenario == "finished":
    act(7)
    act(5)
