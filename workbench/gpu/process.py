"""One program in a process group of its own, under a limit of time: it ends or is killed, with all that it started.

    end = run_limited(command, folder, environment, 30, on_line, told=lambda: told.by)
    end.code         # None: it was killed, because it took longer than `seconds`, or because told() was true

Thread-safety: one thread runs programs; any thread may call kill_running().
"""
import collections
import os
import selectors
import signal
import subprocess
import threading
import time

End = collections.namedtuple("End", "code seconds")
KILL_SECONDS = 5  # how long a killed process may take to be gone; one that waits in the driver may never be
LINE_BYTES_MAX = 1 << 20

_starting = threading.Lock()  # held from before a program is there until its group is in _running
_running = set()


class _Stream:
    """Bytes of a pipe as lines."""

    def __init__(self, on_line):
        self.on_line, self.rest = on_line, b""

    def add(self, data):
        *lines, self.rest = (self.rest + data).split(b"\n")
        if len(self.rest) > LINE_BYTES_MAX:
            lines.append(self.rest)
            self.rest = b""
        for line in lines:
            self.on_line(line.decode(errors="replace"))

    def end(self):
        if self.rest:
            self.on_line(self.rest.decode(errors="replace"))


def run_limited(command, folder, environment, seconds, on_line, told=lambda: False):
    """Standard output and standard error are one stream of lines. Raises OSError when the program cannot be started."""
    start = time.monotonic()
    with _starting:
        process = subprocess.Popen([str(word) for word in command], cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.STDOUT, start_new_session=True)
        _running.add(process.pid)
    stream = _Stream(on_line)
    try:
        ended = _read(process, stream, start + seconds, told)
    finally:
        kill_group(process.pid)  # what hangs, and what a program that ended has left behind
        _running.discard(process.pid)  # before it is waited for: then its number may be another's
    code = None
    try:
        code = process.wait(KILL_SECONDS)
    except subprocess.TimeoutExpired:
        on_line(f"process {process.pid} was killed and is not gone after {KILL_SECONDS} s; it is left alone")
    _read(process, stream, time.monotonic() + 1, lambda: False)  # what was in the pipe, also of a program that was killed
    process.stdout.close()
    stream.end()
    return End(code if ended else None, round(time.monotonic() - start, 2))


def kill_group(leader):
    try:
        os.killpg(leader, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        pass


def kill_running():
    """For who ends this process in the middle of a run: kills the group that runs, and lets none be started any more."""
    _starting.acquire(timeout=1)  # a program whose start takes longer hangs in exec and has started nothing
    for leader in list(_running):
        kill_group(leader)


def _read(process, stream, deadline, told):
    """Until the program has ended; False at the deadline, or once told() is true."""
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        open_pipe = True
        while time.monotonic() < deadline and not told():
            wait = max(0.0, min(deadline - time.monotonic(), 0.1 if process.poll() is None else 0))
            if open_pipe and selector.select(wait):
                data = os.read(process.stdout.fileno(), 1 << 16)
                if data:
                    stream.add(data)
                    continue
                open_pipe = False
                selector.unregister(process.stdout)
            elif not open_pipe:
                try:
                    process.wait(wait or 0.01)
                except subprocess.TimeoutExpired:
                    continue
            if process.poll() is not None:
                return True
    return False
