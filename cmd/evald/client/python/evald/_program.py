"""The calls over a pipe to the program evald, in a process of its own, on systems without the library. Serve in cmd/evald/internal/library is the other
end, and its comment describes the protocol."""
from __future__ import annotations

import atexit
import ctypes
import functools
import io
import queue
import signal
import struct
import subprocess
import threading
from typing import Any, Callable, Sequence

from ._library import CALLS, ERROR_SIZE, ClosedError, UnavailableError

GREETING = b"evald library 4\n"
SECOND = "evald: the program cannot be used in this interpreter: {}; use evald in the main interpreter, or in another process"
AGAIN = "; the next call starts it again, and evaluators are opened again, but searches and self-play that were under way are lost"


class _Call:
    """A call that waits for its answer."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.answered = threading.Lock()  # released when the answer has arrived
        self.answered.acquire()
        self.result, self.text = 0, b""
        self.arrays: list[bytes] | None = None  # None: the program has ended


class _Process:
    """A process of the program. One thread writes to it and one reads from it, so that an interrupt, which goes to the main thread, never leaves half a
    message. When the process has ended, all its calls fail."""

    def __init__(self, path: str, generation: int) -> None:
        self.generation = generation  # number of this process, from 1
        self.ended = ""  # why the process has ended; empty while it runs
        self._path, self._last = path, 0
        self._waiting: dict[int, _Call] = {}
        self._lock = threading.RLock()  # guards _waiting, _last and ended; reentrant, because the garbage collector may call within a call
        self._outbox: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        try:
            self._child = subprocess.Popen(
                [path, "library"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0,
                start_new_session=True, creationflags=getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0),  # so that only Python gets Ctrl-C
            )
        except OSError as error:
            raise UnavailableError(f"evald: the program cannot be started: {error}") from None
        except RuntimeError as error:
            raise ClosedError(SECOND.format(error)) from None
        self._threads = [threading.Thread(target=target, name=f"evald {target.__name__}", daemon=True) for target in (self._write, self._read)]
        try:
            for thread in self._threads:
                thread.start()
        except RuntimeError as error:
            self._outbox.put(None)
            self.forget()
            self._child.kill()
            self._child.wait()
            raise ClosedError(SECOND.format(error)) from None

    def call(self, name: str, message: bytes, wait: bool = True) -> _Call:
        """Sends a call and waits for its answer. An interrupt ends only the waiting; when the answer arrives, whatever the call has opened is closed."""
        call = _Call(name)
        with self._lock:
            if self.ended:
                raise UnavailableError(self.ended)
            self._last += 1
            self._waiting[self._last] = call
            self._outbox.put(struct.pack("<q", self._last) + message)
        if not wait or threading.current_thread() in self._threads:  # in these threads the garbage collector may close an evaluator; they cannot wait for themselves
            return call
        try:
            call.answered.acquire()
        except BaseException:
            with self._lock:
                call.name = "-" + call.name
                if call.arrays is not None:
                    self._undo(call)
            raise
        if call.arrays is None:
            raise UnavailableError(self.ended)
        return call

    def _undo(self, call: _Call) -> None:
        """Closes the evaluator or the long call that an interrupted call has opened."""
        name = call.name[1:]
        if CALLS[name].startswith("h") and call.result > 0:
            undo = "close" if name == "open" else "release"
            self.call(undo, message(undo, [call.result]), wait=False)

    def _write(self) -> None:
        stdin = self._child.stdin
        assert stdin is not None
        try:
            while (of := self._outbox.get()) is not None:
                rest = memoryview(of)
                while rest:
                    rest = rest[stdin.write(rest) :]
        except (OSError, ValueError):  # the process has ended, which _read handles
            pass
        finally:
            stdin.close()

    def _read(self) -> None:
        stdout = self._child.stdout
        assert stdout is not None
        why = ""
        try:
            stream: Any = io.BufferedReader(stdout, 1 << 16)  # type: ignore[type-var]
            greeting = stream.read(len(GREETING))
            if len(greeting) == len(GREETING) and greeting != GREETING:
                why = "does not know the calls of this package: it is of another version, or another program"
            while not why:
                self._answer(stream)
        except (OSError, ValueError, EOFError):
            pass
        except Exception as error:
            why = f"answers what this package does not understand: {error!r}"
        self._end(why)

    def _answer(self, stream: Any) -> None:
        """Reads an answer and passes it to its call."""

        def read(size: int) -> bytes:
            content: bytes = stream.read(size)
            if len(content) < size:
                raise EOFError
            return content

        number, result, size = struct.unpack("<qqq", read(24))
        text = read(size)
        arrays = [read(int.from_bytes(read(8), "little")) for _ in range(int.from_bytes(read(8), "little"))]
        with self._lock:
            call = self._waiting.pop(number)  # interrupted calls are also in _waiting
            call.result, call.text, call.arrays = result, text, arrays
            if call.name.startswith("-"):
                self._undo(call)
        call.answered.release()

    def _end(self, why: str) -> None:
        """Waits for the end of the process and lets all calls fail with the reason."""
        try:
            status = self._child.wait(1 if not why else 0)
        except subprocess.TimeoutExpired:
            self._child.kill()
            status = self._child.wait()
        if not why:
            why = f"ended with status {status}"
            if status < 0:
                why = f"was ended by signal {-status} ({signal.strsignal(-status)})"
        with self._lock:
            self.ended = f"evald: the program {self._path} (process {self._child.pid}) {why}{AGAIN}"
            waiting, self._waiting = self._waiting, {}
        self._outbox.put(None)
        if self._child.stdout is not None:
            self._child.stdout.close()
        for call in waiting.values():
            call.answered.release()

    def stop(self) -> None:
        """Ends the process. It is called when Python ends."""
        self._outbox.put(None)
        self._threads[1].join(2)

    def forget(self) -> None:
        """Closes this process's ends of the pipes."""
        for pipe in (self._child.stdin, self._child.stdout):
            if pipe is not None:
                pipe.close()


