"""The calls on which the package is built, and their errors as exceptions. The library that comes with the package answers the calls, through ctypes,
or without a library the program (_program.py)."""
from __future__ import annotations

import ctypes
import functools
import json
import os
import shutil
import sys
import sysconfig
import threading
from pathlib import Path
from typing import Any, Callable, Protocol

ERROR_SIZE = 2048
LOST = 2  # the status of a call whose evaluator or search is closed


class EvaldError(ValueError):
    """An argument is invalid. The text names it and says what is valid."""


class IndexingError(EvaldError, IndexError):
    """An index is out of range, or chooses no rows."""


class ClosedError(RuntimeError):
    """The evaluator or search is closed, or this process is a fork that cannot use the library."""


class UnavailableError(ConnectionError):
    """The program or the service has ended, cannot be reached, or is overloaded. The text has the details. A later call may succeed: it restarts the
    program, or asks the service again."""


class Event(ctypes.Structure):
    """The event of a long call, and its progress."""

    _fields_ = [(name, ctypes.c_int64) for name in ("rows", "number", "first", "done", "all", "one", "two")]


def find() -> Path:
    """The path of the library, or where it would be if this wheel had one."""
    named = os.environ.get("EVALD_LIBRARY")
    name = {"win32": "evald.dll", "darwin": "libevald.dylib"}.get(sys.platform, "libevald.so")
    return Path(named) if named else Path(__file__).parent / name


def find_program() -> str | None:
    """The path of the program: the one that EVALD_PROGRAM names, the one that pip installed, or the one on PATH."""
    if named := os.environ.get("EVALD_PROGRAM"):
        return named
    name = "evald" + (sysconfig.get_config_var("EXE") or "")
    folders = [
        sysconfig.get_path("scripts"),
        sysconfig.get_path("scripts", sysconfig.get_preferred_scheme("user")),  # pip install --user
        str(Path(__file__).absolute().parent.parent / "bin"),  # pip install --target
    ]
    return next((path for folder in folders if os.path.isfile(path := os.path.join(folder, name))), None) or shutil.which("evald")


# The calls, as result:arguments. n and i are numbers, h is the number of an evaluator or of a long call, s is text, e memory for the text of an error,
# v an Event. r is memory that the call reads, w memory that it writes, u memory that it reads and writes, and l memory that a long call writes until
# it has ended.
CALLS: dict[str, str] = {
    "about": "n:wne",
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
    "evaluator": "n:hwne",
    "close": "i:he",
    "evaluate": "i:hnnriwwwe",
    "search": "h:hnnrsllllllllnle",
    "plant": "h:hnnrse",
    "grow": "h:hnllllllllnle",
    "grown": "n:he",
    "priors": "i:hre",
    "advance": "i:hre",
    "rule": "n:hnswne",
    "solve": "h:nnrsle",
    "selfplay": "h:hnse",
    "match": "h:nse",
    "score": "h:hnnrsre",
    "score_rules": "n:swne",
    "result": "n:hwne",
    "write": "h:nnssrrrrrrrrrrrre",
    "records": "n:swne",
    "read": "h:nnsilllllllllllle",
    "wait": "i:hnve",
    "batch": "i:hnwe",
    "answer": "i:hnrrse",
    "game": "i:hwwwwwwwwe",
    "release": "i:he",
}
_types: dict[str, Any] = {**dict.fromkeys("nhi", ctypes.c_longlong), "s": ctypes.c_char_p, "e": ctypes.c_char_p,
                          "v": ctypes.POINTER(Event), **dict.fromkeys("rwul", ctypes.c_void_p)}


class Transport(Protocol):
    """Answers the calls: the library, the program, or _rules.py."""

    def call(self, name: str) -> Callable[..., Any]:
        """The function of a call. Its arguments and result are those in CALLS. After an error the result is minus a status."""

    def pointer(self, array: Any) -> Any:
        """The argument that calls accept for an array's memory."""

    def ended(self, number: int) -> bool:
        """Whether the process that had this evaluator has ended, so that another one would answer the next call."""

    def forget(self) -> None:
        """Is called in the child of a fork."""

    def program(self) -> str | None:
        """A file that can be started as the program evald, or None."""


_start_of = (ctypes.c_char * 0).from_buffer


class _Loaded:
    """The library in this process."""

    def __init__(self, path: Path) -> None:
        self._dll = ctypes.CDLL(str(path))

    def call(self, name: str) -> Callable[..., Any]:
        call = self._dll["evald_call"]  # an object of its own for each name
        call.restype, call.argtypes = ctypes.c_longlong, [ctypes.c_char_p, *(_types[kind] for kind in CALLS[name].split(":")[1])]
        return functools.partial(call, name.encode())

    def main(self, arguments: list[bytes]) -> int:
        return int(self._dll.evald_main(len(arguments), (ctypes.c_char_p * len(arguments))(*arguments)))

    def pointer(self, array: Any) -> Any:
        try:
            return _start_of(array)  # four times as fast as array.ctypes.data
        except TypeError:  # the array is read-only
            return array.__array_interface__["data"][0]

    def ended(self, number: int) -> bool:
        return False

    def forget(self) -> None:
        pass

    def program(self) -> str | None:
        path = str(find())
        return path if sys.platform == "linux" and os.access(path, os.X_OK) else find_program()


def missing() -> str:
    """The paths at which the library was expected, and what to do."""
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
    """The calls as attributes. The first call chooses the transport: the library that EVALD_LIBRARY names, the program that EVALD_PROGRAM names, the
    library of the package, or the program that find_program finds. Without any of them only the calls of _rules.py are available, which clients of a
    service need."""

    pointer: Callable[[Any], Any]
    ended: Callable[[int], bool]
    program: Callable[[], str | None]

    def __init__(self) -> None:
        self._transport: Transport | None = None
        self._choosing = threading.RLock()  # reentrant, because the garbage collector may close an evaluator meanwhile

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name not in CALLS and name not in ("pointer", "ended", "program"):
            raise AttributeError(name)
        with self._choosing:
            transport = self._transport = self._transport or _choose()
        call: Callable[..., Any] = transport.call(name) if name in CALLS else getattr(transport, name)
        setattr(self, name, call)
        return call

    def forget(self) -> None:
        """Makes all calls fail in the child of a fork: there the library has no threads to answer, and the program belongs to the parent."""
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
    """Data of each thread."""

    def __init__(self) -> None:
        self.error = error_text()
        self.kept: list[Any] = []  # what the calls keep whose network's function is being called


def error_text() -> ctypes.Array[ctypes.c_char]:
    """Memory for the text of an error."""
    return ctypes.create_string_buffer(ERROR_SIZE)


thread = _Thread()  # thread.error is for short calls, because allocating the memory would take as long as the call; long calls have their own


def failed(status: int, text: ctypes.Array[ctypes.c_char]) -> Exception:
    """The exception for a status other than 0, or for a negative result, which is minus a status."""
    said = text.value.decode("utf-8", "replace")
    return ClosedError(said) if abs(status) == LOST else EvaldError(said)


def told(call: Callable[..., int], *arguments: Any) -> Any:
    """Calls a function that writes JSON, with enough memory, and decodes the JSON."""
    size, error = 1 << 12, error_text()
    while True:
        into = ctypes.create_string_buffer(size)
        needs = call(*arguments, into, size, error)
        if needs < 0:
            raise failed(needs, error)
        if needs <= size:
            return json.loads(into.value)
        size = needs
