"""Checks of arguments. Each function returns its argument in the form that the package needs, or raises an EvaldError that names argument and value.

Numbers of numpy, arrays without a dimension and floats that are whole numbers count as the numbers that they are. True and False are no numbers."""
from __future__ import annotations

import json
import math
import numbers
import os
from typing import Any, Callable, Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from ._library import EvaldError, IndexingError

MOST = 1 << 40  # rows of an array; more would not fit into any memory
MOST_INTEGER = (1 << 63) - 1

Array = npt.NDArray[Any]

_bools = frozenset((bool, np.bool_))


def _plain(value: Any) -> Any:
    """A number of numpy, or an array or tensor without a dimension, as Python's own number; all else as it is."""
    if getattr(value, "ndim", None) == 0 and hasattr(value, "item"):
        return value.item()
    return value


def _shown(value: Any) -> str:
    text = repr(_plain(value))
    return text if len(text) <= 100 else text[:100] + "..."


def wrong(name: str, value: Any, must: str) -> EvaldError:
    """The error for an argument."""
    return EvaldError(f"{name} is {_shown(value)}, and must be {must}")


def _whole(value: Any) -> int | None:
    """A whole number as an int, or None."""
    value = _plain(value)
    if isinstance(value, (bool, np.bool_)):
        return None
    if isinstance(value, numbers.Integral):
        return int(value)
    if isinstance(value, (float, np.floating)) and math.isfinite(value) and value == int(value):
        return int(value)
    return None


def count(name: str, value: Any, least: int = 0, most: int = MOST_INTEGER) -> int:
    """A whole number in a range."""
    number = _whole(value)
    if number is None or not least <= number <= most:
        limit = most != MOST_INTEGER or number is not None and number > most
        raise wrong(name, value, f"a whole number from {least}" + (f" to {most}" if limit else ""))
    return number


def number(name: str, value: Any, least: float = 0, most: float = math.inf, *, above: bool = False) -> float:
    """A finite number in a range. With `above` it must be more than the least."""
    plain = _plain(value)
    try:
        found = float(plain) if isinstance(plain, numbers.Real) and not isinstance(plain, (bool, np.bool_)) else math.nan
    except OverflowError:
        found = math.nan
    if not (math.isfinite(found) and least <= found <= most) or (above and found == least):
        raise wrong(name, value, ("a number above" if above else "a number from") + f" {least:g}" + (f" to {most:g}" if most < math.inf else ""))
    return found


def flag(name: str, value: Any) -> bool:
    """True or False."""
    plain = _plain(value)
    if not isinstance(plain, (bool, np.bool_)):
        raise wrong(name, value, "True or False")
    return bool(plain)


def nodes(name: str, value: Any) -> int | bool:
    """A number of nodes, or True or False."""
    plain = _plain(value)
    return plain if isinstance(plain, bool) else count(name, value)


def text(name: str, value: Any, choices: Sequence[str] = ()) -> str:
    """A text, which may have to be one of the choices."""
    if not isinstance(value, str) or "\0" in value or choices and value not in choices:
        raise wrong(name, value, " or ".join(repr(choice) for choice in choices) if choices else "text")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise wrong(name, value, "text that can be encoded") from None
    return str(value)


def path(name: str, value: Any, must: str = "text or an os.PathLike") -> str:
    """The text of a path."""
    if not isinstance(value, (str, os.PathLike)):
        raise wrong(name, value, must)
    found = os.fsdecode(value)
    if "\0" in found:
        raise wrong(name, value, "a path, which has no character 0")
    return found


def function(name: str, value: Any) -> Any:
    """A function or None."""
    if value is not None and not callable(value):
        raise wrong(name, value, "a function or None")
    return value


def sizes(name: str, value: Any) -> tuple[int, ...]:
    """Numbers of positions of a function's batches; none for None."""
    if value is None:
        return ()
    must = "whole numbers from 1 on, such as (1, 8, 64, 256), or None"
    if isinstance(value, (str, bytes, Mapping)) or not hasattr(value, "__iter__") or getattr(value, "ndim", 1) != 1:
        raise wrong(name, value, must)
    found = [_whole(one) for one in value]
    if not found or any(one is None or not 1 <= one <= MOST for one in found):
        raise wrong(name, value, must)
    return tuple(sorted(one for one in found if one is not None))


def mapping(name: str, value: Any) -> Mapping[str, Any]:
    """A dict or another mapping with texts as keys."""
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        raise wrong(name, value, "a dict of names and values")
    return value


def settings(name: str, value: Any) -> dict[str, str]:
    """A dict of settings in text."""
    return {key: str(_option(f"{name}[{key!r}]", one)) for key, one in mapping(name, value).items() if one is not None}


def optional(check: Callable[..., Any], name: str, value: Any, *more: Any) -> Any:
    """None, or what another check returns."""
    return None if value is None else check(name, value, *more)


def _array(name: str, values: Any) -> Array:
    if isinstance(values, Iterator):
        values = list(values)
    if isinstance(values, (list, tuple)):
        if not _bools.isdisjoint(map(type, values)):  # numpy would take True for 1 beside numbers
            values = np.array([None, *values], object)[1:]
    elif hasattr(values, "detach"):  # a torch tensor, possibly on a GPU
        values = values.detach().cpu().numpy()
    try:
        return np.asarray(values)
    except (ValueError, TypeError) as error:
        raise EvaldError(f"{name} have an unknown form: {error}") from None


