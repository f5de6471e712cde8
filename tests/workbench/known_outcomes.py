"""What runs leave, made up: for tests of who compares it. The root of the tree is in sys.path."""
import dataclasses
import struct

from workbench.validate.outcome import Outcome, Tensor


def tensor(*values):
    return Tensor("F32", struct.pack(f"<{len(values)}f", *values))


def an_outcome():
    steps = tuple({"loss": 5.0 - step / 8, "grad_norm": 1.5, "loss_max": 5.5} for step in range(20))
    return Outcome(steps, {"wte@value": tensor(1, -2, 3), "wte@moment1": tensor(0, 0.5, 0),
                           "lnf.bias@value": tensor(0.25)})


def with_step(outcome, number, **changes):
    """Step `number`, counted from 1, with other numbers; those that are `...` are left out."""
    step = {**outcome.steps[number - 1], **changes}
    step = {name: value for name, value in step.items() if value is not ...}
    return dataclasses.replace(outcome, steps=(*outcome.steps[:number - 1], step,
                                               *outcome.steps[number:]))


def with_tensor(outcome, name, value):
    return dataclasses.replace(outcome, tensors={**outcome.tensors, name: value})
