"""A ConnectX agent. For every move it asks the program evald in the same folder.

Kaggle runs this file and uses its last callable, so agent() must stay at the end. The program always
has a move before the game's time is over. There is no weaker fallback: if the program cannot be
started or does not answer, agent() raises an error with the reason.
"""

import json
import os
import select
import subprocess
import tempfile
import time

AGENT = "@AGENT@"

child = None
log = None


def folder(configuration):
    """The folder of this file. Some releases of Kaggle's environments run the file without a name, so several places are tried."""
    places = [os.path.dirname(os.path.abspath(name)) for name in (
        globals().get("__file__"), configuration.get("__raw_path__"), folder.__code__.co_filename) if name]
    places.append("/kaggle_simulations/agent")
    for place in places:
        if os.path.isfile(os.path.join(place, "evald")):
            return place
    raise FileNotFoundError("the program evald is in none of " + ", ".join(places))


def start(configuration):
    global child, log
    here = folder(configuration)
    program = os.path.join(here, "evald")
    if not os.access(program, os.X_OK):
        os.chmod(program, 0o755)
    log = tempfile.TemporaryFile()
    try:
        child = subprocess.Popen([program, "kaggle", "act", "--agent", AGENT], cwd=here,
                                 stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log)
    except OSError as error:
        raise RuntimeError("cannot start %s: %s" % (program, error)) from error


def stop():
    """Ends the child; returns its exit status and its last error output."""
    global child
    dead, child = child, None
    dead.kill()
    dead.stdout.close()
    try:
        dead.stdin.close()
    except OSError:
        pass
    status = dead.wait()
    log.seek(max(0, log.seek(0, os.SEEK_END) - 2000))
    return "status %d; %s" % (status, log.read().decode(errors="replace").strip() or "no message")


def ask(line, seconds):
    """The child's answer to a line. It is incomplete unless it ends in a newline."""
    try:
        child.stdin.write(line)
        child.stdin.flush()
    except OSError:
        return b""
    if not select.select([child.stdout], [], [], seconds)[0]:
        raise TimeoutError("evald has not answered within %g s: %s" % (seconds, stop()))
    return child.stdout.readline()


def agent(observation, configuration):
    line = json.dumps({"observation": observation, "configuration": configuration, "sent": time.time()}).encode() + b"\n"
    # The game is lost after this time.
    seconds = configuration.get("actTimeout", 2) + max(0, observation.get("remainingOverageTime", 0)) + 1
    for attempt in "first", "second":
        if child is None:
            start(configuration)
        reply = ask(line, seconds)
        if reply.endswith(b"\n"):
            break
        end = stop()
    else:
        raise RuntimeError("evald ended twice without an answer: " + end)
    answer = json.loads(reply)
    if "error" in answer:
        raise RuntimeError("evald: " + answer["error"])
    return answer["action"]
