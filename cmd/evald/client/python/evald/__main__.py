"""The program evald. `evald` and `python -m evald` start it."""
from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import sysconfig

from ._library import find, library


def program() -> str | None:
    """The path of the program: the library, which can be started on Linux, or what pip has put where it puts scripts."""
    path = find()
    if path.exists():
        return str(path) if sys.platform == "linux" else None
    name = "evald" + (sysconfig.get_config_var("EXE") or "")
    package = os.path.dirname(os.path.abspath(__file__))
    folders = [
        sysconfig.get_path("scripts"),
        sysconfig.get_path("scripts", sysconfig.get_preferred_scheme("user")),  # pip install --user
        os.path.join(os.path.dirname(package), "bin"),  # pip install --target
    ]
    for folder in folders:
        script = os.path.join(folder, name)
        if os.path.isfile(script):
            return script
    sys.exit("evald: the program is in none of " + ", ".join(folders) + ": install the wheel again")


def main() -> int:
    """Becomes the program, with the arguments of this one."""
    path = program()
    if path is None:  # the library, in this process
        arguments = [os.fsencode(a) for a in ("evald", *sys.argv[1:])]
        return int(library.main(len(arguments), (ctypes.c_char_p * len(arguments))(*arguments)))
    if os.name == "nt":  # exec there does not wait
        return subprocess.call([path, *sys.argv[1:]])
    try:
        os.execv(path, ["evald", *sys.argv[1:]])
    except PermissionError:  # an installer that keeps no modes of files
        os.chmod(path, 0o755)
        os.execv(path, ["evald", *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
