"""The program evald. `evald` and `python -m evald` start it."""
from __future__ import annotations

import os
import subprocess
import sys

from ._library import find, find_program, load


def program() -> str | None:
    """The path of the program: on Linux the library, which can be started as a program; without a library the program that pip installed. None if
    there is only a library that cannot be started."""
    path = find()
    if path.exists():
        return str(path) if sys.platform == "linux" else None
    return find_program() or sys.exit("evald: the program is neither where pip puts scripts nor on PATH: install the wheel again")


def main() -> int:
    """Replaces this process by the program, with the same arguments."""
    path = program()
    if path is None:  # call the library in this process
        return load().main([os.fsencode(a) for a in ("evald", *sys.argv[1:])])
    if os.name == "nt":  # on Windows exec does not wait for the program
        return subprocess.call([path, *sys.argv[1:]])
    try:
        os.execv(path, ["evald", *sys.argv[1:]])
    except PermissionError:  # some installers drop the modes of files
        os.chmod(path, 0o755)
        os.execv(path, ["evald", *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
