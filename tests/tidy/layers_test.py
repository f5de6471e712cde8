"""Arrows go one way: include <- base <- topology <- comm <- shard <- leaves; some leaves see include/weft only.

A folder that is divided into rooms has arrows between these too."""
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
    "bindings/xla": ("weft", "base", "comm"),
    "cli": ("weft", "base", "topology", "comm", "shard"),
    "bench/micro": ("weft", "base", "topology", "comm", "shard"),
    "bench/compare": ("weft",),
    "bench/weft_perf": ("weft",),
    "trainer": ("weft",),
    "examples": ("weft",),
}
# Of folders that are divided: which rooms the files of each room may include, besides their own. A room stands behind those
# that it may include, so there is no cycle; every file of such a folder lies in a room.
_ROOMS = {
    "comm": {
        "kernels": (),
        "schedule": (),
        "rendezvous": (),
        "agent": ("rendezvous",),
        "select": ("kernels",),
        "group": ("kernels", "select", "agent"),
        "recorder": ("kernels", "select", "group"),
        "node": ("kernels", "rendezvous", "select", "agent", "group", "recorder"),
        "transport": ("rendezvous", "select"),
        "engine": ("kernels", "schedule", "select", "transport"),
        "hierarchy": ("transport", "engine", "schedule", "kernels", "rendezvous", "select", "agent", "group", "recorder", "node"),
        "device": ("kernels", "group", "node"),
    },
    "shard": {
        "layout": (),
        "checks": (),
        "step": ("layout",),
        "optimizer": ("layout", "checks"),
        "offload": ("layout", "optimizer"),
        "pipeline": (),
        "plan": ("layout", "step", "optimizer", "offload"),
        "context": ("layout", "checks", "step", "optimizer", "offload", "plan"),
        "checkpoint": ("layout", "checks", "step", "optimizer", "offload", "plan", "context"),
    },
}
# Headers that need the libraries of C and C++ only, and that every leaf but examples/ may take: they are no part of what weft's users
# see, and nothing of weft's is behind them.
_FREESTANDING = ("base/crc32c_table.h", "base/edit_distance.h", "base/quantity.h", "base/standard_fds.h")
_OURS = ("weft", "base", "topology", "comm", "shard", "bindings", "cli", "bench", "trainer", "examples", "tests")
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
            if path in _FREESTANDING:
                if target in _OURS or not re.fullmatch(r"[a-z_]+(\.h)?", name):
                    found.append(f"{path}:{line} includes {name}; leaves take it for the libraries of C and C++ alone")
            elif name in _FREESTANDING and home not in ("include", "examples"):
                continue
            elif home == "include":
                allowed = (name.startswith("weft/") or name in _C_HEADERS
                           or path.endswith(".hpp") and re.fullmatch(r"[a-z_]+", name))
                if not allowed:
                    found.append(f"{path}:{line} includes {name}; installed headers take C's and weft's only")
            elif "/" not in name and quoted:
                found.append(f'{path}:{line} includes "{name}"; name the header from the root of the tree')
            elif target in _OURS and target != source_tree.top_folder(path) and target not in _MAY_INCLUDE[home]:
                found.append(f"{path}:{line} includes {name}; {home} may see {', '.join(_MAY_INCLUDE[home])} only")
    return found


def room_violations(tree, all_rooms=None):
    """Sentences naming every include that goes against the arrows between the rooms of a folder, and every file in no room."""
    found = []
    for path, text in tree.items():
        folder, room, name = (path.split("/", 2) + ["", ""])[:3]
        rooms = (_ROOMS if all_rooms is None else all_rooms).get(folder)
        if rooms is None:
            continue
        if room not in rooms or not name:
            found.append(f"{path} lies in no room; {folder} has {', '.join(rooms)}")
            continue
        for line, header, _ in source_tree.includes(text):
            target_folder, target = (header.split("/", 2) + [""])[:2]
            if target_folder == folder and target != room and target not in rooms[room]:
                may = ", ".join(rooms[room]) or "no other room"
                found.append(f"{path}:{line} includes {header}; {folder}/{room} may see {may}")
    return found


class Layers(unittest.TestCase):
    def test_tree_follows_the_arrows(self):
        tree = source_tree.read_tree()
        self.assertGreater(len(tree), 20)
        self.assertEqual([], layer_violations(tree))

    def test_rooms_follow_the_arrows(self):
        self.assertEqual([], room_violations(source_tree.read_tree()))

    def test_rooms_stand_behind_those_they_include(self):
        for folder, rooms in _ROOMS.items():
            names = list(rooms)
            for i, room in enumerate(names):
                self.assertLessEqual(set(rooms[room]), set(names[:i]), f"{folder}/{room}")

    def test_include_of_a_later_room_is_found(self):
        rooms = {"shard": {"layout": (), "step": ("layout",)}}
        tree = {"shard/layout/a.h": '#include "shard/layout/b.h"\n#include "shard/step/c.h"\n',
                "shard/step/c.h": '#include "shard/layout/a.h"\n#include "base/status.h"\n'}
        self.assertEqual(["shard/layout/a.h:2"], [text.split()[0] for text in room_violations(tree, rooms)])

    def test_file_in_no_room_is_found(self):
        rooms = {"shard": {"layout": ()}}
        tree = {"shard/a.h": "", "shard/attic/b.h": "", "shard/layout/c.h": "", "comm/d.h": ""}
        self.assertEqual(["shard/a.h", "shard/attic/b.h"], [text.split()[0] for text in room_violations(tree, rooms)])

    def test_upward_include_is_found(self):
        tree = {"base/a.cc": '#include "comm/group/work.h"\n', "comm/b.cc": '#include "base/status.h"\n'}
        self.assertEqual(1, len(layer_violations(tree)))
        self.assertIn("base/a.cc:1", layer_violations(tree)[0])

    def test_leaf_that_looks_inside_is_found(self):
        tree = {"trainer/a.cc": '// "base/status.h"\n#include "base/status.h"\n', "trainer/b.cc": "#include <weft/weft.h>\n"}
        self.assertEqual(["trainer/a.cc:2"], [text.split()[0] for text in layer_violations(tree)])
        self.assertEqual(1, len(layer_violations({"bench/weft_perf/a.cc": '#include "comm/group/work.h"\n'})))
        self.assertEqual([], layer_violations({"bench/micro/a.cc": '#include "comm/kernels/reduce.h"\n'}))

    def test_freestanding_header_is_for_all_and_takes_nothing_of_ours(self):
        tree = {"base/quantity.h": "#include <span>\n", "trainer/a.cc": '#include "base/quantity.h"\n'}
        self.assertEqual([], layer_violations(tree))
        for include in ('"base/status.h"', '"weft/types.h"', "<fmt/format.h>"):
            self.assertEqual(1, len(layer_violations({"base/quantity.h": f"#include {include}\n"})), include)
        for path in ("include/weft/a.hpp", "examples/a.cc"):
            self.assertEqual(1, len(layer_violations({path: '#include "base/quantity.h"\n'})), path)

    def test_foreign_type_in_an_installed_header_is_found(self):
        tree = {"include/weft/a.h": '#include "absl/status/status.h"\n#include <stdint.h>\n#include <vector>\n',
                "include/weft/b.hpp": "#include <vector>\n#include <fmt/format.h>\n"}
        self.assertEqual(["include/weft/a.h:1", "include/weft/a.h:3", "include/weft/b.hpp:2"],
                         [text.split()[0] for text in layer_violations(tree)])


if __name__ == "__main__":
    unittest.main()
