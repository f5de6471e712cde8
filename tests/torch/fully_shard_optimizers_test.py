"""Optimizers of a sharded model: several, closures, param groups, gradients that are not finite, those of whole matrices; as in one process."""
import copy
import functools

import torch_ranks
from torch_ranks import TorchRanksTest, dist, torch

from torch import nn

_PRESETS = ("zero1", "full_shard")
_ROWS = 12


def network():
    torch.manual_seed(6)
    return nn.Sequential(nn.Linear(6, 10), nn.Tanh(), nn.Linear(10, 6), nn.Tanh(), nn.Linear(6, 1))


def loss_of(model, step, rank=0, size=1):
    x = torch.randn(_ROWS, 6, generator=torch.Generator().manual_seed(70 + step))
    rows = _ROWS // size
    return model(x[rank * rows:(rank + 1) * rows]).square().mean()


def shard(preset, model=None, **settings):
    """(model, FullyShard)"""
    import weft.torch
    model = model or network()
    return model, weft.torch.fully_shard(model, preset, wrap=nn.Linear, **settings)


def state_of(model):
    return {name: tensor.detach().clone() for name, tensor in model.state_dict().items()}


def expect_close(got, wanted):
    for name, tensor in wanted.items():
        torch.testing.assert_close(got[name], tensor, rtol=0, atol=2e-6, msg=lambda text, name=name: f"{name}: {text}")


def refused(kind, sentence, call):
    try:
        call()
    except kind as error:
        assert sentence in str(error), error
    else:
        raise AssertionError(sentence)


def two_of(model, made):
    """Of the first layer, and of the others."""
    first = list(model[0].parameters())
    return made(torch.optim.SGD, first, lr=0.1, momentum=0.9), made(torch.optim.AdamW, [*model[2].parameters(), *model[4].parameters()], lr=0.02)


def plainly(kind, params, **settings):
    return kind(params, **settings)


class Several(TorchRanksTest):
    def test_each_updates_its_params(self):
        def run(rank):
            plain = network()
            others = two_of(plain, plainly)
            for step in range(4):
                loss_of(plain, step).backward()
                nn.utils.clip_grad_norm_(plain.parameters(), 0.05)
                for other in others:
                    other.step()
                    other.zero_grad()
            for preset in _PRESETS:
                model, sharded = shard(preset)
                optimizers = two_of(model, sharded.optimizer)
                for step in range(4):
                    loss_of(model, step, rank, 2).backward()
                    sharded.clip_grad_norm_(0.05)
                    for optimizer in optimizers:
                        optimizer.step()
                        optimizer.zero_grad()
                expect_close(sharded.full_state_dict(), state_of(plain))
        self.run_ranks(2, run)

    def test_one_that_is_left_out_in_a_step(self):
        """By its zero_grad(), by discard(), or because it is no more; its params stay as they are."""
        def run(rank):
            for preset in _PRESETS:
                plain = network()
                first, second = two_of(plain, plainly)
                model, sharded = shard(preset)
                optimizers = list(two_of(model, sharded.optimizer))
                for step, skip in enumerate((None, optimizers[1].zero_grad, sharded.discard, optimizers.pop, None)):
                    plain.zero_grad()
                    loss_of(plain, step).backward()
                    first.step()
                    loss_of(model, step, rank, 2).backward()
                    if skip == optimizers.pop:
                        del skip
                        optimizers.pop()
                        optimizers[0].step()
                        continue
                    optimizers[0].step()
                    if len(optimizers) == 1:
                        continue
                    refused(RuntimeError, "1 of the model's optimizers have not had their step()", lambda: loss_of(model, 0))
                    refused(RuntimeError, "has had its step() or zero_grad(), and 1 of", optimizers[0].step)
                    refused(RuntimeError, "clip before the first one's", lambda: sharded.clip_grad_norm_(1.0))
                    if skip is None:
                        second.step()
                        optimizers[1].step()
                    else:
                        skip()
                    refused(RuntimeError, "between steps", optimizers[0].step)
                expect_close(sharded.full_state_dict(), state_of(plain))
        self.run_ranks(2, run)

    def test_gradients_are_dropped_by_all_together(self):
        def run(rank):
            model, sharded = shard("full_shard")
            optimizers = two_of(model, sharded.optimizer)
            before = sharded.full_state_dict()
            for no_sync in (True, False):
                with sharded.no_sync() if no_sync else torch.enable_grad():
                    loss_of(model, 0, rank, 2).backward()
                for optimizer in optimizers:
                    optimizer.zero_grad()
                refused(RuntimeError, "between steps", optimizers[0].step)
            # Those of the second backward are there to be used.
            with sharded.no_sync():
                loss_of(model, 0, rank, 2).backward()
            optimizers[0].zero_grad()
            loss_of(model, 1, rank, 2).backward()
            for optimizer in optimizers:
                optimizer.step()
            assert all((values - before[name]).abs().max() > 0 for name, values in sharded.full_state_dict().items())
        self.run_ranks(2, run)

    def test_a_newer_one_of_the_same_params_takes_the_place_of_an_older_one(self):
        def run(rank):
            model, sharded = shard("full_shard")
            older = sharded.optimizer(torch.optim.SGD, lr=0.1)
            newer = sharded.optimizer(torch.optim.SGD, lr=0.1)
            for optimizer in (newer, older, newer):
                loss_of(model, 0, rank, 2).backward()
                optimizer.step()
        self.run_ranks(2, run)


    def test_one_whose_step_raises(self):
        class Failing(torch.optim.SGD):
            def step(self, closure=None):
                raise ArithmeticError("of the optimizer")

        def run(rank):
            for preset in _PRESETS:
                model, sharded = shard(preset)
                optimizer = sharded.optimizer(Failing, lr=0.1)
                loss_of(model, 0, rank, 2).backward()
                refused(ArithmeticError, "of the optimizer", optimizer.step)
                refused(RuntimeError, "1 of the model's optimizers have not had their step()", lambda: loss_of(model, 0))
                optimizer.zero_grad()
                expect_close(sharded.full_state_dict(), state_of(network()))
                optimizer = sharded.optimizer(torch.optim.SGD, lr=0.1)
                loss_of(model, 0, rank, 2).backward()
                optimizer.step()
        self.run_ranks(2, run)


