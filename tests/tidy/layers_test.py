"""Arrows go one way: include <- base <- topology <- comm <- shard <- leaves; some leaves see include/weft only."""
import re
import unittest

import source_tree

# Which folders' headers a file of each folder may include, besides its own.
_MAY_INCLUDE = {
    "include": (),
    "base": ("weft",),
    "topology": ("weft", "base"),
    "comm": ("weft", "base", "topology"),
    "shard": ("weft", "base", "topology", "comm"),
    "bindings": ("weft", "base", "topology", "comm", "shard"),
    "cli": ("weft", "base", "topology", "comm", "shard"),
    "bench/micro": ("weft", "base", "topology", "comm", "shard"),
    "bench/compare": ("weft",),
    "bench/weft_perf": ("weft",),
    "trainer": ("weft",),
}
_OURS = ("weft", "base", "topology", "comm", "shard", "bindings", "cli", "bench", "trainer", "tests")
# What an installed header may take from elsewhere: the C library, and in the C++ wrapper the C++ library.
_C_HEADERS = {"stddef.h", "stdint.h", "stdbool.h", "limits.h"}


def _home(path):
    return next((home for home in sorted(_MAY_INCLUDE, key=len, reverse=True) if path.startswith(home + "/")), None)


def layer_violations(tree):
    """Sentences naming every include that goes against the arrows."""
    found = []
    for path, text in tree.items():
        home = _home(path)
        if home is None:
            continue
        for line, name, quoted in source_tree.includes(text):
            target = source_tree.top_folder(name)
            if home == "include":
                allowed = (name.startswith("weft/") or name in _C_HEADERS
                           or path.endswith(".hpp") and re.fullmatch(r"[a-z_]+", name))
                if not allowed:
                    found.append(f"{path}:{line} includes {name}; installed headers take C's and weft's only")
            elif "/" not in name and quoted:
                found.append(f'{path}:{line} includes "{name}"; name the header from the root of the tree')
            elif target in _OURS and target != source_tree.top_folder(path) and target not in _MAY_INCLUDE[home]:
                found.append(f"{path}:{line} includes {name}; {home} may see {', '.join(_MAY_INCLUDE[home])} only")
    return found


class Layers(unittest.TestCase):
    def test_tree_follows_the_arrows(self):
        tree = source_tree.read_tree()
        self.assertGreater(len(tree), 20)
        self.assertEqual([], layer_violations(tree))

    def test_upward_include_is_found(self):
        tree = {"base/a.cc": '#include "comm/group/work.h"\n', "comm/b.cc": '#include "base/status.h"\n'}
        self.assertEqual(1, len(layer_violations(tree)))
        self.assertIn("base/a.cc:1", layer_violations(tree)[0])

    def test_leaf_that_looks_inside_is_found(self):
        tree = {"trainer/a.cc": '// "base/status.h"\n#include "base/status.h"\n', "trainer/b.cc": "#include <weft/weft.h>\n"}
        self.assertEqual(["trainer/a.cc:2"], [text.split()[0] for text in layer_violations(tree)])
        self.assertEqual(1, len(layer_violations({"bench/weft_perf/a.cc": '#include "comm/group/work.h"\n'})))
        self.assertEqual([], layer_violations({"bench/micro/a.cc": '#include "comm/kernels/reduce.h"\n'}))

    def test_foreign_type_in_an_installed_header_is_found(self):
        tree = {"include/weft/a.h": '#include "absl/status/status.h"\n#include <stdint.h>\n#include <vector>\n',
                "include/weft/b.hpp": "#include <vector>\n#include <fmt/format.h>\n"}
        self.assertEqual(["include/weft/a.h:1", "include/weft/a.h:3", "include/weft/b.hpp:2"],
                         [text.split()[0] for text in layer_violations(tree)])


if __name__ == "__main__":
    unittest.main()
