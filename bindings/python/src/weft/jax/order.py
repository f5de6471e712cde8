"""The order of operations: what every rank must do alike, and what XLA does not promise.

Without a token an operation has an effect of this class. JAX ties all of a process's effects of one class together, in the order of the program
and of the calls of a thread, whatever communicator they are of; XLA then runs them one after the other.
"""
from __future__ import annotations

from typing import Any

from weft.jax.versions import effects, jnp, register_effect


class _Ordered(effects.Effect):  # type: ignore[misc]
    def __eq__(self, other: object) -> bool:
        return type(self) is type(other)

    def __hash__(self) -> int:
        return hash(_Ordered)

    def __str__(self) -> str:
        return "weft"


register_effect(_Ordered)
EFFECT = _Ordered()


def token() -> Any:
    """A token for those who order operations themselves: pass it to an operation as `token=`, and what that returns beside its result to the next one.
    A scalar array: it may be carried through loops, branches and jit. Its value means nothing."""
    return jnp.zeros((), jnp.float32)