def whole(name: str, values: Any, kind: Any = np.int64) -> Array:
    """An array of whole numbers, of a type of integers. `name` is the plural, with which an error names a value and its index."""
    array = _array(name, values)
    if array.dtype == kind:
        return array
    info = np.iinfo(kind)
    if array.dtype.kind == "u" and kind == np.int64 or array.dtype.kind == "i" and kind == np.uint64:
        good = array <= info.max if array.dtype.kind == "u" else array >= 0
    elif array.dtype.kind in "iu":
        good = (array >= info.min) & (array <= info.max)
    elif array.dtype.kind == "f":
        limit = 2.0 ** (info.bits - (info.min < 0))
        with np.errstate(invalid="ignore"):
            good = (array == np.floor(array)) & (array < limit) & (array >= float(info.min))
    elif array.dtype.kind == "O":
        found = [_whole(value) for value in array.reshape(-1).tolist()]
        good = np.array([value is not None and info.min <= value <= info.max for value in found], bool).reshape(array.shape)
    else:
        good = np.zeros(array.shape, bool)
    if array.size > 0 and not good.all():
        i = int(np.flatnonzero(~good.reshape(-1))[0])
        value = array.reshape(-1)[i]
        at = i if array.ndim < 2 else [int(k) for k in np.unravel_index(i, array.shape)]
        fits = _whole(value) is None
        raise EvaldError(f"{name} {at} is {_shown(value)}, and must be a whole number" + ("" if fits else f" from {info.min} to {info.max}"))
    if array.dtype.kind == "O":
        return np.array(found, kind).reshape(array.shape)
    return array.astype(kind)


def each(name: str, values: Any, n: int, of: str = "game") -> Array:
    """[N] a whole number for each of n games. A single number will do for a single game."""
    array = _array(name, values)
    if array.dtype != np.int64:
        array = whole(f"{name}: that of {of}", array)
    if array.ndim == 0 and n == 1:
        array = array.reshape(1)
    if array.shape != (n,):
        raise EvaldError(f"{name} are {_shown(values)}, of the shape {list(array.shape)}, and must have one number for each {of}: [{n}]")
    return array


def floats(name: str, values: Any, shape: tuple[int, ...]) -> Array:
    """An array of float32 of a shape."""
    array = _array(name, values)
    if array.dtype.kind not in "fiu" or array.shape != shape:
        raise wrong(name, values, f"numbers of the shape {list(shape)}")
    return np.ascontiguousarray(array, np.float32)


def mask(name: str, values: Any, n: int, of: str = "game") -> npt.NDArray[np.bool_]:
    """[N] True or False for each of n games."""
    try:
        array = np.asarray(values)
    except ValueError:
        array = np.empty(0)
    if array.dtype != np.bool_ or array.shape != (n,):
        raise wrong(name, values, f"True or False for each {of}: [{n}]")
    return array


def rows(index: Any, n: int) -> Any:
    """An index of rows in the form for numpy: a slice, or an array of integers or of bools. An IndexingError says what is wrong."""
    def refused(why: str) -> IndexingError:
        return IndexingError(f"index {_shown(index)} {why}")

    if isinstance(index, slice):
        try:
            index.indices(n)
            return slice(*(None if part is None else part.__index__() for part in (index.start, index.stop, index.step)))
        except (TypeError, ValueError, AttributeError) as error:
            raise refused(f"is no slice of rows: {error}") from None
    plain = _plain(index)
    if isinstance(plain, numbers.Integral) and not isinstance(plain, (bool, np.bool_)):
        at = int(plain)
        if not -n <= at < n:
            raise refused(f"is out of range: there are {n} positions")
        return slice(at % n, at % n + 1)
    if not isinstance(index, (tuple, str)) and hasattr(index, "__len__"):
        try:
            array = np.asarray(index)
        except ValueError:
            array = np.empty((0, 0))
        if array.shape == (0,) and array.dtype.kind == "f":  # an empty list
            array = array.astype(np.int64)
        if array.ndim == 1 and array.dtype.kind == "b":
            if len(array) == n:
                return array
            raise refused(f"has {len(array)} values, and there are {n} positions")
        if array.ndim == 1 and array.dtype.kind in "iu":
            if isinstance(index, list) and any(isinstance(one, (bool, np.bool_)) for one in index):
                raise refused("has True or False beside numbers")
            bad = (array >= n) | (array < -n if array.dtype.kind == "i" else False)
            if bad.any():
                raise refused(f"has {array[bad.argmax()]}, which is out of range: there are {n} positions")
            return array
    raise refused("is invalid: rows are chosen by an integer, a slice, or a list or array of integers or of True and False")


def options(of: Mapping[str, Any]) -> bytes:
    """Options as JSON for the library, without those that are None."""
    return json.dumps({name: _option(name, value) for name, value in of.items() if value is not None}).encode()


def _option(name: str, value: Any) -> Any:
    plain = _plain(value)
    if isinstance(plain, (bool, np.bool_)):
        return bool(plain)
    if isinstance(plain, numbers.Real):
        found = _whole(plain)  # the library reads whole numbers without a point
        if found is not None and -MOST_INTEGER <= found < 1 << 64:
            return found
        if isinstance(plain, numbers.Integral):
            raise wrong(name, value, f"a number from {-MOST_INTEGER} to {(1 << 64) - 1}")
        return number(name, value, -math.inf)
    if isinstance(value, (str, os.PathLike)):
        return path(name, value)
    if isinstance(value, Mapping):
        return {key: _option(f"{name}[{key!r}]", one) for key, one in mapping(name, value).items()}
    if isinstance(value, (list, tuple)):
        return [_option(f"{name}[{i}]", one) for i, one in enumerate(value)]
    raise wrong(name, value, "a number, True, False or text")