def message(name: str, arguments: Sequence[Any]) -> bytes:
    """The bytes of a call, without its number."""
    kinds = CALLS[name].split(":")[1].replace("e", "")
    parts: list[Any] = [struct.pack("<q", len(name)), name.encode(), struct.pack("<q", len(kinds))]
    for kind, argument in zip(kinds, arguments):
        if kind in "nhi":
            parts.append(struct.pack("<cq", b"n", argument))
            continue
        size = memoryview(argument).nbytes if argument is not None else -1 if kind == "s" else 0
        parts.append(struct.pack("<cq", b"w" if kind == "v" else kind.encode(), size))
        if size > 0 and kind in "sru":
            parts.append(argument)
    return b"".join(parts)


def fill(arrays: Sequence[Any], of: Sequence[bytes]) -> None:
    """Copies the contents of answers into the caller's arrays."""
    for array, content in zip(arrays, of):
        if content:
            ctypes.memmove(ctypes.byref(ctypes.c_char.from_buffer(array)), content, len(content))


class Program:
    """A transport over the program, which is started when it is needed, and again if it has ended. The high 32 bits of the number of an evaluator or of a
    long call are the generation of its process."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._process: _Process | None = None
        self._starting = threading.RLock()
        self._rules: dict[int, bytes] = {}  # rules of boards by number
        self._late: dict[int, list[Any]] = {}  # arrays of kind l by the number of their long call
        atexit.register(self._stop)

    def call(self, name: str) -> Callable[..., int]:
        result, kinds = CALLS[name].split(":")
        return functools.partial(self._call, name, result, kinds)

    def pointer(self, array: Any) -> Any:
        return array

    def ended(self, number: int) -> bool:
        process = self._process
        return number > 0 and (process is None or bool(process.ended) or process.generation != number >> 32)

    def program(self) -> str | None:
        return self._path

    def forget(self) -> None:
        if self._process is not None:
            self._process.forget()
        atexit.unregister(self._stop)

    def _stop(self) -> None:
        if self._process is not None:
            self._process.stop()

    def _call(self, name: str, result: str, kinds: str, *arguments: Any) -> int:
        handle = arguments[0] if kinds[0] == "h" else 0
        process = self._process if handle > 0 else self._running()
        try:
            if process is None or handle > 0 and process.generation != handle >> 32:
                raise UnavailableError("evald: the program that had this evaluator or call has ended" + AGAIN)
            answer = process.call(name, message(name, arguments if handle <= 0 else (handle & 0xFFFFFFFF, *arguments[1:])))
        except UnavailableError:
            self._late.pop(handle, None)
            if name in ("close", "release"):  # the end of the process has closed it
                return 0
            raise
        written = [a for kind, a in zip(kinds, arguments) if kind in "wuv"]
        if answer.result < 0:
            if "e" in kinds:
                arguments[kinds.index("e")].value = answer.text[: ERROR_SIZE - 1]
            return answer.result
        if name == "wait" and answer.result == 0:
            written += self._late.pop(handle, [])
        elif name == "release":
            self._late.pop(handle, None)
        fill(written, answer.arrays or [])
        if name == "board":
            self._rules.setdefault(answer.result, arguments[0])
        if result != "h":
            return answer.result
        number = answer.result | process.generation << 32
        if late := [a for kind, a in zip(kinds, arguments) if kind == "l"]:
            self._late[number] = late
        return number

    def _running(self) -> _Process:
        """The running process. If there is none, or it has ended, this starts one in which boards have the same numbers."""
        process = self._process
        if process is not None and not process.ended:
            return process
        with self._starting:
            process = self._process
            if process is None or process.ended:
                process = _Process(self._path, 1 if process is None else process.generation + 1)
                shape = (ctypes.c_longlong * 5)()
                try:
                    for _, rules in sorted(self._rules.items()):
                        process.call("board", message("board", [rules, shape]))
                except BaseException:
                    process.stop()
                    raise
                self._process = process
            return process
