"""An operation as a primitive of JAX: lowered to a handler of the library, batched, differentiated.

    ALL_GATHER = Operation("all_gather", block_out=True, transpose=...)
    y, token = ALL_GATHER.bind(x, token, group=number, size=n)

Inside, blocks of ranks always lie along the first axis. A token, if there is one, is the last operand and the last result; it is linear, like the
operation, so that the transposed operations have the order of the others reversed, and begin after those (order.py).
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from weft._library import library
from weft.core.types import Op
from weft.jax.order import EFFECT, KEPT, after, token as new_token
from weft.jax.versions import Primitive, ShapedArray, abstract_token, ad, apply_primitive, batching, ffi, jnp, mlir, zero_tangent

Array = Any
Params = dict[str, Any]
# (cotangent, token, shape and type of the operand, params) -> (cotangent of the operand, token)
Transpose = Callable[[Array, Array, Any, Params], tuple[Array, Array]]
# Reductions that are.
_LINEAR = (Op.SUM, Op.AVG)
# Of params: what handlers do not get.
_NOT_ATTRIBUTES = ("size", "shape", "dtype", "ordered", "kept")


class Operation:
    """Whether it has an operand (has_in) and a result (has_out), and which of them have a block for each rank (block_in, block_out). `alias`: result
    and operand may be one buffer. Without a handler (`local`) it is the identity. Params: `group` (its number), `size`; `shape` and `dtype` of a result
    that does not follow from the operand; `ordered`, if there is no token; `kept`, of an operation on tangents; all others are attributes of the handler."""

    def __init__(self, name: str, *, has_in: bool = True, has_out: bool = True, block_in: bool = False, block_out: bool = False, alias: bool = False,
                 local: bool = False, transpose: Transpose | None = None) -> None:
        self.name, self._has_in, self._has_out, self._block_in, self._block_out = name, has_in, has_out, block_in, block_out
        self._local, self._transpose_of = local, transpose
        self._primitive = primitive = Primitive(f"weft_{name}")
        primitive.multiple_results = True
        primitive.def_impl(partial(apply_primitive, primitive))
        primitive.def_effectful_abstract_eval(self._abstract)
        ad.primitive_jvps[primitive] = self._jvp
        ad.primitive_transposes[primitive] = self._transpose
        batching.primitive_batchers[primitive] = self._batch
        mlir.register_lowering(primitive, self._lower_local if local else self._lower, platform=None if local else "cpu")
        if not local:
            target, aliases = f"weft_{name}", {0: 0} if alias else {}
            ffi.register_ffi_target(target, ffi.pycapsule(getattr(library, f"weft_xla_{name}")), platform="cpu")
            self._ordered_call = ffi.ffi_lowering(target, has_side_effect=True, operand_output_aliases=aliases)
            self._plain_call = ffi.ffi_lowering(target, operand_output_aliases={**aliases, int(has_in): int(has_out)})

    def bind(self, x: Array, token: Array, **params: Any) -> tuple[Array, Array]:
        """(result, token); each is None if there is none."""
        operands = ([x] if self._has_in else []) + ([] if token is None else [token])
        results = self._primitive.bind(*operands, ordered=token is None, kept=False, **params)
        return results[0] if self._has_out else None, None if token is None else results[-1]

    # ---- rules ----

    def _abstract(self, *operands: Any, **params: Any) -> tuple[list[Any], set[Any]]:
        results = [self._result_of(operands, params)] if self._has_out else []
        if not params["ordered"]:
            return [*results, ShapedArray((), jnp.float32)], set()
        if not self._local:
            return results, {EFFECT}
        return results, {KEPT} if params["kept"] else set()

    def _result_of(self, operands: Sequence[Any], params: Params) -> Any:
        if "shape" in params:
            return ShapedArray(params["shape"], params["dtype"])
        shape = operands[0].shape[1:] if self._block_in else operands[0].shape
        return ShapedArray((params["size"], *shape) if self._block_out else shape, operands[0].dtype)

    def _lower(self, context: Any, *operands: Any, **params: Any) -> Any:
        attributes = {name: np.int64(value) for name, value in params.items() if name not in _NOT_ATTRIBUTES}
        if not params["ordered"]:
            return self._plain_call(context, *operands, **attributes)
        with_token = context.replace(avals_in=(*context.avals_in, abstract_token), avals_out=(*context.avals_out, abstract_token))
        *results, token = self._ordered_call(with_token, *operands, context.tokens_in.get(EFFECT), **attributes)
        context.set_tokens_out(mlir.TokenSet({EFFECT: token}))
        return results

    def _lower_local(self, context: Any, *operands: Any, **params: Any) -> Sequence[Any]:
        return operands

    def _jvp(self, primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> tuple[Any, Any]:
        results = self._primitive.bind(*primals, **params)
        changes = self._changes_of(results, tangents, params)
        if params["ordered"] or isinstance(changes[-1], ad.Zero):
            return results, changes
        zeros = [isinstance(change, ad.Zero) for change in changes]
        behind = iter(after([change for change, zero in zip(changes, zeros) if not zero], results[-1]))
        return results, [change if zero else next(behind) for change, zero in zip(changes, zeros)]

    def _changes_of(self, results: Sequence[Any], tangents: Sequence[Any], params: Params) -> list[Any]:
        ordered = params["ordered"]
        if not self._has_in or isinstance(tangents[0], ad.Zero):
            none = [zero_tangent(result) for result in results]
            return none if ordered else [*none[:-1], tangents[-1]]
        if self._transpose_of is None or params.get("op", _LINEAR[0]) not in _LINEAR:
            raise TypeError(f"weft.jax.{self.name} has no derivative, or not with this op; hide its operand with jax.lax.stop_gradient")
        operands = [tangents[0]] if ordered else [tangents[0], _instantiated(tangents[1])]
        return list(self._primitive.bind(*operands, **{**params, "kept": True}))

    def _transpose(self, cotangents: Sequence[Any], *operands: Any, **params: Any) -> list[Any]:
        """Takes place also if nothing here depends on the result: peers take part in it, and may have something to add."""
        assert self._transpose_of is not None
        unknown = [ad.is_undefined_primal(operand) for operand in operands]
        x = operands[0].aval if unknown[0] else operands[0]
        token = None if params["ordered"] else _instantiated(cotangents[1])
        found = self._transpose_of(ad.instantiate_zeros(cotangents[0]), token, x, params)
        return [cotangent if wanted else None for cotangent, wanted in zip(found, unknown)]

    def _batch(self, operands: Sequence[Any], axes: Sequence[Any], **params: Any) -> tuple[Any, Sequence[Any]]:
        if not params["ordered"] and axes[-1] is not None:
            raise ValueError(f"weft.jax.{self.name}: vmap maps the token; pass one that is made outside, with in_axes=None")
        x = jnp.moveaxis(operands[0], axes[0], int(self._block_in))
        if "shape" in params:
            params = {**params, "shape": (x.shape[0], *params["shape"])}
        results = self._primitive.bind(x, *operands[1:], **params)
        return results, [int(self._block_out)] * self._has_out + [None] * (not params["ordered"])


def _instantiated(token: Any) -> Any:
    return new_token() if isinstance(token, ad.Zero) else token
