"""State of sharded models and their optimizers in torch's checkpoints: other ranks, other presets, other optimizers, FSDP2, and one process."""
import copy
import io
import pickle

import torch_ranks
from fully_shard_test import Block, Model, batch, expect_close, loss_of
from torch_ranks import TorchRanksTest, dist, torch

import torch.distributed.checkpoint as dcp
from torch import nn
from torch.distributed.checkpoint.state_dict import (StateDictOptions, get_model_state_dict, get_optimizer_state_dict, get_state_dict, set_model_state_dict,
                                                     set_optimizer_state_dict, set_state_dict)
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard as fsdp2
from torch.distributed.tensor import DTensor

_STEPS = 3
_SETTINGS = {"lr": 0.02, "weight_decay": 0.1}


def made(sort, seed=3):
    """(model, optimizer) as `sort` says: "alone", "fsdp2", or a preset with "own" or "weft" for the optimizer."""
    import weft.torch
    model = Model()
    if sort == "alone":
        return model, torch.optim.AdamW(model.parameters(), **_SETTINGS)
    if sort == "fsdp2":
        mesh = init_device_mesh("cpu", (dist.get_world_size(),))
        for block in model.blocks:
            fsdp2(block, mesh=mesh)
        fsdp2(model, mesh=mesh)
        return model, torch.optim.AdamW(model.parameters(), **_SETTINGS)
    preset, own = sort.split("/")
    sharded = weft.torch.fully_shard(model, preset, wrap=Block, optimizer=None if own == "own" else {"kind": "adamw", "weight_decay": 0.1})
    return model, sharded.optimizer(torch.optim.AdamW, **_SETTINGS) if own == "own" else sharded.optimizer(lr=0.02)


def train(model, optimizer, steps):
    for step in steps:
        loss_of(model, step, dist.get_rank(), dist.get_world_size()).backward()
        optimizer.step()
        optimizer.zero_grad()


def whole(model):
    return get_model_state_dict(model, options=StateDictOptions(full_state_dict=True))


def save(folder, sort, steps=_STEPS):
    model, optimizer = made(sort)
    train(model, optimizer, range(steps))
    model_state, optimizer_state = get_state_dict(model, optimizer)
    dcp.save({"model": model_state, "optimizer": optimizer_state}, checkpoint_id=folder)
    return model, optimizer


def load(folder, sort):
    model, optimizer = made(sort)
    with torch.no_grad():
        if sort in ("alone", "fsdp2"):
            for param in model.parameters():
                param.zero_()
    model_state, optimizer_state = get_state_dict(model, optimizer)
    state = {"model": model_state, "optimizer": optimizer_state}
    dcp.load(state, checkpoint_id=folder)
    set_state_dict(model, optimizer, model_state_dict=state["model"], optim_state_dict=state["optimizer"])
    return model, optimizer


def continued(folder, sort, steps=_STEPS):
    model, optimizer = load(folder, sort)
    train(model, optimizer, range(steps, steps + 2))
    return whole(model)


def uninterrupted(steps=_STEPS + 2):
    model = Model()
    optimizer = torch.optim.AdamW(model.parameters(), **_SETTINGS)
    for step in range(steps):
        optimizer.zero_grad()
        loss_of(model, step).backward()
        optimizer.step()
    return {name: tensor.detach() for name, tensor in model.state_dict().items()}


def expect_same_bits(got, wanted):
    for name, tensor in wanted.items():
        assert torch.equal(got[name], tensor), name