class Closures(TorchRanksTest):
    def test_step_calls_it_once_with_gradients(self):
        def run(rank):
            plain = network()
            other = torch.optim.AdamW(plain.parameters(), lr=0.02)
            wanted = []
            for step in range(3):
                other.zero_grad()
                wanted.append(loss_of(plain, step))
                wanted[-1].backward()
                other.step()
            for preset, own in ((_PRESETS[0], True), (_PRESETS[1], True), (_PRESETS[1], False)):
                model, sharded = shard(preset, optimizer=None if own else {"kind": "adamw", "weight_decay": 0.01})
                optimizer = sharded.optimizer(torch.optim.AdamW, lr=0.02) if own else sharded.optimizer(lr=0.02)
                calls, losses = [], []

                def closure(model=model, optimizer=optimizer, calls=calls):
                    optimizer.zero_grad()
                    loss = loss_of(model, len(calls), rank, 2)
                    loss.backward()
                    calls.append(torch.is_grad_enabled())
                    return loss

                for step in range(3):
                    with torch.no_grad():
                        losses.append(optimizer.step(closure=closure) if step else optimizer.step(closure))
                assert calls == [True] * 3
                total = torch.stack(losses).detach()
                dist.all_reduce(total)
                torch.testing.assert_close(total / 2, torch.stack(wanted).detach())
                expect_close(sharded.full_state_dict(), state_of(plain))
        self.run_ranks(2, run)

    def test_one_that_is_called_several_times_is_refused(self):
        def run(rank):
            _, sharded = shard("full_shard")
            refused(ValueError, "LBFGS calls its closure several times", lambda: sharded.optimizer(torch.optim.LBFGS))
        self.run_ranks(2, run)


class NotFinite(TorchRanksTest):
    def test_a_step_updates_nothing_and_counts_nothing(self):
        """With either kind of optimizer, clipped or not, whichever rank has it: as if the step had not been."""
        def run(rank):
            plain = network()
            other = torch.optim.AdamW(plain.parameters(), lr=0.02)
            for step in range(3):
                other.zero_grad()
                loss_of(plain, step).backward()
                other.step()
            for preset in _PRESETS:
                for own in (True, False):
                    model, sharded = shard(preset, optimizer=None if own else {"kind": "adamw", "weight_decay": 0.01, "nonfinite": "skip"})
                    optimizer = sharded.optimizer(torch.optim.AdamW, lr=0.02) if own else sharded.optimizer(lr=0.02)
                    for step in range(3):
                        for clipped in (False, True):
                            (loss_of(model, 5, rank, 2) * (float("nan") if rank else 1.0)).backward()
                            if clipped:
                                sharded.clip_grad_norm_(1.0)
                            optimizer.step()
                            if own:
                                assert all(param.grad is None for param in model.parameters())
                        loss_of(model, step, rank, 2).backward()
                        optimizer.step()
                    expect_close(sharded.full_state_dict(), state_of(plain))
                    assert {int(states["step"]) for states in optimizer.state_dict()["state"].values()} == {3}
        self.run_ranks(2, run)


