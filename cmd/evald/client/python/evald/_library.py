"""The library that comes with the package, through ctypes: names and types of its calls, and its errors as exceptions."""
from __future__ import annotations

import ctypes
import json
import os
import sys
import threading
from pathlib import Path
from typing import Any, Callable, Mapping

ERROR_SIZE = 2048
LOST = 2  # the status of a call whose evaluator or search is closed


class EvaldError(ValueError):
    """What was given is wrong. The text names what, and the way out."""


class ClosedError(RuntimeError):
    """The evaluator or search is closed, or the process may not use the library, because it is a fork."""


class Event(ctypes.Structure):
    """What a call that takes long wants or has, and how far it is."""

    _fields_ = [(name, ctypes.c_int64) for name in ("rows", "number", "first", "done", "all")]


def find() -> Path:
    """Where the library is, or would be if this wheel had one."""
    named = os.environ.get("EVALD_LIBRARY")
    name = {"win32": "evald.dll", "darwin": "libevald.dylib"}.get(sys.platform, "libevald.so")
    return Path(named) if named else Path(__file__).parent / name


_n, _p, _s, _i = ctypes.c_longlong, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int
_calls: dict[str, tuple[Any, list[Any]]] = {
    "main": (_i, [_i, ctypes.POINTER(_s)]),
    "about": (_n, [_s, _n]),
    "board": (_n, [_s, ctypes.POINTER(_n), _s]),
    "parse": (_i, [_n, _n, _s, _n, _p, _s]),
    "check": (_i, [_n, _n, _p, _s]),
    "from_cells": (_i, [_n, _n, _p, _i, _p, _s]),
    "cells": (_i, [_n, _n, _p, _p, _s]),
    "planes": (_i, [_n, _n, _p, _p, _s]),
    "legal": (_i, [_n, _n, _p, _p, _s]),
    "results": (_i, [_n, _n, _p, _p, _s]),
    "step": (_i, [_n, _n, _p, _p, _p, _p, _i, _s]),
    "open": (_n, [_s, _s]),
    "evaluator": (_n, [_n, _s, _n]),
    "close": (_i, [_n, _s]),
    "evaluate": (_i, [_n, _n, _n, _p, _p, _p, _p, _s]),
    "search": (_n, [_n, _n, _n, _p, _s, _p, _p, _p, _p, _p, _p, _s]),
    "solve": (_n, [_n, _n, _p, _s, _p, _s]),
    "selfplay": (_n, [_n, _n, _s, _s]),
    "records": (_n, [_s, _s, _n, _s]),
    "read": (_n, [_n, _n, _s, _i, _p, _p, _p, _p, _p, _p, _p, _p, _p, _p, _s]),
    "wait": (_i, [_n, _n, ctypes.POINTER(Event), _s]),
    "batch": (_i, [_n, _n, _p]),
    "answer": (_i, [_n, _n, _p, _p, _s, _s]),
    "game": (_i, [_n, _p, _p, _p, _p, _p]),
    "release": (None, [_n]),
}


class Library:
    """The library, loaded when it is first needed. Its attributes are its calls, without the evald_ before their names."""

    def __init__(self) -> None:
        self._dll: ctypes.CDLL | None = None

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name not in _calls:
            raise AttributeError(name)
        result, arguments = _calls[name]
        call = getattr(self._loaded(), "evald_" + name)
        call.restype, call.argtypes = result, arguments
        setattr(self, name, call)
        return call  # type: ignore[no-any-return]

    def _loaded(self) -> ctypes.CDLL:
        if self._dll is None:
            path = find()
            if not path.exists():
                raise ImportError(f"evald: {path} is not there: this wheel has no library for this system; the variable EVALD_LIBRARY can name one")
            self._dll = ctypes.CDLL(str(path))
        return self._dll

    def forget(self) -> None:
        """In the child of a fork the library has no threads that would answer, so no call may reach it."""
        if self._dll is not None:
            for name in _calls:
                setattr(self, name, _forked)


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
