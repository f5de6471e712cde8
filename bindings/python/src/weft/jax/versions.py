"""All that weft.jax takes from JAX. What has no public name there, or differs between 0.5 and 0.10, is settled here and nowhere else."""
from __future__ import annotations

import importlib
from typing import Any

OLDEST = (0, 5, 0)


def _jax() -> Any:
    try:
        found = importlib.import_module("jax")
    except ImportError as missing:
        raise ImportError(f"weft.jax needs JAX from {'.'.join(map(str, OLDEST))} on: {missing}") from missing
    if found.__version_info__ < OLDEST:
        raise ImportError(f"weft.jax needs JAX from {'.'.join(map(str, OLDEST))} on; this is {found.__version__}")
    return found


jax: Any = _jax()
jnp: Any = importlib.import_module("jax.numpy")
ffi: Any = importlib.import_module("jax.ffi")
ad: Any = importlib.import_module("jax.interpreters.ad")
batching: Any = importlib.import_module("jax.interpreters.batching")
mlir: Any = importlib.import_module("jax.interpreters.mlir")
Primitive: Any = importlib.import_module("jax.extend.core").Primitive
ShapedArray: Any = jax.core.ShapedArray

_core: Any = importlib.import_module("jax._src.core")
# Not in 0.5.0.
typeof: Any = getattr(jax, "typeof", None) or _core.get_aval
# Public from 0.11 on.
abstract_token: Any = getattr(ffi, "abstract_token", None) or _core.abstract_token
apply_primitive: Any = importlib.import_module("jax._src.dispatch").apply_primitive
effects: Any = importlib.import_module("jax._src.effects")


def register_effect(kind: type, *, ordered: bool) -> None:
    """Allows effects of that class wherever JAX asks: in loops, branches, custom derivatives and remat. `ordered`: they take place in program order."""
    everywhere = [effects.lowerable_effects, effects.control_flow_allowed_effects, effects.custom_derivatives_allowed_effects, effects.remat_allowed_effects]
    # Not in 0.5.0.
    kept = getattr(effects, "partial_eval_kept_effects", None)
    for kinds in everywhere + [effects.ordered_effects] * ordered + [kept] * (kept is not None):
        kinds.add_type(kind)


def zero_tangent(value: Any) -> Any:
    """That of a value which depends on nothing that is differentiated."""
    return ad.Zero(typeof(value).to_tangent_aval())
