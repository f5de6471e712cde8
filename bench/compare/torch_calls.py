"""./dev compare --torch: torch.distributed over weft, also with its extension, and over Gloo in one run, interleaved: operations, then steps of a GPT-2
under DDP and FSDP2.

Results: docs/formats/compare.md, "torch.json".
"""
import argparse
import datetime
import json
import pathlib
import subprocess
import sys
import time

from bench.compare import cells, install, intervals, launch, machine, markdown, targets, torch_memory
from bench.compare.arguments import parse_size, several
from bench.compare.peers import PEERS

VERSION = 1
# (operation, bytes of the whole vector, Gloo's time / weft's at least)
BARS = (("all_reduce", 8, 20), ("all_reduce", 256 << 10, 30), ("all_reduce", 64 << 20, 4.5), ("reduce_scatter", 64 << 20, 11), ("all_gather", 64 << 20, 10))
EXTENSION = ("all_reduce", 8, 0.7)  # of the time without it at most
# An all_reduce of which nobody holds more than the future: completed while its waiter sleeps, as in C++, and waited for in Python.
FUTURES = ("future", "future_wait")
FUTURE_US = 150
FUTURE_BYTES = 256 << 10
SHARE = 0.2  # of Gloo's communication
LOSSES_WITHIN = 1e-6
MODELS = {
    "gpt2": {"layers": 12, "width": 768, "heads": 12, "vocabulary": 50257, "context": 1024},
    "small": {"layers": 4, "width": 256, "heads": 4, "vocabulary": 8192, "context": 256},
}
TITLES = {"ddp": {"weft": "DDP", "weft+": "DDP with ddp_hook(share=True)", "managed": "weft.torch.fully_shard, no_shard"},
          "fsdp": {"weft": "FSDP2", "weft+": "FSDP2 with fsdp.install", "managed": "weft.torch.fully_shard, full_shard"}}
# kind, whose step may take at most so many times as long as whose.
STEPS = (("ddp", "managed", "gloo", 0.85), ("fsdp", "managed", "gloo", 0.7), ("fsdp", "managed", "weft", 1.0))


def options_of(arguments):
    """The parsed command line."""
    parser = argparse.ArgumentParser(prog="./dev compare --torch", description=__doc__)
    known = [*dict.fromkeys(op for op, _, _ in BARS), *FUTURES]
    parser.add_argument("--ops", type=several(str, known), default=known, metavar="LIST", help="default all: " + ",".join(known))
    parser.add_argument("--sizes", type=several(parse_size), default=None, metavar="LIST", help="default those of the targets")
    parser.add_argument("--model", choices=(*MODELS, "none"), default="gpt2", help="default gpt2, of 124 M parameters")
    kinds = [*TITLES, "memory"]
    parser.add_argument("--kinds", type=several(str, kinds), default=kinds, metavar="LIST", help="of the model; default ddp,fsdp,memory")
    parser.add_argument("--tokens", type=int, default=32, help="of a rank's batch; default 32")
    parser.add_argument("--ranks", type=int, default=2, help="default 2")
    parser.add_argument("--rounds", type=int, default=9, help="default 9")
    parser.add_argument("--out", type=pathlib.Path, metavar="DIR", help="default runs/compare/torch-DATE")
    options = parser.parse_args(arguments)
    if options.rounds < 1 or options.ranks < 2:
        parser.error("at least 1 round and 2 ranks")
    return options


def torch_folder():
    """Where torch is: what ./dev test torch installs, else the peer Gloo's."""
    own = install.ROOT / "build" / "torch"
    if (own / "requirements.txt").exists():
        return own
    gloo = next(peer for peer in PEERS if peer.name == "gloo")
    install.make_environment()
    install.install_peer(gloo)
    return install.site_packages(gloo)


def build_extension(environment, say):
    """Builds weft's extension of torch if it is not there; without it torch's operations go through Python."""
    if subprocess.run([sys.executable, "-B", "-m", "weft.torch.build_ext"], env=environment, stdout=subprocess.DEVNULL, check=False).returncode != 0:
        say("without the extension")