class Resumed(TorchRanksTest):
    def test_by_other_ranks_under_other_presets(self):
        """From two ranks to three and one; the order of sums differs, so do the last bits."""
        sorts = ("full_shard/own", "zero1/weft")
        wanted = uninterrupted()

        def run(_):
            for place, sort in enumerate(sorts):
                save(self.folder / str(place), sort)
        self.run_ranks(2, run)

        def resume(_):
            for place in range(len(sorts)):
                for sort in ("full_shard/own", "no_shard/weft", "zero1/own", "full_shard/weft"):
                    expect_close(continued(self.folder / str(place), sort), wanted)
        self.run_ranks(3, resume)
        self.run_ranks(1, resume)

    def test_by_as_many_ranks_with_the_same_bits(self):
        def run(rank):
            for sort in ("full_shard/own", "zero2/weft"):
                model, optimizer = save(self.folder / sort, sort)
                train(model, optimizer, range(_STEPS, _STEPS + 2))
                expect_same_bits(continued(self.folder / sort, sort), whole(model))
        self.run_ranks(2, run)

    def test_saved_before_the_first_step(self):
        def run(rank):
            for sort in ("full_shard/own", "full_shard/weft"):
                model, optimizer = save(self.folder / sort, sort, steps=0)
                train(model, optimizer, range(2))
                expect_same_bits(continued(self.folder / sort, sort, steps=0), whole(model))
                expect_close(whole(model), uninterrupted(2))
        self.run_ranks(2, run)

    def test_in_fsdp2_and_back(self):
        wanted = uninterrupted()

        def run(rank):
            for sort in ("full_shard/own", "full_shard/weft"):
                save(self.folder / sort, sort)
                expect_close(continued(self.folder / sort, "fsdp2"), wanted)
            save(self.folder / "fsdp2", "fsdp2")
            for sort in ("full_shard/own", "full_shard/weft", "zero1/own"):
                expect_close(continued(self.folder / "fsdp2", sort), wanted)
        self.run_ranks(2, run)
        # A rank of which FSDP2 and weft keep different rows.
        self.run_ranks(3, lambda _: expect_close(continued(self.folder / "full_shard" / "weft", "fsdp2"), wanted))


class Meshes(TorchRanksTest):
    def test_hybrids_and_some_of_the_ranks(self):
        def run(rank):
            import weft.torch
            grid = init_device_mesh("cpu", (2, 2), mesh_dim_names=("replicate", "shard"))
            group = dist.new_group([1, 2, 3])
            wanted = uninterrupted(2)
            for preset, mesh, ranks in (("hybrid_shard", grid, 4), ("hpz", grid, 4), ("full_shard", group, 3)):
                if ranks == 3 and rank == 0:
                    continue
                model = Model()
                sharded = weft.torch.fully_shard(model, preset, wrap=Block, mesh=mesh)
                optimizer = sharded.optimizer(torch.optim.AdamW, **_SETTINGS)
                place = rank - (4 - ranks)
                for step in range(2):
                    if step == 1:
                        state, kept = model.state_dict(), optimizer.state_dict()
                        model.load_state_dict(state)
                        optimizer.load_state_dict(kept)
                    loss_of(model, step, place, ranks).backward()
                    optimizer.step()
                expect_close(whole(model), wanted)
                expect_close(sharded.full_state_dict(), wanted)
        self.run_ranks(4, run)


