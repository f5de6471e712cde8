"""weftrun: variables, output, exit codes, reports, restarts and bad command lines."""
import contextlib
import json
import os
import re
import resource
import select
import signal
import subprocess
import tempfile
import time
import tty

import launched
from launched import LaunchedTest, clean_environment, rank

_NAMES = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "NODE_RANK", "MASTER_ADDR", "MASTER_PORT", "WEFT_JOB_ID",
          "WEFT_STORE", "WEFT_JOB_SECRET_FD", "WEFT_RESTART_COUNT", "OMP_NUM_THREADS", "OMP_WAIT_POLICY", "GOMP_SPINCOUNT")
_PRINT_VARIABLES = f"for name in {_NAMES}: say(name, os.environ.get(name))"
# Says what a listening store says first.
_GREET_STORE = """
import socket
kind, _, name = os.environ["WEFT_STORE"].partition(":")
if kind == "unix":
    peer = socket.socket(socket.AF_UNIX); peer.settimeout(60); peer.connect("\\0" + name[1:])
else:
    host, _, port = name.rpartition(":")
    for attempt in range(600):  # node 0 may start later
        try:
            peer = socket.create_connection((host, int(port)), 60); break
        except ConnectionRefusedError:
            time.sleep(0.05)
say("store says", peer.recv(8))
"""


def by_rank(lines):
    """Lines of each rank, without the prefix."""
    ranks = {}
    for line in lines:
        match = re.fullmatch(r"\[(\d+)\] (.*)", line)
        assert match, f"no prefix: {line!r}"
        ranks.setdefault(int(match[1]), []).append(match[2])
    return ranks


def write(folder, file, text):
    with open(os.path.join(folder, file), "w", encoding="ascii") as output:
        output.write(text)


def read(folder, file):
    with open(os.path.join(folder, file), encoding="ascii") as text:
        return text.read().strip()


def wait_until(happened):
    deadline = time.monotonic() + launched.DEADLINE_S
    while not happened():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.01)


def await_state(pid, letter):
    wait_until(lambda: read(f"/proc/{pid}", "stat").rpartition(")")[2].split()[0] == letter)


@contextlib.contextmanager
def cgroup(controller, file_1, file_2):
    """A control group's folder and the version of its interface; None if none can be made here."""
    name = f"weft-cli-test-{os.getpid()}-{controller}"
    for mount, version, file in ((f"/sys/fs/cgroup/{controller}", 1, file_1), ("/sys/fs/cgroup", 2, file_2),
                                 ("/sys/fs/cgroup/unified", 2, file_2)):
        folder = os.path.join(mount, name)
        try:
            os.mkdir(folder)
        except OSError:
            continue
        try:
            if os.path.exists(os.path.join(folder, file)):
                yield folder, version
                return
        finally:
            def remove():
                try:
                    os.rmdir(folder)
                except OSError:
                    return False
                return True
            wait_until(remove)
    yield None, 0


def variables(lines):
    return {number: dict(line.split(" ", 1) for line in own) for number, own in by_rank(lines).items()}


