"""What weft.torch.fully_shard sees of results, and what nobody may read: a model computes as an ordinary one does, or there is an error, whatever its modules do."""
import collections
import dataclasses
import itertools
import re
import types
import typing

import torch_ranks
from fully_shard_steps_test import both, expect_same, ordinary, rows, sharded_and_optimizer
from torch_ranks import TorchRanksTest, torch

from torch import nn
from torch.utils.checkpoint import checkpoint

_PRESETS = ("no_shard", "grad_op", "full_shard")


class Ordered(collections.OrderedDict):
    pass


class Listed(list):
    pass


class Tupled(tuple):
    pass


class Named(typing.NamedTuple):
    y: torch.Tensor
    text: str = "y"


class Easy(dict):
    """Items that are attributes, too."""

    def __init__(self, **items):
        super().__init__(items)
        self.__dict__.update(items)


class Mapped(collections.abc.Mapping):
    def __init__(self, y):
        self._private = {"y": y}

    def __getitem__(self, name):
        return self._private[name]

    def __iter__(self):
        return iter(self._private)

    def __len__(self):
        return 1


class Slotted:
    __slots__ = ("__y", "unset")

    def __init__(self, y):
        self.__y = y

    def value(self):
        return self.__y


@dataclasses.dataclass
class Data:
    y: typing.Any
    more: typing.Any = None


def cyclic(y):
    one = types.SimpleNamespace(y=y, text="text", model=nn.Linear(1, 1))
    one.itself = [one]
    return one


# How a result is wrapped, and unwrapped.
_KINDS = {
    "ordered": (lambda y: Ordered(y=y), lambda one: one["y"]),
    "default": (lambda y: collections.defaultdict(list, y=y), lambda one: one["y"]),
    "user dict": (lambda y: collections.UserDict(y=y), lambda one: one["y"]),
    "mapping": (Mapped, lambda one: one["y"]),
    "easy": (lambda y: Easy(y=y), lambda one: one.y),
    "list": (lambda y: Listed([1, y]), lambda one: one[1]),
    "user list": (lambda y: collections.UserList([y]), lambda one: one[0]),
    "tuple": (lambda y: Tupled((None, y)), lambda one: one[1]),
    "named": (Named, lambda one: one.y),
    "deque": (lambda y: collections.deque([y]), lambda one: one[0]),
    "set": (lambda y: {y}, lambda one: next(iter(one))),
    "namespace": (lambda y: types.SimpleNamespace(y=y), lambda one: one.y),
    "slots": (Slotted, lambda one: one.value()),
    "dataclass": (lambda y: Data(Data({"y": [y]})), lambda one: one.y.y["y"][0]),
    "distribution": (lambda y: torch.distributions.Normal(y, 1.0), lambda one: one.mean),
    "cyclic": (cyclic, lambda one: one.y),
}


class Unit(nn.Module):
    """A frozen layer and a frozen scale between trained ones: what is kept for backward are params and views of them."""

    def __init__(self, wrap, unwrap):
        super().__init__()
        self.first, self.frozen, self.last = nn.Linear(4, 4), nn.Linear(4, 4).requires_grad_(False), nn.Linear(4, 4)
        self.scale = nn.Parameter(torch.full((4,), 2.0), requires_grad=False)
        self.wrap, self.unwrap = wrap, unwrap

    def forward(self, x):
        return self.wrap(self.last(torch.tanh(self.frozen(self.first(x)) * self.scale)))


class Model(nn.Module):
    """Units, and params of its own: trained, and frozen ones through which gradients go."""

    def __init__(self, kind, unit=Unit):
        super().__init__()
        wrap, self.unwrap = _KINDS[kind] if isinstance(kind, str) else kind
        self.units = nn.ModuleList(unit(wrap, self.unwrap) for _ in range(2))
        self.head, self.scale = nn.Linear(4, 1), nn.Parameter(torch.full((4,), 1.5), requires_grad=False)
        self.wrap = wrap

    def forward(self, x):
        for unit in self.units:
            x = self.unwrap(unit(x)) * self.scale
        return self.wrap(self.head(x))


def step(model):
    loss = model.unwrap(model(rows())).square().mean()
    loss.backward()
    return loss.item()


