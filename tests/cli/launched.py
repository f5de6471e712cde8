"""Runs a program of weft for a test and proves that it left no process behind."""
import ctypes
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
import unittest

_PR_SET_CHILD_SUBREAPER = 36
DEADLINE_S = 60  # for anything that should happen at once; generous, because machines are busy

program = None  # the binary under test, from the command line

# A shell has what it runs in the background ignore these, and a launched program would do so as well.
for _number in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP):
    if signal.getsignal(_number) == signal.SIG_IGN:
        signal.signal(_number, signal.default_int_handler if _number == signal.SIGINT else signal.SIG_DFL)


def main():
    global program
    program = sys.argv.pop(1)
    # Whatever a launched process orphans becomes our child, so that it can be found.
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    unittest.main(module="__main__")


def rank(code):
    """The command line of a rank that runs Python code; `rank` and `say` are defined there."""
    start = ("import os, signal, sys, time\nrank = int(os.environ['RANK'])\n"
             "def say(*words): os.write(1, (' '.join(map(str, words)) + '\\n').encode())\n")
    return [sys.executable, "-c", start + code]


def clean_environment(**more):
    launchers = ("WEFT_", "RANK", "WORLD_SIZE", "LOCAL_", "MASTER_", "OMP_", "GOMP_", "TORCHELASTIC_", "SLURM_", "OMPI_", "PMI_", "PMIX_", "MPI_", "PET_")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(launchers)}
    return {**environment, **more}


def free_port():
    """A port of which the next one is free as well. None of those that connections are given: who tries to connect before anybody listens may be
    given the very port that it calls, and then nobody else can have it."""
    with open("/proc/sys/net/ipv4/ip_local_port_range", encoding="ascii") as file:
        first_given = int(file.read().split()[0])
    while True:
        port = random.SystemRandom().randrange(min(10000, first_given // 2), first_given - 1)
        with socket.socket() as first, socket.socket() as second:
            try:
                first.bind(("127.0.0.1", port))
                second.bind(("127.0.0.1", port + 1))
                return port
            except OSError:
                continue


ONE_STOP_S = 2  # signals that ask to end are one request for so long


def send_and_see_taken(pid, number):
    """The process has taken the signal, or has ended, when this returns."""
    os.kill(pid, number)
    deadline = time.monotonic() + DEADLINE_S
    while time.monotonic() < deadline:
        try:
            with open(f"/proc/{pid}/status", encoding="ascii", errors="replace") as file:
                fields = dict(line.split(":", 1) for line in file)
        except (FileNotFoundError, ProcessLookupError):
            return
        if not any(int(fields[name], 16) >> (number - 1) & 1 for name in ("SigPnd", "ShdPnd")):
            return
        time.sleep(0.001)
    raise AssertionError(f"process {pid} does not take {number!r}")


class Launched:
    """A running weftrun whose lines can be waited for."""

    def __init__(self, *arguments, environment=None, **popen):
        popen = {"stdin": subprocess.DEVNULL, **popen}
        self.process = subprocess.Popen([program, *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                        env=environment or clean_environment(), start_new_session=True, **popen)
        self.lines = {"out": [], "err": []}
        self._changed = threading.Condition()
        self._readers = [threading.Thread(target=self._read, args=item)
                         for item in (("out", self.process.stdout), ("err", self.process.stderr))]
        for reader in self._readers:
            reader.start()

    def _read(self, name, stream):
        for line in stream:
            with self._changed:
                self.lines[name].append(line.decode("utf-8", "replace").rstrip("\n"))
                self._changed.notify_all()
        stream.close()

    def wait_for(self, count, text, stream="out"):
        """The lines that contain `text`, once there are `count`."""
        def found():
            return [line for line in self.lines[stream] if text in line]
        with self._changed:
            if not self._changed.wait_for(lambda: len(found()) >= count, DEADLINE_S):
                raise AssertionError(f"{len(found())} of {count} lines with {text!r} came: {self.lines}")
            return found()

    def finish(self):
        """Exit code, lines of stdout, lines of stderr."""
        try:
            code = self.process.wait(DEADLINE_S)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"{self.process.args} has not ended: {self.lines}") from None
        for reader in self._readers:
            reader.join(DEADLINE_S)
        return code, self.lines["out"], self.lines["err"]


class LaunchedTest(unittest.TestCase):
    def setUp(self):
        self._launched = []

    def tearDown(self):
        for launched in self._launched:
            if launched.process.poll() is None:
                launched.process.kill()
                launched.process.wait()
        self.assertEqual([], self.left_behind(), "processes outlived weftrun")

    def left_behind(self):
        """Command lines of live children, after killing them. Dead orphans are reaped and fine."""
        alive = []
        while True:
            try:
                pid, _ = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return alive
            if pid != 0:
                continue
            children = f"/proc/self/task/{os.getpid()}/children"
            with open(children, encoding="ascii") as file:
                pids = [int(word) for word in file.read().split()]
            for pid in pids:
                # weftrun's guard and killed ranks may be on their way out: that is not outliving.
                if not ends_soon(pid):
                    with open(f"/proc/{pid}/cmdline", encoding="utf-8", errors="replace") as file:
                        alive.append(file.read().replace("\0", " "))
                    os.kill(pid, signal.SIGKILL)
                    os.waitpid(pid, 0)

    def launch(self, *arguments, **options):
        launched = Launched(*arguments, **options)
        self._launched.append(launched)
        return launched

    def run_to_end(self, *arguments, **options):
        return self.launch(*arguments, **options).finish()


def ends_soon(pid, seconds=5):
    """Whether the process ends within some time; reaps nothing."""
    import select
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([descriptor], [], [], seconds)[0])
    finally:
        os.close(descriptor)
