#!/usr/bin/env python3
"""What checkpoints cost the trainer: steps beside the writer of a save against steps without one, in turns within one run.

    python3 -B bench/trainer_saves.py build/release [--saves 20] [--period 20] [--ranks 2] [--seconds 600] [--directory DIR] [-- OPTIONS OF weft_train, WITH VALUES]

A run saves in the background every `period` steps. The first half of each period has the save: the call, which copies the state, and the
writer beside the steps after it; the second half has none. Of each period:

- beside: the median of the steps that the writer was at work for at least half of, over the median of those of the second half;
- cost: the time of the first half less that of the second, which is what one save costs, as a share of 50 steps without.

Printed are medians over the periods with the least and the greatest, and all of it as JSON. The first period is left out. The writer's time is from the line of
the step in metrics.jsonl, written when the call has returned, to the manifest's time. Needs a machine that does nothing else.
"""
import argparse
import contextlib
import json
import os
import pathlib
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time

_STEPS_PER_SAVE = 50  # of the share that is printed
_LOOK_EVERY_S = 0.05
_WORDS = ("template ", "typename ", "class ", "int ", "return ", "const ", "auto ", "{\n", "}\n", "; ", "for (", "if (", "namespace ")
_MODEL = {"--layers": 6, "--width": 512, "--heads": 8, "--seq": 64, "--batch": 8, "--dtype": "fp32", "--strategy": "zero1"}


def write_text(path):
    generator = random.Random(1)
    path.write_text("".join(generator.choice(_WORDS) + str(generator.randrange(1000)) for _ in range(30_000)))


def look_for_commits(run, found):
    """Adds {step: when its checkpoint was committed}: older ones are removed while the run goes on."""
    for path in run.glob("checkpoints/step-*/manifest.json"):
        with contextlib.suppress(FileNotFoundError):
            found.setdefault(int(path.parent.name[5:13]), path.stat().st_mtime)


def train(build, folder, ranks, steps, period, seconds, more):
    """Runs it, for so long at most; returns the directory of the run and {step: when its checkpoint was committed}."""
    options = [str(word) for pair in {**_MODEL, "--data": "text", "--steps": steps, "--checkpoint-every": period, "--eval-every": 0, "--warmup": 10, "--name": "saves", **dict(zip(more[::2], more[1::2]))}.items() for word in pair]
    command = [build / "bin" / "weftrun", "-n", str(ranks), build / "bin" / "weft_train", *options]
    run, committed = folder / "runs" / "saves", {}
    with (folder / "output").open("w+") as output, subprocess.Popen(command, cwd=folder, stdout=output, stderr=subprocess.STDOUT) as job:
        try:
            deadline = time.monotonic() + seconds
            while job.poll() is None and time.monotonic() < deadline:
                look_for_commits(run, committed)
                time.sleep(_LOOK_EVERY_S)
        finally:
            if job.poll() is None:
                job.send_signal(signal.SIGINT)
                job.wait()
        look_for_commits(run, committed)
        output.seek(0)
        if job.returncode not in (0, 130):
            sys.exit(output.read())
    return run, committed


def step_ends(run):
    """When each step's line was written, by step from 0 on, in seconds of the system's clock: the file's own time is that of its last line."""
    path = run / "metrics.jsonl"
    times = [json.loads(line)["time_ns"] / 1e9 for line in path.read_text().splitlines()]
    start = path.stat().st_mtime - times[-1]
    return [start, *(start + time for time in times)]


def state_bytes(run):
    newest = sorted(run.glob("checkpoints/step-*"))[-1]
    return sum(path.stat().st_size for path in newest.glob("*.safetensors"))


def measure_period(ends, first, period, committed):
    """Figures of the period that begins with the save of step `first`, whose call ends with that step's line."""
    seconds = [ends[step] - ends[step - 1] for step in range(first, first + period)]
    half = period // 2
    beside = []
    for step in range(first + 1, first + half):
        begin, end = ends[step - 1], ends[step]
        if min(end, committed) - begin >= (end - begin) / 2:
            beside.append(end - begin)
    without = statistics.median(seconds[half:])
    return {"step": first, "writing_s": committed - ends[first], "without_s": without, "beside": len(beside),
            "beside_s": statistics.median(beside) if beside else None, "cost_s": sum(seconds[:half]) - sum(seconds[half:])}


def spread(values):
    return {"median": statistics.median(values), "least": min(values), "greatest": max(values)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--saves", type=int, default=20)
    parser.add_argument("--period", type=int, default=20, help="steps, an even number")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=600, help="it ends then, with what it has")
    parser.add_argument("--directory", help="where checkpoints are written; default: a temporary one")
    # argparse would look for its own options behind "--", too.
    words = sys.argv[1:]
    end = words.index("--") if "--" in words else len(words)
    options, more = parser.parse_args(words[:end]), words[end + 1:]
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # the run ends, too, and its files go
    with tempfile.TemporaryDirectory(dir=options.directory) as name:
        folder = pathlib.Path(name)
        write_text(folder / "text")
        # The last step is validated, and of no period.
        steps = options.period * (options.saves + 2) + 1
        run, committed = train(options.build.resolve(), folder, options.ranks, steps, options.period, options.seconds, more)
        ends, size = step_ends(run), state_bytes(run)
        done = len(ends) - 1
        periods = [measure_period(ends, step, options.period, committed[step])
                   for step in range(2 * options.period, done - options.period + 1, options.period)]
    beside = [one["beside_s"] / one["without_s"] for one in periods if one["beside_s"]]
    share = [one["cost_s"] / (_STEPS_PER_SAVE * one["without_s"]) for one in periods]
    result = {"ranks": options.ranks, "cpus": os.cpu_count(), "state_bytes": size, "period": options.period, "periods": periods,
              "step_s": spread([one["without_s"] for one in periods]), "writing_s": spread([one["writing_s"] for one in periods]),
              "beside": spread(beside) if beside else None, "share": spread(share), "more": more}
    print(f"{size / 2**20:.0f} MiB of state, {options.ranks} ranks; a step takes {result['step_s']['median']:.3f} s, a save is written in "
          f"{result['writing_s']['median']:.2f} s")
    if beside:
        print("a step beside the writer: {median:.3f} times ({least:.3f} to {greatest:.3f})".format(**result["beside"]))
    else:
        print("no step had the writer beside it for half of its time")
    print("one save per {} steps: {:.2%} of the time ({:.2%} to {:.2%})".format(_STEPS_PER_SAVE, *result["share"].values()))
    print(json.dumps(result))


if __name__ == "__main__":
    main()
