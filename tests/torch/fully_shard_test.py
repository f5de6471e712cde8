"""weft.torch.fully_shard: the same losses as one process, the same bits under every preset, and what modules may do."""
import itertools
import math

import torch_ranks
from torch_ranks import TorchRanksTest, dist, torch

from torch import nn
from torch.utils.checkpoint import checkpoint

_PRESETS = ("no_shard", "zero1", "zero2", "grad_op", "full_shard", "fraction")
_ROWS = 12


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(width), nn.Linear(width, 2 * width), nn.Linear(2 * width, width)
        self.register_buffer("scale", torch.ones(1))

    def forward(self, x):
        return x + self.scale * self.down(torch.tanh(self.up(self.norm(x))))


class Model(nn.Module):
    """A tiny transformer without attention: embedding, tied head, blocks of which some may be recomputed, used twice, frozen or left out."""

    def __init__(self, width=16, depth=3, recompute=None, twice=False, unused=False, frozen=False):
        super().__init__()
        torch.manual_seed(3)
        self.embed = nn.Embedding(11, width)
        self.blocks = nn.ModuleList(Block(width) for _ in range(depth))
        self.head = nn.Linear(width, 11, bias=False)
        self.head.weight = self.embed.weight
        self.recompute, self.twice = recompute, twice
        if unused:
            self.spare = Block(width)
        if frozen:
            for param in self.blocks[1].parameters():
                param.requires_grad_(False)

    def forward(self, tokens):
        x = self.embed(tokens)
        for block in (*self.blocks, *(self.blocks[:1] if self.twice else ())):
            x = block(x) if self.recompute is None else checkpoint(block, x, use_reentrant=self.recompute)
        return self.head(x)


def batch(step, rank=0, size=1):
    generator = torch.Generator().manual_seed(50 + step)
    tokens, wanted = torch.randint(0, 11, (_ROWS, 5), generator=generator), torch.randint(0, 11, (_ROWS, 5), generator=generator)
    rows = _ROWS // size
    return tokens[rank * rows:(rank + 1) * rows], wanted[rank * rows:(rank + 1) * rows]


def loss_of(model, step, rank=0, size=1):
    tokens, wanted = batch(step, rank, size)
    return nn.functional.cross_entropy(model(tokens).flatten(0, 1), wanted.flatten())


def alone(steps=4, clip=None, **settings):
    model = Model(**settings)
    optimizer = torch.optim.AdamW([param for param in model.parameters() if param.requires_grad], lr=0.02, weight_decay=0.1)
    for step in range(steps):
        optimizer.zero_grad()
        loss_of(model, step).backward()
        if clip:
            nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimizer.step()
    return {name: tensor.detach() for name, tensor in model.state_dict().items()}


def trained(preset, rank, size, steps=4, clip=None, own=True, wrap=Block, options=None, **settings):
    import weft.torch
    model = Model(**settings)
    sharded = weft.torch.fully_shard(model, preset, wrap=wrap, optimizer=None if own else {"kind": "adamw", "weight_decay": 0.1}, **(options or {}))
    optimizer = sharded.optimizer(torch.optim.AdamW, lr=0.02, weight_decay=0.1) if own else None
    for step in range(steps):
        loss_of(model, step, rank, size).backward()
        if clip:
            sharded.clip_grad_norm_(clip)
        if own:
            optimizer.step()
        else:
            sharded.step(0.02)
    return sharded


def expect_close(got, wanted, tolerance=2e-5):
    assert sorted(got) == sorted(wanted), (sorted(got), sorted(wanted))
    for name, tensor in wanted.items():
        torch.testing.assert_close(got[name], tensor, rtol=0, atol=tolerance, msg=lambda text, name=name: f"{name}: {text}")


