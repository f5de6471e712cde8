"""Steps of weft.torch.fully_shard that are not one forward, one backward and an update: modules used several times, gradients that are dropped, backwards that
raise, and what modules take and return."""
import copy
import dataclasses
import itertools
import typing

import torch_ranks
from torch_ranks import TorchRanksTest, torch

from torch import nn
from torch.utils.checkpoint import checkpoint

_PRESETS = ("no_shard", "zero1", "zero2", "grad_op", "full_shard", "fraction")


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x):
        return torch.tanh(self.linear(x))


class Siamese(nn.Module):
    """Encodes two inputs, neither of which has a gradient, by the same modules."""

    def __init__(self):
        super().__init__()
        self.encoder, self.head = nn.Sequential(Block(), Block()), nn.Linear(4, 1)

    def forward(self, x):
        return self.head(self.encoder(x)) - self.head(self.encoder(x.flip(0) * 2))


class Recursive(nn.Module):
    """Has a module that calls itself."""

    def __init__(self):
        super().__init__()
        self.inner, self.head = Inner(), nn.Linear(4, 1)

    def forward(self, x):
        return self.head(self.inner(x, 2))


class Inner(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x, depth):
        return torch.tanh(self.linear(self(x, depth - 1) if depth else x))


class Blocks(nn.Module):
    """Blocks whose uses are what `use` makes of them."""

    def __init__(self, use, block=Block):
        super().__init__()
        self.blocks, self.use = nn.ModuleList(block() for _ in range(3)), use

    def forward(self, x):
        return self.use(self.blocks, x)


def rows(rank=0, size=1, step=0):
    return torch.randn(8, 4, generator=torch.Generator().manual_seed(step))[rank::size]


def loss_of(model, x):
    return model(x).square().mean()


def both(make, wrap, preset, step, steps=3):
    """Losses of step(model, optimizer) of the plain model and of the sharded one, with the same data on all ranks."""
    import weft.torch
    torch.manual_seed(0)
    plain = make()
    model = copy.deepcopy(plain)
    sharded = weft.torch.fully_shard(model, preset, wrap=wrap)
    optimizers = torch.optim.SGD(plain.parameters(), lr=0.1), sharded.optimizer(torch.optim.SGD, lr=0.1)
    found = [], []
    for _ in range(steps):
        for losses, one, optimizer in zip(found, (plain, model), optimizers):
            optimizer.zero_grad()
            losses.append(step(one))
            optimizer.step()
    for name, tensor in sharded.full_state_dict().items():
        torch.testing.assert_close(tensor, plain.state_dict()[name], rtol=0, atol=1e-6)
    return found


def expect_same(*given, **settings):
    plain, sharded = both(*given, **settings)
    torch.testing.assert_close(sharded, plain, rtol=0, atol=1e-6)
    return sharded


def ordinary(model):
    loss = loss_of(model, rows())
    loss.backward()
    return loss.item()


def sharded_and_optimizer(preset, own=True, model=None, wrap=nn.Linear, **options):
    import weft.torch
    torch.manual_seed(0)
    model = model or nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 1))
    sharded = weft.torch.fully_shard(model, preset, wrap=wrap, optimizer=None if own else "adamw", **options)
    return sharded, sharded.optimizer(torch.optim.AdamW, lr=0.1, weight_decay=0) if own else sharded.optimizer(lr=0.1)


def expect_trains_as_new(preset, rank, own, before):
    """Steps after before(sharded, optimizer), which leaves everything as it was, have the bits of steps without it."""
    trained = []
    for first in (None, before):
        sharded, optimizer = sharded_and_optimizer(preset, own)
        for step in range(3):
            if first:
                first(sharded, optimizer)
            loss_of(sharded.module, rows(rank, 2, step)).backward()
            optimizer.step()
        trained.append(sharded.full_state_dict())
    for name, tensor in trained[0].items():
        assert torch.equal(tensor, trained[1][name]), (preset, own, name)