class InMemory(TorchRanksTest):
    def test_state_is_of_dtensors_by_the_names_of_torch(self):
        def run(rank):
            for sort in ("full_shard/own", "zero1/weft", "no_shard/own"):
                model, optimizer = made(sort)
                train(model, optimizer, range(2))
                plain, other = made("alone")
                for step in range(2):
                    other.zero_grad()
                    loss_of(plain, step).backward()
                    other.step()
                got, wanted = get_optimizer_state_dict(model, optimizer), get_optimizer_state_dict(plain, other)
                assert list(got["state"]) == list(wanted["state"])
                assert got["param_groups"] == wanted["param_groups"], (got["param_groups"], wanted["param_groups"])
                for name, states in wanted["state"].items():
                    for key, tensor in states.items():
                        ours = got["state"][name][key]
                        assert key == "step" or isinstance(ours, DTensor)
                        torch.testing.assert_close(ours.full_tensor() if isinstance(ours, DTensor) else ours, tensor, rtol=0, atol=2e-6)
        self.run_ranks(2, run)

    def test_whole_tensors(self):
        """Of one process: on all ranks, and of rank 0 alone."""
        plain, other = made_alone_and_trained()
        state, optimizer_state, wanted = get_model_state_dict(plain), get_optimizer_state_dict(plain, other), uninterrupted()

        def run(rank):
            for sort in ("full_shard/own", "full_shard/weft"):
                for options in (StateDictOptions(full_state_dict=True), StateDictOptions(full_state_dict=True, broadcast_from_rank0=True)):
                    model, optimizer = made(sort)
                    given = rank == 0 or not options.broadcast_from_rank0
                    set_model_state_dict(model, dict(state) if given else {}, options=options)
                    set_optimizer_state_dict(model, optimizer, copy.deepcopy(optimizer_state) if given else {}, options=options)
                    train(model, optimizer, range(_STEPS, _STEPS + 2))
                    expect_close(whole(model), wanted)
        self.run_ranks(2, run)

    def test_of_the_optimizer_itself_and_flattened(self):
        def run(rank):
            for sort in ("full_shard/own", "zero1/weft"):
                model, optimizer = made(sort)
                train(model, optimizer, range(_STEPS))
                state, kept = model.state_dict(), optimizer.state_dict()
                flat = get_optimizer_state_dict(model, optimizer, options=StateDictOptions(flatten_optimizer_state_dict=True))
                train(model, optimizer, range(_STEPS, _STEPS + 2))
                wanted = whole(model)
                for again in (optimizer, None):
                    model.load_state_dict(state)
                    if again is None:
                        model, again = made(sort)
                        model.load_state_dict(state)
                        set_optimizer_state_dict(model, again, flat, options=StateDictOptions(flatten_optimizer_state_dict=True))
                    else:
                        again.load_state_dict(kept)
                    train(model, again, range(_STEPS, _STEPS + 2))
                    expect_same_bits(whole(model), wanted)
        self.run_ranks(2, run)

    def test_16_bits_keep_their_main_copy(self):
        def run(rank):
            import weft.torch

            def one():
                torch.manual_seed(1)
                model = nn.Linear(40, 30, bias=False, dtype=torch.bfloat16)
                return model, weft.torch.fully_shard(model, "full_shard", optimizer="adamw").optimizer(lr=1e-4)

            def step(model, optimizer):
                model(torch.ones(4, 40, dtype=torch.bfloat16)).float().square().sum().backward()
                optimizer.step()
            model, optimizer = one()
            step(model, optimizer)
            state, optimizer_state = model.state_dict(), optimizer.state_dict()
            step(model, optimizer)
            other, resumed = one()
            other.load_state_dict(state)
            resumed.load_state_dict(optimizer_state)
            step(other, resumed)
            assert state["weight"].dtype is torch.float32
            expect_same_bits(whole(other), whole(model))
            rounded = {"weight": whole(model)["weight"].to(torch.bfloat16)}
            other.load_state_dict(rounded)
            expect_same_bits(whole(other), {"weight": rounded["weight"].float()})
        self.run_ranks(2, run)

    def test_a_dynamic_loss_scale_goes_on(self):
        settings = {"kind": "adamw", "weight_decay": 0.1, "loss_scale": 8.0, "dynamic_loss_scale": True, "loss_scale_growth_steps": 2}

        def scaled(preset, **given):
            import weft.torch
            model = Model()
            sharded = weft.torch.fully_shard(model, preset, wrap=Block, optimizer={**settings, **given})
            return model, sharded.optimizer(lr=0.02), sharded.context

        def scaled_steps(model, optimizer, context, steps):
            for step in steps:
                (loss_of(model, step, dist.get_rank(), dist.get_world_size()) * context.loss_scale).backward()
                optimizer.step()

        def run(_):
            model, optimizer, context = scaled("full_shard")
            scaled_steps(model, optimizer, context, range(_STEPS))
            saved = context.state_scalars()
            assert (saved.loss_scale, saved.loss_scale_good_steps) == (16, 1), saved
            model_state, optimizer_state = get_state_dict(model, optimizer)
            dcp.save({"model": model_state, "optimizer": optimizer_state}, checkpoint_id=self.folder)
            scaled_steps(model, optimizer, context, range(_STEPS, _STEPS + 2))
            for preset, given in (("full_shard", {"loss_scale": 2.0}), ("zero1", {})):
                other, resumed, its_context = scaled(preset, **given)
                model_state, optimizer_state = get_state_dict(other, resumed)
                state = {"model": model_state, "optimizer": optimizer_state}
                dcp.load(state, checkpoint_id=self.folder)
                set_state_dict(other, resumed, model_state_dict=state["model"], optim_state_dict=state["optimizer"])
                expect_same_scale(its_context.state_scalars(), saved)
                scaled_steps(other, resumed, its_context, range(_STEPS, _STEPS + 2))
                expect_same_bits(whole(other), whole(model))
                expect_same_scale(its_context.state_scalars(), context.state_scalars())

        def expect_same_scale(got, wanted):
            assert got[2:6] == wanted[2:6], (got, wanted)  # from update_count on

        def by_one_without_a_scale(_):
            continued(self.folder, "full_shard/own")
            model, _ = load(self.folder, "zero1/weft")
            assert whole(model)
        self.run_ranks(2, run)
        self.run_ranks(3, by_one_without_a_scale)

    def test_scalars_schedules_and_param_groups(self):
        def run(rank):
            import weft.torch

            class Scaled(nn.Module):
                def __init__(self):
                    super().__init__()
                    torch.manual_seed(2)
                    self.scale, self.rows, self.none = nn.Parameter(torch.tensor(0.5)), nn.Parameter(torch.randn(7, 3)), nn.Parameter(torch.empty(0, 4))

                def forward(self, x):
                    return (self.scale * (x @ self.rows.T)).square().sum() + self.none.sum()

            def one(own):
                model = Scaled()
                sharded = weft.torch.fully_shard(model, "full_shard", optimizer=None if own else "adamw")
                groups = [{"params": [model.scale], "lr": 0.2}, {"params": [model.rows, model.none]}]
                optimizer = sharded.optimizer(torch.optim.AdamW, groups, lr=0.1, weight_decay=0) if own else sharded.optimizer(lr=0.1)
                return model, optimizer, torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)

            for own in (True, False):
                model, optimizer, schedule = one(own)
                plain = Scaled()
                other = torch.optim.AdamW([{"params": [plain.scale], "lr": 0.2 if own else 0.1}, {"params": [plain.rows, plain.none]}], lr=0.1, weight_decay=0)
                other_schedule = torch.optim.lr_scheduler.StepLR(other, 1, 0.5)
                for turn in range(4):
                    for module, update, decay in ((model, optimizer, schedule), (plain, other, other_schedule)):
                        update.zero_grad()
                        module(torch.ones(2, 3)).backward()
                        update.step()
                        decay.step()
                    if turn == 1:
                        state, optimizer_state, place = model.state_dict(), optimizer.state_dict(), schedule.state_dict()
                        model, optimizer, schedule = one(own)
                        model.load_state_dict(state)
                        optimizer.load_state_dict(optimizer_state)
                        schedule.load_state_dict(place)
                expect_close(whole(model), plain.state_dict())
        self.run_ranks(2, run)


