"""One run of the matrix: weftrun starts weft_train in a folder of its own, leg after leg.

    outcome, instead = Trial(programs, folder).run(settings)

instead: after a run that has lost ranks, or got new ones, the settings of runs of as many ranks
that go on from each other's checkpoints, which must have the same bits; else None.

Errors: NoOutcome says which command failed and with which last lines; NotHere, what this CPU lacks.
A leg that takes longer than `seconds` is killed. Thread-safety: one thread.
"""
import contextlib
import os
import pathlib
import random
import re
import shlex
import signal

from workbench.commands import environment
from workbench.gpu.process import run_limited
from workbench.validate.outcome import Unreadable, read_outcome
from workbench.validate.settings import STEPS, VALIDATED_EVERY

SECONDS = 300  # a leg takes a fraction of a second, on a machine that has nothing else to do
ELASTIC_TRIES = 3
LINES_SHOWN = 3
LOST_AFTER = 4  # steps, of a rank that is killed
_WORDS = ("template ", "typename ", "class ", "int ", "return ", "const ", "auto ", "{\n", "}\n",
          "; ")
# Each rank notes its process; one that comes in place of a lost one waits until it may.
_RANK = ('echo $$ >"pid.$RANK"; '
         'while [ -n "$WEFT_JOIN" ] && [ ! -e go ]; do sleep 0.01; done; exec "$@"')
_NOT_HERE = "oneDNN has no bfloat16 product for this CPU"  # weft_train says so, and ends
_STEP = re.compile(r"\] step (\d+)/")
_GO_ON = re.compile(r"\] .* (\d+) ranks? go(?:es)? on from step (\d+) with the weights of step \d+")


class NoOutcome(Exception):
    """A run that failed, or left less than a whole run leaves."""


class NotHere(NoOutcome):
    """A run that this machine cannot make."""


class _NothingHappened(NoOutcome):
    """A rank was lost, or replaced, when no step was left to show it."""


class Trial:
    """`programs` has weftrun and weft_train. `folder` is made, and has text, logs and runs."""

    def __init__(self, programs, folder, seconds=SECONDS):
        self.programs = pathlib.Path(programs).resolve()
        self.folder = pathlib.Path(folder)
        self.seconds = seconds
        self.folder.mkdir(parents=True, exist_ok=True)
        words = random.Random(1)
        text = "".join(words.choice(_WORDS) for _ in range(5000))
        (self.folder / "text").write_text(text)

    def run(self, settings):
        """(its Outcome, instead). Its folder `run` and its log stay until the next run."""
        if settings.get("elastic") is None:
            return self._plain(settings), None
        for _ in range(ELASTIC_TRIES - 1):
            try:
                return self._elastic(settings)
            except _NothingHappened:
                continue
        return self._elastic(settings)

    def _plain(self, settings):
        self._clear()
        for number, (until, leg) in enumerate(settings.legs()):
            more = ("--resume", "auto") if number else ()
            self._start(self._command(leg, until, *more), leg, lambda line: None)
        return self._outcome()

    def _elastic(self, settings):
        self._clear()
        rank, then = settings.get("elastic")
        changes = _Changes(self.folder, rank, then == "again")
        launcher = ["--elastic", "--max-restarts", "1" if then == "again" else "0"]
        command = self._command(settings, STEPS, launcher=launcher,
                                program=["sh", "-c", _RANK, "sh"])
        self._start(command, settings, changes.see)
        wanted = 2 if then == "again" else 1
        steps = [1, *(step for step, _ in changes.found), STEPS + 1]
        if len(changes.found) != wanted or any(a >= b for a, b in zip(steps, steps[1:])):
            raise _NothingHappened("no step shows that ranks were lost and came: "
                                   f"(step, ranks) {changes.found} of {STEPS}")
        legs = tuple((step - 1, (("ranks", ranks),)) for step, ranks in changes.found)
        return self._outcome(), settings.but({"elastic": None, "legs": legs})

    def _clear(self):
        for path in sorted(self.folder.glob("**/*"), reverse=True):
            if path.name != "text":
                path.rmdir() if path.is_dir() else path.unlink()

    def _command(self, settings, until, *more, launcher=(), program=()):
        return [self.programs / "weftrun", "-n", settings.get("ranks"), *launcher, *program,
                self.programs / "weft_train", *settings.arguments(), "--run-dir", ".", "--name",
                "run", "--steps", until, "--checkpoint-every", STEPS, *more]

    def _start(self, command, settings, see):
        nodes = settings.get("nodes") or ""
        shown = f"WEFT_FAKE_NODES={nodes} " if nodes else ""
        shown += shlex.join(str(word) for word in command)
        lines = []
        with open(self.folder / "log", "a", encoding="utf-8") as log:
            def on_line(line):
                lines.append(line)
                log.write(line + "\n")
                see(line)

            log.write(f"+ {shown}\n")
            try:
                end = run_limited(command, self.folder,
                                  {**environment(), "WEFT_FAKE_NODES": nodes}, self.seconds,
                                  on_line)
            except OSError as error:
                raise NoOutcome(f"{shown} cannot be started: {error}") from None
        if any(_NOT_HERE in line for line in lines):
            raise NotHere(_NOT_HERE)
        if end.code != 0:
            how = f"ended with {end.code}" if end.code else f"took over {self.seconds} s"
            raise NoOutcome(f"{shown} {how}: {' | '.join(lines[-LINES_SHOWN:])}")

    def _outcome(self):
        try:
            return read_outcome(self.folder / "run", STEPS, VALIDATED_EVERY)
        except Unreadable as error:
            raise NoOutcome(str(error)) from None


class _Changes:
    """Kills a rank after a few steps, and lets the one in its place come after a few more. What
    weft_train prints says when; it validates, so prints, after each step."""

    def __init__(self, folder, rank, comes_again):
        self.folder, self.rank, self.comes_again = folder, rank, comes_again
        self.found = []  # (the first step, its ranks)
        self.killed = False

    def see(self, line):
        change, step = _GO_ON.search(line), _STEP.search(line)
        if change:
            self.found.append((int(change[2]), int(change[1])))
        if step and int(step[1]) >= LOST_AFTER and not self.killed:
            self.killed = True
            with contextlib.suppress(ProcessLookupError):  # it has ended, and shows nothing
                os.kill(int((self.folder / f"pid.{self.rank}").read_text()), signal.SIGKILL)
        if step and self.found and self.comes_again and int(step[1]) >= self.found[0][0] + 1:
            (self.folder / "go").touch()
