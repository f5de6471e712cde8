"""weftrun with several nodes: weftruns on this machine that begin, end and restart together."""
import contextlib
import itertools
import signal
import socket
import subprocess
import tempfile
import threading
import time
from unittest import mock

import launched
from launched import LaunchedTest, clean_environment, rank

_SAY_ROUND = "restarts = int(os.environ['WEFT_RESTART_COUNT'])\nsay('round', restarts, os.environ['WEFT_JOB_ID'])\n"
# Returns when so many ranks are there, so that none is ended before it has begun.
_MEET = ("def meet(folder, count):\n"
         "    open(f'{folder}/{rank}', 'w').close()\n"
         "    while len(os.listdir(folder)) < count: time.sleep(0.01)\n")
_INSECURE = clean_environment(WEFT_INSECURE="1")


def connect_when_it_listens(port):
    deadline = time.monotonic() + launched.DEADLINE_S
    while True:
        try:
            return socket.create_connection(("127.0.0.1", port))
        except ConnectionRefusedError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.01)


def relay_all_but_the_first(gate, port):
    """Ends the first connection, and leads the others to the port; returns when `gate` is shut down."""
    with contextlib.suppress(OSError), contextlib.ExitStack() as stack:
        stack.enter_context(gate.accept()[0]).close()
        while True:
            ends = (stack.enter_context(gate.accept()[0]), stack.enter_context(connect_when_it_listens(port)))
            for one, other in (ends, ends[::-1]):
                threading.Thread(target=relay_bytes, args=(one, other), daemon=True).start()


def relay_bytes(one, other):
    with contextlib.suppress(OSError):
        while data := one.recv(1 << 16):
            other.sendall(data)
    with contextlib.suppress(OSError):
        other.shutdown(socket.SHUT_WR)


