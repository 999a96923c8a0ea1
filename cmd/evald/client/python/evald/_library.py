"""The calls that the package is made of, their errors as exceptions, and what answers them: the library that comes with the package, through ctypes,
or the program where there is no library (_program.py)."""
from __future__ import annotations

import ctypes
import json
import os
import shutil
import sys
import sysconfig
import threading
from pathlib import Path
from typing import Any, Callable, Mapping, Protocol

ERROR_SIZE = 2048
LOST = 2  # the status of a call whose evaluator or search is closed


class EvaldError(ValueError):
    """An argument is wrong. The text names it, and the way out."""


class ClosedError(RuntimeError):
    """The evaluator or search is closed, or the process may not use the library, because it is a fork."""


class UnavailableError(ConnectionError):
    """The program or the service that should answer has ended, cannot be reached, or is overloaded. The text has the details. A later call may
    succeed: it restarts the program, or asks the service again."""


class Event(ctypes.Structure):
    """The event of a long call, and its progress."""

    _fields_ = [(name, ctypes.c_int64) for name in ("rows", "number", "first", "done", "all")]


def find() -> Path:
    """The path of the library, or where it would be if this wheel had one."""
    named = os.environ.get("EVALD_LIBRARY")
    name = {"win32": "evald.dll", "darwin": "libevald.dylib"}.get(sys.platform, "libevald.so")
    return Path(named) if named else Path(__file__).parent / name


def find_program() -> str | None:
    """The program: what EVALD_PROGRAM names, what pip has put where it puts scripts, or the one on PATH."""
    if named := os.environ.get("EVALD_PROGRAM"):
        return named
    name = "evald" + (sysconfig.get_config_var("EXE") or "")
    folders = [
        sysconfig.get_path("scripts"),
        sysconfig.get_path("scripts", sysconfig.get_preferred_scheme("user")),  # pip install --user
        str(Path(__file__).absolute().parent.parent / "bin"),  # pip install --target
    ]
    return next((path for folder in folders if os.path.isfile(path := os.path.join(folder, name))), None) or shutil.which("evald")


# The calls, as result:arguments. n and i are numbers, h is that of an evaluator or of a call that takes long, s is text, e the text of an error, v an
# Event. r is memory that is read, w memory that is written, u both, and l is written until the call that takes long has ended.
CALLS: dict[str, str] = {
    "about": "n:wn",
    "board": "n:swe",
    "parse": "i:nnsnwe",
    "check": "i:nnre",
    "from_cells": "i:nnriwe",
    "cells": "i:nnrwe",
    "planes": "i:nnsrwe",
    "legal": "i:nnrwe",
    "results": "i:nnrwe",
    "step": "i:nnurwwie",
    "open": "h:se",
    "evaluator": "n:hwn",
    "close": "i:he",
    "evaluate": "i:hnnrwwwe",
    "search": "h:hnnrslllllle",
    "solve": "h:nnrsle",
    "selfplay": "h:hnse",
    "records": "n:swne",
    "read": "h:nnsilllllllllle",
    "wait": "i:hnve",
    "batch": "i:hnwe",
    "answer": "i:hnrrse",
    "game": "i:hwwwwwe",
    "release": "-:h",
}
_types: dict[str, Any] = {"n": ctypes.c_longlong, "h": ctypes.c_longlong, "i": ctypes.c_int, "s": ctypes.c_char_p, "e": ctypes.c_char_p,
                          "v": ctypes.POINTER(Event), **dict.fromkeys("rwul", ctypes.c_void_p), "-": None}


class Transport(Protocol):
    """What answers calls."""

    def call(self, name: str) -> Callable[..., Any]:
        """A call as a function, whose arguments and result are those of CALLS. Its result is a status or minus a status if it has an error."""

    def pointer(self, array: Any) -> Any:
        """What calls take as the memory of an array."""

    def ended(self, number: int) -> bool:
        """Whether what had this evaluator has ended, and a call would be answered by another."""

    def forget(self) -> None:
        """Called in the child of a fork."""

    def program(self) -> str | None:
        """A file that can be started as the program evald, or None."""


_start_of = (ctypes.c_char * 0).from_buffer


