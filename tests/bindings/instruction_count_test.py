"""How many instructions an all_reduce and a message of 8 bytes take that wait for nobody, and that they make no system call.

Counted by valgrind (callgrind) within the calls of rank 0 of steady_all_reduce, where the other ranks have arrived
already, and within the send and the receive of steady_message. Ranks are of one process, which changes nothing for comm/node: valgrind 3.19 does not know pidfd_open, without
which processes do not watch each other. Without a working valgrind the test is skipped (exit code 77)."""
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

_SKIPPED = 77
_DEADLINE_S = 120
_FEW_CALLS = 1_000
_MANY_CALLS = 11_000

# Instructions per call, a little above what GCC 12 makes of it. To be lowered when the path gets shorter.
_ONE_RANK_MAX = 330  # counted 309
_TWO_RANKS_MAX = 640  # counted 605
_SEND_AND_RECV_MAX = 2_340  # counted 2,311

# From the command line.
all_reduce_program = None
message_program = None


def valgrind_works():
    try:
        return subprocess.run(("valgrind", "--tool=none", "true"), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                              timeout=_DEADLINE_S, check=False).returncode == 0
    except FileNotFoundError:
        return False


def count(program, *arguments, **options):
    """Instructions and system calls within the counted calls; `options` are environment variables."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("WEFT_")}
    environment["WEFT_COMBINE"] = "0"  # two ranks that have a CPU each, whatever the machine has
    environment.update(options)
    with tempfile.TemporaryDirectory() as folder:
        found = pathlib.Path(folder) / "found"
        command = ("valgrind", "--tool=callgrind", "--toggle-collect=CountedCall", "--collect-systime=yes",
                   f"--callgrind-out-file={found}", program, *map(str, arguments))
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment,
                              timeout=_DEADLINE_S, check=False)
        if done.returncode:
            raise AssertionError(f"{' '.join(command)} failed with {done.returncode}:\n{done.stdout}")
        text = found.read_text()
    events = re.search(r"^events: (.*)$", text, re.MULTILINE)[1].split()
    # Zeros at the end are left out.
    totals = [int(word) for word in re.search(r"^totals: (.*)$", text, re.MULTILINE)[1].split()]
    counts = dict(zip(events, totals + [0] * len(events)))
    return counts["Ir"], counts["sysCount"]


def count_per_call(*command, **options):
    """Instructions and system calls per call, once all is warm."""
    few = count(*command, _FEW_CALLS, **options)
    many = count(*command, _MANY_CALLS, **options)
    return [(more - less) / (_MANY_CALLS - _FEW_CALLS) for more, less in zip(many, few)]


class InstructionCount(unittest.TestCase):
    def check_instructions(self, what, limit, *command):
        instructions, _ = count_per_call(*command)
        print(f"{what}: {instructions:.0f} instructions per call")
        self.assertGreater(instructions, 10, "nothing was counted")
        self.assertLessEqual(instructions, limit)

    def test_one_rank(self):
        self.check_instructions("1 rank", _ONE_RANK_MAX, all_reduce_program, 1)

    def test_two_ranks_without_waiting(self):
        self.check_instructions("2 ranks", _TWO_RANKS_MAX, all_reduce_program, 2)

    def test_send_and_recv_without_waiting(self):
        self.check_instructions("send and recv", _SEND_AND_RECV_MAX, message_program)

    def test_no_system_call(self):
        # Without a progress thread: callgrind takes calls of a thread that runs while the counted one is stopped within
        # CountedCall for those of the latter.
        for command in ((all_reduce_program, 1), (all_reduce_program, 2), (message_program,)):
            with self.subTest(command):
                self.assertEqual(0, count_per_call(*command, WEFT_PROGRESS="caller")[1])

    def test_system_calls_are_seen(self):
        self.assertEqual(_FEW_CALLS, count(all_reduce_program, 1, _FEW_CALLS, "call-the-system", WEFT_PROGRESS="caller")[1])


if __name__ == "__main__":
    all_reduce_program = sys.argv.pop(1)
    message_program = sys.argv.pop(1)
    if not valgrind_works():
        print("skipped: there is no valgrind that works; install it to count instructions")
        sys.exit(_SKIPPED)
    unittest.main()