class SeveralUses(TorchRanksTest):
    def test_modules_used_several_times_on_inputs_without_gradients(self):
        def twice(model):
            loss = loss_of(model, rows()) + loss_of(model, 2 * rows())
            loss.backward()
            return loss.item()

        def run(rank):
            for make, wrap, step in ((Siamese, Block, ordinary), (Siamese, (Block, nn.Sequential), twice),
                                     (lambda: nn.Sequential(Block(), Block(), nn.Linear(4, 1)), Block, twice)):
                losses = [expect_same(make, wrap, preset, step) for preset in _PRESETS]
                assert all(one == losses[0] for one in losses), losses
            for preset in ("no_shard", "full_shard"):
                expect_same(Recursive, Inner, preset, ordinary)
        self.run_ranks(2, run)

    def test_checkpoints_around_all_blocks_and_around_the_model(self):
        def each(blocks, x):
            x = x.clone().requires_grad_()
            for block in blocks:
                x = checkpoint(block, x, use_reentrant=True)
            return x

        def outside(reentrant):
            def step(model):
                loss = checkpoint(model, rows().requires_grad_(), use_reentrant=reentrant).square().mean()
                loss.backward()
                return loss.item()
            return step

        def run(rank):
            for preset in ("no_shard", "full_shard"):
                expect_same(lambda: Blocks(each), Block, preset, ordinary)
                expect_same(Siamese, Block, preset, outside(True))
            expect_same(Siamese, nn.Linear, "no_shard", outside(False))
            sharded, optimizer = sharded_and_optimizer("full_shard", stable_views="apart")
            outside(False)(sharded.module)
            optimizer.step()
        self.run_ranks(2, run)

    def test_second_backwards_are_refused(self):
        def run(rank):
            sharded, optimizer = sharded_and_optimizer("full_shard")
            model = sharded.module
            with sharded.no_sync():
                loss = loss_of(model, rows())
            loss.backward(retain_graph=True)
            with self.assertRaisesRegex(RuntimeError, "A forward has one backward"):
                loss.backward()
            loss = loss_of(model, rows())
            with self.assertRaisesRegex(RuntimeError, "after the forward of a later micro-batch"):
                optimizer.zero_grad()
            sharded.discard()
            with self.assertRaisesRegex(RuntimeError, "this is between steps. A forward has one backward"):
                loss.backward()
            ordinary(model)
            optimizer.step()
        self.run_ranks(2, run)


class Dropped(TorchRanksTest):
    def test_gradients_are_dropped_wherever_the_step_is(self):
        def reduced(sharded, optimizer):
            ordinary(sharded.module)
            sharded.clip_grad_norm_(0.01)
            sharded.discard()

        def accumulated(sharded, optimizer):
            for _ in range(2):
                with sharded.no_sync():
                    ordinary(sharded.module)
            sharded.discard()
            sharded.discard()

        def forward_alone(sharded, optimizer):
            sharded.module(rows())
            sharded.discard()

        def zeroed(sharded, optimizer):
            ordinary(sharded.module)
            optimizer.zero_grad()

        def of_inputs(sharded, optimizer):
            x = rows().requires_grad_()
            assert torch.autograd.grad(sharded.module(x).sum(), x)[0].shape == x.shape
            optimizer.zero_grad()
            with torch.no_grad():
                sharded.module(x)

        def run(rank):
            for preset, own in (("no_shard", True), ("zero2", False), ("full_shard", True), ("full_shard", False)):
                for before in (reduced, accumulated, forward_alone, zeroed, of_inputs):
                    expect_trains_as_new(preset, rank, own, before)
        self.run_ranks(2, run)

    def test_zero_grad_drops_no_forward(self):
        def run(rank):
            for own in (True, False):
                sharded, optimizer = sharded_and_optimizer("full_shard", own)
                losses = []
                for _ in range(3):
                    optimizer.zero_grad()
                    loss = loss_of(sharded.module, rows())
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
                    losses.append(loss.item())
                    optimizer.zero_grad()
                assert losses[2] < losses[0], losses
        self.run_ranks(2, run)

    def test_what_only_some_ranks_drop_is_an_error_of_all(self):
        def run(rank):
            import weft
            for preset, own in itertools.product(("no_shard", "full_shard"), (True, False)):
                sharded, optimizer = sharded_and_optimizer(preset, own)
                state = sharded.full_state_dict()
                ordinary(sharded.module)
                with self.assertRaisesRegex(weft.Error, "rank 0 called drop_gradients, rank 1 called optimizer_step|rank 1 called optimizer_step, rank 0 called drop_gradients"):
                    optimizer.step() if rank else optimizer.zero_grad()
                for name, tensor in sharded.full_state_dict().items():
                    assert torch.equal(tensor, state[name])
                ordinary(sharded.module)
                optimizer.step()
        self.run_ranks(2, run)

    def test_a_discriminator(self):
        def run(rank):
            for preset in ("no_shard", "full_shard"):
                d, of_d = sharded_and_optimizer(preset)
                g, of_g = sharded_and_optimizer(preset, model=nn.Sequential(nn.Linear(4, 4)))
                for _ in range(2):
                    of_d.zero_grad()
                    (d.module(rows()).mean() - d.module(g.module(rows()).detach()).mean()).backward()
                    of_d.step()
                    of_g.zero_grad()
                    d.module(g.module(rows())).mean().backward()
                    of_g.step()
        self.run_ranks(2, run)


