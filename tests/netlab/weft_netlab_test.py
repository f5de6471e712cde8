"""weft_netlab: what it says, what it does when it is told to, and its rsh, as launchers of other libraries use it."""
import json
import os
import subprocess
import sys
import tempfile
import unittest

_PROGRAM = sys.argv.pop(1)
_LIMIT_S = 60
_NO_NETWORK = 3


def run(*arguments, **settings):
    return subprocess.run([_PROGRAM, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=_LIMIT_S,
                          check=False, **settings)


class Lab:
    """One that is up."""

    def __init__(self, *arguments):
        self._process = subprocess.Popen([_PROGRAM, "up", *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                         stderr=subprocess.PIPE, text=True)
        line = self._process.stdout.readline()
        if not line:
            _, why = self._process.communicate(timeout=_LIMIT_S)
            raise unittest.SkipTest(why.strip()) if self._process.returncode == _NO_NETWORK else AssertionError(why)
        said = json.loads(line)
        self.nodes = said["nodes"]
        self.environment = {**os.environ, **said["environment"]}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.end()

    def end(self):
        """Its exit code."""
        if self._process.returncode is None:
            self._process.communicate(timeout=_LIMIT_S)
        return self._process.returncode

    def ask(self, request):
        self._process.stdin.write(request + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())

    def rsh(self, *words):
        return run("rsh", *words, env=self.environment)


class Up(unittest.TestCase):
    def test_it_is_there_until_its_input_ends(self):
        with Lab("--nodes", "3", "--interfaces", "2") as lab:
            self.assertEqual(["node0", "node1", "node2"], [node["name"] for node in lab.nodes])
            self.assertEqual(["10.77.0.2", "10.78.0.2"], lab.nodes[1]["addresses"])
            for node in lab.nodes:
                os.kill(node["pid"], 0)
            self.assertEqual(0, lab.end())
            for node in lab.nodes:
                with self.assertRaises(ProcessLookupError):
                    os.kill(node["pid"], 0)
            done = lab.rsh("node1", "true")
            self.assertEqual(255, done.returncode)
            self.assertIn("cannot be opened", done.stderr)

    def test_rates_links_and_counters(self):
        with Lab("--mbit", "80") as lab:
            self.assertIn("rate 80Mbit", lab.rsh("node1", "PATH=$PATH:/usr/sbin:/sbin tc qdisc show dev eth0").stdout)
            self.assertEqual({}, lab.ask("rate 1 0"))
            self.assertNotIn("tbf", lab.rsh("node1", "PATH=$PATH:/usr/sbin:/sbin tc qdisc show dev eth0").stdout)
            before = lab.ask("counters")["nodes"]
            self.assertEqual([0, 1], [node["node"] for node in before])
            send = ("python3 -c \"import socket; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); "
                    "[s.sendto(b'x' * 1000, ('10.77.0.1', 9)) for _ in range(10)]\"")
            self.assertEqual(0, lab.rsh("node1", send).returncode)
            after = lab.ask("counters")["nodes"]
            moved = {key: after[1]["interfaces"][0][key] - before[1]["interfaces"][0][key]
                     for key in ("sent_bytes", "sent_packets", "received_bytes", "received_packets")}
            self.assertGreaterEqual(moved["sent_bytes"], 10_000)
            self.assertGreaterEqual(moved["sent_packets"], 10)
            self.assertEqual({}, lab.ask("link 1 down"))
            self.assertEqual({}, lab.ask("link 1 up"))
            for request in ("", "rate", "rate 2 5", "rate 1 fast", "link 1 sideways", "link -1 up", "counters 1"):
                self.assertIn("no request", lab.ask(request)["error"], request)


class Rsh(unittest.TestCase):
    def test_a_node_has_several_names(self):
        with Lab("--nodes", "2", "--interfaces", "2") as lab:
            for name in ("node1", "1", "10.77.0.2", "10.78.0.2"):
                self.assertEqual("node1\n", lab.rsh(name, "uname", "-n").stdout)
            for name in ("node2", "2", "10.77.0.3", "localhost"):
                done = lab.rsh(name, "uname", "-n")
                self.assertEqual((255, ""), (done.returncode, done.stdout))
                self.assertIn(f"no node {name}", done.stderr)

    def test_it_is_as_ssh(self):
        with Lab() as lab:
            done = lab.rsh("-x", "-l", "somebody", "-n", "node0", "echo", "$((6 * 7));", "cat;", "echo gone >&2;", "exit 9")
            self.assertEqual((9, "42\n", "gone\n"), (done.returncode, done.stdout, done.stderr))
            done = run("rsh", "node0", "cat", env=lab.environment, input="a line\n")
            self.assertEqual("a line\n", done.stdout)

    def test_without_a_network(self):
        environment = {key: value for key, value in os.environ.items() if key != "NETLAB_HOLDERS"}
        done = run("rsh", "node0", "true", env=environment)
        self.assertEqual(255, done.returncode)
        self.assertIn("NETLAB_HOLDERS is not set", done.stderr)


class Run(unittest.TestCase):
    def run_on(self, *arguments):
        done = run("run", *arguments)
        if done.returncode == _NO_NETWORK:
            self.skipTest(done.stderr.strip())
        return done

    def test_a_command_reaches_other_nodes_by_rsh(self):
        # As mpirun: node 0 starts something on node 1 that connects back.
        command = f"""
import socket, subprocess
listener = socket.socket()
listener.bind(("10.77.0.1", 0))
listener.listen()
program = 'import socket; socket.create_connection(("10.77.0.1", %d)).sendall(socket.gethostname().encode())' % listener.getsockname()[1]
daemon = subprocess.Popen([{_PROGRAM!r}, "rsh", "10.77.0.2", "python3", "-c", "'" + program + "'"])
stream, peer = listener.accept()
print(peer[0], stream.recv(100).decode(), socket.gethostname(), daemon.wait())
"""
        with tempfile.TemporaryDirectory() as folder:
            counters = os.path.join(folder, "counters.json")
            done = self.run_on("--nodes", "2", "--mbit", "1000", "--counters", counters, "--", "python3", "-c", command)
            self.assertEqual((0, "10.77.0.2 node1 node0 0\n"), (done.returncode, done.stdout), done.stderr)
            with open(counters, encoding="ascii") as file:
                nodes = json.load(file)["nodes"]
            self.assertGreater(nodes[0]["interfaces"][0]["received_bytes"], 0)

    def test_its_exit_code_is_the_command_s(self):
        self.assertEqual(9, self.run_on("--", "sh", "-c", "exit 9").returncode)
        self.assertEqual(128 + 15, self.run_on("--", "sh", "-c", "kill -15 $$").returncode)
        done = self.run_on("--", "/proc/none/program")
        self.assertEqual(127, done.returncode)
        self.assertIn("cannot run /proc/none/program", done.stderr)

    def test_bad_command_lines(self):
        for arguments in ((), ("nothing",), ("run",), ("run", "--nodes", "2"), ("up", "--", "true"), ("up", "--nodes", "two"),
                          ("up", "--bogus")):
            done = run(*arguments, stdin=subprocess.DEVNULL)
            self.assertEqual((2, ""), (done.returncode, done.stdout), arguments)


if __name__ == "__main__":
    unittest.main()