class SeveralNodes(LaunchedTest):
    def launch_nodes(self, code, ranks, nodes=None, port=None, first=0):
        """One weftrun per entry of `ranks`, which says how many ranks it has; nodes count from `first`."""
        self.port = port or launched.free_port()
        return [self.launch("-n", count, "--nnodes", nodes or len(ranks), "--node-rank", first + node, "--master-addr", "127.0.0.1",
                            "--master-port", self.port, *rank(code), environment=_INSECURE) for node, count in enumerate(ranks)]

    def test_each_node_may_have_a_number_of_ranks_of_its_own(self):
        code = "say('place', os.environ['WORLD_SIZE'], os.environ['LOCAL_RANK'], os.environ['LOCAL_WORLD_SIZE'], os.environ['NODE_RANK'])"
        for ranks in ((1, 3, 2), (2, 1), (1, 1, 1, 4)):
            with self.subTest(ranks):
                first = 0
                for node, run in enumerate(self.launch_nodes(code, ranks)):
                    exit_code, out, err = run.finish()
                    self.assertEqual(0, exit_code, err)
                    self.assertEqual(sorted(f"[{first + local}] place {sum(ranks)} {local} {ranks[node]} {node}"
                                            for local in range(ranks[node])), sorted(out))
                    first += ranks[node]

    def test_a_failure_on_any_node_ends_the_ranks_of_all(self):
        jobs = [(culprit, self.launch_nodes(f"if rank == {culprit}: sys.exit(9)\nsignal.pause()", (2, 1, 2))) for culprit in (0, 4)]
        for culprit, runs in jobs:
            with self.subTest(culprit):
                failed_node = 0 if culprit == 0 else 2
                for node, run in enumerate(runs):
                    exit_code, _, err = run.finish()
                    self.assertEqual(9, exit_code, err)
                    if node != failed_node:
                        self.assertIn(f"weftrun: failed first: rank {culprit} on node {failed_node} exited with code 9", err)

    def test_a_failure_ends_a_node_that_was_done(self):
        runs = self.launch_nodes("if rank == 1: time.sleep(1); sys.exit(9)", (1, 1))
        self.assertEqual([9, 9], [run.finish()[0] for run in runs])

    def test_a_weftrun_that_is_killed_ends_the_others(self):
        jobs = [(killed, self.launch_nodes("say('up'); signal.pause()", (1, 2, 1))) for killed in (0, 2)]
        for killed, runs in jobs:
            for run, count in zip(runs, (1, 2, 1)):
                run.wait_for(count, "up")
            runs[killed].process.kill()
        for killed, runs in jobs:
            with self.subTest(killed):
                for node, run in enumerate(runs):
                    exit_code, _, err = run.finish()
                    if node == killed:
                        continue
                    self.assertEqual(1, exit_code, err)
                    reason = ("node 0's weftrun has probably ended" if killed == 0 else
                              f"failed first: the weftrun of node {killed} has ended or cannot be reached")
                    self.assertTrue(any(reason in line for line in err), err)

    def test_nodes_may_come_in_any_order_and_it_is_said_who_is_waited_for(self):
        late = self.launch_nodes("say('up')", (1,), nodes=3, first=1)
        unheard = late[0].wait_for(1, "waiting for the weftruns of the 3 nodes to come", "err")[0]
        self.assertRegex(unheard, rf"to come, \d+ s so far: the store at tcp:127\.0\.0\.1:{self.port + 1} of node 0's weftrun \(by --master-addr\): "
                                  r"Connection refused \d+ times; check that node 0's weftrun was started and can be reached from here$")
        first = self.launch_nodes("say('up')", (1,), nodes=3, port=self.port)
        heard = first[0].wait_for(1, "waiting for the weftrun of node 2 of 3", "err")[0]
        self.assertRegex(heard, rf"of 3 to come to tcp:127\.0\.0\.1:{self.port + 1}, \d+ s so far$")
        last = self.launch_nodes("say('up')", (1,), nodes=3, port=self.port, first=2)
        for run in first + late + last:
            self.assertEqual((0, 1), (run.finish()[0], len(run.lines["out"])), run.lines)

    def test_who_is_asked_to_end_while_waiting_ends_the_others_that_have_come(self):
        runs = self.launch_nodes("say('up')", (1, 1), nodes=3)
        for run, text in zip(runs, ("node 2 of 3", "3 nodes to come")):
            run.wait_for(1, text, "err")
        runs[1].process.send_signal(signal.SIGTERM)
        for run in runs:
            exit_code, out, err = run.finish()
            self.assertEqual((143, []), (exit_code, out), err)
        self.assertIn("weftrun: failed first: node 1 got SIGTERM before all nodes had come", runs[0].lines["err"])

    def test_who_waits_in_vain_for_node_0_ends_when_asked_to(self):
        run, = self.launch_nodes("say('up')", (1,), nodes=2, first=1)
        run.wait_for(1, "nodes to come", "err")
        run.process.send_signal(signal.SIGTERM)
        self.assertEqual((143, []), run.finish()[:2])

    def test_nodes_that_do_not_fit_together_are_refused(self):
        runs = self.launch_nodes("say('up')", (1,), nodes=2) + self.launch_nodes("say('up')", (1,), nodes=3, port=self.port, first=1)
        for run in runs:
            exit_code, out, err = run.finish()
            self.assertEqual((1, []), (exit_code, out), err)
            self.assertIn("weftrun: failed first: node 1 was started with --nnodes 3, node 0 with 2", err)

    def test_two_of_one_rank_are_refused(self):
        runs = self.launch_nodes("say('up')", (1, 1), nodes=3) + self.launch_nodes("say('up')", (1,), nodes=3, port=self.port, first=1)
        for run in runs:
            exit_code, out, err = run.finish()
            self.assertEqual((1, []), (exit_code, out), err)
            self.assertIn("weftrun: failed first: node 1 is there 2 times; each weftrun has a --node-rank of its own", err)

    def test_two_of_one_rank_are_refused_though_one_of_them_has_found_node_0_by_one_connection_alone(self):
        runs = self.launch_nodes("say('up')", (1, 1), nodes=3)
        port_of_store, port = self.port + 1, launched.free_port()
        with socket.create_server(("127.0.0.1", port + 1)) as gate:
            relay = threading.Thread(target=relay_all_but_the_first, args=(gate, port_of_store))
            relay.start()
            try:
                for run in runs + self.launch_nodes("say('up')", (1,), nodes=3, port=port, first=1):
                    exit_code, out, err = run.finish()
                    self.assertEqual((1, []), (exit_code, out), err)
                    self.assertIn("weftrun: failed first: node 1 is there 2 times; each weftrun has a --node-rank of its own", err)
            finally:
                gate.shutdown(socket.SHUT_RDWR)
                relay.join()

    def test_a_node_that_cannot_bind_its_ranks_ends_the_others(self):
        with tempfile.NamedTemporaryFile("w", suffix=".json") as machine:
            machine.write('{"version":1,"cpus":"0","cores":[{"number":0,"cpus":"0"}]}')
            machine.flush()
            port = launched.free_port()
            runs = [self.launch("-n", 1, "--nnodes", 2, "--node-rank", node, "--master-addr", "127.0.0.1", "--master-port", port,
                                "--bind", kind, *rank("signal.pause()"), environment={**_INSECURE, "WEFT_TOPOLOGY_FILE": machine.name})
                    for node, kind in enumerate(("none", "l3"))]
            codes, _, errors = zip(*(run.finish() for run in runs))
        self.assertEqual((1, 2), codes)
        self.assertTrue(any("failed first: node 1 could not start its ranks" in line for line in errors[0]), errors)
        self.assertTrue(any("binding ranks to l3: the topology has no L3 cache" in line for line in errors[1]), errors)


