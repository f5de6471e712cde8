"""The memory of training steps, of ./dev compare --torch: each contestant alone in its processes.

Found are, by contestant, lists with a number for each rank: the peak and what is held between steps, in bytes; of fully_shard also what lies in weft's memory and the
plan of it.
"""
import json
import subprocess

from bench.compare import launch, targets

TITLES = {"gloo": "FSDP2 over Gloo", "weft": "FSDP2 over weft", "weft+": "FSDP2 over weft with fsdp.install",
          "managed": "weft.torch.fully_shard, torch's AdamW", "managed+": "weft.torch.fully_shard, weft's AdamW"}
LIMIT_S = 900
PLAN_SHARE = 0.02  # that memory may differ from the plan
_MIB = 1 << 20


def measure(launched, environment, model, tokens, say):
    """{contestant: {"peak": [...], "rest": [...], "ours": [...], "plan": [...]}}"""
    found = {}
    for contestant, title in TITLES.items():
        wanted = json.dumps({"contestant": contestant, "model": model, "tokens": tokens})
        command = [*launched, launch.DRIVER / "torch_memory_driver.py", wanted]
        done = subprocess.run(list(map(str, command)), env=environment, stdout=subprocess.PIPE, text=True, timeout=LIMIT_S)
        if done.returncode:
            say(f"{title}: not measured, it ended with {done.returncode}")
            continue
        ranks = sorted((json.loads(line.partition(" ")[2]) for line in done.stdout.splitlines()), key=lambda one: one["rank"])
        found[contestant] = {name: [one[name] for one in ranks] for name in ("peak", "rest", "ours", "plan")}
        say(f"{title}: peak {' and '.join(mebibytes(one) for one in found[contestant]['peak'])}")
    return found


def judged(memory):
    """The targets: totals of all ranks."""
    found = []
    for contestant in ("managed", "managed+"):
        peak, fsdp = (sum(memory.get(name, {}).get("peak", [])) for name in (contestant, "weft"))
        name = f"{TITLES[contestant]}: peak memory at most that of {TITLES['weft']}"
        found.append(targets.target_of(name, peak / fsdp, targets.verdict_of(peak > fsdp, False, targets.LEAST_ROUNDS)) if peak and fsdp
                     else targets.target_of(name, None, "not measured"))
        name = f"{TITLES[contestant]}: weft's memory within {PLAN_SHARE:.0%} of the plan"
        if not peak:
            found.append(targets.target_of(name, None, "not measured"))
            continue
        ratio = sum(memory[contestant]["ours"]) / sum(memory[contestant]["plan"])
        found.append(targets.target_of(name, ratio, targets.verdict_of(abs(ratio - 1) > PLAN_SHARE, False, targets.LEAST_ROUNDS)))
    return found


def mebibytes(count):
    return f"{count / _MIB:.0f} MiB"


def render(memory):
    """Lines of torch.md."""
    if not memory:
        return []
    lines = ["", "Memory of a rank in steps of training (AdamW), MiB, the ranks one by one: at the peak, between steps, of that weft's own, and its plan.", "",
             "| | peak | between steps | weft's | plan |", "|---|---|---|---|---|"]
    for contestant, found in memory.items():
        cells = ["" if not all(found[name]) else ", ".join(f"{one / _MIB:.0f}" for one in found[name]) for name in ("peak", "rest", "ours", "plan")]
        lines.append(f"| {TITLES[contestant]} | {' | '.join(cells)} |")
    return lines