class Variables(LaunchedTest):
    def test_each_rank_knows_its_place(self):
        for size in (1, 2, 3):
            code, out, err = self.run_to_end("-n", size, *rank(_PRINT_VARIABLES))
            self.assertEqual((0, []), (code, err))
            ranks = variables(out)
            self.assertEqual(set(range(size)), set(ranks))
            for number, own in ranks.items():
                expected = {"RANK": number, "WORLD_SIZE": size, "LOCAL_RANK": number, "LOCAL_WORLD_SIZE": size, "NODE_RANK": 0,
                            "MASTER_ADDR": "127.0.0.1", "WEFT_RESTART_COUNT": 0, "OMP_WAIT_POLICY": "passive",
                            "GOMP_SPINCOUNT": 0,
                            "OMP_NUM_THREADS": max(1, len(os.sched_getaffinity(0)) // size)}
                self.assertEqual({name: str(value) for name, value in expected.items()},
                                 {name: own[name] for name in expected})
                self.assertTrue(own["WEFT_STORE"].startswith("unix:@"))
                self.assertGreater(int(own["MASTER_PORT"]), 0)
            self.assertEqual(1, len({(own["WEFT_JOB_ID"], own["WEFT_STORE"]) for own in ranks.values()}))

    def test_what_the_user_set_for_threads_stays(self):
        environment = clean_environment(OMP_NUM_THREADS="7", OMP_WAIT_POLICY="active", GOMP_SPINCOUNT="5")
        _, out, _ = self.run_to_end("-n", 1, *rank(_PRINT_VARIABLES), environment=environment)
        own = variables(out)[0]
        self.assertEqual(("7", "active", "5"), (own["OMP_NUM_THREADS"], own["OMP_WAIT_POLICY"], own["GOMP_SPINCOUNT"]))

    def test_the_secret_comes_by_descriptor_and_nowhere_else(self):
        code, out, _ = self.run_to_end("-n", 2, *rank(
            "secret = os.pread(int(os.environ['WEFT_JOB_SECRET_FD']), 1000, 0)\n"
            "everything = open('/proc/self/environ', 'rb').read() + open('/proc/self/cmdline', 'rb').read()\n"
            "say(secret.hex(), secret in everything or secret.hex().encode() in everything)"))
        secrets = [own[0] for own in by_rank(out).values()]
        self.assertEqual(0, code)
        self.assertEqual(1, len(set(secrets)))
        self.assertRegex(secrets[0], "^[0-9a-f]{64} False$")

    def test_ranks_lead_process_groups_of_their_own(self):
        _, out, _ = self.run_to_end("-n", 2, *rank("say(os.getpgid(0) == os.getpid())"))
        self.assertEqual({0: ["True"], 1: ["True"]}, by_rank(out))

    def test_the_store_answers(self):
        code, out, err = self.run_to_end("-n", 2, *rank(_GREET_STORE))
        self.assertEqual((0, []), (code, err))
        self.assertEqual({0: ["store says b'weft-st\\n'"], 1: ["store says b'weft-st\\n'"]}, by_rank(out))

    def test_input_goes_to_rank_0(self):
        launched_run = self.launch("-n", 2, *rank("say(repr(sys.stdin.read()))"), stdin=subprocess.PIPE)
        launched_run.process.stdin.write(b"hello")
        launched_run.process.stdin.close()
        self.assertEqual({0: ["'hello'"], 1: ["''"]}, by_rank(launched_run.finish()[1]))

    def test_ranks_have_standard_streams_where_weftrun_has_none(self):
        """As a daemon may start it: no descriptor of weftrun's own has such a number, and a rank's first file neither."""
        with tempfile.TemporaryDirectory() as folder:
            script = (f"here = {folder!r}\n"
                      "with open(f'{here}/{rank}.part', 'w') as file:\n"
                      "    file.write(f\"{file.fileno() > 2} {os.readlink('/proc/self/fd/0')}\")\n"
                      "os.rename(f'{here}/{rank}.part', f'{here}/{rank}')\n"
                      "say('nobody reads this')\n")
            shell = ["/bin/sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh", launched.program, "-n", "2", *rank(script)]
            done = subprocess.run(shell, env=clean_environment(), timeout=launched.DEADLINE_S, check=False)
            self.assertEqual(0, done.returncode)
            self.assertEqual(["True /dev/null"] * 2, [read(folder, str(number)) for number in range(2)])


_SAY_CPUS = "say(','.join(map(str, sorted(os.sched_getaffinity(0)))), os.environ['OMP_NUM_THREADS'])"


class Binding(LaunchedTest):
    def setUp(self):
        super().setUp()
        self.allowed = sorted(os.sched_getaffinity(0))
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.file = os.path.join(folder.name, "machine.json")

    def machine(self, *packages):
        """The environment of a machine with packages of these CPUs, each CPU a core."""
        cpus = sorted(cpu for package in packages for cpu in package)
        write(*os.path.split(self.file), json.dumps({
            "version": 1, "cpus": ",".join(map(str, cpus)),
            "packages": [{"number": number, "cpus": ",".join(map(str, package))} for number, package in enumerate(packages)],
            "cores": [{"number": cpu, "cpus": str(cpu)} for cpu in cpus]}))
        return clean_environment(WEFT_TOPOLOGY_FILE=self.file)

    def run_bound(self, ranks, kind, environment=None):
        code, out, err = self.run_to_end("-n", ranks, "--bind", kind, *rank(_SAY_CPUS), environment=environment)
        self.assertEqual((0, []), (code, err))
        return [lines[0].split() for _, lines in sorted(by_rank(out).items())]

    def test_without_it_ranks_run_anywhere(self):
        everywhere = ",".join(map(str, self.allowed))
        self.assertEqual([[everywhere, str(max(1, len(self.allowed) // 2))]] * 2, self.run_bound(2, "none"))

    def test_ranks_get_cpus_of_this_machine_and_none_that_weftrun_may_not_use(self):
        for kind in ("core", "package"):  # not every machine says more
            with self.subTest(kind):
                (cpus, threads), = self.run_bound(1, kind)
                self.assertLessEqual(set(map(int, cpus.split(","))), set(self.allowed))
                self.assertEqual(len(cpus.split(",")), int(threads))

    def test_ranks_share_the_packages_of_a_machine_from_a_file(self):
        last = self.allowed[-1]
        first = self.allowed[:-1]
        if not first:
            self.skipTest("this process may use one CPU")
        both = self.run_bound(2, "package", self.machine(first, [last]))
        self.assertEqual([[",".join(map(str, first)), str(len(first))], [str(last), "1"]], both)

    def test_ranks_that_outnumber_cpus_share_them(self):
        only = self.allowed[0]
        self.assertEqual([[str(only), "1"]] * 3, self.run_bound(3, "core", self.machine([only])))

    def test_children_inherit_it(self):
        only = self.allowed[-1]
        code, out, _ = self.run_to_end("-n", 1, "--bind", "package", "sh", "-c", "grep Cpus_allowed_list /proc/self/status",
                                       environment=self.machine([only]))
        self.assertEqual((0, str(only)), (code, out[0].split()[-1]))

    def test_it_can_be_seen(self):
        only = self.allowed[0]
        code, _, err = self.run_to_end("-n", 2, "--bind", "core", "true", environment={**self.machine([only]), "WEFT_LOG": "info"})
        self.assertEqual(0, code)
        self.assertEqual([f"weftrun: local rank {number} is bound to CPUs {only} (core)" for number in (0, 1)],
                         [line for line in err if "bound" in line])

    def test_what_cannot_be_bound_is_refused(self):
        def from_file(path):
            return clean_environment(WEFT_TOPOLOGY_FILE=path)
        first = self.allowed[0]
        for ranks, kind, environment, code, words in (
                (1, "socket", clean_environment, 2, "ranks cannot be bound to \"socket\", but to core, l3, numa or package, or none"),
                (1, "l3", lambda: self.machine([first]), 2, "the topology has no L3 cache"),
                (1, "core", lambda: self.machine([8191]), 2, "no core has a CPU that this process may use"),
                (1, "core", lambda: from_file("/proc/none"), 1, "WEFT_TOPOLOGY_FILE: opening /proc/none"),
                (1, "core", lambda: from_file("/dev/null"), 1, "no JSON object")):
            with self.subTest(words):
                got, out, err = self.run_to_end("-n", ranks, "--bind", kind, "true", environment=environment())
                self.assertEqual((code, [], 1), (got, out, len(err)), err)
                self.assertIn(words, err[0])

    def test_packages_that_ranks_cannot_share_evenly_are_refused(self):
        if len(self.allowed) < 2:
            self.skipTest("this process may use one CPU")
        machine = self.machine([self.allowed[0]], [self.allowed[1]])
        code, out, err = self.run_to_end("-n", 3, "--bind", "package", "true", environment=machine)
        self.assertEqual((2, [], 1), (code, out, len(err)), err)
        self.assertIn("3 ranks and 2 packages", err[0])


class SeveralNodes(LaunchedTest):
    def run_two_nodes(self, environment):
        port = launched.free_port()
        code = _PRINT_VARIABLES + _GREET_STORE
        nodes = [self.launch("-n", 2, "--nnodes", 2, "--node-rank", node, "--master-addr", "127.0.0.1", "--master-port", port,
                             *rank(code), environment=environment) for node in (0, 1)]
        return port, [node.finish() for node in nodes]

    def test_two_nodes_share_one_store_and_secret(self):
        with tempfile.NamedTemporaryFile() as secret:
            secret.write(b"0123456789abcdef0123456789abcdef\n")
            secret.flush()
            port, results = self.run_two_nodes(clean_environment(WEFT_JOB_SECRET_FILE=secret.name))
        for node, (code, out, err) in enumerate(results):
            self.assertEqual((0, []), (code, err))
            ranks = by_rank(out)
            self.assertEqual({2 * node, 2 * node + 1}, set(ranks))
            for number, own in ranks.items():
                self.assertEqual("store says b'weft-st\\n'", own.pop())
                own = dict(line.split(" ", 1) for line in own)
                self.assertEqual((str(number), "4", str(number - 2 * node), "2", str(node)),
                                 tuple(own[name] for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "NODE_RANK")))
                self.assertEqual((str(port), f"tcp:127.0.0.1:{port + 1}"), (own["MASTER_PORT"], own["WEFT_STORE"]))

    def test_without_a_secret_they_are_refused(self):
        code, out, err = self.run_to_end("-n", 1, "--nnodes", 2, "--node-rank", 0, "--master-addr", "127.0.0.1",
                                         "--master-port", 20000, "true")
        self.assertEqual((2, [], 1), (code, out, len(err)))
        self.assertIn("WEFT_JOB_SECRET_FILE", err[0])
        self.assertIn("WEFT_INSECURE=1", err[0])

    def test_insecure_is_allowed_with_a_warning(self):
        _, results = self.run_two_nodes(clean_environment(WEFT_INSECURE="1"))
        for code, out, err in results:
            self.assertEqual((0, 1), (code, len(err)), err)
            self.assertIn("WEFT_INSECURE=1", err[0])


class Output(LaunchedTest):
    def test_streams_stay_apart_and_the_last_line_needs_no_newline(self):
        code, out, err = self.run_to_end("-n", 2, *rank("sys.stdout.write('a\\nb'); sys.stderr.write('c\\n\\nd')"))
        self.assertEqual(0, code)
        self.assertEqual({0: ["a", "b"], 1: ["a", "b"]}, by_rank(out))
        self.assertEqual({0: ["c", "", "d"], 1: ["c", "", "d"]}, by_rank(err))

    def test_any_bytes_pass(self):
        code = "os.write(1, bytes(b for b in range(256) if b != 10) + b'\\n')"
        process = subprocess.run([launched.program, "-n", "1", *rank(code)], env=clean_environment(), capture_output=True,
                                 timeout=launched.DEADLINE_S, check=True)
        self.assertEqual(b"[0] " + bytes(b for b in range(256) if b != 10) + b"\n", process.stdout)

    def test_long_lines_are_cut_between_characters(self):
        _, out, _ = self.run_to_end("-n", 1, *rank("sys.stdout.buffer.write(('x' + '\\u20ac' * 40000 + '\\n').encode())"))
        pieces = by_rank(out)[0]
        self.assertGreater(len(pieces), 2)
        self.assertEqual("x" + "\u20ac" * 40000, "".join(pieces))

    def test_a_flood_from_four_ranks_keeps_its_lines_whole(self):
        count = 25000
        code, out, err = self.run_to_end("-n", 4, *rank(
            f"for i in range({count}): print(f'line {{i}} ' + 'abcdefgh' * (i % 7), file=sys.stderr if i % 10 == 9 else sys.stdout)"))
        self.assertEqual(0, code)
        text = [f"line {i} " + "abcdefgh" * (i % 7) for i in range(count)]
        for number in range(4):
            self.assertEqual([line for i, line in enumerate(text) if i % 10 != 9], by_rank(out)[number])
            self.assertEqual([line for i, line in enumerate(text) if i % 10 == 9], by_rank(err)[number])

    def test_log_files_hold_what_the_ranks_wrote(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "logs")
            self.run_to_end("-n", 2, "--log-dir", path, *rank("sys.stdout.write(f'out {rank}'); sys.stderr.write('err\\n')"))
            content = {}
            for name in sorted(os.listdir(path)):
                with open(os.path.join(path, name), encoding="utf-8") as file:
                    content[name] = file.read()
        self.assertEqual({"rank0.out": "out 0", "rank0.err": "err\n", "rank1.out": "out 1", "rank1.err": "err\n"}, content)

    def test_a_reader_that_leaves_ends_the_job(self):
        process = subprocess.Popen([launched.program, "-n", "2", *rank("while True: say('y' * 100)")], env=clean_environment(),
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        process.stdout.readline()
        process.stdout.close()
        err = process.stderr.read().decode()
        process.stderr.close()
        self.assertEqual(141, process.wait(launched.DEADLINE_S))
        self.assertIn("reader of the output has gone", err)

    def test_a_full_disk_ends_the_job_and_is_named(self):
        with open("/dev/full", "w", encoding="ascii") as full:
            process = subprocess.Popen([launched.program, "-n", "2", *rank("while True: say('y' * 100)")],
                                       env=clean_environment(), stdout=full, stderr=subprocess.PIPE)
        err = process.stderr.read().decode()
        process.stderr.close()
        self.assertEqual(1, process.wait(launched.DEADLINE_S))
        self.assertIn("writing the output: No space left on device", err)
        self.assertNotIn("reader", err)

    def test_what_a_rank_leaves_running_is_ended(self):
        # The grandchild holds the pipe open; weftrun neither waits for it nor lets it live.
        code, out, _ = self.run_to_end("-n", 1, "bash", "-c", "sleep 1000 & echo started")
        self.assertEqual((0, ["[0] started"]), (code, out))


class UnfinishedLines(LaunchedTest):
    def setUp(self):
        super().setUp()
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def start(self, ranks, code, stdout=subprocess.PIPE):
        """Ranks that may call go(NAME), which returns once the test has, too."""
        start = f"def go(name):\n    while not os.path.exists({self.folder!r} + '/' + name): time.sleep(0.005)\n"
        start += "def put(text): sys.stdout.write(text); sys.stdout.flush()\n"
        self.process = subprocess.Popen([launched.program, "-n", str(ranks), *rank(start + code)], env=clean_environment(),
                                        stdin=subprocess.DEVNULL, stdout=stdout, stderr=subprocess.DEVNULL)
        self.shown = b""
        self.source = self.process.stdout.fileno() if stdout is subprocess.PIPE else None

    def go(self, name):
        write(self.folder, name, "")

    def await_shown(self, text):
        deadline = time.monotonic() + launched.DEADLINE_S
        while not self.shown.endswith(text):
            ready = select.select([self.source], [], [], max(0, deadline - time.monotonic()))[0]
            self.assertTrue(ready, f"{text} did not come: {self.shown}")
            piece = os.read(self.source, 65536)
            self.assertTrue(piece, f"{text} did not come: {self.shown}")
            self.shown += piece

    def finish(self):
        self.assertEqual(0, self.process.wait(launched.DEADLINE_S))
        if self.process.stdout is not None:
            self.shown += self.process.stdout.read()
            self.process.stdout.close()

    def test_a_prompt_is_shown_before_its_line_ends(self):
        self.start(1, "put('Continue? '); go('answer'); put('yes\\n')")
        self.await_shown(b"[0] Continue? ")
        self.go("answer")
        self.finish()
        self.assertEqual(b"[0] Continue? yes\n", self.shown)

    def test_what_a_rank_leaves_unfinished_ends_with_it(self):
        self.start(1, "put('last words'); go('end')")
        self.await_shown(b"[0] last words")
        self.go("end")
        self.finish()
        self.assertEqual(b"[0] last words\n", self.shown)

    def test_another_ranks_line_is_never_within_it_and_it_is_whole_in_the_end(self):
        self.start(2, "if rank == 0: put('loading ... '); go('done'); put('done\\nnext\\n')\n"
                      "if rank == 1: go('other'); put('other\\n')")
        self.await_shown(b"[0] loading ... ")
        self.go("other")
        self.await_shown(b"[1] other\n")
        self.go("done")
        self.finish()
        self.assertEqual(b"[0] loading ... \n[1] other\n[0] loading ... done\n[0] next\n", self.shown)

    def test_it_is_not_shown_twice_if_nothing_more_comes(self):
        self.start(2, "if rank == 0: put('waiting'); go('end'); put('\\n')\n"
                      "if rank == 1: go('other'); put('other\\n')")
        self.await_shown(b"[0] waiting")
        self.go("other")
        self.await_shown(b"[1] other\n")
        self.go("end")
        self.finish()
        self.assertEqual(b"[0] waiting\n[1] other\n", self.shown)

    def test_two_unfinished_lines_do_not_share_one(self):
        self.start(2, "if rank == 0: put('a'); go('end'); put('b\\n')\n"
                      "if rank == 1: go('other'); put('c'); go('end')\n")
        self.await_shown(b"[0] a")
        self.go("other")
        self.await_shown(b"\n[1] c")
        self.go("end")
        self.finish()
        self.assertEqual(b"[0] a\n[1] c\n[0] ab\n", self.shown)

    def test_a_progress_bar_on_a_terminal_keeps_its_rank(self):
        master, slave = os.openpty()
        self.addCleanup(os.close, master)
        tty.setraw(slave)
        self.start(1, "put('\\r 10%'); go('20'); put('\\r 20%'); go('100'); put('\\r100%\\n')", stdout=slave)
        os.close(slave)
        self.source = master
        self.await_shown(b"[0] \r[0]  10%")
        self.go("20")
        self.await_shown(b"\r[0]  20%")
        self.go("100")
        self.await_shown(b"\n")
        self.finish()
        self.assertEqual(b"[0] \r[0]  10%\r[0]  20%\r[0] 100%\n", self.shown)

    def test_the_report_has_the_last_state_of_a_progress_bar(self):
        _, _, err = self.run_to_end("-n", 1, *rank("sys.stdout.write('\\r 10%\\r 20%'); sys.stdout.flush(); sys.exit(3)"))
        self.assertIn("weftrun:   |  20%", err)


class SmallStacks(LaunchedTest):
    @staticmethod
    def limit(stack_bytes):
        """For a process that is about to begin."""
        return lambda: resource.setrlimit(resource.RLIMIT_STACK, (stack_bytes, resource.getrlimit(resource.RLIMIT_STACK)[1]))

    def test_64_kib_are_enough_for_weftrun(self):
        flood = "i=0; while [ $i -lt 2000 ]; do echo line $i of this rank; i=$((i+1)); done"
        run = self.launch("-n", 4, "sh", "-c", flood, preexec_fn=self.limit(64 << 10))
        code, out, err = run.finish()
        self.assertEqual((0, []), (code, err))
        self.assertEqual({number: 2000 for number in range(4)}, {number: len(lines) for number, lines in by_rank(out).items()})

    def test_they_are_enough_to_look_a_name_up(self):
        port = launched.free_port()
        runs = [self.launch("-n", 1, "--nnodes", 2, "--node-rank", node, "--master-addr", "localhost", "--master-port", port, "true",
                            environment=clean_environment(WEFT_INSECURE="1"), preexec_fn=self.limit(64 << 10)) for node in (0, 1)]
        for run in runs:
            self.assertEqual(0, run.finish()[0], run.lines)

    def test_an_environment_that_is_too_large_for_the_ranks_is_explained(self):
        # The largest with which weftrun itself is started; it adds a few variables.
        for padding in range(131000, 100000, -300):
            try:
                run = self.launch("-n", 1, "true", environment=clean_environment(PADDING="x" * padding), preexec_fn=self.limit(512 << 10))
            except OSError:
                continue
            break
        code, _, err = run.finish()
        self.assertEqual(126, code)
        self.assertIn("weftrun: its arguments and environment, to which weftrun adds variables, may have a quarter of the stack, and "
                      "128 KiB at least (ulimit -s is 512.0 KiB): starting true: Argument list too long", err)


class TorchrunVariables(LaunchedTest):
    def test_they_say_what_the_command_line_does_not(self):
        environment = clean_environment(PET_NNODES="1", PET_NPROC_PER_NODE="3", PET_NODE_RANK="0")
        code, out, err = self.run_to_end(*rank("say(os.environ['WORLD_SIZE'])"), environment=environment)
        self.assertEqual((0, [], {number: ["3"] for number in range(3)}), (code, err, by_rank(out)))
        code, out, err = self.run_to_end("-n", 2, *rank("say(os.environ['WORLD_SIZE'])"), environment=environment)
        self.assertEqual((0, [], {number: ["2"] for number in range(2)}), (code, err, by_rank(out)))

    def test_two_pods_meet_by_them(self):
        port = launched.free_port()
        pods = [{"PET_NNODES": "2", "PET_NPROC_PER_NODE": "2", "PET_NODE_RANK": str(node), "WEFT_INSECURE": "1", **master}
                for node, master in enumerate(({"PET_MASTER_ADDR": "127.0.0.1", "PET_MASTER_PORT": str(port)},
                                               {"PET_RDZV_ENDPOINT": f"127.0.0.1:{port}"}))]
        runs = [self.launch(*rank("say(os.environ['WORLD_SIZE'], os.environ['MASTER_PORT'])"), environment=clean_environment(**pod))
                for pod in pods]
        for node, run in enumerate(runs):
            code, out, err = run.finish()
            self.assertEqual((0, {2 * node + local: [f"4 {port}"] for local in (0, 1)}), (code, by_rank(out)), err)

    def test_what_they_say_wrongly_is_refused_by_name(self):
        for variables, words in (({"PET_NNODES": "1:4"}, "PET_NNODES=1:4: weftrun starts a fixed number of nodes; give --nnodes"),
                                 ({"PET_NNODES": "2"}, "--node-rank is missing: with --nnodes (or PET_NNODES)")):
            with self.subTest(variables):
                code, out, err = self.run_to_end("-n", 1, "true", environment=clean_environment(**variables))
                self.assertEqual((2, [], 1), (code, out, len(err)), err)
                self.assertIn(words, err[0])


class Failures(LaunchedTest):
    def test_exit_code_is_that_of_the_first_failure(self):
        resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
        for ending, expected, reason in (("sys.exit(7)", 7, "exited with code 7"),
                                         ("os.kill(os.getpid(), signal.SIGKILL)", 137, "killed by signal 9 (SIGKILL)"),
                                         ("os.kill(os.getpid(), signal.SIGSEGV)", 139, "killed by signal 11 (SIGSEGV)"),
                                         ("os._exit(255)", 255, "exited with code 255")):
            with self.subTest(ending):
                code, _, err = self.run_to_end("-n", 2, *rank(f"if rank == 1: {ending}"))
                self.assertEqual(expected, code)
                self.assertIn(f"weftrun: rank 1 failed first: {reason}", err)

    def test_the_report_has_the_last_lines_and_the_others(self):
        code, _, err = self.run_to_end("-n", 3, *rank(
            "if rank != 2: signal.pause()\n"
            "for i in range(15): say('line', i)\n"
            "print('it broke', file=sys.stderr)\n"
            "sys.exit(3)"))
        self.assertEqual(3, code)
        report = err[err.index("weftrun: rank 2 failed first: exited with code 3"):]
        self.assertEqual("weftrun: its last 10 lines:", report[1])
        self.assertEqual(10, sum(line.startswith("weftrun:   | ") for line in report))
        self.assertIn("weftrun:   | it broke", report)
        self.assertEqual("weftrun: the others: ranks 0, 1 killed by signal 15 (SIGTERM)", report[-1])

    def test_the_rank_that_said_why_is_named_and_not_one_that_ended_silently_before(self):
        for code_0, report in ((2, ["weftrun: rank 0 failed: exited with code 2; rank 1 was first and printed nothing",
                                    "weftrun: its last line:", "weftrun:   | --batch 0 is out of range",
                                    "weftrun: the others: rank 1 exited with code 2"]),
                               # Another ending has another reason.
                               (1, ["weftrun: rank 1 failed first: exited with code 2", "weftrun: it printed nothing",
                                    "weftrun: the others: rank 0 exited with code 1"])):
            with self.subTest(code_0):
                run = self.launch("-n", 2, *rank(
                    "if rank == 1: sys.exit(2)\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
                    f"os.read(0, 1)\nprint('--batch 0 is out of range', file=sys.stderr)\nsys.exit({code_0})"), stdin=subprocess.PIPE)
                run.wait_for(1, "the others have 2 s", "err")
                run.process.stdin.write(b"x")
                run.process.stdin.close()
                code, _, err = run.finish()
                self.assertEqual(2, code)
                self.assertEqual(report, err[-len(report):])

    def test_others_may_report_before_they_are_ended(self):
        # Rank 0 sees rank 1 die, can still read by what, says so, and fails after it.
        run = self.launch("-n", 2, *rank(
            "import select\n"
            "say('pid', os.getpid())\n"
            "if rank == 1: signal.pause()\n"
            "peer = int(sys.stdin.readline())\n"
            "descriptor = os.pidfd_open(peer)\n"
            "os.kill(peer, signal.SIGKILL)\n"
            "select.select([descriptor], [], [])\n"
            "fields = open(f'/proc/{peer}/stat').read().rpartition(')')[2].split()\n"
            "say('peer is', fields[0], 'with status', fields[-1])\n"
            "sys.exit(1)"), stdin=subprocess.PIPE)
        victim = next(line.split()[2] for line in run.wait_for(2, "pid") if line.startswith("[1]"))
        run.process.stdin.write(f"{victim}\n".encode())
        run.process.stdin.close()
        code, out, err = run.finish()
        self.assertEqual(137, code)
        self.assertIn("[0] peer is Z with status 9", out)
        self.assertIn("weftrun: rank 1 failed first: killed by signal 9 (SIGKILL)", err)
        self.assertIn("weftrun: the others: rank 0 exited with code 1", err)

    def test_ranks_and_their_children_that_ignore_sigterm_are_killed(self):
        code, out, err = self.run_to_end("-n", 2, "bash", "-c",
                                         "[ $RANK = 0 ] && exit 5; trap '' TERM; sleep 1000 & while true; do wait; done")
        self.assertEqual(5, code)
        self.assertIn("weftrun: the others: rank 1 killed by signal 9 (SIGKILL)", err)

    def test_a_rank_that_is_stopped_when_another_gives_up_is_named(self):
        run = self.launch("-n", 3, *rank(
            "say('pid', os.getpid())\n"
            "if rank == 2:\n"
            "    say('before'); os.kill(os.getpid(), signal.SIGSTOP)\n"
            "if rank == 1: signal.pause()\n"
            "sys.stdin.readline()\n"
            "sys.exit(1 if rank == 0 else 0)"), stdin=subprocess.PIPE)
        pids = {line[1]: int(line.split()[2]) for line in run.wait_for(3, "pid")}
        await_state(pids["2"], "T")
        run.process.stdin.close()
        code, _, err = run.finish()
        self.assertEqual(1, code)
        self.assertIn(f"weftrun: rank 2 (pid {pids['2']}) was stopped (state T) when rank 0 (pid {pids['0']}) exited with code 1; "
                      "the others have 2 s to end by themselves", err)
        report = err[err.index("weftrun: rank 2 failed first: it was stopped (state T) when rank 0 exited with code 1; "
                               "in the end killed by signal 15 (SIGTERM)"):]
        self.assertIn("weftrun:   | before", report)
        self.assertEqual("weftrun: the others: rank 0 exited with code 1; rank 1 killed by signal 15 (SIGTERM)", report[-1])

    def test_a_crash_is_named_though_another_rank_is_stopped(self):
        run = self.launch("-n", 2, *rank(
            "say('pid', os.getpid())\n"
            "if rank == 1: os.kill(os.getpid(), signal.SIGSTOP)\n"
            "sys.stdin.readline()\n"
            "os.kill(os.getpid(), signal.SIGKILL)"), stdin=subprocess.PIPE)
        pids = {line[1]: int(line.split()[2]) for line in run.wait_for(2, "pid")}
        await_state(pids["1"], "T")
        run.process.stdin.close()
        code, _, err = run.finish()
        self.assertEqual(137, code)
        self.assertIn("weftrun: rank 0 failed first: killed by signal 9 (SIGKILL)", err)

    def test_a_rank_that_its_control_group_freezes_is_named(self):
        with cgroup("freezer", "freezer.state", "cgroup.freeze") as (folder, version):
            if folder is None:
                self.skipTest("no control groups can be made here")
            freeze, thaw = (("freezer.state", "FROZEN"), ("freezer.state", "THAWED")) if version == 1 else (
                ("cgroup.freeze", "1"), ("cgroup.freeze", "0"))
            run = self.launch("-n", 2, *rank("say('pid', os.getpid())\n"
                                             "if rank == 1: signal.pause()\n"
                                             "sys.stdin.readline()\n"
                                             "sys.exit(3)"), stdin=subprocess.PIPE)
            pids = {line[1]: int(line.split()[2]) for line in run.wait_for(2, "pid")}
            write(folder, "cgroup.procs", str(pids["1"]))
            write(folder, *freeze)
            try:
                wait_until(lambda: read(folder, "freezer.state") == "FROZEN" if version == 1 else
                           "frozen 1" in read(folder, "cgroup.events"))
                run.process.stdin.close()
                run.wait_for(1, "rank 0 (pid", "err")
            finally:
                write(folder, *thaw)
            code, _, err = run.finish()
        self.assertEqual(3, code)
        self.assertTrue(any(line.startswith("weftrun: rank 1 failed first: it was frozen by its cgroup when rank 0 exited with code 3")
                            for line in err), err)

    def test_a_killed_rank_that_does_not_end_is_explained(self):
        with cgroup("freezer", "freezer.state", "cgroup.freeze") as (folder, version):
            if version != 1:
                self.skipTest("only version 1 keeps frozen processes from ending")
            run = self.launch("-n", 2, "--stop-grace", 0, *rank("say('pid', os.getpid())\nsignal.pause()"))
            pids = {line[1]: int(line.split()[2]) for line in run.wait_for(2, "pid")}
            write(folder, "cgroup.procs", str(pids["1"]))
            write(folder, "freezer.state", "FROZEN")
            try:
                wait_until(lambda: read(folder, "freezer.state") == "FROZEN")
                run.process.send_signal(signal.SIGINT)
                run.wait_for(1, f"rank 1 (pid {pids['1']}) was killed and has not ended: it is frozen by its cgroup; waiting for it",
                             "err")
            finally:
                write(folder, "freezer.state", "THAWED")
            code, _, _ = run.finish()
        self.assertIn(code, (130, 137))

    def test_a_core_dump_is_reported(self):
        with tempfile.TemporaryDirectory() as folder:
            code, _, err = self.run_to_end("-n", 1, *rank(
                "import resource\n"
                f"os.chdir({folder!r})\n"
                "hard = resource.getrlimit(resource.RLIMIT_CORE)[1]\n"
                "resource.setrlimit(resource.RLIMIT_CORE, (hard, hard))\n"
                "if hard == 0: sys.exit(77)\n"
                "os.kill(os.getpid(), signal.SIGSEGV)"))
        if code == 77:
            self.skipTest("core dumps are forbidden here")
        self.assertEqual(139, code)
        self.assertIn("weftrun: rank 0 failed first: killed by signal 11 (SIGSEGV), core dumped", err)

    def test_an_end_for_want_of_memory_is_told(self):
        with cgroup("memory", "memory.oom_control", "memory.events") as (folder, version):
            if folder is None:
                self.skipTest("no control groups can be made here")
            # weftrun and its ranks are in the group; the greedy one is the largest by far.
            write(folder, "memory.limit_in_bytes" if version == 1 else "memory.max", str(192 << 20))
            code, _, err = self.run_to_end("-n", 2, *rank("if rank == 0: signal.pause()\n"
                                                          "kept = bytearray(b'x') * (1 << 30)"),
                                           preexec_fn=lambda: write(folder, "cgroup.procs", "0"))
            self.left_behind()
        self.assertEqual(137, code)
        self.assertIn("weftrun: rank 1 failed first: killed by signal 9 (SIGKILL) (its memory cgroup's oom_kill counter rose by 1, so the "
                      "kernel most likely ended it for want of memory)", err)
        self.assertIn("weftrun: the others: rank 0 killed by signal 15 (SIGTERM)", err)

    def test_a_rank_that_ends_well_early_is_no_failure(self):
        code, out, err = self.run_to_end("-n", 2, *rank("if rank == 1: sys.exit(0)\nsay('still here')"))
        self.assertEqual((0, ["[0] still here"], []), (code, out, err))


class Restarts(LaunchedTest):
    _FAIL_TWICE = "say('job', os.environ['WEFT_JOB_ID'])\nif os.environ['WEFT_RESTART_COUNT'] != '2' and rank == 1: sys.exit(9)"

    def test_all_ranks_start_again_as_a_new_job(self):
        code, out, err = self.run_to_end("-n", 2, "--max-restarts", 3, *rank(self._FAIL_TWICE))
        self.assertEqual(0, code)
        jobs = [line.split()[-1] for line in out if line.startswith("[1]")]
        # A name of its own for each start, all of one job.
        self.assertEqual([jobs[0], jobs[0] + "-restart1", jobs[0] + "-restart2"], jobs)
        self.assertEqual(6, len(out))
        self.assertIn("weftrun: restart 2 of at most 3", err)

    def test_the_last_failure_counts_when_restarts_are_used_up(self):
        code, _, err = self.run_to_end("-n", 2, "--max-restarts", 1, *rank(self._FAIL_TWICE))
        self.assertEqual(9, code)
        self.assertEqual(2, err.count("weftrun: rank 1 failed first: exited with code 9"))


class BadInput(LaunchedTest):
    def test_one_clear_line_and_exit_code(self):
        several = ("--nnodes", 2, "--node-rank", 0, "--master-addr", "127.0.0.1", "--master-port", 2000)
        with tempfile.TemporaryDirectory() as folder:
            script = os.path.join(folder, "script")
            with open(script, "w", encoding="ascii") as file:
                file.write("#!/proc/none/interpreter\n")
            os.chmod(script, 0o755)
            for arguments, expected, part in (
                    ((), 2, "-n is missing"),
                    (("-n",), 2, "-n"),
                    (("-n", 0, "true"), 2, "Value 0 not in range 1 to 4096"),
                    (("-n", -3, "true"), 2, "Value -3 not in range 1 to 4096"),
                    (("-n", 5000, "true"), 2, "4096"),
                    (("-n", "two", "true"), 2, "two"),
                    (("-n", "99999999999", "true"), 2, "Value 99999999999 not in range 1 to 4096"),
                    (("-n", 2, "--stop-grace", 10**20, "true"), 2, "--stop-grace: Value 100000000000000000000 not in range 0 to 86400"),
                    (("-n", 2), 2, "no program"),
                    (("-n", 2, "--min-ranks", 2, "true"), 2, "--min-ranks is of --elastic only"),
                    (("-n", 2, "--elastic", "--min-ranks", 3, "true"), 2, "--min-ranks 3: must be at most -n 2"),
                    (("-n", 2, *several, "--elastic", "true"), 2, "--elastic is for the ranks of one node"),
                    (("-n", 2, ""), 2, "no program"),
                    (("-n", 2, "--bogus", "true"), 2, "--bogus"),
                    (("-n", 2, "--nnodes", 0, "true"), 2, "--nnodes: Value 0 not in range 1 to 65536"),
                    (("-n", 2, "--nnodes", 2, "true"), 2, "--node-rank is missing"),
                    (("-n", 2, "--node-rank", 1, "true"), 2, "--node-rank 1"),
                    (("-n", 2, "--nnodes", 2, "--node-rank", 0, "true"), 2, "--master-addr"),
                    (("-n", 2, *several, "--max-restarts", -1, "true"), 2, "--max-restarts: Value -1 not in range 0 to"),
                    (("-n", 2, "--master-port", 70000, "true"), 2, "70000"),
                    (("-n", 2, "--max-restarts", -1, "true"), 2, "--max-restarts: Value -1 not in range 0 to"),
                    (("-n", 2, "--log-dir", "/proc/none/a/b", "true"), 1, "/proc/none/a/b"),
                    (("-n", 2, "/proc/none/program"), 127, "/proc/none/program"),
                    (("-n", 2, "no-such-program-anywhere"), 127, "PATH"),
                    (("-n", 2, folder), 126, "it is a directory, not a program"),
                    (("-n", 2, os.path.basename(folder)), 127, "no such program in PATH; the one here is a directory"),
                    (("-n", 2, "/etc/passwd"), 126, "/etc/passwd"),
                    (("-n", 2, script), 127, "interpreter")):
                with self.subTest(arguments):
                    code, out, err = self.run_to_end(*arguments, cwd=os.path.dirname(folder))
                    self.assertEqual((expected, [], 1), (code, out, len(err)), err)
                    self.assertTrue(err[0].startswith("weftrun: "))
                    self.assertIn(part, err[0])

    def test_a_secret_that_others_can_read_is_refused(self):
        with tempfile.NamedTemporaryFile() as secret:
            secret.write(b"0123456789abcdef0123456789abcdef")
            secret.flush()
            os.chmod(secret.name, 0o644)
            code, _, err = self.run_to_end("-n", 1, "--nnodes", 2, "--node-rank", 1, "--master-addr", "127.0.0.1", "--master-port",
                                           2000, "true", environment=clean_environment(WEFT_JOB_SECRET_FILE=secret.name))
        self.assertEqual((1, 1), (code, len(err)))
        self.assertIn("chmod 600", err[0])

    def test_help_and_options_of_the_program(self):
        code, out, _ = self.run_to_end("--help")
        self.assertEqual(0, code)
        self.assertIn("Usage: weftrun -n RANKS [OPTIONS] PROGRAM [ARGUMENTS...]", out)
        self.assertEqual((0, ["[0] -n --help -- x"], []), self.run_to_end("-n", 1, "--", "echo", "-n --help -- x"))
        self.assertEqual((0, ["[0] --nnodes"], []), self.run_to_end("-n", 1, "echo", "--nnodes"))

    def test_mpiruns_option_for_the_number_of_ranks(self):
        for option in ("-np", "--np"):
            code, out, err = self.run_to_end("--stop-grace", 5, option, 2, "sh", "-c", "echo $WORLD_SIZE")
            self.assertEqual((0, {0: ["2"], 1: ["2"]}, []), (code, by_rank(out), err))
        # The program may have one of its own.
        self.assertEqual((0, ["[0] -np 4"], []), self.run_to_end("-n", 1, "echo", "-np", "4"))
        self.assertEqual((2, []), self.run_to_end("-np", "true")[:2])


if __name__ == "__main__":
    launched.main()
