"""Evaluators: networks and heuristics that evaluate positions."""
from __future__ import annotations

import functools
import glob
import importlib.util
import os
import re
import threading
from types import TracebackType
from typing import Any, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from . import _arguments as arguments
from ._library import ClosedError, EvaldError, error_text, failed, library, thread, told
from ._positions import Board, Positions, PositionsLike, bitboards, board, has_board, rules_text, svg
from ._service import Service
from ._values import Value

Floats = npt.NDArray[np.float32]


@functools.cache
def _about() -> dict[str, Any]:
    about: dict[str, Any] = told(library.about)
    return about


def version() -> str:
    """The version of the library."""
    return str(_about()["version"])


def names(codes: npt.NDArray[np.uint8] | list[str]) -> list[str]:
    """[N] the names of sources, from the library's codes or a service's names."""
    if isinstance(codes, list):  # from a service, or of a pickle
        return list(codes)
    sources = _about()["sources"]
    return [sources[code] for code in codes.tolist()]


def codes_of(sources: npt.NDArray[np.uint8] | list[str]) -> npt.NDArray[np.uint8]:
    """[N] the library's codes of sources; the reverse of names."""
    if not isinstance(sources, list):
        return sources
    known: list[str] = _about()["sources"]
    if unknown := sorted(set(sources) - set(known)):
        raise EvaldError(f"sources are {unknown[0]!r} among others, and must be of {known}")
    return np.array([known.index(name) for name in sources], np.uint8)


@functools.cache
def _installed() -> str | None:
    """The path of the installed package onnxruntime's library, or None."""
    package = importlib.util.find_spec("onnxruntime")
    folders = package.submodule_search_locations if package is not None else None
    return next((path for folder in folders or [] for path in sorted(glob.glob(os.path.join(glob.escape(folder), "capi", "libonnxruntime.so*")))), None)


def _runtime(ort: Mapping[str, object] | None) -> dict[str, str]:
    """Settings of ONNX Runtime in the form that the library accepts."""
    given = {key: str(value) for key, value in (ort or {}).items()}
    if "library" not in given and not os.environ.get("EVALD_ORT_LIBRARY") and (path := _installed()):
        given["library"] = path
    return given


class Rows(Value):
    """Base of the answers of evaluators and searches: rows of `wdl` and `policy` for `positions`, a copy of those that were asked for."""

    __slots__ = ("positions", "wdl", "policy")

    positions: Positions
    wdl: Floats
    policy: Floats

    @property
    def value(self) -> Floats:
        """[N] win minus loss, -1 to 1."""
        return self.wdl[:, 0] - self.wdl[:, 2]

    def __len__(self) -> int:
        return len(self.wdl)

    def _repr_svg_(self) -> str:
        """The first position with its policy, for notebooks."""
        return svg(self.positions[:1], self.policy[0] if len(self) else None)


class Answers(Rows):
    """An evaluator's answers to positions, for the side to move.

    `wdl` [N,3] has the probabilities of win, draw and loss, `policy` [N,A] those of the actions, 0 for illegal ones. `value` [N] is win minus loss.
    `source` [N] is the origin of each answer: cpu, gpu or fast (networks), rules, terminal (the game is over), or a heuristic.
    """

    __slots__ = ("_codes",)

    def __init__(self, positions: Positions, wdl: Floats, policy: Floats, codes: npt.NDArray[np.uint8] | list[str]) -> None:
        self.positions, self.wdl, self.policy, self._codes = positions, wdl, policy, codes

    @property
    def best(self) -> npt.NDArray[np.int64]:
        """[N] the likeliest action, counted from 0; -1 if the game is over."""
        return np.where(self.policy.any(1), self.policy.argmax(1), -1)

    @property
    def source(self) -> list[str]:
        """[N] the sources."""
        return names(self._codes)

    def __repr__(self) -> str:
        return f"<answers to {self.positions!r}>"