class Groups(TorchRanksTest):
    def test_one_that_is_added(self):
        def run(rank):
            def train(model, optimizer, ranks, place):
                for step in range(4):
                    if step == 2:
                        optimizer.add_param_group({"params": model[4].parameters(), "lr": 0.01})
                    optimizer.zero_grad()
                    loss_of(model, step, place, ranks).backward()
                    optimizer.step()
            plain = network()
            train(plain, torch.optim.AdamW([*plain[0].parameters(), *plain[2].parameters()], lr=0.02), 1, 0)
            for preset in _PRESETS:
                model, sharded = shard(preset)
                optimizer = sharded.optimizer(torch.optim.AdamW, [*model[0].parameters(), *model[2].parameters()], lr=0.02)
                train(model, optimizer, 2, rank)
                expect_close(sharded.full_state_dict(), state_of(plain))
                assert len(optimizer.state_dict()["state"]) == 6
        self.run_ranks(2, run)

    def test_params_that_the_model_does_not_train_are_refused(self):
        def run(rank):
            model = network()
            model[2].requires_grad_(False)
            model, sharded = shard("full_shard", model)
            optimizer = sharded.optimizer(torch.optim.SGD, lr=0.1)
            for params in (model[2].parameters(), nn.Parameter(torch.ones(2))):
                refused(ValueError, "of the optimizer's params are none that the model trains",
                        lambda params=params: optimizer.add_param_group({"params": params}))
            refused(ValueError, "2 of the optimizer's params are none that the model trains",
                    lambda: sharded.optimizer(torch.optim.SGD, copy.copy(list(model.parameters())), lr=0.1))
            loss_of(model, 0, rank, 2).backward()
            optimizer.step()
        self.run_ranks(2, run)


# What torch.optim.Muon takes, each in some way that is not its default.
_MUONS = ({}, {"nesterov": False, "momentum": 0.8, "weight_decay": 0.0}, {"adjust_lr_fn": "match_rms_adamw", "weight_decay": 0.5},
          {"adjust_lr_fn": "spectral_unclamped", "ns_coefficients": (2.0, -1.5, 0.5), "ns_steps": 3, "eps": 1e-3})
_EVERY_PRESET = ("no_shard", "zero1", "zero2", "grad_op", "full_shard", "fraction")
_HYBRIDS = ("hybrid_shard", "hpz")


def blocks():
    """Matrices that are high, wide, square, of one row and of one column, with vectors between them."""
    torch.manual_seed(8)
    return nn.Sequential(nn.Linear(6, 40), nn.Tanh(), nn.Sequential(nn.Linear(40, 24), nn.Tanh(), nn.Linear(24, 24), nn.LayerNorm(24)), nn.Linear(24, 1),
                         nn.Linear(1, 5, bias=False))


def of_matrices(model, made, muon, rate=0.02):
    """As torch's documentation of Muon has it: it updates matrices, AdamW the rest."""
    return (made(torch.optim.Muon, [param for param in model.parameters() if param.ndim == 2], lr=rate, **muon),
            made(torch.optim.AdamW, [param for param in model.parameters() if param.ndim != 2], lr=rate))