class Training(TorchRanksTest):
    def test_as_one_process_with_optimizers_of_torch_and_of_weft(self):
        def rank_of(size):
            def run(rank):
                for preset, own in itertools.product(_PRESETS, (True, False)):
                    expect_close(trained(preset, rank, size, own=own).full_state_dict(), alone())
            return run
        for size in (1, 2, 3):
            self.run_ranks(size, rank_of(size))

    def test_same_bits_under_every_preset(self):
        def run(rank):
            for own in (True, False):
                states = [trained(preset, rank, 2, steps=20, clip=0.5, own=own).full_state_dict() for preset in _PRESETS]
                for preset, state in zip(_PRESETS[1:], states[1:]):
                    for name, tensor in states[0].items():
                        assert torch.equal(tensor, state[name]), (preset, name)
        self.run_ranks(2, run)

    def test_hybrids(self):
        from torch.distributed.device_mesh import init_device_mesh

        def run(rank):
            mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("replicate", "shard"))
            for preset in ("hybrid_shard", "hpz"):
                expect_close(trained(preset, rank, 4, options={"mesh": mesh}).full_state_dict(), alone())
        self.run_ranks(4, run)

    def test_modules_of_all_kinds(self):
        def run(rank):
            for settings in ({"recompute": False}, {"recompute": True}, {"twice": True}, {"unused": True}, {"frozen": True},
                             {"recompute": False, "twice": True}, {"recompute": True, "frozen": True}):
                for preset in ("no_shard", "full_shard"):
                    expect_close(trained(preset, rank, 2, **settings).full_state_dict(), alone(**settings))
        self.run_ranks(2, run)

    def test_params_that_are_used_sometimes_or_by_some_ranks(self):
        """As in one process, where an optimizer leaves alone what has no gradient: it does not decay, and its moments do not."""
        class Sometimes(nn.Module):
            def __init__(self):
                super().__init__()
                torch.manual_seed(4)
                self.always, self.even, self.never = (nn.Linear(6, 6) for _ in range(3))

            def forward(self, x, even):
                return (self.even if even else self.always)(self.always(x))

        def run(rank):
            import weft.torch
            for preset in ("zero1", "full_shard"):
                for some_ranks in (False, True):
                    model, plain = Sometimes(), Sometimes()
                    sharded = weft.torch.fully_shard(model, preset)
                    optimizer = sharded.optimizer(torch.optim.AdamW, lr=0.1, weight_decay=0.5)
                    other = torch.optim.AdamW(plain.parameters(), lr=0.1, weight_decay=0.5)
                    for step in range(4):
                        evens = [not step % 2 and not (some_ranks and of) for of in range(2)]
                        model(torch.full((2, 6), rank + 1.0), evens[rank]).square().sum().backward()
                        optimizer.step()
                        other.zero_grad()
                        for of, even in enumerate(evens):
                            (plain(torch.full((2, 6), of + 1.0), even).square().sum() / 2).backward()
                        other.step()
                    expect_close(sharded.full_state_dict(), {name: tensor.detach() for name, tensor in plain.state_dict().items()})
        self.run_ranks(2, run)

    def test_wrapping(self):
        def run(rank):
            for wrap, units in ((None, 1), (Block, 4), ("blocks.*", 4), (["embed", "blocks.*"], 4), (lambda name, module: isinstance(module, nn.Linear), 7),
                                (2000, None)):
                sharded = trained("full_shard", rank, 2, wrap=wrap)
                assert units is None or len(sharded.context.units) == units, (wrap, sharded.context.units)
                expect_close(sharded.full_state_dict(), alone())
        self.run_ranks(2, run)

    def test_a_model_too_small_for_its_ranks(self):
        def run(rank):
            import weft.torch
            model = nn.Linear(3, 2)
            sharded = weft.torch.fully_shard(model, "full_shard")
            optimizer = sharded.optimizer(torch.optim.AdamW, lr=0.1)
            model(torch.full((4, 3), float(rank))).sum().backward()
            optimizer.step()
            return sum(param.part().count for param in sharded.context.params), sharded.full_state_dict()["weight"].tolist()
        ended = self.run_ranks(3, run)
        self.assertIn(0, [count for count, _ in ended])
        self.assertEqual(8, sum(count for count, _ in ended))
        self.assertEqual([ended[0][1]] * 3, [weight for _, weight in ended])

    def test_clipping(self):
        def run(rank):
            for own in (True, False):
                expect_close(trained("full_shard", rank, 2, clip=0.1, own=own).full_state_dict(), alone(clip=0.1))
                # The norm alone, as it is asked of torch.
                expect_close(trained("full_shard", rank, 2, clip=math.inf, own=own).full_state_dict(), alone())
        self.run_ranks(2, run)

    def test_numbers_that_are_refused_leave_the_step_as_it_is(self):
        def run(rank):
            import weft
            model = Model()
            sharded = weft.torch.fully_shard(model, "full_shard", wrap=Block, optimizer={"kind": "adamw", "weight_decay": 0.1})
            for step in range(4):
                loss_of(model, step, rank, 2).backward()
                for number in (0, -1, math.nan):
                    self.assertRaisesRegex(ValueError, "max_norm is", sharded.clip_grad_norm_, number)
                sharded.clip_grad_norm_(0.1)
                for number in (-1, math.nan, math.inf):
                    self.assertRaisesRegex(ValueError, "lr is", sharded.optimizer, lr=number)
                    self.assertRaisesRegex(weft.Error, "learning_rate is", sharded.step, number)
                sharded.step(0.02)
            expect_close(sharded.full_state_dict(), alone(clip=0.1))
        self.run_ranks(2, run)

    def test_no_sync(self):
        def run(rank):
            import weft.torch
            for preset in ("no_shard", "zero2", "full_shard"):
                model, plain = Model(), Model()
                sharded = weft.torch.fully_shard(model, preset, wrap=Block)
                optimizer, other = sharded.optimizer(torch.optim.SGD, lr=0.1), torch.optim.SGD(plain.parameters(), lr=0.1)
                for turn in range(3):
                    with sharded.no_sync():
                        for step in range(2):
                            loss_of(model, 3 * turn + step, rank, 2).backward()
                    loss_of(model, 3 * turn + 2, rank, 2).backward()
                    optimizer.step()
                    other.zero_grad()
                    for step in range(3):
                        loss_of(plain, 3 * turn + step).backward()
                    other.step()
                    with torch.no_grad():
                        assert torch.allclose(model(batch(0)[0]), plain(batch(0)[0]), atol=1e-5)
        self.run_ranks(2, run)

    def test_ranks_with_unequal_data(self):
        def run(rank):
            import weft.torch
            model = Model()
            sharded = weft.torch.fully_shard(model, "full_shard", wrap=Block, uneven=True)
            optimizer = sharded.optimizer(torch.optim.SGD, lr=0.1)
            with sharded.join(optimizer.step):
                for step in range(2 + 2 * rank):
                    loss_of(model, step, rank, 2).backward()
                    optimizer.step()
            return sharded.full_state_dict()["head.weight"].tolist()
        first, second = self.run_ranks(2, run)
        self.assertEqual(first, second)