def run(options, say):
    """Returns the exit code."""
    out = (options.out or install.ROOT / "runs" / "compare" / f"torch-{datetime.datetime.now():%Y-%m-%d-%H%M%S}").resolve()
    out.mkdir(parents=True, exist_ok=True)
    results = {"version": VERSION, "machine": machine.describe(install.ROOT), "ranks": options.ranks, "rounds": options.rounds, "model": options.model,
               "versions": {}, "cells": [], "steps": [], "memory": {}}
    chosen = [(op, size) for op in options.ops for size in
              options.sizes or ([FUTURE_BYTES] if op in FUTURES else [one for name, one, _ in BARS if name == op])]
    wanted = {"rounds": options.rounds, "cells": chosen, "model": MODELS.get(options.model), "tokens": options.tokens,
              "kinds": [] if options.model == "none" else [kind for kind in options.kinds if kind in TITLES]}
    environment = {**launch.environment_for(options.ranks), "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "",
                   "WEFT_LIBRARY_PATH": str(install.ROOT / "build" / "release" / "lib"),
                   "PYTHONPATH": f"{install.ROOT / 'bindings' / 'python' / 'src'}:{torch_folder()}"}
    build_extension(environment, say)
    launched = [install.ROOT / "build" / "release" / "bin" / "weftrun", "-n", str(options.ranks), sys.executable, "-B"]
    command = [*launched, launch.DRIVER / "torch_driver.py", json.dumps(wanted)]
    began, before = time.monotonic(), machine.steal_s()
    process = subprocess.Popen(list(map(str, command)), env=environment, stdout=subprocess.PIPE, text=True)
    try:
        for line in process.stdout:
            result = json.loads(line.partition(" ")[2])  # behind the rank's prefix
            if "versions" in result:
                results["versions"] = result["versions"]
            else:
                results["cells" if "op" in result else "steps"].append(result)
                say(one_line(result))
            save(results, out)
        code = process.wait()
    finally:
        process.terminate()
        process.wait()
    if wanted["model"] and "memory" in options.kinds:
        results["memory"] = torch_memory.measure(launched, environment, wanted["model"], options.tokens, say)
    results["seconds"], results["steal_s"] = round(time.monotonic() - began), round(machine.steal_s() - before, 2)
    results["targets"] = judged(results)
    save(results, out)
    (out / "torch.md").write_text(render(results))
    for target in results["targets"]:
        say(targets.said(target))
    say(f"wrote {out}")
    return code


def save(results, out):
    draft = out / "torch.new"
    draft.write_text(json.dumps(results) + "\n")
    draft.replace(out / "torch.json")


# ---- what it says ----


def one_line(result):
    if "op" in result:
        return f"{result['op']} {cells.size_text(result['bytes'])}: " + ", ".join(f"{name} {markdown.spread_text(times)} us" for name, times in result["us"].items())
    return f"{result['kind']}: " + ", ".join(f"{name} {markdown.spread_text(times)} ms" for name, times in result["ms"].items())


def communication(step, name):
    """Milliseconds beyond the silent step of the same round, one number for each."""
    return [one - silent for one, silent in zip(step["ms"][name], step["ms"]["silent"])]


def share_of_gloo(step, name):
    """(share, low, high): weft's communication as a part of Gloo's, with its 95 % interval."""
    return intervals.ratio_interval(communication(step, name), communication(step, "gloo"))