def shard_matrices(preset, size):
    """(model, FullyShard), whose matrices lie whole on a rank."""
    import weft.torch
    from torch.distributed.device_mesh import init_device_mesh
    model = blocks()
    mesh = init_device_mesh("cpu", (size // 2, 2), mesh_dim_names=("replicate", "shard")) if preset in _HYBRIDS else None
    return model, weft.torch.fully_shard(model, weft.shard.Policy(preset, cut="tensor"), wrap=(nn.Linear, nn.Sequential), mesh=mesh)


def steps_of(model, optimizers, steps, rank, size):
    for step in steps:
        loss_of(model, step, rank, size).backward()
        if not hasattr(model, "sharded"):  # as DDP does
            for param in model.parameters():
                dist.all_reduce(param.grad, op=dist.ReduceOp.AVG)
        for optimizer in optimizers:
            optimizer.step()
        for optimizer in optimizers:
            optimizer.zero_grad()


def momenta_of(optimizer):
    return [states["momentum_buffer"].full_tensor() if hasattr(states["momentum_buffer"], "full_tensor") else states["momentum_buffer"]
            for _, states in sorted(optimizer.state_dict()["state"].items())]


class WholeMatrices(TorchRanksTest):
    def test_as_torchs_muon_under_every_preset(self):
        """torch's own, with the same gradients: the bits that it has in each rank's copy of the whole model."""
        def run(rank):
            size = dist.get_world_size()
            for place, muon in enumerate(_MUONS):
                plain = blocks()
                others = of_matrices(plain, plainly, muon)
                steps_of(plain, others, range(20), rank, size)
                presets = _EVERY_PRESET + (_HYBRIDS if size % 2 == 0 else ())
                for preset in presets if not place else presets[place::3]:
                    model, sharded = shard_matrices(preset, size)
                    model.sharded = True
                    optimizers = of_matrices(model, sharded.optimizer, muon)
                    steps_of(model, optimizers, range(20), rank, size)
                    for name, tensor in sharded.full_state_dict().items():
                        worst = (tensor - plain.state_dict()[name]).abs().max() / plain.state_dict()[name].abs().max()
                        assert torch.equal(tensor, plain.state_dict()[name]), f"{muon} {preset} {name}: {worst:.1e} relative to torch's"
                    assert all(map(torch.equal, momenta_of(optimizers[0]), momenta_of(others[0])))
        for size in (1, 2, 3, 4):
            self.run_ranks(size, run)

    def test_as_in_one_process(self):
        """Of whose gradients the sums are rounded otherwise."""
        def run(rank):
            plain = blocks()
            others = of_matrices(plain, plainly, {}, rate=1e-3)
            for step in range(20):
                loss_of(plain, step).backward()
                for other in others:
                    other.step()
                    other.zero_grad()
            model, sharded = shard_matrices("full_shard", 2)
            model.sharded = True
            steps_of(model, of_matrices(model, sharded.optimizer, {}, rate=1e-3), range(20), rank, 2)
            for name, tensor in sharded.full_state_dict().items():
                wanted = plain.state_dict()[name]
                assert (tensor - wanted).norm() <= 1e-5 * wanted.norm(), (name, (tensor - wanted).norm() / wanted.norm())
        self.run_ranks(2, run)

    def test_goes_on_from_states_of_other_presets_and_of_one_process(self):
        from torch.distributed.checkpoint.state_dict import StateDictOptions, get_state_dict, set_state_dict

        def moved(source, optimizers, target, others):
            full = StateDictOptions(full_state_dict=True)
            model_state, states = get_state_dict(source, optimizers, options=full)
            set_state_dict(target, others, model_state_dict=model_state, optim_state_dict=states, options=full)

        def run(rank):
            plain = blocks()
            others = of_matrices(plain, plainly, {})
            steps_of(plain, others, range(3), rank, 2)
            source, from_optimizers = plain, others
            for preset in ("full_shard", "no_shard", "zero1"):
                model, sharded = shard_matrices(preset, 2)
                optimizers = of_matrices(model, sharded.optimizer, {})
                moved(source, from_optimizers, model, optimizers)
                model.sharded = True
                source, from_optimizers = model, optimizers
            steps_of(model, optimizers, range(3, 6), rank, 2)
            steps_of(plain, others, range(3, 6), rank, 2)
            assert all(torch.equal(tensor, plain.state_dict()[name]) for name, tensor in sharded.full_state_dict().items())
            again = blocks()
            those = of_matrices(again, plainly, {})
            moved(model, optimizers, again, those)
            assert all(map(torch.equal, momenta_of(those[0]), momenta_of(others[0])))
        self.run_ranks(2, run)

    def test_wefts_own_has_the_momentum_that_torchs_has(self):
        def run(rank):
            def matrices():
                torch.manual_seed(5)
                return nn.Sequential(nn.Linear(6, 40, bias=False), nn.Tanh(), nn.Linear(40, 3, bias=False))
            import weft.torch
            for nesterov in (True, False):
                plain = matrices()
                other = torch.optim.Muon(plain.parameters(), lr=0.02, nesterov=nesterov)
                steps_of(plain, [other], range(3), rank, 2)
                model = matrices()
                sharded = weft.torch.fully_shard(model, weft.shard.Policy("full_shard", cut="tensor"), wrap=nn.Linear,
                                                 optimizer={"kind": "muon", "nesterov": nesterov, "weight_decay": 0.1})
                optimizer = sharded.optimizer(lr=0.02)
                model.sharded = True
                model.load_state_dict(plain.state_dict())
                optimizer.load_state_dict(other.state_dict())
                assert all(map(torch.equal, momenta_of(optimizer), momenta_of(other)))
                before = state_of(plain)
                steps_of(plain, [other], range(3, 4), rank, 2)
                steps_of(model, [optimizer], range(3, 4), rank, 2)
                for found, wanted in zip(momenta_of(optimizer), momenta_of(other)):
                    torch.testing.assert_close(found, wanted, rtol=0, atol=1e-6)
                for name, tensor in sharded.full_state_dict().items():  # torch's update is rounded to bfloat16, in each iteration
                    wanted = plain.state_dict()[name]
                    assert (tensor - wanted).norm() < 0.05 * (wanted - before[name]).norm(), (name, tensor, wanted)
        self.run_ranks(2, run)

    def test_no_more_operations_than_with_adamw(self):
        def run(rank):
            counts = []
            for muon in (True, False):
                model, sharded = shard_matrices("full_shard", 2)
                model.sharded = True
                optimizers = of_matrices(model, sharded.optimizer, {}) if muon else [sharded.optimizer(torch.optim.AdamW, lr=0.02)]
                steps_of(model, optimizers, range(1), rank, 2)  # memory is agreed on
                before = sharded.communicator.sequence
                steps_of(model, optimizers, range(1, 4), rank, 2)
                counts.append(sharded.communicator.sequence - before)
            assert counts[0] == counts[1] > 0, counts
        self.run_ranks(2, run)

    def test_ranks_have_as_many_where_each_is_a_unit(self):
        def run(rank):
            import weft.torch
            model = nn.Sequential(*(nn.Linear(32, 32) for _ in range(8)))
            sharded = weft.torch.fully_shard(model, weft.shard.Policy("full_shard", cut="tensor"), wrap=nn.Linear)
            counts = [param.part().count for param in sharded.context.params if len(param.shape) == 2]
            assert set(counts) == {0, 1024} and sum(counts) == 8 * 1024 // 4, counts
        self.run_ranks(4, run)

    def test_what_it_cannot_update_is_refused(self):
        def run(rank):
            model, sharded = shard("full_shard", blocks())
            matrices = [param for param in model.parameters() if param.ndim == 2]
            sentence = "Muon computes from whole matrices, and 2 of its params are cut between ranks, 2.0.weight first; fully_shard(model, weft.shard.Policy("
            for kind in (torch.optim.Muon, functools.partial(torch.optim.Muon, lr=0.1), type("Mine", (torch.optim.Muon,), {})):
                refused(ValueError, sentence.replace("Muon", "Mine") if getattr(kind, "__name__", "") == "Mine" else sentence,
                        lambda kind=kind: sharded.optimizer(kind, matrices))
            refused(ValueError, "Adafactor computes from whole tensors, and 11 of its params are sharded between ranks, 0.weight first; take the preset",
                    lambda: sharded.optimizer(torch.optim.Adafactor))
            model, sharded = shard_matrices("full_shard", 2)
            refused(ValueError, "Muon only supports 2D parameters", lambda: sharded.optimizer(torch.optim.Muon))
            refused(ValueError, "11 of its params are sharded", lambda: sharded.optimizer(torch.optim.Adafactor))
            matrices = (param for param in model.parameters() if param.ndim == 2)
            optimizer = sharded.optimizer(torch.optim.Muon, [{"params": matrices, "lr": 0.1}])
            assert len(optimizer.param_groups[0]["params"]) == 5
        self.run_ranks(2, run)

    def test_what_needs_whole_tensors_everywhere(self):
        def run(rank):
            plain = blocks()
            other = torch.optim.Adafactor(plain.parameters(), lr=0.02)
            steps_of(plain, [other], range(4), rank, 2)
            model, sharded = shard("no_shard", blocks())
            model.sharded = True
            steps_of(model, [sharded.optimizer(torch.optim.Adafactor, lr=0.02)], range(4), rank, 2)
            assert all(torch.equal(tensor, plain.state_dict()[name]) for name, tensor in sharded.full_state_dict().items())
        self.run_ranks(2, run)


if __name__ == "__main__":
    torch_ranks.main()
