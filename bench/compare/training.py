"""./dev compare --trainer: steps of weft_train beside those of PyTorch, in one run, interleaved: the same model, weights, tokens, AdamW and clip.

Results: docs/formats/compare.md, "training.json". What is fair: docs/compare.md, "The trainer".
"""
import argparse
import dataclasses
import datetime
import json
import pathlib
import subprocess
import sys
import tempfile
import time

from bench.compare import install, launch, machine, targets, torch_calls, training_page
from bench.compare.arguments import several
from bench.compare.jobs import Job, JobFailed

VERSION = 1
# batch: sequences of a step, over all ranks. block: steps of a turn.
SHAPES = {
    "bytes": {"layers": 6, "width": 384, "heads": 6, "seq": 256, "vocabulary": 256, "batch": 8, "block": 3},
    "gpt2": {"layers": 12, "width": 768, "heads": 12, "seq": 256, "vocabulary": 50257, "batch": 4, "block": 2},
    "tiny": {"layers": 2, "width": 64, "heads": 2, "seq": 32, "vocabulary": 256, "batch": 4, "block": 2},  # for the test
}
DTYPES = ("bf16", "fp32")
WARM_UP = 3
START_S, TURN_S = 600, 600
RELEASE = install.ROOT / "build" / "release"


@dataclasses.dataclass(frozen=True)
class Entrant:
    """Who is compared. way: of torch_trainer.py, or None of trainer_bench, whose words are `words`."""

    name: str
    ranks: int
    way: str = None
    words: tuple = ()
    dtypes: tuple = DTYPES

    def command(self, shape, dtype, folder, threads):
        """What starts it."""
        if self.way is None:
            words = [f"{key}={value}" for key, value in shape.items() if key != "block"]
            return [RELEASE / "bin" / "weftrun", "-n", str(self.ranks), RELEASE / "bench" / "trainer_bench", "steps", *words,
                    f"precision={dtype}", f"threads={threads}", *self.words]
        python = [sys.executable, "-B", launch.DRIVER / "torch_trainer.py", self.way, folder,
                  json.dumps({**shape, "dtype": dtype, "threads": threads}), str(self.ranks)]
        launched = [RELEASE / "bin" / "weftrun", "-n", str(self.ranks)] if self.way in ("no_shard", "full_shard") else []
        return [*launched, *python]

    def environment(self, threads):
        """As a launcher of torch's or weft's would have it."""
        environment = {**launch.environment_for(self.ranks), "OMP_NUM_THREADS": str(threads), "CUDA_VISIBLE_DEVICES": "",
                       "WEFT_LIBRARY_PATH": str(RELEASE / "lib"),
                       "PYTHONPATH": f"{install.ROOT / 'bindings' / 'python' / 'src'}:{torch_calls.torch_folder()}"}
        if self.ranks == 1:
            environment.pop("COMPARE_CORES", None)  # its threads take all
        return environment


def entrants(ranks):
    """{group: those that are compared with each other}. "silent" ones do the same without communication. A group's models are in memory at
    once, so torch's under weft has groups of its own.
    """
    fsdp = (Entrant("FSDP2", ranks, "fsdp2"), Entrant("FSDP2, bf16 policy", ranks, "fsdp2-policy", dtypes=("bf16",)))
    return {
        "single": (Entrant("weft", 1), Entrant("torch", 1, "single")),
        "ddp": (Entrant("weft ddp", ranks, words=("strategy=ddp",)), Entrant("weft ddp, silent", ranks, words=("strategy=ddp", "alone=1")),
                Entrant("DDP", ranks, "ddp"), Entrant("DDP, silent", ranks, "ddp-silent")),
        "full-shard": (Entrant("weft full-shard", ranks, words=("strategy=full-shard",)), *fsdp,
                       Entrant("FSDP2, silent", ranks, "fsdp2-silent")),
        "weft.torch-ddp": (Entrant("weft.torch no_shard", ranks, "no_shard"), Entrant("DDP", ranks, "ddp")),
        "weft.torch-shard": (Entrant("weft.torch full_shard", ranks, "full_shard"), *fsdp),
    }


def options_of(arguments):
    """The parsed command line."""
    parser = argparse.ArgumentParser(prog="./dev compare --trainer", description=__doc__)
    groups = list(entrants(2))
    parser.add_argument("--shapes", type=several(str, SHAPES), default=["bytes", "gpt2"], metavar="LIST", help="default bytes,gpt2")
    parser.add_argument("--dtypes", type=several(str, DTYPES), default=list(DTYPES), metavar="LIST", help="default bf16,fp32")
    parser.add_argument("--groups", type=several(str, groups), default=groups, metavar="LIST", help="default " + ",".join(groups))
    parser.add_argument("--ranks", type=int, default=2, help="of ddp and full-shard; default 2")
    parser.add_argument("--rounds", type=int, default=targets.LEAST_ROUNDS, help="default 9")
    parser.add_argument("--out", type=pathlib.Path, metavar="DIR", help="default runs/compare/trainer-DATE")
    options = parser.parse_args(arguments)
    if options.rounds < 1 or options.ranks < 2:
        parser.error("at least 1 round and 2 ranks")
    return options