def in_own_hosts(hosts):
    """The beginning of a command line that runs the rest with this file as /etc/hosts; None where that cannot be."""
    for unshare in (["unshare", "--mount"], ["unshare", "--user", "--map-root-user", "--mount"]):
        command = [*unshare, "sh", "-c", "mount --bind \"$0\" /etc/hosts && exec \"$@\"", hosts]
        try:
            if subprocess.run([*command, "true"], stderr=subprocess.DEVNULL, timeout=launched.DEADLINE_S, check=False).returncode == 0:
                return command
        except FileNotFoundError:
            pass
    return None


class NamesThatAppear(LaunchedTest):
    def launch_nodes(self, nodes, name):
        with mock.patch.object(launched, "program", self.prefix[0]):
            return [self.launch(*self.prefix[1:], self.weftrun, "-n", 1, "--nnodes", 2, "--node-rank", node, "--master-addr", name,
                                "--master-port", self.port, *rank("say('up')"), environment=_INSECURE) for node in nodes]

    def setUp(self):
        super().setUp()
        self.hosts = tempfile.NamedTemporaryFile("w", suffix=".hosts")
        self.addCleanup(self.hosts.close)
        self.hosts.write("127.0.0.1 localhost\n")
        self.hosts.flush()
        self.prefix = in_own_hosts(self.hosts.name)
        if self.prefix is None:
            self.skipTest("no mount namespaces can be made here")
        self.weftrun = launched.program
        self.port = launched.free_port()

    def test_a_master_that_has_no_name_yet_is_waited_for(self):
        name = "weft-node-0.test"
        runs = self.launch_nodes((1, 0), name)
        for run in runs:
            run.wait_for(1, f"weftrun: the host name {name} is not known here (", "err")
        self.hosts.write(f"127.0.0.1 {name}\n")
        self.hosts.flush()
        for run in runs:
            self.assertEqual((0, 1), (run.finish()[0], len(run.lines["out"])), run.lines)

    def test_who_waits_for_a_name_ends_when_asked_to(self):
        name = "weft-node-none.test"
        run, = self.launch_nodes((1,), name)
        run.wait_for(1, "is not known here", "err")
        run.process.send_signal(signal.SIGTERM)
        code, out, err = run.finish()
        self.assertEqual((143, []), (code, out))
        self.assertIn(f"weftrun: SIGTERM while waiting for the name {name} to be known", err)


