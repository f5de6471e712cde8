"""The table: which runs there are, what each is compared with, and how.

A family is a set of runs and what its references have in place of their settings. So a reference
has the run's own data-parallel size, accumulation mode, number of micro-batches, types and
optimizer, and differs in the one thing that must not matter. To add rows, add a family, or a
value to one; a row that stands in several families is made for the first.

    for reference, rows in groups(short=True):    # what is made in this order
"""
import dataclasses
import itertools

from workbench.validate.settings import STEPS, Settings

BITWISE, CLOSE = "bitwise", "close"

PRESETS = ("ddp", "zero1", "zero2", "shard-grad-op", "full-shard", "hybrid", "hpz", "fraction")
SHARDED = PRESETS[3:]  # params, too
TELLING = ("zero1", "full-shard", "hpz")  # optimizer state alone; everything; copies in groups
MODES = ("local", "every")
DDP = {"strategy": "ddp"}
ALONE = {"strategy": "ddp", "ranks": 1, "accumulate": 1, "accumulation": None, "legs": None}
# Of keys' biases softmax sees nothing, so their gradients are rounding alone; AdamW's steps from
# them are as long as its epsilon allows, and another order of sums gives others.
ADAMW_OF_NO_NOISE = {"eps": "1e-3"}
# Some steps take as long as a rank takes to start, and each is printed, because it validates.
LONG_STEPS = {"layers": "4", "width": "120", "seq": "96", "batch": "12", "lr": "0.001",
              "eval-every": "1"}
LLAMA = {"arch": "llama", "kv-heads": "1", "head": "own", "width": "36"}  # pairs of channels turn
OPTIMIZERS = (
    {"optimizer": "sgd", "lr": "0.3", "momentum": "0.9"}, {"optimizer": "lion", "lr": "5e-4"},
    {"optimizer": "lamb"}, {"optimizer": "lars", "lr": "5"}, {"optimizer": "muon"},
)
NUMBERS = (
    {"param-dtype": "bf16"}, {"param-dtype": "fp16"}, {"dtype": "bf16"},
    {"reduce-dtype": "bf16"}, {"reduce-dtype": "fp16"},
    {"param-dtype": "bf16", "dtype": "bf16", "reduce-dtype": "bf16"},
    # The first steps overflow, and no rank updates anything in them.
    {"dtype": "fp16", "loss-scale-power": "24"},
)


@dataclasses.dataclass(frozen=True)
class Family:
    """`rows` and `short` are settings, each a dict; those of `short` are in the short form, too."""
    name: str
    proves: str
    kind: str
    against: dict
    rows: tuple
    short: tuple = ()


@dataclasses.dataclass(frozen=True)
class Row:
    """Reference: None for a run that is compared with what it turned out to be (elastic)."""
    family: str
    kind: str
    settings: Settings
    reference: Settings


def over(*axes):
    """All combinations. An axis is a tuple of dicts, or a dict whose entries are axes: the values
    of each name."""
    expanded = []
    for axis in axes:
        if isinstance(axis, dict):
            expanded += [tuple({name: value} for value in values) for name, values in axis.items()]
        else:
            expanded.append(tuple(axis))
    return tuple({name: value for part in parts for name, value in part.items()}
                 for parts in itertools.product(*expanded))