class Run:
    """All that is asked for, from the inputs to the page. One thread."""

    def __init__(self, options, say):
        self._options, self._say = options, say
        self._where = ""  # the shape and type under way
        self._out = (options.out or install.ROOT / "runs" / "compare" / f"trainer-{datetime.datetime.now():%Y-%m-%d-%H%M%S}").resolve()
        self._results = {"version": VERSION, "machine": machine.describe(install.ROOT), "ranks": options.ranks, "rounds": options.rounds,
                         "versions": {}, "shapes": {name: SHAPES[name] for name in options.shapes}, "errors": [], "cells": []}

    def run(self):
        """Returns the exit code: 1 if somebody could not be measured."""
        self._out.mkdir(parents=True, exist_ok=True)
        torch_calls.build_extension(entrants(self._options.ranks)["ddp"][0].environment(1), self._say)
        began, before = time.monotonic(), machine.steal_s()
        for name in self._options.shapes:
            # Paths of pipes and sockets must be short.
            with tempfile.TemporaryDirectory(prefix="weft-compare-") as folder:
                self._measure_shape(name, pathlib.Path(folder))
        self._results["seconds"], self._results["steal_s"] = round(time.monotonic() - began), round(machine.steal_s() - before, 2)
        self._results["targets"] = training_page.judged(self._results)
        self._save()
        (self._out / "training.md").write_text(training_page.render(self._results))
        for target in self._results["targets"]:
            self._say(targets.said(target))
        self._say(f"wrote {self._out}")
        return 1 if self._results["errors"] else 0

    def _measure_shape(self, name, folder):
        shape = SHAPES[name]
        steps = WARM_UP + self._options.rounds * shape["block"]
        words = [f"{key}={value}" for key, value in {**shape, "steps": steps}.items() if key != "block"]
        made = subprocess.run([RELEASE / "bench" / "trainer_bench", "inputs", folder, *words], stderr=subprocess.PIPE, text=True, check=False)
        if made.returncode:
            self._report(name, made.stderr.strip().removeprefix("trainer_bench: "))
            return
        about = json.loads((folder / "inputs.json").read_text())
        for dtype in self._options.dtypes:
            self._where = f"{name} {dtype}"
            for group in self._options.groups:
                wanted = [one for one in entrants(self._options.ranks)[group] if dtype in one.dtypes]
                cell = {"shape": name, "dtype": dtype, "group": group, "tokens": shape["batch"] * shape["seq"], "block": shape["block"],
                        "flops_per_token": about["flops_per_token"]}
                cell.update(self._measure({**shape, "steps": steps}, dtype, wanted, folder))
                self._results["cells"].append(cell)
                self._save()
                for line in training_page.lines_of(cell):
                    self._say(f"{name} {dtype} {group}: {line}")

    def _measure(self, shape, dtype, wanted, folder):
        """Blocks of all in turn; who begins changes. Who fails takes no further part, and has no figures."""
        jobs, found = {}, {"seconds": {}, "losses": {}, "exposed_s": {}, "peak_bytes": {}, "before_bytes": {}}
        try:
            for number, entrant in enumerate(wanted):
                threads = max(machine.core_count() // entrant.ranks, 1)
                job = Job(entrant.name, entrant.command(shape, dtype, folder, threads), entrant.environment(threads), entrant.ranks,
                          folder / str(number))
                jobs[entrant.name] = job
                self._attempt(jobs, job, lambda job=job: job.start(START_S))
            for job in list(jobs.values()):
                self._results["versions"][job.version.partition(" ")[0]] = job.version
                self._attempt(jobs, job, lambda job=job: self._block(job, WARM_UP, found, timed=False))
            for number in range(self._options.rounds):
                names = list(jobs)
                first = number % max(len(names), 1)
                for job in [jobs[name] for name in names[first:] + names[:first]]:
                    self._attempt(jobs, job, lambda job=job: self._block(job, shape["block"], found))
            for job in list(jobs.values()):
                self._attempt(jobs, job, lambda job=job: self._memory(job, found))
        finally:
            for job in jobs.values():
                job.end()
        return {key: {name: values for name, values in per_name.items() if name in jobs} for key, per_name in found.items()}

    def _attempt(self, jobs, job, action):
        try:
            action()
        except JobFailed as error:
            job.end()
            del jobs[job.name]
            self._report(f"{self._where}, {job.name}", str(error).removeprefix(f"{job.name}: "))

    @staticmethod
    def _memory(job, found):
        found["peak_bytes"][job.name] = job.peak_bytes()
        found["before_bytes"][job.name] = [rank["before_bytes"] for rank in job.introductions]

    def _block(self, job, steps, found, timed=True):
        answers = job.ask(f"steps={steps}", TURN_S)
        # Each loss is the mean over a rank's tokens, or already that over all of them: of equal shares both have one mean.
        losses = [sum(of_ranks) / len(of_ranks) for of_ranks in zip(*(answer["losses"] for answer in answers))]
        found["losses"].setdefault(job.name, []).extend(losses)
        if not timed:
            job.forget_peak()
            return
        found["seconds"].setdefault(job.name, []).append(max(answer["seconds"] for answer in answers))
        if "exposed_s" in answers[0]:
            found["exposed_s"].setdefault(job.name, []).append(max(answer["exposed_s"] for answer in answers))

    def _report(self, name, sentence):
        self._results["errors"].append({"name": name, "error": sentence})
        self._say(f"{name}: {sentence}")

    def _save(self):
        draft = self._out / "training.new"
        draft.write_text(json.dumps(self._results) + "\n")
        draft.replace(self._out / "training.json")


def main(arguments, say):
    try:
        return Run(options_of(arguments), say).run()
    except install.InstallFailed as error:
        say(str(error))
        return 1
