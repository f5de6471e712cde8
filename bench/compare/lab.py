"""Nodes with a network of their own on this machine, made by the program that the tests have for it (tests/netlab/weft_netlab.cc).

    with Lab(nodes=2, megabits=1000, folder=folder) as lab:
        subprocess.run(lab.on(1, ["hostname"]), env={**os.environ, **lab.environment})
"""
import json
import pathlib
import shlex
import subprocess

from bench.compare import install

_PROGRAM = install.ROOT / "build" / "release" / "tests" / "weft_netlab"


class LabFailed(Exception):
    """What could not be done, in the program's words."""


class Lab:
    """See above. One thread. `megabits`: of each node's cable, per second and direction; None: as fast as the machine is."""

    def __init__(self, nodes, megabits, folder):
        """folder: for the program that launchers call in place of ssh."""
        self.nodes = nodes
        self.environment = {}
        self.rsh = pathlib.Path(folder) / "rsh"
        self._rate = [] if megabits is None else ["--mbit", str(megabits)]
        self._addresses = []
        self._process = None

    def __enter__(self):
        command = ["setpriv", "--pdeathsig", "KILL", _PROGRAM, "up", "--nodes", str(self.nodes), *self._rate]
        try:
            self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                             text=True, start_new_session=True)
        except OSError as error:
            raise LabFailed(f"{_PROGRAM}: {error}") from None
        line = self._process.stdout.readline()
        if not line:
            raise LabFailed(self._process.communicate()[1].strip() or f"{_PROGRAM} said nothing")
        said = json.loads(line)
        self.environment = said["environment"]
        self._addresses = [node["addresses"][0] for node in said["nodes"]]
        self.rsh.parent.mkdir(parents=True, exist_ok=True)
        self.rsh.write_text(f"#!/bin/sh\nexec {shlex.quote(str(_PROGRAM))} rsh \"$@\"\n")
        self.rsh.chmod(0o755)
        return self

    def __exit__(self, *_):
        self._process.communicate()

    def address(self, node):
        return self._addresses[node]

    def on(self, node, words):
        """The command that runs `words` on a node; it needs `environment`."""
        return [_PROGRAM, "rsh", f"node{node}", "exec", shlex.join(map(str, words))]

    def sent_bytes(self, node):
        """By the node since the beginning, with headers."""
        self._process.stdin.write("counters\n")
        self._process.stdin.flush()
        answer = json.loads(self._process.stdout.readline())
        if "error" in answer:
            raise LabFailed(answer["error"])
        return answer["nodes"][node]["interfaces"][0]["sent_bytes"]