class _Loaded:
    """The library in this process."""

    def __init__(self, path: Path) -> None:
        self._dll = ctypes.CDLL(str(path))

    def call(self, name: str) -> Callable[..., Any]:
        result, arguments = CALLS[name].split(":")
        call = getattr(self._dll, "evald_" + name)
        call.restype, call.argtypes = _types[result], [_types[a] for a in arguments]
        return call  # type: ignore[no-any-return]

    def main(self, arguments: list[bytes]) -> int:
        return int(self._dll.evald_main(len(arguments), (ctypes.c_char_p * len(arguments))(*arguments)))

    def pointer(self, array: Any) -> Any:
        try:
            return _start_of(array)  # in a quarter of the time that array.ctypes.data takes
        except TypeError:  # the array is only for reading
            return array.__array_interface__["data"][0]

    def ended(self, number: int) -> bool:
        return False

    def forget(self) -> None:
        pass

    def program(self) -> str | None:
        path = str(find())
        return path if sys.platform == "linux" and os.access(path, os.X_OK) else find_program()


def missing() -> str:
    """The paths at which the library was expected, and the ways out."""
    return (
        f"{find()} is not there: this wheel has no library for this system, or EVALD_LIBRARY is wrong; the variable EVALD_LIBRARY names one, or "
        "EVALD_PROGRAM the program evald, which is not on PATH either. evald.Evaluator(url=...) asks a service for evaluations and searches"
    )


def load() -> _Loaded:
    """The library. An ImportError lists the paths at which it was expected."""
    if not find().exists():
        raise ImportError("evald: " + missing())
    return _Loaded(find())


class Library:
    """The calls as attributes. What answers them is chosen when the first one is needed: the library that EVALD_LIBRARY names, the program that
    EVALD_PROGRAM names, the library of the package, or the program where find_program finds it. Without any of them there are only the calls of
    _rules.py, which a service needs."""

    pointer: Callable[[Any], Any]
    ended: Callable[[int], bool]
    program: Callable[[], str | None]

    def __init__(self) -> None:
        self._transport: Transport | None = None
        self._choosing = threading.RLock()  # the garbage collector may close an evaluator meanwhile

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name not in CALLS and name not in ("pointer", "ended", "program"):
            raise AttributeError(name)
        with self._choosing:
            transport = self._transport = self._transport or _choose()
        call: Callable[..., Any] = transport.call(name) if name in CALLS else getattr(transport, name)
        setattr(self, name, call)
        return call

    def forget(self) -> None:
        """In the child of a fork the library has no threads that would answer, and the program is the parent's, so no call may reach them."""
        if self._transport is not None:
            self._transport.forget()
            for name in CALLS:
                setattr(self, name, _forked)


def _choose() -> Transport:
    if not os.environ.get("EVALD_LIBRARY") and (os.environ.get("EVALD_PROGRAM") or not find().exists()):
        path = find_program()
        if path is None:
            from ._rules import Rules

            return Rules(missing())
        from ._program import Program

        return Program(path)
    return load()


def _forked(*_: object) -> None:
    raise ClosedError(
        "evald was used before this process was forked, and does not work in the child: start it with the method spawn "
        '(multiprocessing.set_start_method("spawn"), or multiprocessing_context="spawn" of a DataLoader), or use evald in the child alone'
    )


library = Library()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=library.forget)


class _Thread(threading.local):
    """What each thread has of its own."""

    def __init__(self) -> None:
        self.error = error_text()


def error_text() -> ctypes.Array[ctypes.c_char]:
    """Memory for the text of an error of a call that takes long."""
    return ctypes.create_string_buffer(ERROR_SIZE)


thread = _Thread()  # thread.error is that of other calls: making it would take as long as the call


def failed(status: int, text: ctypes.Array[ctypes.c_char]) -> Exception:
    """The exception for a status that is not 0, or for a result below 0, which is such a status."""
    said = text.value.decode("utf-8", "replace")
    return ClosedError(said) if abs(status) == LOST else EvaldError(said)


def told(call: Callable[..., int], *arguments: Any) -> Any:
    """The JSON that a call writes into memory of ours."""
    size = 1 << 12
    while True:
        into = ctypes.create_string_buffer(size)
        needs = call(*arguments, into, size)
        if needs == 0:
            raise ClosedError("the evaluator is closed")
        if needs <= size:
            return json.loads(into.value)
        size = needs


def options(of: Mapping[str, Any]) -> bytes:
    """Options as the library takes them, without those that were not given."""
    return json.dumps({name: value for name, value in of.items() if value is not None}).encode()