class _Raises(torch.autograd.Function):
    on = True

    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        if _Raises.on:
            raise ValueError("a bad batch")
        return gradient


class Failing(nn.Module):
    def forward(self, x):
        return _Raises.apply(x)


class FailedBackwards(TorchRanksTest):
    def test_the_next_forward_and_zero_grad_go_on(self):
        def fail(sharded):
            _Raises.on = True
            with self.assertRaisesRegex(ValueError, "a bad batch"):
                ordinary(sharded.module)
            _Raises.on = False

        def run(rank):
            for preset, accumulates, zeroes in itertools.product(("no_shard", "full_shard"), (True, False), (True, False)):
                trained, own = [], zeroes
                for fails in (False, True):
                    torch.manual_seed(0)
                    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4), Failing(), nn.Linear(4, 4), nn.Linear(4, 1))
                    sharded, optimizer = sharded_and_optimizer(preset, own, model)
                    _Raises.on = False
                    for step in range(2):
                        if fails and accumulates:
                            with sharded.no_sync():
                                ordinary(model)
                                fail(sharded)
                        elif fails:
                            fail(sharded)
                            with self.assertRaisesRegex(RuntimeError, "an exception has ended the backward"):
                                optimizer.step()
                        if zeroes:
                            optimizer.zero_grad()
                        loss_of(model, rows(rank, 2, step)).backward()
                        optimizer.step()
                    trained.append(sharded.full_state_dict())
                for name, tensor in trained[0].items():
                    assert torch.equal(tensor, trained[1][name]), (preset, own, name)
        self.run_ranks(2, run)

    def test_of_one_rank_is_an_error_of_all(self):
        def run(rank):
            import weft
            for preset in ("no_shard", "zero2", "full_shard"):
                sharded, optimizer = sharded_and_optimizer(preset, model=nn.Sequential(nn.Linear(4, 4), Failing(), nn.Linear(4, 4), nn.Linear(4, 1)))
                _Raises.on = rank == 0
                with self.assertRaises(weft.Error if rank else ValueError):
                    ordinary(sharded.module)
                    optimizer.step()
                if rank == 0:
                    with self.assertRaises(weft.Error):
                        optimizer.zero_grad()
                if preset == "full_shard":  # the other rank has waited for the params of another unit
                    return
                _Raises.on = False
                ordinary(sharded.module)
                optimizer.step()
        self.run_ranks(2, run, destroy=False)

    def test_sparse_gradients(self):
        class Sparse(nn.Module):
            def __init__(self):
                super().__init__()
                self.table, self.sparse = nn.Embedding(5, 4), True

            def forward(self, x):
                return nn.functional.embedding(x, self.table.weight, sparse=self.sparse)

        def run(rank):
            import weft.torch
            for kind in (nn.Embedding, nn.EmbeddingBag):
                with self.assertRaisesRegex(ValueError, "0 is a Embedding(Bag)? with sparse=True"):
                    weft.torch.fully_shard(nn.Sequential(kind(5, 4, sparse=True)))
            tokens = torch.tensor([[1, 2]])
            for preset in ("no_shard", "full_shard"):
                model = nn.Sequential(Sparse(), nn.Linear(4, 1))
                sharded, optimizer = sharded_and_optimizer(preset, model=model, wrap=(Sparse, nn.Linear))
                with self.assertRaisesRegex(RuntimeError, r"the gradient of 0.table.weight is sparse \(torch.sparse_coo\)"):
                    loss_of(model, tokens).backward()
                optimizer.zero_grad()
                model[0].sparse = False
                loss_of(model, tokens).backward()
                optimizer.step()
        self.run_ranks(2, run)