class States(TorchRanksTest):
    def test_destroyed_is_an_ordinary_model(self):
        def run(rank):
            sharded = trained("full_shard", rank, 2)
            model = sharded.module
            sharded.destroy()
            expect_close({name: tensor.detach() for name, tensor in model.state_dict().items()}, alone())
            loss_of(model, 0).backward()
            assert model.head.weight.grad is not None
        self.run_ranks(2, run)


class BadUse(TorchRanksTest):
    def test_sentences(self):
        def run(rank):
            import weft.torch
            model = Model()
            sharded = weft.torch.fully_shard(model, "full_shard", wrap=Block)
            optimizer = sharded.optimizer(torch.optim.SGD, lr=0.1)
            assert model.blocks[0].up.weight.shape == (32, 16)

            def refused(kind, sentence, call):
                try:
                    call()
                except kind as error:
                    assert sentence in str(error), error
                else:
                    raise AssertionError(sentence)
            refused(RuntimeError, "needs reduced gradients, but this is between steps", optimizer.step)
            refused(RuntimeError, "has no optimizer of weft's", lambda: sharded.step(0.1))
            refused(RuntimeError, "has no optimizer of weft's", lambda: sharded.optimizer(lr=0.1))
            refused(RuntimeError, "between steps", lambda: sharded.clip_grad_norm_(1.0))
            refused(ValueError, "1 of the optimizer's params are none", lambda: sharded.optimizer(torch.optim.SGD, [nn.Parameter(torch.ones(2))], lr=0.1))
            loss_of(model, 0, rank, 2).backward()
            refused(RuntimeError, "update the params first", lambda: model(batch(0)[0]))
            optimizer.step()
            refused(ValueError, "matches no module", lambda: weft.torch.fully_shard(Model(), wrap=nn.Conv2d))
            refused(TypeError, "torch.complex64", lambda: weft.torch.fully_shard(nn.ParameterList([nn.Parameter(torch.ones(2, dtype=torch.complex64))])))
            refused(RuntimeError, 'Missing key(s) in state_dict: "embed.weight"', lambda: model.load_state_dict({}))
            refused(RuntimeError, "embed.weight has the shape (3,) in the state and (11, 16) in the model",
                    lambda: model.load_state_dict({"embed.weight": torch.ones(3)}, strict=False))
            loss_of(model, 1, rank, 2).backward()
            optimizer.step()
        self.run_ranks(2, run)

    def test_an_exception_in_forward_leaves_the_model_usable(self):
        def run(rank):
            import weft.torch
            model = Model()
            sharded = weft.torch.fully_shard(model, "full_shard", wrap=Block)
            optimizer = sharded.optimizer(torch.optim.SGD, lr=0.1)
            for gradients in (False, True):
                with torch.set_grad_enabled(gradients):
                    try:
                        model(torch.full((2, 5), 99))
                    except IndexError:
                        pass
                    else:
                        raise AssertionError
            loss_of(model, 0, rank, 2).backward()
            optimizer.step()
        self.run_ranks(2, run)


if __name__ == "__main__":
    torch_ranks.main()