class Evaluator:
    """A network or a heuristic, ready to evaluate positions.

    `model` is the name of a network that ships ("default", "default-fast") or of one in the user's
    store, the path of a safetensors or ONNX file, a heuristic ("bitsquares", "bitsquares:power=2:width=6"),
    "exact", or "grpc://HOST:PORT/NAME" for a model of evald serve. Without it, `default` evaluates
    7x6x4, `any` the other boards of its range, and the heuristic bitsquares all others. A board
    that a named network does not know is an EvaldError. `rules` are those of positions that do not
    say theirs. `backend` is "auto", "gpu", "cpu", the name of a heuristic, or a backend of ONNX
    Runtime: "ort-cpu", "ort-cuda", "ort-tensorrt". `cpu_path` names the processor's instructions
    that networks use, such as "avx512" (`evald version` lists them); None is the fastest. ONNX
    Runtime computes ONNX files of any program; a file of the same name that ends in .yaml must
    describe the network. `ort` are settings of ONNX Runtime, such as dict(library=path,
    device_id=1); without library, the library of the installed package onnxruntime is used. With
    `mirror` the answer is the mean over a position and its mirror image. With `exact`, a solver
    answers the positions whose result it finds within this number of nodes.

    `errors` is for batches of columns, see __call__: with "raise" a row that is no position is an
    error of the whole batch, with "column" an error of that row alone.

    With `url`, such as "http://127.0.0.1:8000", a service (`evald serve`) answers with its model `model`, or "default". A token is given as the
    password in the URL. `timeout` is the time limit of a request in seconds. If the service does not answer, an UnavailableError has the reason.

    Several threads may use an evaluator at once. It is a context manager, and a callable for batches of columns; see __call__.
    """

    def __init__(self, model: str | os.PathLike[str] | None = None, *, backend: str | None = None, cpu_path: str | None = None, mirror: bool = False,
                 exact: int | bool = 0, ort: Mapping[str, object] | None = None, rules: str | Board = "7x6x4", url: str | None = None, timeout: float = 60,
                 errors: str = "raise") -> None:
        named: str | None = arguments.optional(arguments.path, "model", model, NAMED)
        backend = arguments.optional(arguments.text, "backend", backend)
        cpu_path, url = arguments.optional(arguments.text, "cpu_path", cpu_path), arguments.optional(arguments.text, "url", url)
        mirror, exact, timeout = arguments.flag("mirror", mirror), arguments.nodes("exact", exact), arguments.number("timeout", timeout, 0, MOST_SECONDS, above=True)
        ort = arguments.optional(arguments.settings, "ort", ort)
        self.errors = arguments.text("errors", errors, ERRORS)
        self._options: dict[str, Any] = dict(model=named, backend=backend, cpu_path=cpu_path, mirror=mirror, exact=exact, ort=ort)
        self._url: dict[str, Any] = dict(url=url, timeout=timeout)
        self.rules = rules_text(rules)
        self._number: int = CLOSED
        self.service: Service | None = None
        if url is None:
            self.rules = board(rules).rules
            self._open()
            return
        if backend or cpu_path or mirror or ort:
            raise EvaldError("backend, cpu_path, mirror and ort are not for a service, which was started with its own: leave them out, or leave out url")
        self.service = Service(url, named, timeout)
        self.about: dict[str, Any] = self.service.about()

    def _open(self) -> None:
        error = error_text()
        number = library.open(arguments.options({**self._options, "ort": _runtime(self._options["ort"]), "program": library.program()}), error)
        if number < 0:
            raise failed(number, error)
        self._number, self.about = number, told(library.evaluator, number)

    def number(self) -> int:
        """The evaluator's number for the next call. If the program that had the evaluator has ended, this opens it in a new one."""
        if library.ended(self._number):
            with _opening:
                if library.ended(self._number):
                    self._open()
        return self._number

    def network(self, positions: Positions) -> tuple[Floats, Floats]:
        """Policy [N,A], and win, draw and loss [N,3], of `positions`. This is a function for the
        argument network of searches and self-play in this process, with a service's answers."""
        answers = self.evaluate(positions)
        return answers.policy, answers.wdl

    def __reduce__(self) -> Any:  # pickling, for workers in other processes
        return functools.partial(type(self), **self._options, **self._url, rules=self.rules, errors=self.errors), ()

    def evaluate(self, positions: PositionsLike, rules: str | Board | None = None, *, raw: bool = False) -> Answers:
        """The answers to `positions` of any form (see Positions), by default of the evaluator's
        `rules`. Large arrays are evaluated in parts, so that an interrupt can end the call.

        The rules answer positions that the next stones decide, and leave out moves that lose to
        the next stone. With `raw` the network or heuristic answers all positions whose game is not
        over, and neither the rules nor a solver (`exact`) help: illegal moves have 0, and the
        others sum to 1.
        """
        raw = arguments.flag("raw", raw)
        words = bitboards(positions) if isinstance(positions, np.ndarray) and self.service is None else None
        if words is not None:
            positions = Positions._of(words, board(self.rules if rules is None else rules))  # the call below checks them
        elif rules is None and isinstance(positions, Positions):
            positions = Positions(positions)
        else:
            positions = Positions(positions, self.rules if rules is None and not has_board(positions) else rules)
        if self.service is not None:
            if self.service.closed:
                raise ClosedError("the evaluator is closed")
            if raw:
                raise EvaldError("raw is True, and must be False with a service, whose answers have the rules' help: open the network here, without url")
            return Answers(positions, *self.service.evaluate(positions, self._options["exact"] or None))
        words, of = positions._words, positions.board
        n = len(words)
        wdl, policy = np.empty((n, 3), np.float32), np.empty((n, of.actions), np.float32)
        codes = np.empty(n, np.uint8)
        error = thread.error
        number = self.number()
        for i in range(0, n, PART):
            at, *part = [library.pointer(a if n <= PART else a[i : i + PART]) for a in (words, wdl, policy, codes)]
            status = library.evaluate(number, of._number, min(PART, n - i), at, int(raw), *part, error)
            if status != 0:
                raise failed(status, error)
        return Answers(positions, wdl, policy, codes)

    def __call__(self, batch: Mapping[str, Any]) -> dict[str, Any]:
        """Adds the columns `win`, `draw`, `loss`, `policy` and `source` to a batch of columns, for Ray Data's map_batches and other functions that map
        dicts of arrays. The positions are in the column `moves` (text), or in `own` and `all` (bitboards), or in `own_lo`, `own_hi`, `all_lo` and
        `all_hi`, as in evald's records.

        With `errors="column"` the column `error` is added, too: the reason why a row is no position,
        with NaN and 0 as its answer, or "".
        """
        if not hasattr(batch, "keys"):  # a dict or a frame
            raise arguments.wrong("batch", batch, "columns by their names")
        if self.errors == "column":
            return {**batch, **self._with_errors(batch)}
        a = self.evaluate(from_columns(batch, self.rules))
        return {**batch, **_answer_columns(a.wdl, a.policy, np.array(a.source))}

    def _with_errors(self, batch: Mapping[str, Any]) -> dict[str, Any]:
        positions, wrong = sorted_out(batch, self.rules)
        a = self.evaluate(positions)
        if not wrong:
            return {**_answer_columns(a.wdl, a.policy, np.array(a.source)), "error": np.zeros(len(a), "U1")}
        right, error = rows_of(len(a), wrong)
        n = len(right)
        wdl, policy = np.full((n, 3), np.nan, np.float32), np.zeros((n, a.policy.shape[1]), np.float32)
        wdl[right], policy[right] = a.wdl, a.policy
        source = np.full(n, "", object)
        source[right] = a.source
        return {**_answer_columns(wdl, policy, source.astype(str)), "error": error}

    def close(self) -> None:
        """Releases the evaluator's resources, when no call uses it any more. Later calls raise a ClosedError."""
        if _holds(thread.kept, self):
            raise EvaldError("close: the call that has called this function uses the evaluator, and each would wait for the other: close it after the call")
        number, self._number = self._number, CLOSED
        if self.service is not None:
            self.service.close()
        if number != CLOSED:
            error = error_text()
            status = library.close(number, error)
            if status != 0:
                raise failed(status, error)

    def __enter__(self) -> Evaluator:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def __del__(self) -> None:
        if getattr(self, "_number", CLOSED) > 0:
            try:
                self.close()
            except Exception:  # in a forked child, or when Python is ending and has cleared this module's names
                pass

    def __repr__(self) -> str:
        return f"<evaluator {self.about['how']}>" if self._number != CLOSED or self.service is not None else "<evaluator, closed>"


