"""The folder that a run leaves: few flat files, none of them large, with plain names, so that it can be carried away from anywhere.

    out = OutFolder(path)
    out.replace("report.json", text)       # whole, or as it was before
    out.log("memcheck.txt").line("...")    # what is too much is cut, and says so
"""
import os
import re

from workbench.commands import Failure

FILES_MAX = 6
FILE_BYTES_MAX = 8 << 20
_CUT = b"\n... the rest is cut\n"


class OutFolder:
    def __init__(self, path):
        self.path = path
        self.names = set()
        self.logs = {}
        try:
            path.mkdir(parents=True, exist_ok=True)
            for old in path.iterdir():
                if old.is_file() and re.fullmatch(r"report\.json|[\w.-]+\.txt", old.name):
                    old.unlink()
        except OSError as error:
            raise Failure(f"gpu: the folder {path} for the report could not be made ({error.strerror}); name another one by --out") from None

    def _claim(self, name):
        if not re.fullmatch(r"[A-Za-z0-9._-]+", name) or name.startswith("."):
            raise ValueError(f"{name} is no name for a file of a report")
        if len(self.names | {name}) > FILES_MAX:
            raise ValueError(f"{name} would be file number {FILES_MAX + 1} of a report")
        self.names.add(name)
        return self.path / name

    def replace(self, name, text):
        """Written beside it and renamed: a reader, and a machine that stops, never sees half of it."""
        data = text.encode()
        if len(data) > FILE_BYTES_MAX:
            raise ValueError(f"{name} would have {len(data)} bytes")
        path = self._claim(name)
        beside = self.path / f".{name}.new"
        with open(beside, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, path)

    def log(self, name):
        if name not in self.logs:
            self.logs[name] = _Log(self._claim(name))
        return self.logs[name]


class _Log:
    """Lines, of which those that do not fit are left out."""

    def __init__(self, path):
        self.file = open(path, "wb")  # to the end of the run
        self.room = FILE_BYTES_MAX - len(_CUT)

    def line(self, text):
        data = text.encode(errors="replace") + b"\n"
        if self.room < 0:
            return
        self.room -= len(data)
        self.file.write(data if self.room >= 0 else _CUT)
        self.file.flush()
