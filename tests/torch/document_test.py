"""The programs of docs/torch.md, and the one of README.md, as 2 ranks, and what they show."""
import sys
import unittest

import torch_ranks
from torch_ranks import ranks

_DOCUMENT = torch_ranks.ROOT / "docs" / "torch.md"
_README = torch_ranks.ROOT / "README.md"
# torch's own word on a machine whose resolver does not know its addresses.
_OF_THE_MACHINE = "[c10d] The hostname of the client socket cannot be retrieved"


class Document(ranks.RanksTest):
    def test_programs(self):
        found = [program for program in ranks.programs_of(_DOCUMENT) if program[1]]
        self.assertGreaterEqual(len(found), 2)
        of_readme = [program for program in ranks.programs_of(_README) if "torch" in program[0]]
        self.assertEqual(1, len(of_readme))
        for code, shown in found + of_readme:
            with self.subTest(code):
                count, *options = (3, "--elastic") if "SIGKILL" in code else (2,)
                code, out, err = self.launch_ranks(count, code, *options, start="").finish()
                self.assertEqual((0, sorted(shown.splitlines())), (code, sorted(out)), "\n".join(err))
                self.assertEqual([], [line for line in err if _OF_THE_MACHINE not in line and not (options and line.startswith("weftrun"))])

    def test_every_name(self):
        import weft.torch
        text = _DOCUMENT.read_text()
        self.assertEqual([], [name for name in weft.torch.__all__ if name not in text and not name.startswith("Weft") and name != "register"])
        self.assertEqual([], [name for name in vars(weft.torch.FullyShard) if not name.startswith("_") and name not in text])


if __name__ == "__main__":
    ranks.launched.program = sys.argv[1]
    unittest.main(module="__main__", argv=[sys.argv[0], *sys.argv[2:]])
