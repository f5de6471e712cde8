"""What XLA cannot tell Python, and Python not XLA: that Ctrl-C has ended a handler, that a communicator or the program ends while one waits.

A handler that runs on the main thread asks for signals as all calls of weft do (core/interrupt). XLA makes a JaxRuntimeError of its end; so that the
program gets KeyboardInterrupt, or what its signal handler has raised, that is raised where Python goes on.
"""
from __future__ import annotations

import atexit
import ctypes
import functools
import sys
import threading

from weft import _capi
from weft._library import library
from weft.core import completions, interrupt
from weft.jax.versions import jax


class _Again(KeyboardInterrupt):
    """Python makes one of this class to raise it, and gets what a handler has raised before."""

    def __new__(cls, *arguments: object) -> BaseException:  # type: ignore[misc]
        try:
            interrupt.raise_pending()
        except BaseException as raised:
            return raised
        return KeyboardInterrupt()


# Nothing of it runs Python code: the exception would be raised there, where ctypes drops it.
_raise_again = _capi.weft_xla_interrupted_t(functools.partial(ctypes.pythonapi.PyThreadState_SetAsyncExc, ctypes.c_ulong(threading.main_thread().ident or 0),
                                                              ctypes.py_object(_Again)))


class _Program:
    dies = False  # of an exception


def _before_destroy() -> None:
    """What JAX has under way ends first, but not if the program has failed: it may wait for what never comes."""
    if _Program.dies or sys.exc_info()[1] is not None:
        return
    try:
        jax.effects_barrier()
    except Exception:  # who looks at a result is told
        pass


def _at_exit() -> None:
    """JAX waits for what is under way when a program ends. One that dies of an exception does not, and its peers learn of it."""
    if hasattr(sys, "last_value"):
        _Program.dies = True
        for communicator in list(completions.live):
            communicator.destroy()


def install() -> None:
    """After JAX was imported: what is registered last is called first."""
    library.weft_xla_set_interrupted(_raise_again)
    completions.before_destroy.append(_before_destroy)
    atexit.register(_at_exit)