class Results(TorchRanksTest):
    def test_of_all_kinds(self):
        def run(rank):
            for kind, preset in itertools.product(_KINDS, _PRESETS):
                losses = expect_same(lambda kind=kind: Model(kind), Unit, preset, step)
                assert losses[-1] < losses[0], (kind, losses)
        self.run_ranks(2, run)

    def test_a_parameter_itself(self):
        class Tokens(nn.Module):
            def __init__(self):
                super().__init__()
                self.weight = nn.Parameter(torch.ones(8, 4))

            def forward(self):
                return self.weight

        class Learned(nn.Module):
            def __init__(self):
                super().__init__()
                self.tokens, self.head = Tokens(), nn.Linear(4, 1)

            def forward(self, x):
                return self.head(x + self.tokens())

        def run(rank):
            for preset in _PRESETS:
                expect_same(Learned, nn.Linear, preset, ordinary)
            expect_same(Learned, (Tokens, nn.Linear), "zero2", ordinary)
        self.run_ranks(2, run)


def kept_on_itself(unit, y):
    unit.kept = y
    return y.detach()


def nothing(unit, y):
    unit.kept = y


def a_function(unit, y):
    return lambda: y


def a_generator(unit, y):
    def each():
        yield y
    return each()


def in_numbers(unit, y):
    unit.kept = y
    return {"loss": y.sum().item(), "text": ["text"]}


# What a unit returns of y, how the caller comes to it, and how the error calls that.
_HIDDEN = {
    kept_on_itself: (lambda unit, one: unit.kept, "a Tensor, in which there is no tensor with a gradient"),
    nothing: (lambda unit, one: unit.kept, "a NoneType, in which there is no tensor"),
    a_function: (lambda unit, one: one(), "a function, in which"),
    a_generator: (lambda unit, one: next(one), "a generator, in which"),
    in_numbers: (lambda unit, one: unit.kept, "a dict, in which"),
}


class Hides(nn.Module):
    def __init__(self, body, hide):
        super().__init__()
        self.body, self.hide, self.hides = body, hide, True
        self.kept = None

    def forward(self, x):
        y = self.body(x)
        return self.hide(self, y) if self.hides else y


class HasHidden(nn.Module):
    """A unit whose result is out of sight, after a trained layer."""

    def __init__(self, make, hide):
        super().__init__()
        self.first, self.unit, self.last = nn.Linear(4, 4), Hides(make(), hide), nn.Linear(4, 1)

    def forward(self, x):
        returned = self.unit(self.first(x))
        return self.last(_HIDDEN[self.unit.hide][0](self.unit, returned) if self.unit.hides else returned)


class Bias(nn.Module):
    def __init__(self):
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(4))

    def forward(self, x):
        return x + self.bias


class Scale(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.full((4,), 2.0), requires_grad=False)

    def forward(self, x):
        return x * self.scale