@dataclasses.dataclass
class Output:
    y: torch.Tensor
    name: str = "y"


class Pair(typing.NamedTuple):
    x: torch.Tensor
    scale: float


def returns_a_dataclass():
    def block(self, x):
        return Output(torch.tanh(self.linear(x)))

    def use(blocks, x):
        for one in blocks:
            x = one(x).y
        return x
    return block, use


def adds_to_lists_of_the_caller():
    def block(self, x, more):
        y = torch.tanh(self.linear(x + more["bias"] + sum(more["all"])))
        more["all"].append(y * 2)
        return y

    def use(blocks, x):
        more = {"bias": x.mean(), "all": []}
        for one in blocks:
            x = one(x, more)
        assert len(more["all"]) == 3
        return x + sum(more["all"])
    return block, use


def takes_everything_in_a_list():
    """Nothing tells when the gradients of what the module was given are there."""
    def block(self, xs):
        return torch.tanh(self.linear(xs[0]))

    def use(blocks, x):
        xs = [x]
        for one in blocks:
            xs[0] = one(xs)
        return xs[0]
    return block, use


def takes_tuples_and_one_tensor_several_times():
    def block(self, pair, same, again):
        assert same is again and isinstance(pair, Pair)
        return torch.tanh(self.linear(pair.x * pair.scale + same)), (pair, same)

    def use(blocks, x):
        for one in blocks:
            x, _ = one(Pair(x, 2.0), x, again=x)
        return x
    return block, use


def returns_a_view_that_is_changed_in_place():
    def block(self, x):
        return self.linear(x).view(2, 4, 4).view(8, 4)

    def use(blocks, x):
        for one in blocks:
            x = one(x)
            x += 1
        return x
    return block, use


class ArgumentsAndResults(TorchRanksTest):
    def test_all_kinds(self):
        def run(rank):
            for preset, kind in itertools.product(("no_shard", "full_shard"), (
                    returns_a_dataclass, adds_to_lists_of_the_caller, takes_everything_in_a_list, takes_tuples_and_one_tensor_several_times,
                    returns_a_view_that_is_changed_in_place)):
                block, use = kind()
                made = type("Made", (Block,), {"forward": block})
                expect_same(lambda: Blocks(use, made), made, preset, ordinary)
        self.run_ranks(2, run)


class Modes(TorchRanksTest):
    def test_inference_mode_first(self):
        def run(rank):
            for preset in ("no_shard", "full_shard"):
                sharded, optimizer = sharded_and_optimizer(preset)
                with torch.inference_mode():
                    sharded.module(rows())
                ordinary(sharded.module)
                optimizer.step()
        self.run_ranks(2, run)

    def test_params_that_were_frozen(self):
        def run(rank):
            model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 1))
            model[0].requires_grad_(False)
            sharded, optimizer = sharded_and_optimizer("full_shard", model=model)
            ordinary(model)
            optimizer.step()
            model[0].requires_grad_(True)
            with self.assertRaisesRegex(RuntimeError, r"0.weight requires a gradient and was frozen .*; destroy\(\) this and call fully_shard\(\) again"):
                model(rows())
            sharded.destroy()
            sharded, optimizer = sharded_and_optimizer("full_shard", model=model)
            before = sharded.full_state_dict()["0.weight"]
            ordinary(model)
            optimizer.step()
            assert not torch.equal(before, sharded.full_state_dict()["0.weight"])
        self.run_ranks(2, run)

    def test_modules_whose_children_are_not_called(self):
        def layer():
            return nn.TransformerEncoderLayer(4, 2, 8, dropout=0, batch_first=True)

        def step(model):
            loss = model(rows().view(2, 4, 4)).square().mul(torch.arange(4.0)).mean()
            loss.backward()
            return loss.item()

        def run(rank):
            for wrap in (nn.Linear, "self_attn.out_proj", 1):
                if wrap == "self_attn.out_proj":
                    with self.assertRaisesRegex(ValueError, "matches no module"):
                        expect_same(layer, wrap, "full_shard", step)
                else:
                    expect_same(layer, wrap, "full_shard", step)
        self.run_ranks(2, run)


if __name__ == "__main__":
    torch_ranks.main()
