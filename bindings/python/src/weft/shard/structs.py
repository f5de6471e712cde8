"""Structs of C filled from arguments. What would not fit is refused, where ctypes cuts it to what does."""
from __future__ import annotations

import ctypes
from typing import Any, TypeVar

T = TypeVar("T")


def sized(kind: type[ctypes.Structure]) -> Any:
    """A struct of C with its size in it, else all 0."""
    return kind(ctypes.sizeof(kind))


def filled(kind: type[ctypes.Structure], **values: Any) -> Any:
    """A struct of C with its size and these values, which ctypes would cut to what fits."""
    struct = sized(kind)
    fill(struct, **values)
    return struct


def fill(struct: ctypes.Structure, **values: Any) -> None:
    for name, value in values.items():
        setattr(struct, name, value)
        if isinstance(value, int) and (getattr(struct, name) or 0) != value:  # NULL reads back as None
            raise ValueError(f"{name} is {value}, which is out of range")


def int32(value: int, name: str) -> int:
    """An argument that is an int of C."""
    if not isinstance(value, int):
        raise TypeError(f"{name} is a {type(value).__name__}; it must be a whole number")
    if not -(1 << 31) <= value < 1 << 31:
        raise ValueError(f"{name} is {value}, which is out of range")
    return value


def utf8(text: str, name: str) -> bytes:
    """An argument that is text of C."""
    if not isinstance(text, str):
        raise TypeError(f"{name} is a {type(text).__name__}; it must be a str")
    if "\0" in text:
        raise ValueError(f"{name} is {text!r}; it must not have a NUL")
    return text.encode()


def of_type(given: object, kind: type[T], name: str) -> T:
    """An argument that is one of the package's objects."""
    if not isinstance(given, kind):
        raise TypeError(f"{name} is a {type(given).__name__}; it must be a {kind.__name__}")
    return given
