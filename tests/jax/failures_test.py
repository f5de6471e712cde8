"""What a program meets with when a rank, a peer or itself fails: an exception with the library's sentence and XLA's code, soon, and never a hang or a crash."""
import os
import re
import signal
import time

from jax_ranks import JaxTest, main

# Other processes take the cores now and then: the quickest of so many attempts is what counts.
_ATTEMPTS = 4

_CALLS = """
    step = jax.jit(lambda x: wjax.all_reduce(jnp.tanh(x), world))
    # XLA runs a program of fewer than 1000 sums and products in the call, however large its arrays are, and others on threads of its own.
    later = jax.jit(lambda x: wjax.all_reduce(x * 3 + 1, world))
    small, large = jnp.ones(4), jnp.ones(1 << 20)
    jax.block_until_ready((step(small), step(large), later(large)))

    def failure(call):
        start = time.monotonic()
        try:
            jax.block_until_ready(call())
        except jax.errors.JaxRuntimeError as error:
            return error, time.monotonic() - start
        raise AssertionError("no error")
"""


class Failures(JaxTest):
    def run_ranks(self, count, code, *options, **more):
        return super().run_ranks(count, _CALLS + code, *options, **more)

    def test_deadline(self):
        self.run_ranks(2, """
    late = jax.jit(lambda x: wjax.all_reduce(x, world, timeout=0.3))
    if rank == 0:
        error, seconds = failure(lambda: late(small))
        assert str(error).startswith("DEADLINE_EXCEEDED: all_reduce #") and "rank 1" in str(error), error
        assert 0.25 < seconds < 20, seconds
        error, seconds = failure(lambda: step(small))       # that was the end of the communicator
        assert str(error).startswith("ABORTED: "), error
    else:
        time.sleep(1)
        error, _ = failure(lambda: step(small))
        assert str(error).startswith(("ABORTED: ", "DEADLINE_EXCEEDED: ")), error
        """)

    def test_mismatch(self):
        self.run_ranks(2, """
    error, _ = failure(lambda: wjax.all_reduce(jnp.ones(3 + rank), world))
    assert str(error).startswith("FAILED_PRECONDITION: all_reduce #") and "3 float32" in str(error) and "4 float32" in str(error), error
        """)

    def test_other_operation(self):
        self.run_ranks(2, """
    error, _ = failure(lambda: step(small) if rank else wjax.all_gather(small, world))
    assert str(error).startswith("FAILED_PRECONDITION: ") and "all_reduce" in str(error) and "all_gather" in str(error), error
        """)

    def test_killed_peer(self):
        def attempt():
            job = self.launch_ranks(3, _CALLS + """
    say("ready")
    if rank == 1:
        time.sleep(0.5)
        say("dies", time.monotonic())
        os.kill(os.getpid(), signal.SIGKILL)
    for x in (large, small):
        error, _ = failure(lambda: step(x))
        say("error", time.monotonic(), error)
        """, "--elastic")
            _, out, _ = job.finish()
            died = float(next(line.split()[2] for line in out if "dies" in line))
            errors = [line for line in out if "error" in line]
            self.assertEqual(4, len(errors), out)
            for rank in (0, 2):
                first = next(line for line in errors if line.startswith(f"[{rank}]"))
                self.assertRegex(first, r"UNAVAILABLE: .*rank 1 \(pid \d+.*SIGKILL|UNAVAILABLE: .*rank 1 .*signal 9", out)
            return [max(float(line.split()[2]) for line in errors) - died]

        self.timed(attempt, [1.0])

    def timed(self, attempt, bounds_s):
        seen = []
        for _ in range(_ATTEMPTS):
            seen.append(attempt())
            if all(seconds <= bound for seconds, bound in zip(seen[-1], bounds_s)):
                return
        self.fail(f"{bounds_s} s were passed each time: {seen}")

    def test_communicator_that_is_gone(self):
        """A compiled program outlives it; and one that is destroyed, or aborted, while a program waits."""
        self.run_ranks(2, """
    part = world.split(0)
    kept = jax.jit(lambda x: wjax.all_reduce(x, part))
    kept(small).block_until_ready()
    part.destroy()
    error, _ = failure(lambda: kept(small))
    assert str(error) == "FAILED_PRECONDITION: all_reduce: the group with the number 2 was destroyed; trace the program anew with a live one", error
    try:
        wjax.all_reduce(small, part)
        raise AssertionError("no error")
    except weft.Error as error:
        assert error.code == weft.Result.BAD_STATE and "is destroyed" in str(error), error
    other = world.split(0)
    if rank == 0:
        threading.Timer(0.3, other.abort, ("enough",)).start()
        error, seconds = failure(lambda: wjax.all_reduce(small, other))
        assert str(error).startswith("ABORTED: ") and "enough" in str(error), error
    step(small).block_until_ready()
    third = world.split(0)
    if rank == 0:
        threading.Timer(0.3, third.destroy).start()
        error, seconds = failure(lambda: wjax.all_reduce(large, third))
        assert str(error).startswith("ABORTED: ") and seconds < 20, (error, seconds)
    step(small).block_until_ready()
        """)

    def test_what_is_under_way_ends_before_the_communicator(self):
        """At the end of a `with`, and of a program, JAX may still be at work."""
        self.run_ranks(2, """
    with world.split(0) as part:
        last = jax.jit(lambda x: wjax.all_reduce(x * 3 + 1, part))
        if rank == 0:
            time.sleep(0.5)
        value = last(large)
    assert float(value[0]) == 8
    if rank == 0:
        time.sleep(0.5)
    later(large)
        """)

    def interrupted(self, code):
        """Seconds until rank 0 has KeyboardInterrupt, and until its peer knows."""
        job = self.launch_ranks(2, _CALLS + f"""
    if rank == 0:
        say("ready", os.getpid())
        try:
            {code}
            say("no KeyboardInterrupt")
        except KeyboardInterrupt:
            say("interrupted", time.monotonic())
            world.abort("interrupted")      # JAX may still have it under way
        open(__file__ + ".aborted", "w").close()
        time.sleep(2)
    else:
        end = time.monotonic() + 20
        while not os.path.exists(__file__ + ".aborted") and time.monotonic() < end:
            time.sleep(0.01)
        say("error", time.monotonic(), failure(lambda: step(small))[0])
        """)
        pid = int(job.wait_for(1, "ready")[0].split()[-1])
        time.sleep(0.5)
        start = time.monotonic()
        os.kill(pid, signal.SIGINT)
        code, out, err = job.finish()
        self.assertEqual(0, code, err)      # what JAX says of operations that have failed is on stderr
        self.assertTrue(any("ABORTED" in line and "rank 0" in line for line in out), out)
        return [float(next(line for line in out if "interrupted" in line and "error" not in line).split()[2]) - start]

    def test_interrupt_on_the_main_thread(self):
        """Small programs run on it."""
        self.timed(lambda: self.interrupted("x = step(small)"), [0.2])

    def test_interrupt_of_a_wait(self):
        """Others run on XLA's threads; a newer JAX can be interrupted while it waits for them."""
        probe = super().run_ranks(1, "say(*jax.__version_info__[:2])", start="import jax\ndef say(*words): print(*words)\n")
        if tuple(map(int, probe[0].split()[1:])) < (0, 10):
            self.skipTest("this JAX cannot be interrupted while it waits")
        self.timed(lambda: self.interrupted("x = later(large); x.block_until_ready()"), [0.5])

    def test_program_that_dies(self):
        """Its peer learns of it, and it waits for nothing."""
        job = self.launch_ranks(2, _CALLS + """
    if rank == 0:
        waits = later(large)
        raise ValueError("this is the end")
    time.sleep(1)
    start = time.monotonic()
    say("error", failure(lambda: [later(large).block_until_ready() for _ in range(3)])[0])
        """, "--elastic")
        start = time.monotonic()
        code, out, err = job.finish()
        self.assertTrue(any("ValueError: this is the end" in line for line in err), err)
        self.assertTrue(re.search(r"error (ABORTED|UNAVAILABLE): .*rank 0", "\n".join(out)), out)
        self.assertLess(time.monotonic() - start, 25)


if __name__ == "__main__":
    main()
