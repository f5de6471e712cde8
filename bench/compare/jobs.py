"""A long-lived job: P ranks of one library that sleep until they are asked to measure something.

    job = Job("mpich/default", ["mpiexec", "-n", "2", "driver"], environment, ranks=2, folder=folder)
    job.start(30)
    answers = job.ask("op=all_reduce ...", 60)      # one dictionary per rank
    job.end()

Every rank reads commands from a pipe of its own and answers through another. Between its turns every rank is stopped with
SIGSTOP, whatever threads it has: no peer can disturb another, and none wakes up warmer than the others.
"""
import json
import os
import pathlib
import re
import select
import shutil
import signal
import subprocess
import time


class JobFailed(Exception):
    """A job did not start, did not answer in time, or ended; the text says which and what it last wrote."""


class Job:
    """See above. One thread."""

    def __init__(self, name, command, environment, ranks, folder):
        self.name = name
        self.ranks = ranks
        self.version = ""
        self.introductions = []  # what each rank said when it had started
        self._command = command
        self._environment = dict(environment, COMPARE_PIPES=str(folder), TMPDIR=str(folder))
        self._folder = pathlib.Path(folder)
        self._process = None
        self._commands = []
        self._answers = []
        self._pids = []
        self._pending = []

    def start(self, timeout_s):
        """Starts the ranks, waits until all have introduced themselves, and puts them to sleep."""
        shutil.rmtree(self._folder, ignore_errors=True)
        self._folder.mkdir(parents=True)
        self._commands, self._answers = ([self._open_pipe(f"{kind}.{rank}") for rank in range(self.ranks)]
                                         for kind in ("command", "answer"))
        self._pending = [b""] * self.ranks
        # The launcher must not outlive this process, however that ends.
        command = (["setpriv", "--pdeathsig", "KILL"] if shutil.which("setpriv") else []) + [*map(str, self._command)]
        with open(self._folder / "log", "wb") as log:
            try:
                self._process = subprocess.Popen(command, env=self._environment, stdin=subprocess.DEVNULL, stdout=log,
                                                 stderr=log, start_new_session=True, cwd=self._folder)
            except OSError as error:
                raise JobFailed(f"{self.name} could not be started: {error}") from None
        answers = self.introductions = self._collect(timeout_s, "start")
        self._pids = [answer["pid"] for answer in answers]
        self.version = answers[0]["version"]
        sizes = {answer["size"] for answer in answers}
        if sizes != {self.ranks}:
            raise JobFailed(f"{self.name} made a group of {sizes} ranks, not of {self.ranks}")
        self._signal(signal.SIGSTOP)

    def ask(self, line, timeout_s):
        """Wakes the ranks, gives all of them a command, returns what each answered, and puts them to sleep again."""
        self._signal(signal.SIGCONT)
        for pipe in self._commands:
            os.write(pipe, (line + "\n").encode())
        answers = self._collect(timeout_s, line)
        self._signal(signal.SIGSTOP)
        for rank, answer in enumerate(answers):
            if "failure" in answer:
                raise JobFailed(f"{self.name}: rank {rank} failed: {answer['failure']}")
        return answers

    def end(self):
        """Ends the ranks, kindly at first; removes what they leave behind."""
        if self._process is None:
            return
        shared = self._shared_files()
        self._signal(signal.SIGCONT)
        for pipe in self._commands:
            try:
                os.write(pipe, b"quit\n")
            except OSError:
                pass
        if not self._ended(3):
            self._signal(signal.SIGKILL)
            self._process.terminate()
            if not self._ended(3):
                os.killpg(self._process.pid, signal.SIGKILL)
                self._ended(3)
            for path in shared:
                pathlib.Path(path).unlink(missing_ok=True)
        for pipe in self._commands + self._answers:
            os.close(pipe)
        self._commands, self._answers, self._pids, self._process = [], [], [], None
        shutil.rmtree(self._folder, ignore_errors=True)

    def cpu_seconds(self):
        """CPU time that the ranks have used so far."""
        total = 0
        for pid in self._pids:
            try:
                fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
                total += int(fields[11]) + int(fields[12])
            except OSError:
                pass
        return total / os.sysconf("SC_CLK_TCK")

    def forget_peak(self):
        """From now on the peak is what the ranks have from now on."""
        for rank, pid in enumerate(self._pids):
            try:
                pathlib.Path(f"/proc/{pid}/clear_refs").write_text("5")
            except OSError as error:
                raise JobFailed(f"{self.name}: the peak memory of rank {rank} cannot be forgotten: {error}") from None

    def peak_bytes(self):
        """The most memory that each rank has had, as the kernel counts it; what ranks share counts for each."""
        found = []
        for rank, pid in enumerate(self._pids):
            try:
                status = pathlib.Path(f"/proc/{pid}/status").read_text()
                found.append(int(re.search(r"^VmHWM:\s*(\d+) kB$", status, re.MULTILINE)[1]) * 1024)
            except (OSError, TypeError):  # it has ended, or is about to and has no memory any more
                raise JobFailed(f"{self.name}: rank {rank} has ended: {self._last_words()}") from None
        return found

    def _open_pipe(self, name):
        path = self._folder / name
        os.mkfifo(path, 0o600)
        # For both directions, so that opening waits for nobody and a rank that ends closes nothing.
        return os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)

    def _collect(self, timeout_s, what):
        deadline = time.monotonic() + timeout_s
        answers = [None] * self.ranks
        while None in answers:
            waiting = [self._answers[rank] for rank in range(self.ranks) if answers[rank] is None]
            ready = select.select(waiting, [], [], 0.5)[0]
            for pipe in ready:
                rank = self._answers.index(pipe)
                self._pending[rank] += os.read(pipe, 65536)
                line, end, rest = self._pending[rank].partition(b"\n")
                if end:
                    answers[rank], self._pending[rank] = json.loads(line.decode(errors="replace")), rest
            # One rank's failure is everybody's: the others may wait for it for ever.
            failed = next((rank for rank in range(self.ranks) if answers[rank] and "failure" in answers[rank]), None)
            if failed is not None:
                raise JobFailed(f"{self.name}: rank {failed} failed: {answers[failed]['failure']}")
            if not ready and self._process.poll() is not None:
                raise JobFailed(f"{self.name} ended with code {self._process.returncode} ({what}): {self._last_words()}")
            if None in answers and time.monotonic() > deadline:
                missing = [rank for rank in range(self.ranks) if answers[rank] is None]
                raise JobFailed(f"{self.name}: no answer of ranks {missing} within {timeout_s:.0f} s ({what}): "
                                f"{self._last_words()}")
        return answers

    def _last_words(self):
        text = (self._folder / "log").read_text(errors="replace").strip()
        lines = [line.strip() for line in text.splitlines() if any(map(str.isalnum, line))]
        return " | ".join(lines[-12:])[-800:] or "it wrote nothing"

    def _signal(self, number):
        for pid in self._pids:
            try:
                # A number may have passed to another process when the rank has ended.
                if f"COMPARE_PIPES={self._folder}".encode() in pathlib.Path(f"/proc/{pid}/environ").read_bytes():
                    os.kill(pid, number)
            except OSError:
                pass

    def _ended(self, timeout_s):
        try:
            self._process.wait(timeout_s)
            return True
        except subprocess.TimeoutExpired:
            return False

    def _shared_files(self):
        """Files in /dev/shm that the ranks have mapped: they stay when a rank is killed."""
        found = set()
        for pid in self._pids:
            try:
                lines = pathlib.Path(f"/proc/{pid}/maps").read_text().splitlines()
            except OSError:
                continue
            found.update(line.split(None, 5)[5] for line in lines if line.split(None, 5)[5:] and "/dev/shm/" in line)
        return [path for path in found if not path.endswith("(deleted)")]
