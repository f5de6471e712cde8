"""Figures, targets and page of ./dev compare --trainer, from what it has measured. Pure functions.

A cell holds one shape, type and group: seconds of blocks by contestant, those with the same index of one round.
"""
import math

from bench.compare import intervals, targets

# Tokens per second over those of torch's quickest, at least.
BARS = {("single", "bf16"): 1.5, ("single", "fp32"): 1.2, ("ddp", "bf16"): 2.0, ("ddp", "fp32"): 1.3, ("full-shard", "bf16"): 2.0,
        ("full-shard", "fp32"): 1.3}
EXPOSED = 0.02  # of a step of ddp, at most
# The first losses, of the same weights and tokens, in relation to torch's.
LOSSES_WITHIN = {"fp32": 1e-4, "bf16": 1e-2}
_LOSSES = 3
_OURS = {"single": "weft", "ddp": "weft ddp", "full-shard": "weft full-shard"}
_SILENT = ", silent"
_MIB = 1 << 20


def competitors(cell):
    """Torch's contestants that communicate, as they were measured."""
    return [name for name in cell["seconds"] if not name.startswith("weft") and not name.endswith(_SILENT)]


def best_peer(cell):
    """The one with the least median; None if there is none."""
    return min(competitors(cell), key=lambda name: intervals.median(cell["seconds"][name]), default=None)


def rate(cell, name):
    """(tokens per second, low, high), of the median block."""
    tokens = cell["tokens"] * cell["block"]
    return intervals.paired_interval(lambda seconds: tokens / intervals.median(seconds), cell["seconds"][name])


def ratio(cell, name, peer):
    """(tokens per second over the peer's, low, high)."""
    return intervals.ratio_interval(cell["seconds"][peer], cell["seconds"][name])


def exposed(cell, name):
    """(share of a step, low, high, how it was found): a step minus the same step without communication where there is such a contestant,
    else what weft_train has waited; None if neither is known."""
    seconds = cell["seconds"][name]
    silent = cell["seconds"].get(name + _SILENT)
    if silent:
        found = intervals.paired_interval(lambda all_of, without: 1 - intervals.median(without) / intervals.median(all_of), seconds, silent)
        return (*found, "step without")
    if name in cell["exposed_s"] and not name.endswith(_SILENT):
        found = intervals.paired_interval(lambda all_of, waited: intervals.median([b / a for a, b in zip(all_of, waited)]), seconds,
                                          cell["exposed_s"][name])
        return (*found, "waited")
    return None


def losses_apart(cell):
    """The greatest relative difference of the first losses of anybody who communicates from those of torch's quickest; None without one."""
    peer = best_peer(cell)
    names = [name for name in cell["losses"] if not name.endswith(_SILENT)]
    if peer is None or len(names) < 2:
        return None
    found = [abs(one - other) / abs(other) for name in names for one, other in zip(cell["losses"][name][:_LOSSES], cell["losses"][peer][:_LOSSES])]
    return math.nan if any(map(math.isnan, found)) else max(found)


def peak(cell, name):
    """(peak, that beyond what the processes held before there was a model), of all ranks in bytes; None if it was not measured."""
    if name not in cell["peak_bytes"]:
        return None
    whole = sum(cell["peak_bytes"][name])
    return whole, whole - sum(cell["before_bytes"][name])


# ---- targets ----


def _bar(cell, rounds):
    """weft_train against the quickest of torch."""
    limit, ours, peer = BARS[cell["group"], cell["dtype"]], _OURS[cell["group"]], best_peer(cell)
    name = f"{_where(cell)}: tokens/s at least {limit} times torch's"
    if ours not in cell["seconds"] or peer is None:
        return targets.target_of(name, None, "not measured")
    found, low, high = ratio(cell, ours, peer)
    return targets.target_of(name, found, targets.verdict_of(high < limit, low < limit, rounds), f"[{low:.2f}, {high:.2f}] of {peer}")


def _memory(cell):
    """Of all that the processes have, and without their libraries, of which torch's alone take 0.3 GB and more for each."""
    ours, theirs = peak(cell, _OURS[cell["group"]]), best_peer(cell) and peak(cell, best_peer(cell))
    for index, name in enumerate(("peak memory", "peak memory of the model")):
        name = f"{_where(cell)}: {name} at most torch's"
        if ours and theirs:
            found = ours[index] / theirs[index]
            yield targets.target_of(name, found, targets.verdict_of(found > 1, False, targets.LEAST_ROUNDS), f"of {best_peer(cell)}")
        else:
            yield targets.target_of(name, None, "not measured")