class Names(TorchRanksTest):
    """Of params with several names, and of parts of a model."""

    def test_a_module_that_is_registered_several_times(self):
        """Some in a unit of its own, some in the root's."""
        class Shared(nn.Module):
            def __init__(self):
                super().__init__()
                torch.manual_seed(5)
                block, self.head = Block(8), nn.Linear(8, 8)
                self.layers, self.again = nn.Sequential(*[block] * 3), nn.ModuleDict({"head": self.head})

            def forward(self, x):
                return self.again["head"](self.layers(x))

        def run(rank):
            import weft.torch
            plain = Shared()
            wanted = {name: tensor + 1 for name, tensor in plain.state_dict().items()}
            for preset, wrap in (("full_shard", Block), ("full_shard", "layers.2"), ("zero1", None)):
                model = Shared()
                sharded = weft.torch.fully_shard(model, preset, wrap=wrap)
                optimizer = sharded.optimizer(torch.optim.AdamW, lr=0.1)
                state = model.state_dict()
                assert list(state) == list(wanted)
                for names in (("layers.0.up.weight", "layers.1.up.weight", "layers.2.up.weight"), ("head.bias", "again.head.bias")):
                    assert all(state[name] is state[names[0]] for name in names)  # moved once
                expect_close(whole(model), plain.state_dict(), 0)
                expect_close(sharded.full_state_dict(), plain.state_dict(), 0)
                model.load_state_dict(wanted)
                expect_close(whole(model), wanted, 0)
                model.load_state_dict({**state, "layers.0.scale": torch.ones(1)})
                expect_close(whole(model), plain.state_dict(), 0)
                set_model_state_dict(model, dict(wanted), options=StateDictOptions(full_state_dict=True))
                expect_close(sharded.full_state_dict(), wanted, 0)
                model(torch.ones(2, 8)).square().mean().backward()
                optimizer.step()
                model.load_state_dict(dict(model.named_parameters(remove_duplicate=False)), strict=False)  # itself, as it is
                changed = sharded.full_state_dict()
                assert all((changed[name] - wanted[name]).abs().max() > 0.05 for name in ("layers.1.up.weight", "head.bias"))
        self.run_ranks(2, run)

    def test_of_parts_of_a_model(self):
        def run(rank):
            import weft.torch
            for preset in ("full_shard", "zero1"):
                plain, model = Model(), Model()
                sharded = weft.torch.fully_shard(model, preset, wrap=Block)
                state = model.blocks[1].state_dict()
                assert list(state) == list(plain.blocks[1].state_dict()) and isinstance(state["up.weight"], DTensor)
                expect_close({name: values_of(tensor) for name, tensor in state.items()}, plain.blocks[1].state_dict(), 0)
                expect_close({name: values_of(tensor) for name, tensor in model.blocks.state_dict(prefix="all.").items()},
                             plain.blocks.state_dict(prefix="all."), 0)
                for one in (plain, model):
                    one.blocks[2].load_state_dict(plain.blocks[0].state_dict())
                model.blocks[0].load_state_dict(state)
                plain.blocks[0].load_state_dict(plain.blocks[1].state_dict())
                for one in (plain, model):
                    one.head.load_state_dict({"weight": torch.ones(11, 16)})  # tied
                expect_close(sharded.full_state_dict(), plain.state_dict(), 0)
                expect_close(whole(model), plain.state_dict(), 0)
        self.run_ranks(2, run)

    def test_that_hooks_give(self):
        """checkpoint_wrapper takes its own name out; hooks and extra state of the program's are in whole tensors, too."""
        from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper

        class Counted(nn.Linear):
            def get_extra_state(self):
                return torch.tensor(7)

            def set_extra_state(self, state):
                self.loaded = int(state)

        def build():
            torch.manual_seed(6)
            model = nn.Sequential(checkpoint_wrapper(Block(4)), nn.Sequential(checkpoint_wrapper(Counted(4, 4))), nn.Linear(4, 1))
            model[2].register_state_dict_post_hook(lambda module, state, prefix, _: state.update({prefix + "renamed": state.pop(prefix + "bias")}))
            model[2].register_load_state_dict_pre_hook(lambda module, state, prefix, *_: state.update({prefix + "bias": state.pop(prefix + "renamed")}))
            return model

        def run(rank):
            import weft.torch
            plain = build()
            wanted = plain.state_dict()
            assert {"0.up.weight", "1.0._extra_state", "2.renamed"} <= set(wanted)
            other = {name: tensor + 1 for name, tensor in wanted.items()}
            for preset, wrap in (("full_shard", (Block, nn.Linear)), ("full_shard", ("0", "1.0")), ("zero1", None)):
                model = build()
                sharded = weft.torch.fully_shard(model, preset, wrap=wrap)
                assert list(sharded.full_state_dict()) == list(model.state_dict()) == list(wanted)
                expect_close(sharded.full_state_dict(), wanted, 0)
                for state in [{name: tensor.clone() for name, tensor in one.items()} for one in (model.state_dict(), sharded.full_state_dict())]:
                    model.load_state_dict(other)
                    model.load_state_dict(state)
                    expect_close(sharded.full_state_dict(), wanted, 0)
                model.load_state_dict(other)
                expect_close(sharded.full_state_dict(), {**other, "1.0._extra_state": torch.tensor(7)}, 0)
                assert model[1][0]._checkpoint_wrapped_module.loaded == 8
        self.run_ranks(2, run)

    def test_one_dict_for_several_states(self):
        """A tied param is in each of them as it was then."""
        def run(rank):
            model, optimizer = made("full_shard/own")
            states = {}
            for prefix in ("before.", "after."):
                model.state_dict(destination=states, prefix=prefix)
                train(model, optimizer, range(1))
            for prefix in ("before.", "after."):
                assert states[f"{prefix}embed.weight"] is states[f"{prefix}head.weight"]
            assert not torch.equal(values_of(states["before.embed.weight"]), values_of(states["after.embed.weight"]))
        self.run_ranks(2, run)