class RestartsOnSeveralNodes(LaunchedTest):
    def launch_nodes(self, code, restarts, ranks=2, nodes=2):
        port = launched.free_port()
        return [self.launch("-n", ranks, "--nnodes", nodes, "--node-rank", node, "--master-addr", "127.0.0.1", "--master-port",
                            port, "--max-restarts", restarts, *rank(_SAY_ROUND + code), environment=_INSECURE)
                for node in range(nodes)]

    def assert_rounds(self, out, ranks, rounds):
        expected = sorted(f"[{number}] round {k}" for number in ranks for k in range(rounds))
        self.assertEqual(expected, sorted(line.rpartition(" ")[0] for line in out if "round" in line))

    def test_a_failure_on_any_node_starts_all_ranks_again(self):
        # The other ranks wait for something that a failed rank does not do.
        jobs = [(culprit, self.launch_nodes(f"if restarts < 2:\n  if rank == {culprit}: sys.exit(9)\n  signal.pause()", 3)) for culprit in (0, 3)]
        for culprit, runs in jobs:
            with self.subTest(culprit):
                for node, run in enumerate(runs):
                    exit_code, out, err = run.finish()
                    self.assertEqual(0, exit_code, err)
                    self.assert_rounds(out, (2 * node, 2 * node + 1), 3)
                    self.assertIn("weftrun: restart 2 of at most 3", err)
                    self.assertEqual(3, len({line.split()[3] for line in out if "round" in line}), "one job id per round")
                    if node != culprit // 2:
                        reason = f"weftrun: failed first: rank {culprit} on node {culprit // 2} exited with code 9"
                        self.assertEqual(2, err.count(reason), err)

    def test_three_nodes(self):
        code = "if restarts == 0:\n  if rank == 2: os.kill(os.getpid(), signal.SIGKILL)\n  signal.pause()"
        for node, run in enumerate(self.launch_nodes(code, 1, ranks=1, nodes=3)):
            exit_code, out, err = run.finish()
            self.assertEqual(0, exit_code, err)
            self.assert_rounds(out, (node,), 2)

    def test_a_node_that_was_done_starts_again_too(self):
        # Node 0's ranks have ended well when one of node 1 fails.
        code = "if restarts == 0 and rank == 2: time.sleep(1); sys.exit(9)"
        for node, run in enumerate(self.launch_nodes(code, 1)):
            exit_code, out, err = run.finish()
            self.assertEqual(0, exit_code, err)
            self.assert_rounds(out, (2 * node, 2 * node + 1), 2)

    def test_every_node_ends_with_the_failure_when_restarts_are_used_up(self):
        for node, run in enumerate(self.launch_nodes("if rank == 1: sys.exit(9)\nsignal.pause()", 1)):
            exit_code, out, err = run.finish()
            self.assertEqual(9, exit_code, err)
            self.assert_rounds(out, (2 * node, 2 * node + 1), 2)
            self.assertIn("weftrun: restart 1 of at most 1", err)

    def test_without_a_failure_nothing_is_different(self):
        for run in self.launch_nodes("", 5):
            exit_code, out, err = run.finish()
            self.assertEqual((0, 2), (exit_code, len(out)), err)
            self.assertNotIn("restart", " ".join(err))

    def test_a_job_that_was_asked_to_end_does_not_restart_anywhere(self):
        runs = self.launch_nodes("signal.pause()", 5)
        for run in runs:
            run.wait_for(2, "round")
        runs[1].process.send_signal(signal.SIGTERM)
        for node, run in enumerate(runs):
            exit_code, out, err = run.finish()
            self.assertEqual(128 + signal.SIGTERM, exit_code, err)
            self.assert_rounds(out, (2 * node, 2 * node + 1), 1)

    def test_a_node_that_is_asked_to_end_before_a_restart_tells_the_others(self):
        # The ranks of the other node do not end at once, so the restart has to wait for them.
        with contextlib.ExitStack() as folders:
            jobs = [self.launch_nodes(_MEET + f"meet({folders.enter_context(tempfile.TemporaryDirectory())!r}, 4)\n"
                                      f"if rank // 2 != {asked}: signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
                                      f"if rank == {2 * asked + 1}: sys.exit(9)\nsignal.pause()", 5) for asked in (0, 1)]
            for asked, runs in enumerate(jobs):
                runs[asked].wait_for(1, "the others have 2 s", "err")
                runs[asked].process.terminate()
            for run in itertools.chain(*jobs):
                run.finish()
        for asked, runs in enumerate(jobs):
            with self.subTest(asked):
                for node, run in enumerate(runs):
                    exit_code, out, err = run.finish()
                    self.assertEqual(143, exit_code, err)
                    self.assert_rounds(out, (2 * node, 2 * node + 1), 1)
                self.assertIn(f"weftrun: failed first: node {asked} got SIGTERM before all nodes had come", runs[1 - asked].lines["err"])

    def test_what_a_rank_could_not_write_is_the_end_on_all_nodes(self):
        with tempfile.TemporaryDirectory() as folder:
            runs = self.launch_nodes(_MEET + f"meet({folder!r}, 4)\nif rank == 3: sys.exit(74)\nsignal.pause()", 5)
            for node, run in enumerate(runs):
                exit_code, out, err = run.finish()
                self.assertEqual(74, exit_code, err)
                self.assert_rounds(out, (2 * node, 2 * node + 1), 1)

    def test_who_said_why_is_shown_on_its_node(self):
        with tempfile.TemporaryDirectory() as folder:
            runs = self.launch_nodes(
                _MEET + "def tell(n, f): print('no data', file=sys.stderr, flush=True); os._exit(2)\n"
                f"if rank == 0: signal.signal(signal.SIGTERM, tell)\nmeet({folder!r}, 4)\nif rank == 3: sys.exit(2)\nwhile True: time.sleep(0.05)", 0)
            (code, _, err), (other_code, _, other_err) = (run.finish() for run in runs)
        self.assertEqual((2, 2), (code, other_code))
        self.assertEqual(["weftrun: failed first: rank 3 on node 1 exited with code 2", "weftrun: rank 0 exited with code 2, too",
                          "weftrun: its last 2 lines:"], err[-6:-3])
        self.assertEqual(["weftrun:   | no data", "weftrun: the ranks of this node: rank 0 exited with code 2; rank 1 killed by signal 15 (SIGTERM)"], err[-2:])
        self.assertIn("weftrun: rank 3 failed first: exited with code 2", other_err)

    def assert_all_saved(self, runs):
        for node, run in enumerate(runs):
            exit_code, out, err = run.finish()
            self.assertEqual(143, exit_code, err)
            self.assert_rounds(out, (2 * node, 2 * node + 1), 1)
            self.assertEqual(2, sum("saved" in line for line in out), (out, err))

    def test_a_rank_that_was_asked_to_end_gives_those_of_all_nodes_time(self):
        jobs = [(first, self.launch_nodes(f"if rank != {first}: time.sleep(3)\nsay('saved')\nsys.exit(143)", 3)) for first in (0, 3)]
        for first, runs in jobs:
            with self.subTest(first):
                self.assert_all_saved(runs)
                told = runs[1 - first // 2].lines["err"]
                self.assertIn(f"weftrun: rank {first} on node {first // 2} was asked to end and exited with code 143", told)
                self.assertIn("weftrun: the ranks of this node have 120 s to end by themselves", told)

    def test_a_weftrun_that_is_asked_to_end_ends_the_ranks_of_all_when_they_have_saved(self):
        # The ranks of its node get the signal and tell the others, as those of a training do.
        with tempfile.TemporaryDirectory() as folder:
            jobs = [self.launch_nodes(
                f"path = {folder!r} + '/stop{told}'\n"
                "signal.signal(signal.SIGTERM, lambda n, f: open(path, 'w').close())\n"
                "say('ready')\nwhile not os.path.exists(path): time.sleep(0.05)\n"
                "time.sleep(0 if rank < 2 else 4)\n"
                "say('saved')\nos._exit(143)", 3) for told in (0, 1)]
            for told, runs in enumerate(jobs):
                for run in runs:
                    run.wait_for(2, "ready")
                runs[told].process.terminate()
            for told, runs in enumerate(jobs):
                with self.subTest(told):
                    self.assert_all_saved(runs)

    def test_who_does_not_end_on_another_node_is_ended(self):
        port = launched.free_port()
        runs = [self.launch("-n", 1, "--nnodes", 2, "--node-rank", node, "--master-addr", "127.0.0.1", "--master-port", port,
                            "--stop-grace", 1, *rank("if rank == 1: sys.exit(143)\nsignal.pause()"), environment=_INSECURE)
                for node in range(2)]
        self.assertEqual([143, 143], [run.finish()[0] for run in runs])
        self.assertIn("weftrun: the 1 s of --stop-grace are over; ending rank 0", runs[0].lines["err"])

    def test_the_end_of_node_0s_weftrun_ends_the_others(self):
        runs = self.launch_nodes("signal.pause()", 5)
        for run in runs:
            run.wait_for(2, "round")
        runs[0].process.kill()
        exit_code, out, err = runs[1].finish()
        self.assertEqual(1, exit_code, err)
        self.assert_rounds(out, (2, 3), 1)
        self.assertTrue(any("node 0's weftrun has probably ended" in line for line in err), err)

    def test_a_program_that_is_missing_on_one_node_ends_all(self):
        port = launched.free_port()
        runs = [self.launch("-n", 1, "--nnodes", 2, "--node-rank", node, "--master-addr", "127.0.0.1", "--master-port", port,
                            "--max-restarts", 3, *program, environment=_INSECURE)
                for node, program in enumerate((rank("signal.pause()"), ["/proc/none/program"]))]
        self.assertEqual(127, runs[1].finish()[0])
        exit_code, _, err = runs[0].finish()
        self.assertEqual(1, exit_code, err)
        self.assertIn("weftrun: failed first: node 1 could not start its ranks", err)


if __name__ == "__main__":
    launched.main()