class Recomputed(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = Scale()

    def forward(self, x):
        return checkpoint(self.scale, x, use_reentrant=False)


_BODIES = {"a trained layer": lambda: nn.Linear(4, 4), "a frozen layer": lambda: nn.Linear(4, 4).requires_grad_(False), "a bias": Bias, "a frozen scale": Scale,
           "a recomputed one": Recomputed}


class Hidden(TorchRanksTest):
    def test_results_out_of_sight_are_errors_with_the_module_and_their_type(self):
        def run(rank):
            for (name, make), (hide, (_, what)) in itertools.product(_BODIES.items(), _HIDDEN.items()):
                torch.manual_seed(0)
                model = HasHidden(make, hide)
                sharded, optimizer = sharded_and_optimizer("full_shard", model=model, wrap=(Hides, nn.Linear) if name == "none" else ("first", "unit", "last"))
                before = sharded.full_state_dict()
                with self.assertRaisesRegex(RuntimeError, rf"unit \(Hides\).*{what}") as caught:
                    ordinary(model)
                assert re.search(r"^(unit\.body\S* is not here|a gradient of unit\.body\S* came)", str(caught.exception)), caught.exception
                optimizer.zero_grad()
                for key, tensor in sharded.full_state_dict().items():
                    assert torch.equal(tensor, before[key]), (name, hide, key)
                model.unit.hides = False
                ordinary(model)
                optimizer.step()
        self.run_ranks(2, run)

    def test_params_that_are_whole_on_every_rank_say_so_of_gradients(self):
        def run(rank):
            for preset in ("no_shard", "zero2"):
                torch.manual_seed(0)
                model = HasHidden(_BODIES["a trained layer"], nothing)
                sharded_and_optimizer(preset, model=model, wrap=("first", "unit", "last"))
                with self.assertRaisesRegex(RuntimeError, r"a gradient of unit.body.\S+ came, and none for what unit \(Hides\) returned: a NoneType"):
                    ordinary(model)
                # Through frozen params alone it is right.
                expect_same(lambda: HasHidden(Scale, nothing), ("first", "unit", "last"), preset, ordinary)
        self.run_ranks(2, run)

    def test_gradients_of_inputs_alone(self):
        """No gradient of a param comes."""
        def run(rank):
            for name in ("a trained layer", "a frozen layer", "a frozen scale"):
                model = HasHidden(_BODIES[name], nothing)
                sharded, _ = sharded_and_optimizer("full_shard", model=model, wrap=("first", "unit", "last"))
                x = rows().requires_grad_()
                with self.assertRaisesRegex(RuntimeError, r"unit.body\S* is not here"):
                    torch.autograd.grad(model(x).sum(), x)
                sharded.discard()
        self.run_ranks(2, run)


class SeveralWays(nn.Module):
    """What `use` makes of a trained layer, a frozen one and a scale."""

    def __init__(self, use):
        super().__init__()
        self.layer, self.frozen, self.scale, self.head = nn.Linear(4, 4), nn.Linear(4, 4).requires_grad_(False), Scale(), nn.Linear(4, 1)
        self.use, self.kept = use, []

    def forward(self, x):
        return self.head(self.use(self, x))


def teacher(model, x):
    with torch.no_grad():
        y = model.layer(x)
    return model.layer(x) + y


def twice_and_once_kept(model, x):
    model.kept = [model.layer(x)]
    return model.layer(x * 2) + model.kept[0]


def auxiliary(model, x):
    y = model.layer(x)
    return model.frozen(y) + model.scale(y.detach()) + y.mean()


def recomputed(model, x):
    return checkpoint(lambda x: model.scale(model.frozen(x)), model.layer(x), use_reentrant=False)


def recomputed_reentrantly(model, x):
    return checkpoint(lambda x: model.scale(model.frozen(x)), model.layer(x), use_reentrant=True)


def hook_raises_once(model, x):
    def hook(*_):
        if not model.kept:
            model.kept.append(True)
            raise ValueError("of the hook")
    handle = model.scale.register_forward_hook(hook)
    try:
        try:
            model.scale(x)
        except ValueError:
            pass
        return model.frozen(model.scale(model.layer(x)))
    finally:
        handle.remove()


def weight_of_another(model, x):
    """Outside of the forward of the module that has it."""
    return nn.functional.linear(model.layer(x), model.frozen.weight, model.frozen.bias)


def weight_kept_from_before(model, x):
    weight = []
    handle = model.frozen.register_forward_hook(lambda module, *_: weight.append(module.weight.t()))
    y = model.frozen(model.layer(x))
    handle.remove()
    return y @ weight[0]


class Ways(TorchRanksTest):
    def test_a_model_computes_as_an_ordinary_one_or_says_so(self):
        refused = set(itertools.product(("grad_op", "full_shard"), (weight_of_another, weight_kept_from_before)))

        def run(rank):
            for preset, use in itertools.product(_PRESETS, (teacher, twice_and_once_kept, auxiliary, recomputed, recomputed_reentrantly, hook_raises_once,
                                                            weight_of_another, weight_kept_from_before)):
                def call(preset=preset, use=use):
                    return expect_same(lambda: SeveralWays(use), (nn.Linear, Scale), preset, ordinary)
                if (preset, use) in refused:
                    with self.assertRaisesRegex(RuntimeError, r"^frozen.(weight|bias) is not here. It is sharded, .* forward and the backward of frozen \(Linear\) alone"):
                        call()
                else:
                    call()
        self.run_ranks(2, run)

    def test_outside_of_forward_and_backward_nobody_reads_or_writes_them(self):
        def run(rank):
            for preset in ("grad_op", "full_shard"):
                sharded, optimizer = sharded_and_optimizer(preset)
                model = sharded.module
                weight = model[0].weight
                assert weight.shape == (4, 4) and weight.requires_grad

                def expect_refused():
                    for call in (weight.sum, weight.norm, lambda: repr(weight), lambda: nn.init.zeros_(weight), lambda: weight.detach().numpy(),
                                 lambda: sum(param.square().sum() for param in model.parameters()), lambda: nn.utils.parameters_to_vector(model.parameters()),
                                 lambda: torch.optim.swa_utils.get_ema_multi_avg_fn(0.9)([torch.zeros(4, 4)], [weight.detach()], 1)):
                        with self.assertRaisesRegex(RuntimeError, "0.weight is not here. It is sharded"):
                            call()
                expect_refused()
                with torch.no_grad():
                    model(rows())  # no backward gives them back
                expect_refused()
                model(rows())
                sharded.discard()
                expect_refused()
                ordinary(model)
                optimizer.step()
                expect_refused()
                with sharded.no_sync():
                    ordinary(model)
                ordinary(model)
                expect_refused()
                optimizer.step()
                sharded.destroy()
                assert weight.isfinite().all()
        self.run_ranks(2, run)

    def test_a_graph_from_before_destroy(self):
        def run(rank):
            for preset in ("no_shard", "full_shard"):
                sharded, _ = sharded_and_optimizer(preset)
                loss = sharded.module(rows()).sum()
                sharded.discard()
                sharded.destroy()
                with self.assertRaisesRegex(RuntimeError, "destroy|A forward has one backward"):
                    loss.backward()
        self.run_ranks(2, run)


class OrdersOfTorch(TorchRanksTest):
    """Functions of torch's that look for gradients at the Parameters."""

    def test_optimizers_are_told_how_they_are_made(self):
        def run(rank):
            for own in (True, False):
                sharded, optimizer = sharded_and_optimizer("full_shard", own)
                others = torch.optim.SGD(sharded.module.parameters(), lr=0.1), torch.optim.AdamW(sharded.module[2].parameters(), foreach=False)
                other_model = nn.Linear(4, 1)
                plain = torch.optim.SGD(other_model.parameters(), lr=0.1)
                for _ in range(2):
                    ordinary(sharded.module)
                    for other, sentence in zip(others, ("SGD that has 6 params .*, 0.weight first", "AdamW that has 2 params .*, 2.weight first")):
                        other.zero_grad()
                        ordinary(other_model)
                        plain.step()
                        with self.assertRaisesRegex(RuntimeError, rf"the step\(\) of a {sentence}.* Make it by sharded.optimizer\(torch.optim."):
                            other.step()
                    optimizer.step()
                sharded.destroy()
                ordinary(sharded.module)
                others[0].step()
        self.run_ranks(2, run)

    def test_what_reads_gradients_is_told_what_does_it_here(self):
        def run(rank):
            for preset in ("no_shard", "zero2", "full_shard"):
                sharded, optimizer = sharded_and_optimizer(preset)
                params = list(sharded.module.parameters())
                for call in (lambda: nn.utils.clip_grad_norm_(params, 1.0), lambda: nn.utils.clip_grad_value_(params, 1.0), lambda: nn.utils.get_total_norm(
                        [param.grad for param in params]), lambda: params[0].grad.norm()):
                    ordinary(sharded.module)
                    with self.assertRaisesRegex(RuntimeError, r"the gradient of 0.weight is in parts.*sharded.clip_grad_norm_\(\) in place of"):
                        call()
                    optimizer.step()
                    assert all(param.grad is None for param in params)
                # What drops gradients works as before.
                ordinary(sharded.module)
                for param in params:
                    param.grad = None
                sharded.discard()
                ordinary(sharded.module)
                optimizer.zero_grad(set_to_none=False)
                with sharded.no_sync():
                    ordinary(sharded.module)
                ordinary(sharded.module)
                sharded.clip_grad_norm_(1.0)
                optimizer.step()
        self.run_ranks(2, run)

    def test_weights_own_optimizer_and_scaler(self):
        def run(rank):
            sharded, optimizer = sharded_and_optimizer("full_shard", own=False)
            ordinary(sharded.module)
            optimizer.zero_grad(set_to_none=False)
            scaler = torch.amp.GradScaler("cpu", init_scale=2.0)
            scaler.scale(sharded.module(rows()).square().mean()).backward()
            with self.assertRaisesRegex(RuntimeError, "in place of a GradScaler give weft's optimizer dynamic_loss_scale"):
                scaler.unscale_(torch.optim.SGD(sharded.module.parameters(), lr=0.1))
            sharded.discard()
        self.run_ranks(2, run)

    def test_penalties(self):
        def inside(model):
            loss = model(rows()).square().mean()
            loss.backward()
            return loss.item()

        def outside(model):
            loss = model(rows()).square().mean() + 0.1 * sum(param.square().sum() for param in model.parameters())
            loss.backward()
            return loss.item()

        class Penalised(nn.Module):
            def __init__(self):
                super().__init__()
                self.linear, self.weight = nn.Linear(4, 4), nn.Parameter(torch.ones(4, 1))

            def forward(self, x):
                return self.linear(x) @ self.weight + 0.1 * self.weight.square().sum() + 0.1 * self.linear.weight.square().sum()

        def make():
            return nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 1))

        def run(rank):
            for preset in ("no_shard", "zero1", "zero2", "grad_op", "full_shard"):
                expect_same(lambda: nn.Sequential(Penalised()), Penalised, preset, inside)
                if preset in ("no_shard", "zero1", "zero2"):
                    expect_same(make, nn.Linear, preset, outside)
                else:
                    try:
                        both(make, nn.Linear, preset, outside)
                    except RuntimeError as error:
                        assert "is not here. It is sharded" in str(error), error
                    else:
                        assert preset == "grad_op"  # params stay until backward
        self.run_ranks(2, run)


if __name__ == "__main__":
    torch_ranks.main()