class Refused(TorchRanksTest):
    def test_copies(self):
        """A copy would have the context of the model, and end it when it goes."""
        def run(rank):
            model, optimizer = made("full_shard/own")
            for copied in (lambda: copy.deepcopy(model), lambda: pickle.dumps(model), lambda: torch.save(model, io.BytesIO()),
                           lambda: torch.optim.swa_utils.AveragedModel(model)):
                refused(TypeError, "copy it before fully_shard", copied)
            refused(RuntimeError, "embed.weight is not here", lambda: copy.deepcopy(model.head))
            train(model, optimizer, range(2))
            expect_close(whole(model), uninterrupted(2))
        self.run_ranks(2, run)

    def test_what_an_average_over_steps_is_built_from(self):
        def run(rank):
            model, optimizer = made("full_shard/own")
            average = model.state_dict()
            train(model, optimizer, range(2))
            for name, tensor in model.state_dict().items():
                average[name] = average[name].lerp(tensor, 0.25)
            first, last = uninterrupted(0), uninterrupted(2)
            model.load_state_dict(average)
            expect_close(whole(model), {name: tensor.lerp(last[name], 0.25) for name, tensor in first.items()})
        self.run_ranks(2, run)

    def test_a_destroyed_model_is_copied(self):
        def run(rank):
            import weft.torch
            model = Model()
            weft.torch.fully_shard(model, "full_shard", wrap=Block).destroy()
            expect_close(copy.deepcopy(model).state_dict(), Model().state_dict(), 0)
        self.run_ranks(2, run)

    def test_params_and_buffers_elsewhere_than_in_memory_of_the_cpu(self):
        def run(rank):
            import weft.torch
            model = Model().to("meta")
            refused(ValueError, 'param embed.weight is on the device meta, and fully_shard keeps models in the CPU\'s memory; call to_empty(device="cpu")',
                    lambda: weft.torch.fully_shard(model, wrap=Block))
            model.to_empty(device="cpu")
            if rank == 0:
                model.load_state_dict(Model().state_dict())
            expect_close(weft.torch.fully_shard(model, wrap=Block).full_state_dict(), Model().state_dict(), 0)
            model = nn.BatchNorm1d(3)
            model.running_mean = model.running_mean.to("meta")
            refused(ValueError, "buffer running_mean is on the device meta", lambda: weft.torch.fully_shard(model))
        self.run_ranks(2, run)


def values_of(tensor):
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def refused(kind, sentence, call):
    try:
        call()
    except kind as error:
        assert sentence in str(error), error
    else:
        raise AssertionError(sentence)


def made_alone_and_trained():
    model = Model()
    optimizer = torch.optim.AdamW(model.parameters(), **_SETTINGS)
    for step in range(_STEPS):
        optimizer.zero_grad()
        loss_of(model, step).backward()
        optimizer.step()
    optimizer.zero_grad()
    return model, optimizer


if __name__ == "__main__":
    torch_ranks.main()
