"""Whether a run is what its reference was: to the bit, or within a relative tolerance.

    found = compare(BITWISE, outcome, reference)
    found.right          # or found.sentence says which step and which tensors differ first
    found.worst["loss"]  # the largest relative difference over the steps; inf: one is no number

Relative differences are |a - b| / |b| of numbers, and of tensors the largest |a - b| of an element
as part of the largest |b| of the tensor. A step that updated nothing (`skipped`) may have a norm
that is no number, if the reference's has none either; anything else that is no number is wrong,
whatever the reference has.
"""
import dataclasses
import math

from workbench.validate.matrix import BITWISE
from workbench.validate.outcome import SERIES

TOLERANCE = 1e-5  # of class close
TENSORS_NAMED = 3
# A mean over the tokens of one rank is of other tokens where there are more ranks.
_NOT_CLOSE = ("loss_max",)
_IN_EACH_STEP = ("loss", "grad_norm", "loss_max")


@dataclasses.dataclass(frozen=True)
class Comparison:
    """worst: {"loss", "grad_norm", "params"}: relative; params are all tensors of the state.
    by_step: the larger one of loss and norm at each step, for the picture."""
    right: bool
    sentence: str
    worst: dict
    by_step: tuple


def compare(kind, outcome, reference):
    limit = 0 if kind == BITWISE else TOLERANCE
    names = [name for name in SERIES if kind == BITWISE or name not in _NOT_CLOSE]
    worst, said, by_step = {"loss": 0.0, "grad_norm": 0.0, "params": 0.0}, [], []
    for number, (got, expected) in enumerate(zip(outcome.steps, reference.steps), 1):
        differences = {name: _difference(name, got, expected) for name in names}
        for name in ("loss", "grad_norm"):
            worst[name] = max(worst[name], differences[name])
        by_step.append(max(differences["loss"], differences["grad_norm"]))
        wrong = [f"{name} is {_said(got, name)}, the reference's {_said(expected, name)}"
                 for name in names if differences[name] > limit]
        if wrong and not said:
            said.append(f"step {number} is the first that differs: {', '.join(wrong)}")
    if len(outcome.steps) != len(reference.steps):
        said.append(f"it ends after step {len(outcome.steps)}, the reference after step "
                    f"{len(reference.steps)}")
    said += _tensors(outcome.tensors, reference.tensors, limit, worst)
    if not outcome.steps or not outcome.tensors:
        said.append("it has no steps" if not outcome.steps else "it has no tensors")
    return Comparison(not said, "; ".join(said), worst, tuple(by_step))


def learned(outcome):
    """Whether the loss has fallen: runs that do nothing are all alike, and prove nothing."""
    losses = [step.get("loss") for step in outcome.steps]
    return bool(losses) and all(map(_is_number, losses)) and losses[-1] < losses[0]


def _difference(name, got, expected):
    """Of one number of a step: relative, 0 only if both are equal, inf if one is none."""
    value, other = got.get(name), expected.get(name)
    if _is_number(value) and _is_number(other):
        if value == other:
            return 0.0
        return abs(value - other) / abs(other) if other else math.inf
    if name == "skipped":
        return 0.0 if value == other else math.inf
    both_skipped = got.get("skipped") and expected.get("skipped")
    may_lack = name not in _IN_EACH_STEP or name == "grad_norm" and both_skipped
    return 0.0 if may_lack and value is None and other is None else math.inf


def _is_number(value):
    return isinstance(value, (int, float)) and value is not True and math.isfinite(value)


def _said(step, name):
    value = step.get(name)
    return "no number" if value is None else repr(value)


def _tensors(got, expected, limit, worst):
    """Sentences about them; `worst` takes the largest difference."""
    said = []
    for what, names in (("lacks", expected.keys() - got.keys()),
                        ("has beside the reference's", got.keys() - expected.keys())):
        if names:
            said.append(f"it {what} {_listed(sorted(names))}")
            worst["params"] = math.inf
    differing = []
    for name in (name for name in expected if name in got):
        difference, element = _tensor_difference(got[name], expected[name])
        worst["params"] = max(worst["params"], difference)
        if difference > limit:
            differing.append(f"{name} from element {element} on, by {difference:.1e}")
    if differing:
        said.append(f"{len(differing)} of {len(expected)} tensors differ at the end: "
                    f"{_listed(differing)}")
    return said


def _listed(names):
    more = len(names) - TENSORS_NAMED
    return ", ".join(names[:TENSORS_NAMED]) + (f" and {more} more" if more > 0 else "")


def _tensor_difference(got, expected):
    """(relative difference, the first element with other bits); 0 only for the same bits."""
    if got.dtype != expected.dtype or len(got.data) != len(expected.data):
        return math.inf, 0
    values = got.numbers()
    no_number = next((i for i, value in enumerate(values) if not math.isfinite(value)), None)
    if no_number is not None:
        return math.inf, no_number
    if got.data == expected.data:
        return 0.0, None
    others = expected.numbers()
    first = next(i for i, (one, other) in enumerate(zip(got.data, expected.data)) if one != other)
    first = first * len(values) // len(got.data)
    largest = max(map(abs, others))
    apart = max(abs(value - other) for value, other in zip(values, others))
    if not largest or not math.isfinite(apart):
        return math.inf, first
    return apart / largest or math.ulp(0.0), first  # zeros of two signs are two numbers
