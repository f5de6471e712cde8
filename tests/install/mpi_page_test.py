"""The program in docs/mpi.md compiles, and three ranks of it print what the page says."""
import os
import subprocess

from page_blocks import block
from page_test_case import PageTestCase, main

_DEADLINE_S = 60


class Mpi(PageTestCase):
    page_name = "mpi.md"

    def test_offsets_by_exscan_and_parts_by_probe(self):
        program = self.compiled(block(self.page, "c", 0))
        ended = subprocess.run([self.build / "bin" / "weftrun", "-n", "3", program], env=dict(os.environ, WEFT_TIMEOUT_S="30"),
                               capture_output=True, text=True, timeout=_DEADLINE_S)
        self.assertEqual(0, ended.returncode, ended.stdout + ended.stderr)
        self.assertEqual(block(self.page, "text").splitlines(), ended.stdout.splitlines(), ended.stderr)


if __name__ == "__main__":
    main()
