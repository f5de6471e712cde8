"""nodes.md: which cells each target looks at, and what it says of them; which cells a part has; how jobs are started on nodes."""
import pathlib
import shlex
import unittest

import samples
from bench.compare import cells, node_launch, node_page, nodes, peers

_NAMES = ("a tenth of Gloo's", "2.2 half round trips", "80 % of UCX's exchange", "1.2 times Gloo", "never below", "90 % of weft over UCX",
          "1.35 times", "92 % of the cable", "within 3 %")


def cell(part, size, weft, op="all_reduce", **others):
    entries = {"weft/private": samples.entry([weft] * 9)}
    entries.update({name.replace("_", "/"): samples.entry([time] * 9) for name, time in others.items()})
    return samples.cell(entries, part=part, bytes=size, op=op)


def results(chosen, traffic=()):
    return dict(samples.results(chosen), rounds=9, traffic=list(traffic))


def judged(chosen, traffic=()):
    """{a word of the target's name: target}"""
    found = node_page.judged(results(chosen, traffic))
    return {name: next(target for target in found if name in target["target"]) for name in _NAMES}


class Targets(unittest.TestCase):
    def test_small_ones_are_judged_by_gloo_and_by_half_a_round_trip(self):
        found = judged([cell("2x1", 8, 10.0, gloo_default=110.0, ucx_tcp=10.0)])
        self.assertEqual((11.0, "pass"), (found["a tenth of Gloo's"]["figure"], found["a tenth of Gloo's"]["verdict"]))
        self.assertEqual((0.5, "pass"), (found["2.2 half round trips"]["figure"], found["2.2 half round trips"]["verdict"]))
        found = judged([cell("2x1", 8, 10.0, gloo_default=90.0, ucx_tcp=8.0)])
        self.assertEqual("fail", found["a tenth of Gloo's"]["verdict"])
        self.assertEqual("fail", found["2.2 half round trips"]["verdict"])
        self.assertEqual("not measured", found["80 % of UCX's exchange"]["verdict"])

    def test_large_ones_are_judged_by_an_exchange(self):
        found = judged([cell("2x1", 1 << 20, 100.0, ucx_tcp=70.0, gloo_default=150.0),
                        cell("2x1", 8 << 20, 100.0, ucx_tcp=90.0, gloo_default=110.0)])
        self.assertEqual((0.7, "fail"), (found["80 % of UCX's exchange"]["figure"], found["80 % of UCX's exchange"]["verdict"]))
        self.assertIn("2x1 all_reduce 1 Mi ucx 0.70", found["80 % of UCX's exchange"]["detail"])
        self.assertIn("2x1 all_reduce 8 Mi gloo 1.10", found["1.2 times Gloo"]["detail"])

    def test_the_best_setting_of_each_mpi_counts(self):
        found = judged([cell("2x2", 8, 10.0, op="broadcast", mpich_default=30.0, mpich_tcp=9.0, openmpi_default=20.0)])["never below"]
        self.assertEqual((0.9, "fail"), (found["figure"], found["verdict"]))
        self.assertIn("2x2 broadcast 8 mpich 0.90", found["detail"])

    def test_weft_over_ucx_is_no_rival_of_wefts_own_tcp_but_a_bar(self):
        found = judged([cell("2x1", 8, 10.0, **{"weft-ucx_private": 8.0}), cell("2x2", 8, 10.0, **{"weft-ucx_private": 12.0})])
        self.assertEqual((0.8, "fail"), (found["90 % of weft over UCX"]["figure"], found["90 % of weft over UCX"]["verdict"]))
        self.assertEqual("not measured", found["never below"]["verdict"])

    def test_cables_are_judged_by_themselves(self):
        # 1,000,000 bytes take 8,000 us at 1 Gbit/s.
        found = judged([cell("cable", 1_000_000, 8_500.0, gloo_default=12_000.0, mpich_default=1.0)])
        self.assertEqual("pass", found["1.35 times"]["verdict"])
        self.assertAlmostEqual(0.941, found["92 % of the cable"]["figure"], places=3)
        self.assertEqual("not measured", found["never below"]["verdict"])

    def test_bytes_on_the_cables(self):
        entry = {"part": "2x1", "ranks": 2, "bytes": 1000, "calls": 5, "sent_bytes": [5000, 5200], "theory_bytes": 5000, "us": 1.0}
        found = judged([], [entry])["within 3 %"]
        self.assertEqual((1.04, "fail"), (found["figure"], found["verdict"]))

    def test_failures_count_for_nothing(self):
        failed = cell("2x1", 8, 10.0)
        failed["contestants"]["gloo/default"] = samples.entry([200.0] * 9, error="3 values are wrong")
        self.assertEqual("not measured", judged([failed])["a tenth of Gloo's"]["verdict"])