def _exposed(cell, rounds):
    name = f"{_where(cell)}: exposed communication at most {EXPOSED:.0%} of a step"
    found = exposed(cell, _OURS["ddp"]) if _OURS["ddp"] in cell["seconds"] else None
    if found is None or found[3] != "step without":
        return targets.target_of(name, None, "not measured")
    figure, low, high, _ = found
    return targets.target_of(name, figure, targets.verdict_of(low > EXPOSED, high > EXPOSED, rounds), f"[{low:.3f}, {high:.3f}]")


def _losses(cell):
    limit, apart = LOSSES_WITHIN[cell["dtype"]], losses_apart(cell)
    name = f"{_where(cell)}: first losses within {limit:g} of torch's"
    if apart is None:
        return targets.target_of(name, None, "not measured")
    return targets.target_of(name, apart, targets.verdict_of(not apart <= limit, False, targets.LEAST_ROUNDS))


def judged(results):
    """All targets, cell by cell. Of shapes that nobody could measure there is one that says so."""
    found = []
    for cell in results["cells"]:
        if cell["group"] in _OURS:
            found += [_bar(cell, results["rounds"]), *_memory(cell)]
        if cell["group"] == "ddp":
            found.append(_exposed(cell, results["rounds"]))
        found.append(_losses(cell))
    measured = {cell["shape"] for cell in results["cells"]}
    return found + [targets.target_of(f"{shape}: all", None, "not measured") for shape in results["shapes"] if shape not in measured]


# ---- what it says ----


def _where(cell):
    return f"{cell['shape']} {cell['dtype']} {cell['group']}"


def _number(triple, form):
    return f"{triple[0]:{form}} [{triple[1]:{form}}, {triple[2]:{form}}]"


def lines_of(cell):
    """A line of progress for each contestant."""
    peer = best_peer(cell)
    return [f"{name} {_number(rate(cell, name), '.0f')} tokens/s" + ("" if peer in (None, name) else f", {_number(ratio(cell, name, peer), '.2f')} times {peer}")
            for name in cell["seconds"]]


def _row(cell, name, peer):
    tokens_per_s, share, memory = rate(cell, name), exposed(cell, name), peak(cell, name)
    columns = [name, _number(tokens_per_s, ".0f"), "" if peer in (None, name) else _number(ratio(cell, name, peer), ".2f"),
               f"{tokens_per_s[0] * cell['flops_per_token'] / 1e9:.0f}", *([f"{one / _MIB:.0f}" for one in memory] if memory else ["", ""]),
               "" if share is None else f"{_number(share, '.1%')}{' (waited)' if share[3] == 'waited' else ''}"]
    return f"| {' | '.join(columns)} |"


def render(results):
    """training.md."""
    about = results["machine"]
    lines = ["# weft_train beside PyTorch", "",
             f"{about['date']}, {about['processor']}, {about['cores']} cores, load {about['load']} at the beginning; "
             f"{', '.join(results['versions'].values())}, commit {about['commit']}; {results['rounds']} rounds, in brackets 95 % intervals.", ""]
    for cell in results["cells"]:
        shape, peer = results["shapes"][cell["shape"]], best_peer(cell)
        lines += [f"## {_where(cell)}", "",
                  f"{shape['layers']} layers, width {shape['width']}, vocabulary {shape['vocabulary']}; {shape['batch']} x {shape['seq']} tokens a step, "
                  f"{cell['block']} steps a turn.", "",
                  f"| | tokens/s | of {peer}'s | GFLOP/s | peak of all ranks, MiB | of the model | exposed communication |", "|---|---|---|---|---|---|---|",
                  *(_row(cell, name, peer) for name in cell["seconds"]), ""]
    if results["errors"]:
        lines += ["## What failed", "", *(f"- {one['name']}: {one['error']}" for one in results["errors"]), ""]
    return "\n".join([*lines, "## Targets", "", *targets.lines(results["targets"])]) + "\n"
