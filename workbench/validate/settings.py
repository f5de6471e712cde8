"""What a run of the matrix trains: weft_train's options by their names, without dashes, and who
runs it.

    run = Settings({"ranks": 4, "strategy": "zero1"})
    run.name                        # "zero1 x4"
    run.but({"strategy": "ddp"})    # what a reference has in place
    run.legs()                      # [(20, run)]: one start, to step 20

Beside options of weft_train there are, of weftrun and of this matrix:

    ranks     how many
    nodes     WEFT_FAKE_NODES: nodes that share no memory
    legs      ((10, (("strategy", "zero1"),)),): it ends after step 10 and goes on with zero1
    elastic   (1, "lost") or (1, "again"): rank 1 is killed on the way; "again": it is replaced
    again     the same run once more

Settings are values: equal if they train the same, whatever was written down as a default.
"""

STEPS = 20
VALIDATED_EVERY = 10  # of validations that are compared; some runs make more
# Odd sizes, which 2 and 4 ranks do not divide, and several buckets of gradients.
MODEL = {
    "data": "text", "seq": "23", "layers": "3", "heads": "3", "width": "33", "batch": "19",
    "dtype": "fp32", "bucket-size": "16kB", "schedule": "constant", "warmup": "5",
    "eval-every": str(VALIDATED_EVERY), "order3": "off", "report": "off",
}
DEFAULTS = {"ranks": 2, "strategy": "ddp", "accumulate": 1, "accumulation": "local",
            "recompute": "none", **MODEL}
# Of the matrix and of weftrun: weft_train has no such options.
NOT_OPTIONS = ("ranks", "nodes", "legs", "elastic", "again")
# For fraction's pool: between what full-shard and what shard-grad-op take, so that it keeps some
# blocks and not all. By whether params have 4 bytes, and whether there is one micro-batch.
FRACTION_BUDGETS = {(True, True): "270kB", (True, False): "400kB", (False, True): "225kB",
                    (False, False): "300kB"}


class Settings:
    """See above. `values`: {name: value}; True is an option without a value, None the default."""

    def __init__(self, values):
        differing = {name: value for name, value in values.items()
                     if value is not None and value != DEFAULTS.get(name)}
        self.items = tuple(sorted(differing.items()))

    def __eq__(self, other):
        return isinstance(other, Settings) and self.items == other.items

    def __hash__(self):
        return hash(self.items)

    def __repr__(self):
        return self.name

    def get(self, name):
        """Its value, or the default; None where there is none."""
        return dict(self.items).get(name, DEFAULTS.get(name))

    def but(self, changes):
        return Settings({**dict(self.items), **changes})

    @property
    def name(self):
        words = [f"{self.get('strategy')} x{self.get('ranks')}"]
        words += [_said(name, value) for name, value in self.items
                  if name not in ("strategy", "ranks", "legs")]
        for until, changes in self.get("legs") or ():
            said = ",".join(_said(name, value) for name, value in changes) or "the same"
            words.append(f"after-{until}:{said}")
        return " ".join(words)

    def legs(self):
        """[(the last step, what trains to there)]; each goes on from the one before."""
        now = self.but({"legs": None})
        found = []
        for until, changes in self.get("legs") or ():
            found.append((until, now))
            now = now.but(dict(changes))
        return found + [(STEPS, now)]

    def arguments(self):
        """Of weft_train, for one leg, without the number of steps and the name."""
        options = {**DEFAULTS, **dict(self.items)}
        if options["strategy"] == "fraction":
            key = "param-dtype" not in options, options["accumulate"] == 1
            options["memory-budget"] = FRACTION_BUDGETS[key]
        words = ["--elastic"] if self.get("elastic") else []
        for name, value in sorted(options.items()):
            if name not in NOT_OPTIONS:
                words += [f"--{name}"] if value is True else [f"--{name}", str(value)]
        return words


def _said(name, value):
    if isinstance(value, tuple):
        value = "-".join(str(part) for part in value)
    return name if value is True else f"{name}={value}"
