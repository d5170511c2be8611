"""Fields of the C ABI's structs, set so that no value is truncated silently.

ctypes drops the bits that a field has no room for and takes a number for the address of a text; C
ends a text at its first NUL.
"""

from __future__ import annotations

import os
from ctypes import Structure, c_double, c_float, sizeof
from typing import Any, Callable, TypeVar

Number = TypeVar("Number", int, float)


def put(struct: Structure, name: str, value: Any) -> None:
    """Sets a field. Raises ValueError for an integer that the field can't hold, TypeError for
    another type."""
    kind: Any = next(kind for field, kind, *_ in struct._fields_ if field == name)
    try:
        setattr(struct, name, value)
    except TypeError:
        accepted = "a number" if kind in (c_float, c_double) else "an integer"
        raise TypeError(f"{name} is {value!r}; accepted: {accepted}") from None
    kept = getattr(struct, name)
    if isinstance(kept, int) and kept != value:
        values = 1 << 8 * sizeof(kind)
        least = -values // 2 if kind(-1).value < 0 else 0
        raise ValueError(f"{name} is {value}; accepted: {least} to {least + values - 1}")


def real(value: Any) -> float:
    """Returns a number as a float. Raises TypeError for any other value, also for text."""
    return c_double(value).value


def checked(
    name: str,
    value: Any,
    convert: Callable[[Any], Number],
    accepted: str,
    fits: Callable[[Number], bool] = lambda _: True,
) -> Number:
    """Returns `convert(value)`, such as `real` or `operator.index`.

    Raises TypeError for a value of another type, ValueError for a number that does not fit."""
    try:
        number = convert(value)
        if fits(number):
            return number
        kind: type[Exception] = ValueError
    except (TypeError, OverflowError) as error:
        kind = TypeError if isinstance(error, TypeError) else ValueError
    raise kind(f"{name} is {value!r}; accepted: {accepted}")


def filename(name: str, value: str | bytes | os.PathLike[str]) -> bytes:
    """Returns a path for C."""
    try:
        return text(name, os.fsencode(value))
    except TypeError:
        raise TypeError(f"{name} is {value!r}; accepted: a path") from None


def text(name: str, value: str | bytes) -> bytes:
    """Returns a text for C."""
    if not isinstance(value, (str, bytes)):
        raise TypeError(f"{name} is {value!r}; accepted: text")
    encoded = value.encode(errors="replace") if isinstance(value, str) else value
    if b"\0" in encoded:
        raise ValueError(f"{name} is {value!r}; accepted: text without NUL")
    return encoded
