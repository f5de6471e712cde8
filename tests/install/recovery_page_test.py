"""The programs in docs/recovery.md compile, lose a rank, take one in, and print what the page says."""
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

from page_blocks import block

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
PAGE = ROOT / "docs" / "recovery.md"
_DEADLINE_S = 60


class Recovery(unittest.TestCase):
    build = pathlib.Path(".")

    def setUp(self):
        self.page = PAGE.read_text()
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def compiled(self, number):
        program = self.folder / f"program{number}"
        source = program.with_suffix(".c")
        source.write_text(block(self.page, "c", number))
        subprocess.run(["cc", "-std=c99", "-Wall", "-Wextra", "-Wpedantic", "-Werror", f"-I{ROOT / 'include'}", source, "-o",
                        program, f"-L{self.build / 'lib'}", "-lweft", f"-Wl,-rpath,{self.build / 'lib'}"], check=True,
                       timeout=_DEADLINE_S)
        return program

    def test_two_of_three_ranks_go_on(self):
        program = self.compiled(0)
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
        ended = subprocess.run([self.build / "bin" / "weftrun", "--elastic", "--max-restarts", "1", "-n", "3", self.compiled(1)],
                               env=dict(os.environ, WEFT_TIMEOUT_S="30"), capture_output=True, text=True, timeout=_DEADLINE_S)
        self.assertEqual(0, ended.returncode, ended.stdout + ended.stderr)
        # Each rank writes its line when it ends, so the order of the lines is any.
        self.assertCountEqual(block(self.page, "text", 1).splitlines(), ended.stdout.splitlines(), ended.stderr)
        self.assertRegex(ended.stderr, r"rank 1 \(pid \d+\) killed by signal 9 \(SIGKILL\) and is lost; .*starting it again")
        self.assertRegex(ended.stderr, r"rank 1 .*has joined; 3 of 3 ranks are there")


if __name__ == "__main__":
    Recovery.build = pathlib.Path(sys.argv.pop(1)).resolve()
    unittest.main()
