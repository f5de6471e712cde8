"""The programs of docs/torch.md, as 2 ranks, and what they show."""
import re
import sys
import unittest

import torch_ranks
from torch_ranks import ranks

_DOCUMENT = torch_ranks.ROOT / "docs" / "torch.md"


class Document(ranks.RanksTest):
    def test_programs(self):
        found = re.findall(r"^```python\n(.*?)^```$\n+```text\n(.*?)^```$", _DOCUMENT.read_text(), re.MULTILINE | re.DOTALL)
        self.assertGreaterEqual(len(found), 2)
        for code, shown in found:
            with self.subTest(code):
                self.assertEqual(sorted(shown.splitlines()), self.run_ranks(2, code, start=""))

    def test_every_name(self):
        import weft.torch
        text = _DOCUMENT.read_text()
        self.assertEqual([], [name for name in weft.torch.__all__ if name not in text and not name.startswith("Weft") and name != "register"])
        self.assertEqual([], [name for name in vars(weft.torch.FullyShard) if not name.startswith("_") and name not in text])


if __name__ == "__main__":
    ranks.launched.program = sys.argv[1]
    unittest.main(module="__main__", argv=[sys.argv[0], *sys.argv[2:]])