class Page(unittest.TestCase):
    def test_has_a_table_for_each_part(self):
        chosen = [cell("2x1", 8, 10.0, gloo_default=110.0, ucx_tcp=10.0, **{"weft-ucx_private": 9.0}), cell("cable", 1 << 20, 9000.0)]
        run = dict(results(chosen), targets=node_page.judged(results(chosen)))
        text = node_page.render(run)
        self.assertEqual(["## 2x1", "## 2x2, cables of 1 Gbit/s", "## Versions", "## What failed", "## Targets"],
                         [line for line in text.splitlines() if line.startswith("## ")])
        self.assertIn("| all_reduce | 8 | 10.0 | 10.0-10.0 | 9.00 private | 10.0 tcp | 110 default | - | - | 11.00 [11.00, 11.00] |", text)

    def test_progress_line(self):
        self.assertEqual("weft 10.0, ucx/tcp 8.00", node_page.one_line(cell("2x1", 8, 10.0, ucx_tcp=8.0)))


class Parts(unittest.TestCase):
    def test_cells(self):
        self.assertEqual({2}, {one.ranks for one in nodes.cells_of_part("2x1", cells.OPERATIONS, None)})
        self.assertEqual({4}, {one.ranks for one in nodes.cells_of_part("2x2", cells.OPERATIONS, None)})
        self.assertEqual({"all_reduce"}, {one.op for one in nodes.cells_of_part("cable", cells.OPERATIONS, None)})
        self.assertEqual([64], [one.bytes for one in nodes.cells_of_part("2x1", ["broadcast"], [64])])

    def test_who_has_messages_alone_stands_in_with_them(self):
        def op(size, name="all_reduce"):
            return nodes.stand_in(cells.Cell(2, name, "float32", size, "hot", "in"))

        self.assertEqual(["round_trip", "exchange", "broadcast"], [op(8), op(1 << 20), op(8, "broadcast")])


class FakeLab:
    """Two nodes that nobody has made."""

    nodes = 2
    environment = {"WEFT_NETLAB": "1:2"}
    rsh = pathlib.Path("/tmp/rsh")

    @staticmethod
    def address(node):
        return f"10.77.0.{node + 1}"

    @staticmethod
    def on(node, words):
        return ["rsh", f"node{node}", shlex.join(map(str, words))]


class Launch(unittest.TestCase):
    def test_weft_is_started_once_per_node(self):
        command, environment = node_launch.weft_command(FakeLab, 2, "tcp")
        self.assertEqual("1:2", environment["WEFT_NETLAB"])
        self.assertEqual(2, command[-1].count("weftrun -n 2 --nnodes 2"))
        self.assertIn("--node-rank 1 --master-addr 10.77.0.1", command[-1])

    def test_each_peer_runs_on_both_nodes(self):
        for peer in peers.NODE_PEERS:
            if peer.name == "gloo":
                continue  # has no packages here
            for setting in peer.settings:
                command, environment = node_launch.peer_command(peer.name, setting, FakeLab, 1)
                text = " ".join(map(str, command))
                self.assertTrue("node1" in text or "10.77.0.2" in text, text)
                self.assertEqual(setting.environment, {key: environment[key] for key in setting.environment})


if __name__ == "__main__":
    unittest.main()