def _holds(kept: Any, e: Evaluator) -> bool:
    """Whether e is among what calls keep."""
    return any(one is e or getattr(one, "_open", None) is e or isinstance(one, (list, tuple)) and _holds(one, e) for one in kept)


_opening = threading.Lock()
NAMED = "the name of a network, or its path: text or an os.PathLike"
ERRORS = ("raise", "column")
COLUMNS = ("moves", "own", "all", "own_lo", "own_hi", "all_lo", "all_hi")
_ROW = re.compile(r"^positions? 0(: | )")  # where an error's row is said already
MOST_SECONDS = 1e9
CLOSED = -1  # the number of a closed evaluator; 0 stands for a function
PART = 1 << 14  # positions of one call of the library


def from_columns(batch: Mapping[str, Any], rules: str | Board) -> Positions:
    """The positions of a batch of columns; see Evaluator.__call__."""
    if "moves" in batch:
        moves = np.asarray(batch["moves"])
        return Positions(moves.astype(str) if moves.dtype.kind in "iu" else moves, rules)  # readers of CSV files turn moves into integers
    for names in (("own_lo", "own_hi", "all_lo", "all_hi"), ("own", "all")):
        if all(name in batch for name in names):
            return Positions(stacked(names, [batch[name] for name in names]), rules)
    raise KeyError(f"a batch has the columns {sorted(batch)}, and needs moves, or own and all, or own_lo, own_hi, all_lo and all_hi")


