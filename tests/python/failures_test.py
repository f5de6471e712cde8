"""What a rank meets with when it, a peer or the program fails: an exception with the library's sentence, soon, and never a hang or a crash."""
import os
import re
import signal
import subprocess
import sys
import time

import ranks
from ranks import RanksTest

# Other processes take the cores now and then: the quickest of so many attempts is what counts.
_ATTEMPTS = 4


class Failures(RanksTest):
    def timed(self, attempt, bounds_s):
        """Calls attempt() -> seconds, one per bound, until all are within their bounds."""
        seen = []
        for _ in range(_ATTEMPTS):
            seen.append(attempt())
            if all(seconds <= bound for seconds, bound in zip(seen[-1], bounds_s)):
                return
        self.fail(f"{bounds_s} s were passed each time: {seen}")

    def interrupted(self, call, ready="say('ready', os.getpid())"):
        """Seconds from a SIGINT for rank 0 in `call`: to its KeyboardInterrupt, and to the peer's error, which names it."""
        job = self.launch_ranks(2, f"""
            import array, signal
            x = array.array("f", [1] * 4)
            if world.rank == 0:
                {ready}
                try:
                    {call}
                    say("no KeyboardInterrupt")
                except KeyboardInterrupt:
                    say("KeyboardInterrupt", time.monotonic())
                time.sleep(2)       # lives on: it is not its death that the peer learns of
            else:
                time.sleep(0.5)
                while True:
                    try:
                        time.sleep(0.01)
                        world.recv(x, 0)
                    except weft.Error as error:
                        say("error", time.monotonic(), error.code.name, error)
                        break
            """)
        pid = int(job.wait_for(1, "ready")[0].split()[-1])
        time.sleep(0.7)
        start = time.monotonic()
        os.kill(pid, signal.SIGINT)
        code, out, err = job.finish()
        self.assertEqual((0, []), (code, err), out)
        mine = [float(line.split()[2]) for line in out if "] KeyboardInterrupt" in line]
        peers = [line for line in out if "] error" in line]
        self.assertEqual((1, 1), (len(mine), len(peers)), out)
        return mine[0] - start, float(peers[0].split()[2]) - start, peers[0]

    def test_interrupt_of_a_blocking_call(self):
        def attempt():
            mine, peers, sentence = self.interrupted("world.recv(x, 1, tag=7)")
            self.assertRegex(sentence, r"ABORTED .*rank 0")
            return mine, peers

        self.timed(attempt, (0.2, 1.0))

    def test_interrupt_of_a_collective(self):
        def attempt():
            mine, peers, sentence = self.interrupted("world.all_reduce(x)")
            self.assertRegex(sentence, r"ABORTED .*rank 0")
            return mine, peers

        self.timed(attempt, (0.2, 1.0))

    def test_interrupt_of_what_another_thread_has_imported(self):
        """The main thread hears Ctrl-C though it has neither imported the package nor made the communicator."""
        _, out, _ = self.launch("-n", 2, sys.executable, "-B", self.program("""
            import os, signal, sys, threading, time
            made = []
            def make():
                import weft
                made.append(weft.init(timeout=30))
            thread = threading.Thread(target=make)
            thread.start()
            thread.join()
            world, = made
            import weft
            if world.rank == 0:
                threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
                try:
                    world.barrier()
                except KeyboardInterrupt:
                    print("KeyboardInterrupt", flush=True)
                time.sleep(1)
            else:
                try:
                    world.recv(bytearray(1), 0)
                except weft.Error as error:
                    print(error.code.name, flush=True)
            """, start=""), environment=ranks.environment()).finish()
        self.assertEqual(["[0] KeyboardInterrupt", "[1] ABORTED"], sorted(out))

    def test_interrupt_of_a_wait_leaves_the_work(self):
        self.run_ranks(2, """
            import array, signal, threading
            x = array.array("i", [world.rank])
            if world.rank == 0:
                work = world.all_reduce(x, async_op=True)
                threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
                try:
                    work.wait()
                    raise AssertionError("no KeyboardInterrupt")
                except KeyboardInterrupt:
                    pass
                world.send(b"go", 1)
                work.wait()
            else:
                world.recv(bytearray(2), 0)
                world.all_reduce(x)
            assert x[0] == 1
            """)

    def test_a_handler_that_raises_nothing_interrupts_nothing(self):
        self.run_ranks(1, """
            import array, signal, threading
            a, b = weft.Communicator.local(2, timeout=30)
            seen = []
            def handle(*_):
                try:
                    world.barrier()
                except weft.Error as error:
                    seen.append(error.code)
            signal.signal(signal.SIGUSR1, handle)
            threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGUSR1)).start()
            threading.Timer(0.6, b.barrier).start()
            a.barrier()
            assert seen == [weft.Result.INVALID_USAGE], seen
            world.barrier()
            # Again, so that each is a new check.
            for _ in range(2):
                threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
                try:
                    a.split(0)
                    raise AssertionError("no KeyboardInterrupt")
                except KeyboardInterrupt:
                    pass
                except weft.Error as error:    # the second time, at once; the signal is still to come
                    assert error.code == weft.Result.ABORTED
                    try:
                        time.sleep(5)
                        raise AssertionError("no KeyboardInterrupt")
                    except KeyboardInterrupt:
                        pass
            """)

    def test_interrupt_while_a_group_is_made(self):
        def attempt():
            environment = dict(ranks.environment(), RANK="0", WORLD_SIZE="2", LOCAL_RANK="0", LOCAL_WORLD_SIZE="2", MASTER_ADDR="127.0.0.1",
                               MASTER_PORT=str(ranks.launched.free_port()))
            path = self.program("", start="import weft, time\nprint('ready', flush=True)\ntry:\n    weft.init(timeout=30)\n"
                                          "except KeyboardInterrupt:\n    print(time.monotonic())\n")
            process = subprocess.Popen([sys.executable, "-B", path], env=environment, stdout=subprocess.PIPE, text=True)
            self.assertEqual("ready\n", process.stdout.readline())
            time.sleep(0.5)
            start = time.monotonic()
            process.send_signal(signal.SIGINT)
            out, _ = process.communicate(timeout=ranks.launched.DEADLINE_S)
            return (float(out) - start,)

        self.timed(attempt, (0.2,))

    def test_killed_peer(self):
        def attempt():
            job = self.launch_ranks(2, """
                import array, signal
                x = array.array("f", [1])
                world.barrier()
                if world.rank == 1:
                    time.sleep(0.3)
                    say("killed", time.monotonic())
                    os.kill(os.getpid(), signal.SIGKILL)
                try:
                    world.all_reduce(x)
                except weft.Error as error:
                    say("error", time.monotonic(), error.code.name, error.rank, error.pid is not None, error.host is not None, error.group, error.op, error.sequence)
                    try:
                        world.all_reduce(x)
                    except weft.Error as error:
                        say("then", error.code.name)
                """, "--elastic")
            _, out, _ = job.finish()
            killed = next(float(line.split()[2]) for line in out if "killed" in line)
            error = next(line for line in out if "] error" in line)
            self.assertRegex(error, r"PEER_LOST 1 True True world all_reduce \d+$")
            self.assertIn("[0] then ABORTED", out)
            return (float(error.split()[2]) - killed,)

        self.timed(attempt, (1.0,))

    def test_mismatch_names_both_calls(self):
        out = self.run_ranks(2, """
            import array, pickle
            try:
                world.all_reduce(array.array("f", [1] * (3 + world.rank)))
            except weft.Error as error:
                again = pickle.loads(pickle.dumps(error))
                assert (str(again), again.code, again.op) == (str(error), error.code, error.op)
                say(error.code.name, error)
            """)
        for line in out:
            self.assertRegex(line, r"MISMATCH .*all_reduce.* 3 .*4|MISMATCH .*all_reduce.* 4 .*3")

    def test_forked_child(self):
        self.run_ranks(2, """
            import array, warnings
            warnings.simplefilter("ignore")     # newer Pythons warn of every fork of a process with threads
            x = array.array("i", [1])
            done = []
            world.barrier(async_op=True).add_done_callback(done.append)
            while not done: time.sleep(0.001)
            work = world.all_reduce(x, async_op=True)
            child = os.fork()
            if child == 0:
                codes = []
                for call in (lambda: world.barrier(), lambda: world.all_reduce(x, async_op=True), lambda: work.wait(), lambda: world.split(0),
                             lambda: weft.init(), lambda: work.done(), lambda: work.add_done_callback(print)):
                    try:
                        call()
                        codes.append(None)
                    except weft.Error as error:
                        codes.append(error.code)
                assert codes == [weft.Result.FORKED] * len(codes), codes
                world.destroy()
                del work, world
                import gc
                gc.collect()
                sys.exit(0)         # with all that the interpreter does at its end
            assert os.waitpid(child, 0)[1] == 0
            work.wait()
            assert x[0] == 2
            world.barrier()
            """)

    def test_exit_with_works_under_way(self):
        """Callbacks, dropped and held works, a thread inside a call: the interpreter ends at once and well."""
        self.run_ranks(1, """
            import array, threading
            a, b = weft.Communicator.local(2, timeout=600)
            x = array.array("f", [1] * 100000)
            held = a.all_reduce(x, async_op=True)
            held.add_done_callback(lambda work: None)
            a.all_reduce(array.array("f", [1] * 100000), async_op=True)
            c, d = weft.Communicator.local(2, timeout=600)
            def inside():
                try:
                    c.barrier()
                except weft.Error:     # d is destroyed first, perhaps
                    pass
            threading.Thread(target=inside, daemon=True).start()
            e, f = weft.Communicator.local(2, timeout=600)
            batch = weft.batch()
            batch.__enter__()
            e.barrier()
            time.sleep(0.1)
            """)

    def test_exit_while_a_peer_waits(self):
        out = self.launch_ranks(2, """
            import array
            x = array.array("f", [1])
            if world.rank == 1:
                work = world.recv(x, 0, async_op=True)
                sys.exit(0)
            try:
                world.all_reduce(x)
            except weft.Error as error:
                say(error.code.name, error.rank)
            """).finish()[1]
        self.assertTrue(re.search(r"(PEER_LOST|ABORTED|REMOTE_ERROR|UNREACHABLE) 1", "\n".join(out)), out)


if __name__ == "__main__":
    ranks.take_arguments()
    ranks.main()
