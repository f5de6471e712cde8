"""The programs in docs/recovery.md compile, lose a rank, take one in, and print what the page says."""
import os
import subprocess

from page_blocks import block
from page_test_case import PageTestCase, main

_DEADLINE_S = 60


class Recovery(PageTestCase):
    page_name = "recovery.md"

    def test_two_of_three_ranks_go_on(self):
        program = self.compiled(block(self.page, "c", 0))
        # A job of its own: the port tells it from others on the machine.
        port = str(20000 + os.getpid() % 20000)
        ranks = []
        for rank in range(3):
            environment = dict(os.environ, RANK=str(rank), WORLD_SIZE="3", LOCAL_RANK=str(rank), LOCAL_WORLD_SIZE="3",
                               MASTER_ADDR="127.0.0.1", MASTER_PORT=port, WEFT_TIMEOUT_S="30")
            ranks.append(subprocess.Popen([program], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                          text=True))
            self.addCleanup(ranks[-1].kill)
        ended = [rank.communicate(timeout=_DEADLINE_S) for rank in ranks]
        self.assertEqual([0, -9, 0], [rank.returncode for rank in ranks], ended)
        self.assertEqual(block(self.page, "text").splitlines(), (ended[0][0] + ended[2][0]).splitlines())
        for out, said in (ended[0], ended[2]):
            self.assertRegex(said, r"rank 1 \(host .*\) killed by signal 9", out)

    def test_three_of_three_ranks_again(self):
        program = self.compiled(block(self.page, "c", 1))
        ended = subprocess.run([self.build / "bin" / "weftrun", "--elastic", "--max-restarts", "1", "-n", "3", program],
                               env=dict(os.environ, WEFT_TIMEOUT_S="30"), capture_output=True, text=True, timeout=_DEADLINE_S)
        self.assertEqual(0, ended.returncode, ended.stdout + ended.stderr)
        # Each rank writes its line when it ends, so the order of the lines is any.
        self.assertCountEqual(block(self.page, "text", 1).splitlines(), ended.stdout.splitlines(), ended.stderr)
        self.assertRegex(ended.stderr, r"rank 1 \(pid \d+\) killed by signal 9 \(SIGKILL\) and is lost; .*starting it again")
        self.assertRegex(ended.stderr, r"rank 1 .*has joined; 3 of 3 ranks are there")


if __name__ == "__main__":
    main()