def _answer_columns(wdl: npt.NDArray[np.float32], policy: npt.NDArray[np.float32], source: npt.NDArray[np.str_]) -> dict[str, Any]:
    return {"win": wdl[:, 0], "draw": wdl[:, 1], "loss": wdl[:, 2], "policy": policy, "source": source}


def sorted_out(batch: Mapping[str, Any], rules: str | Board) -> tuple[Positions, dict[int, str]]:
    """The positions of the valid rows of a batch of columns, and for each other row the reason why it is none."""
    columns = {name: np.asarray(batch[name]) for name in COLUMNS if name in batch}
    lengths = set(map(len, columns.values()))
    if len(lengths) != 1 or lengths == {0}:
        return from_columns(batch, rules), {}
    parts: list[Positions] = []
    wrong: dict[int, str] = {}
    waiting = [(0, lengths.pop())]  # ranges of rows, the first one last
    while waiting:
        begin, end = waiting.pop()
        try:
            parts.append(from_columns({name: column[begin:end] for name, column in columns.items()}, rules))
        except EvaldError as error:
            middle = (begin + end) // 2
            if begin == middle:
                wrong[begin] = _ROW.sub("", str(error))
            else:
                waiting += [(middle, end), (begin, middle)]
    return Positions(parts, rules) if len(parts) != 1 else parts[0], wrong


def rows_of(valid: int, wrong: Mapping[int, str]) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.str_]]:
    """[N] which rows of a batch of `valid` rows and `wrong` ones are valid, and [N] the reasons why the others are not, else ""."""
    right, error = np.ones(valid + len(wrong), np.bool_), np.full(valid + len(wrong), "", object)
    right[list(wrong)], error[list(wrong)] = False, list(wrong.values())
    return right, error.astype(np.str_)


def stacked(names: Sequence[str], columns: Sequence[Any]) -> npt.NDArray[np.uint64]:
    """Bitboards [N,2] or [N,4] of columns [N]."""
    arrays = [arguments.whole(name, column, np.uint64) for name, column in zip(names, columns)]
    if any(array.ndim != 1 or array.shape != arrays[0].shape for array in arrays):
        raise EvaldError(f"{', '.join(names)} have the shapes {[list(array.shape) for array in arrays]}, and must be columns of the same length")
    return np.stack(arrays, 1)


def evaluate(positions: PositionsLike, rules: str | Board | None = None, *, model: str | os.PathLike[str] | Evaluator | None = None,
             raw: bool = False) -> Answers:
    """The answers of the shipped network, or of another `model` (an Evaluator, or a name or path as
    in Evaluator), to `positions` of any form and of the game `rules` (see Positions). `raw` is as
    in Evaluator.evaluate: the network alone.

    >>> evaluate("445566").source        # three in a row, so the rules know who wins
    ['rules']
    >>> evaluate(["4", "44"]).policy.shape
    (2, 7)
    """
    return evaluator(model).evaluate(positions, rules, raw=raw)


@functools.lru_cache(8)
def _named(model: str | None, url: str | None) -> Evaluator:
    return Evaluator(model, url=url)


def evaluator(model: str | os.PathLike[str] | Evaluator | None, name: str = "model") -> Evaluator:
    """The evaluator for a call's argument: itself, or a cached evaluator of the model with that name or path (None: the shipped one). If the
    variable EVALD_URL is set, the cached evaluators are models of that service."""
    if isinstance(model, Evaluator):
        return model
    return _named(arguments.optional(arguments.path, name, model, NAMED + ", or an Evaluator"), os.environ.get("EVALD_URL") or None)
