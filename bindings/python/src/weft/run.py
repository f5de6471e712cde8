"""Starts weftrun of the package: python -m weft.run -n 2 train.py --epochs 3

Options are weftrun's. A program that ends in .py is run by this Python.
"""
from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from weft._library import weftrun

# Of weftrun's options, those without a value.
_FLAGS = ("--elastic", "-h", "--help")


def command(arguments: Sequence[str]) -> list[str]:
    """The command line of weftrun."""
    at = 0
    while at < len(arguments) and arguments[at].startswith("-"):
        word = arguments[at]
        if word == "--":
            at += 1
            break
        alone = word in _FLAGS or "=" in word or not word.startswith("--") and len(word) > 2
        at += 1 if alone else 2
    python = [sys.executable] if at < len(arguments) and arguments[at].endswith(".py") else []
    return [str(weftrun()), *arguments[:at], *python, *arguments[at:]]


def main() -> None:
    words = command(sys.argv[1:])
    try:
        os.execv(words[0], words)
    except OSError as failure:
        sys.exit(f"weft.run: {words[0]} cannot be started: {failure.strerror}")


if __name__ == "__main__":
    main()
