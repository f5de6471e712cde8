"""The order of operations: what every rank must do alike, and what XLA does not promise.

Without a token an operation has an effect of this class. JAX ties all of a process's effects of one class together, in the order of the program
and of the calls of a thread, whatever communicator they are of; XLA then runs them one after the other.

With one it takes place after what its token comes from. Tangents have tokens, too, and in a backward pass cotangents, so that it begins after the values:

    results = ALL_GATHER.bind(x, token)
    changes = ALL_GATHER.bind(change of x, change of the token)
    changes = after(changes, results[-1])       # the transpose of this, which comes first, hands results[-1] to the other's
"""
from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from weft.jax.versions import Primitive, ad, apply_primitive, batching, effects, jnp, mlir, register_effect


class _Effect(effects.Effect):  # type: ignore[misc]
    """All of a class are one effect."""

    text: str

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other)

    def __hash__(self) -> int:
        return hash(type(self))

    def __str__(self) -> str:
        return self.text


class _Ordered(_Effect):
    text = "weft"


class _Kept(_Effect):
    """Of what programs of tangents are not to lose although nothing depends on it: peers take part in its transpose."""

    text = "weft, kept"


register_effect(_Ordered, ordered=True)
register_effect(_Kept, ordered=False)
EFFECT, KEPT = _Ordered(), _Kept()


def token() -> Any:
    """A token for those who order operations themselves: pass it to an operation as `token=`, and what that returns beside its result to the next one.
    A scalar array: it may be carried through loops, branches and jit. Its value means nothing."""
    return jnp.zeros((), jnp.float32)


def after(changes: Sequence[Any], token: Any) -> list[Any]:
    """The changes, of which the last one is a token. Their transpose takes place after `token`, and so does what comes after them."""
    return list(_AFTER.bind(*changes, token))


# ---- the primitive of `after`; a sum of tokens comes from both ----

_AFTER: Any = Primitive("weft_after")


def _abstract(*operands: Any) -> tuple[list[Any], set[Any]]:
    return list(operands[:-1]), {KEPT}


def _summed(*operands: Any) -> list[Any]:
    *changes, change, token = operands
    return [*changes, change + token]


def _jvp(primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
    *changes, change, token = tangents
    return _AFTER.bind(*primals), [*changes, ad.add_tangents(change, token)]


def _transpose(cotangents: Sequence[Any], *operands: Any) -> list[Any]:
    *rest, last = cotangents
    token = operands[-1]
    return [*rest, token if isinstance(last, ad.Zero) else last + token, None]


def _batch(operands: Sequence[Any], axes: Sequence[Any]) -> tuple[Any, Sequence[Any]]:
    if axes[-1] is not None or axes[-2] is not None:
        raise ValueError("weft.jax: vmap maps a token of tangents")
    return _AFTER.bind(*operands), axes[:-1]


_AFTER.multiple_results = True
_AFTER.def_impl(partial(apply_primitive, _AFTER))
_AFTER.def_effectful_abstract_eval(_abstract)
ad.primitive_jvps[_AFTER] = _jvp
ad.primitive_transposes[_AFTER] = _transpose
batching.primitive_batchers[_AFTER] = _batch
mlir.register_lowering(_AFTER, mlir.lower_fun(_summed, multiple_results=True))
