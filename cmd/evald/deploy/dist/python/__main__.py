import os
import subprocess
import sys
import sysconfig


def program():
    """The path of the program, which pip has put where it puts scripts."""
    name = "evald" + (sysconfig.get_config_var("EXE") or "")
    package = os.path.dirname(os.path.abspath(__file__))
    folders = [
        sysconfig.get_path("scripts"),
        sysconfig.get_path("scripts", sysconfig.get_preferred_scheme("user")),  # pip install --user
        os.path.join(os.path.dirname(package), "bin"),  # pip install --target
    ]
    for folder in folders:
        path = os.path.join(folder, name)
        if os.path.isfile(path):
            return path
    sys.exit("evald: the program is in none of " + ", ".join(folders) + ": install the wheel again")


if __name__ == "__main__":
    path = program()
    if os.name == "nt":  # exec there does not wait
        sys.exit(subprocess.call([path] + sys.argv[1:]))
    os.execv(path, [path] + sys.argv[1:])