def resumed(pairs, **settings):
    """The first preset to step 10, and the second one from there."""
    return tuple({"strategy": first, "legs": ((STEPS // 2, (("strategy", then),)),), **settings}
                 for first, then in pairs)


def neighbours(presets):
    return tuple(zip(presets, presets[1:] + presets[:1]))


FAMILIES = (
    Family("presets", "eight presets have DDP's bits", BITWISE, DDP,
           over({"ranks": (2, 3, 4), "accumulate": (1, 2, 4), "accumulation": MODES,
                 "strategy": PRESETS}),
           over({"ranks": (2, 4), "accumulate": (2,), "accumulation": MODES,
                 "strategy": PRESETS})),
    Family("again", "the same command has the same bits", BITWISE, {"again": None},
           over({"again": (True,), "ranks": (1, 2, 3, 4)}),
           over({"again": (True,), "ranks": (4,)})),
    Family("one micro-batch", "accumulation modes are alike if there is nothing to accumulate",
           BITWISE, {"accumulation": "local"},
           over({"ranks": (2, 4), "accumulation": ("every",), "strategy": PRESETS})),
    Family("recomputation", "what backward computes again is what forward computed", BITWISE,
           {**DDP, "recompute": None},
           over({"ranks": (2, 4), "accumulate": (2,), "accumulation": MODES,
                 "recompute": ("selective", "full"), "strategy": PRESETS}),
           over({"ranks": (2,), "accumulate": (2,), "recompute": ("selective", "full"),
                 "strategy": TELLING})),
    Family("dropout", "what is left out depends on no rank's place, micro-batch or preset",
           BITWISE, {**DDP, "recompute": None},
           over({"dropout": ("0.1",), "ranks": (2, 4), "accumulate": (1, 2),
                 "recompute": ("none", "full"), "strategy": PRESETS}),
           over({"dropout": ("0.1",), "ranks": (2,), "recompute": ("none", "full"),
                 "strategy": ("full-shard",)})),
    Family("overlap", "neither when gradients are reduced nor in which buckets changes a bit",
           BITWISE, {**DDP, "no-overlap": None, "bucket-size": None},
           over({"ranks": (2, 4), "accumulate": (2,), "accumulation": MODES,
                 "strategy": PRESETS},
                ({"no-overlap": True}, {"bucket-size": "1MB"}, {"bucket-size": "1kB"})),
           over({"ranks": (4,), "accumulate": (2,), "strategy": ("ddp", "zero2", "full-shard"),
                 "no-overlap": (True,)})),
    Family("gathers", "neither how early params are gathered nor where they lie changes a bit",
           BITWISE, {**DDP, "prefetch": None, "views": None},
           over({"ranks": (2, 4), "accumulate": (2,), "strategy": SHARDED},
                ({"prefetch": "0"}, {"prefetch": "4"}, {"views": "stable"}))
           # Places of their own take what keeping all blocks takes: nothing is left to fraction.
           + over({"ranks": (2, 4), "accumulate": (2,), "strategy": SHARDED[:-1],
                   "views": ("apart",)}),
           over({"ranks": (4,), "accumulate": (2,), "strategy": ("full-shard", "hpz"),
                 "prefetch": ("0", "4")})),
    Family("offload", "state and params in files change no bit", BITWISE,
           {**DDP, "offload": None, "offload-params": None},
           over({"ranks": (2, 4), "accumulate": (2,), "offload": (".",), "strategy": PRESETS},
                ({}, {"optimizer": "muon"}))
           + over({"ranks": (2, 4), "accumulate": (2,), "offload": (".",),
                   "offload-params": (True,), "strategy": SHARDED},
                  ({}, {"param-dtype": "bf16"})),
           over({"ranks": (2,), "accumulate": (2,), "offload": (".",), "strategy": TELLING})
           + over({"ranks": (2,), "accumulate": (2,), "offload": (".",),
                   "offload-params": (True,), "strategy": ("full-shard",)})),
    Family("nodes", "ranks that share no memory, over TCP", BITWISE, {**DDP, "nodes": None},
           over({"ranks": (4,), "accumulate": (2,), "accumulation": MODES, "strategy": PRESETS,
                 "nodes": ("2", "4", "0,0,0,1", "0,1,0,1")})
           + over({"ranks": (2,), "accumulate": (2,), "strategy": PRESETS, "nodes": ("2",)}),
           over({"ranks": (4,), "accumulate": (2,), "nodes": ("2", "0,1,0,1"),
                 "strategy": ("ddp", "full-shard", "hybrid")})),
    Family("groups", "hybrid adds in the same tree, whatever its groups; so does hpz", BITWISE,
           {**DDP, "shard-group": None},
           over({"ranks": (4,), "accumulate": (1, 2), "accumulation": MODES,
                 "strategy": ("hybrid", "hpz"), "shard-group": ("1", "2", "4")})),
    Family("inner", "hybrid that goes across groups in the last micro-batch has a tree of its own",
           BITWISE, {"no-overlap": None, "prefetch": None, "recompute": None, "nodes": None,
                     "offload": None},
           over({"ranks": (4,), "accumulate": (2, 4), "accumulation": ("inner",),
                 "strategy": ("hybrid",)},
                ({"no-overlap": True}, {"prefetch": "0"}, {"prefetch": "4"},
                 {"recompute": "full"}, {"nodes": "2"}, {"offload": "."})),
           over({"ranks": (4,), "accumulate": (2,), "accumulation": ("inner",),
                 "strategy": ("hybrid",), "no-overlap": (True,)})),
    Family("resume", "saved, ended, and gone on under another preset: the curve of one run",
           BITWISE, {**DDP, "legs": None},
           resumed(itertools.permutations(PRESETS, 2), ranks=2, accumulate=2)
           + resumed(neighbours(PRESETS), ranks=4, accumulate=2)
           + resumed(neighbours(PRESETS), ranks=4, accumulate=2, accumulation="every")
           + resumed(neighbours(PRESETS), **{"ranks": 2, "accumulate": 2, "param-dtype": "bf16"}),
           resumed(neighbours(TELLING), ranks=2, accumulate=2)),
    Family("elastic", "a rank is lost, and replaced: the bits of runs that are spliced there",
           BITWISE, {},
           over({"ranks": (3, 4), "elastic": ((0, "lost"), (1, "lost"), (0, "again"),
                                              (2, "again"))}, (LONG_STEPS,)),
           over({"ranks": (3,), "elastic": ((2, "again"),)}, (LONG_STEPS,))),
    Family("numbers", "types of params, products and reductions, each within itself", BITWISE, DDP,
           over({"ranks": (2, 4), "accumulate": (2,), "accumulation": MODES,
                 "strategy": PRESETS}, NUMBERS),
           over({"ranks": (2,), "accumulate": (2,), "strategy": ("full-shard",)}, NUMBERS)),
    Family("optimizers", "every optimizer, those of whole tensors' norms too", BITWISE, DDP,
           over({"ranks": (2, 4), "accumulate": (2,), "strategy": PRESETS}, OPTIMIZERS),
           over({"ranks": (2,), "accumulate": (2,), "strategy": ("full-shard",)}, OPTIMIZERS)),
    Family("models", "a Llama, and a head of its own", BITWISE, DDP,
           over({"ranks": (2, 4), "accumulate": (2,), "accumulation": MODES,
                 "strategy": PRESETS}, (LLAMA, {"head": "own"})),
           over({"ranks": (2,), "accumulate": (2,), "strategy": ("full-shard",)},
                (LLAMA, {"head": "own"}))),
    Family("one rank", "another number of ranks, or of micro-batches, adds in another order",
           CLOSE, ALONE,
           over({"ranks": (1, 2, 3, 4), "accumulate": (1, 2, 4), "accumulation": MODES,
                 "strategy": ("ddp", "full-shard")}, (ADAMW_OF_NO_NOISE,))
           + over({"ranks": (4,), "accumulate": (2,), "accumulation": ("inner",),
                   "strategy": ("hybrid",)}, (ADAMW_OF_NO_NOISE,))
           + over({"ranks": (2, 3, 4), "accumulate": (2,)},
                  (OPTIMIZERS[0], {**LLAMA, **ADAMW_OF_NO_NOISE},
                   {"dropout": "0.1", **ADAMW_OF_NO_NOISE}))
           + over({"ranks": (4,), "legs": (((STEPS // 2, (("ranks", 2),)),),)},
                  (ADAMW_OF_NO_NOISE,)),
           over({"ranks": (2, 4), "accumulate": (2,), "strategy": ("ddp",)},
                (ADAMW_OF_NO_NOISE, OPTIMIZERS[0]))),
)


def rows(short=False, families=FAMILIES):
    """Each run and what it is compared with, once; without runs that are their own reference."""
    found, known = [], set()
    for family in families:
        for values in family.short if short else family.rows:
            settings = Settings(values)
            reference = None if settings.get("elastic") else settings.but(family.against)
            if settings != reference and (settings, reference) not in known:
                known.add((settings, reference))
                found.append(Row(family.name, family.kind, settings, reference))
    return found


def groups(chosen):
    """[(reference, its rows)] of rows, in the order of the table; elastic rows stand alone."""
    found = {}
    for row in chosen:
        found.setdefault(row.reference or row.settings, []).append(row)
    return [(one[0].reference, one) for one in found.values()]