def judged(results):
    """All targets in order."""
    rounds, found = results["rounds"], []
    by_cell = {(cell["op"], cell["bytes"]): cell for cell in results["cells"]}
    for op, size, limit in BARS:
        name, cell = f"{op} {cells.size_text(size)}: Gloo's time / weft's at least {limit}", by_cell.get((op, size))
        if cell is None:
            found.append(targets.target_of(name, None, "not measured"))
            continue
        ratio, low, high = intervals.ratio_interval(cell["us"]["gloo"], cell["us"]["weft"])
        found.append(targets.target_of(name, ratio, targets.verdict_of(high < limit, low < limit, rounds), f"[{low:.2f}, {high:.2f}]"))
    op, size, limit = EXTENSION
    name, cell = f"{op} {cells.size_text(size)}: with the extension at most {limit} of the time without", by_cell.get((op, size))
    if cell is None or "extension" not in cell["us"]:
        found.append(targets.target_of(name, None, "not measured"))
    else:
        ratio, low, high = intervals.ratio_interval(cell["us"]["extension"], cell["us"]["weft"])
        found.append(targets.target_of(name, ratio, targets.verdict_of(low > limit, high > limit, rounds), f"[{low:.2f}, {high:.2f}]"))
    name, cell = f"future of an all_reduce of 256 KiB that nobody waits for: at most {FUTURE_US} us", by_cell.get(("future", FUTURE_BYTES))
    if cell is None:
        found.append(targets.target_of(name, None, "not measured"))
    else:
        low, high = intervals.quartiles(cell["us"]["weft"])
        found.append(targets.target_of(name, intervals.median(cell["us"]["weft"]), targets.verdict_of(low > FUTURE_US, high > FUTURE_US, rounds), f"[{low:.0f}, {high:.0f}]"))
    for step in results["steps"]:
        for contestant, title in TITLES[step["kind"]].items():
            share, low, high = share_of_gloo(step, contestant)
            found.append(targets.target_of(f"{title}: communication at most {SHARE:.0%} of Gloo's", share, targets.verdict_of(low > SHARE, high > SHARE, rounds),
                                           f"[{low:.3f}, {high:.3f}]"))
            apart = max(abs(one - other) for one, other in zip(step["losses"][contestant], step["losses"]["gloo"]))
            found.append(targets.target_of(f"{title}: losses within {LOSSES_WITHIN} of Gloo's", apart, targets.verdict_of(apart > LOSSES_WITHIN, False, targets.LEAST_ROUNDS)))
        for kind, contestant, other, limit in STEPS:
            if kind == step["kind"]:
                ratio, low, high = intervals.ratio_interval(step["ms"][contestant], step["ms"][other])
                names = {"gloo": "Gloo", **TITLES[kind]}
                found.append(targets.target_of(f"{names[contestant]}: step at most {limit} times that of {names[other]}", ratio,
                                               targets.verdict_of(low > limit, high > limit, rounds), f"[{low:.3f}, {high:.3f}]"))
    return found + torch_memory.judged(results["memory"])


def render(results):
    """torch.md."""
    about = results["machine"]
    lines = [f"# torch.distributed over weft and over Gloo, {results['ranks']} ranks", "",
             f"{about['date']}, {about['processor']}, {about['cores']} cores, load {about['load']} at the beginning; torch {results['versions'].get('torch')}, weft {about['commit']}; "
             f"{results['rounds']} rounds. Medians, in brackets quartiles; ratios with their 95 % interval.", "",
             "| op | bytes | weft, us | Gloo, us | Gloo / weft | with the extension, us | with / without |", "|---|---|---|---|---|---|---|"]
    for cell in results["cells"]:
        ratio = markdown.ratio_text(intervals.ratio_interval(cell["us"]["gloo"], cell["us"]["weft"]))
        extension, share = cell["us"].get("extension"), "-"
        if extension:
            share = markdown.ratio_text(intervals.ratio_interval(extension, cell["us"]["weft"]))
        lines.append(f"| {cell['op']} | {cells.size_text(cell['bytes'])} | {markdown.spread_text(cell['us']['weft'])} | {markdown.spread_text(cell['us']['gloo'])} | {ratio} | "
                     f"{markdown.spread_text(extension) if extension else '-'} | {share} |")
    for step in results["steps"]:
        lines += ["", f"{step['kind']}, {step['parameters'] / 1e6:.0f} M parameters on a rank, {step['tokens']} tokens: forward and backward, ms.", "",
                  "| | step | communication | of Gloo's |", "|---|---|---|---|"]
        for name, times in step["ms"].items():
            title = {"silent": "nothing is sent", "gloo": "Gloo", **TITLES[step["kind"]]}[name]
            spent = "" if name == "silent" else markdown.spread_text(communication(step, name))
            share = "{:.3f} [{:.3f}, {:.3f}]".format(*share_of_gloo(step, name)) if name in TITLES[step["kind"]] else ""
            lines.append(f"| {title} | {markdown.spread_text(times)} | {spent} | {share} |")
    lines += torch_memory.render(results["memory"])
    return "\n".join([*lines, "", *targets.lines(results["targets"])]) + "\n"


def main(arguments, say):
    try:
        return run(options_of(arguments), say)
    except install.InstallFailed as error:
        say(str(error))
        return 1
