"""What ./dev compare computes: sizes, sets, bounds, calls, medians, ratios, intervals, the best peer, the targets."""
import random
import unittest

import samples
from bench.compare import cells, findings, install, intervals, measure, peers, summary


def cell(op, count=4096, ranks=2, dtype="float32", buffers="hot", place=None):
    return cells.Cell(ranks, op, dtype, count, buffers, place or cells.place_of(op, "in"))


class Cells(unittest.TestCase):
    def test_ladder_ends_with_64_mib(self):
        self.assertEqual((8, 64, 512, 4096, 32768, 262144, 2097152, 16777216, 67108864), cells.SIZES)

    def test_sizes_mean_what_nccl_tests_means(self):
        self.assertEqual((4096, 4096), cells.in_and_out_bytes(cell("all_reduce")))
        self.assertEqual((2048, 4096), cells.in_and_out_bytes(cell("all_gather")))
        self.assertEqual((4096, 2048), cells.in_and_out_bytes(cell("reduce_scatter")))
        self.assertEqual((4096, 4096), cells.in_and_out_bytes(cell("all_to_all")))
        # Chunks are cut to 16 bytes; below that one element is left.
        self.assertEqual((320, 960), cells.in_and_out_bytes(cell("all_gather", 1000, ranks=3)))
        self.assertEqual((4, 32), cells.in_and_out_bytes(cell("all_gather", 8, ranks=8)))
        self.assertEqual((2, 16), cells.in_and_out_bytes(cell("all_gather", 8, ranks=8, dtype="bfloat16")))

    def test_hot_is_one_set_and_rotated_exceeds_the_cache(self):
        l3 = 32 << 20
        for op in cells.OPERATIONS:
            for size in cells.SIZES:
                for ranks in (2, 4, 8):
                    one = cell(op, size, ranks, buffers="rotated")
                    sets, total = cells.set_count(one, l3), cells.set_bytes(one) * ranks
                    self.assertEqual(1, cells.set_count(cell(op, size, ranks), l3))
                    self.assertGreaterEqual(sets, 2)
                    self.assertGreaterEqual(sets * total, 2 * l3)
                    self.assertTrue(sets == 2 or sets * total <= cells.MAX_ROTATED_BYTES, one)

    def test_a_huge_cache_takes_a_gibibyte_at_most(self):
        one = cell("all_reduce", 4096, buffers="rotated")
        self.assertEqual(cells.MAX_ROTATED_BYTES, cells.set_count(one, 4 << 30) * cells.set_bytes(one) * 2)

    def test_accesses_are_those_of_the_lower_bounds(self):
        private = {op: cells.accesses(cell(op, ranks=4, place="out"), False) for op in cells.OPERATIONS}
        self.assertEqual({"all_reduce": 18, "all_gather": 9, "reduce_scatter": 11, "broadcast": 8, "all_to_all": 14}, private)
        symmetric = {op: cells.accesses(cell(op, ranks=4, place="out"), True) for op in cells.OPERATIONS}
        self.assertEqual({"all_reduce": 8, "all_gather": 5, "reduce_scatter": 5, "broadcast": 4, "all_to_all": 8}, symmetric)
        self.assertEqual(8, cells.accesses(cell("all_gather", ranks=4, place="in"), False))

    def test_copies_with_a_bar_have_the_footprint_of_the_cell(self):
        self.assertEqual(1 << 20, cells.heap_copy_bytes(cell("all_gather", 2 << 20)))
        self.assertEqual(3 << 19, cells.heap_copy_bytes(cell("reduce_scatter", 2 << 20)))
        for other in (cell("all_gather", 1 << 20), cell("all_gather", 2 << 20, place="out"), cell("all_reduce", 2 << 20)):
            self.assertEqual(0, cells.heap_copy_bytes(other))

    def test_bound_is_accesses_over_the_rate_and_one_synchronisation(self):
        # (5 * 2 - 2) * 1 MB / (2 * 1 GB/s) = 4000 us
        self.assertAlmostEqual(4001.5, cells.bound_us(cell("all_reduce", 1000000), 1e9, 1.5))
        self.assertAlmostEqual(2001.5, cells.bound_us(cell("all_reduce", 1000000), 1e9, 1.5, symmetric=True))

    def test_all_cells_are_made_once(self):
        made = cells.cells_of([2, 4, 8], list(cells.DTYPES), cells.BUFFERS, cells.OPERATIONS, cells.SIZES, "in")
        self.assertEqual(3 * 2 * 2 * 5 * 9, len(made))
        self.assertEqual(len(made), len(set(made)))

    def test_sizes_have_names(self):
        self.assertEqual(["8", "4 Ki", "64 Mi", "1000"], [cells.size_text(size) for size in (8, 4096, 64 << 20, 1000)])


class Calls(unittest.TestCase):
    def test_a_turn_takes_about_ten_milliseconds(self):
        self.assertEqual(1000, measure.call_count(10e-6))
        self.assertEqual(200, measure.call_count(100e-6))   # 20 ms: small sizes have 200 calls
        self.assertEqual(10, measure.call_count(1e-3))
        self.assertEqual(3, measure.call_count(1.0))
        self.assertEqual(20000, measure.call_count(1e-9))

    def test_turns_of_the_hopeless_are_short(self):
        self.assertTrue(measure.without_hope(0.6, 1e-3))
        self.assertFalse(measure.without_hope(0.04, 1e-6))  # cheap enough
        self.assertFalse(measure.without_hope(0.6, 0.1))    # large data: not slow compared with others

    def test_time_is_the_slowest_ranks(self):
        answers = [{"begin_s": 1.0, "end_s": 1.5}, {"begin_s": 1.2, "end_s": 2.2}]
        self.assertAlmostEqual(1e5, measure.slowest_us(answers, 10))

    def test_copy_rate_counts_the_ranks_that_run_at_a_time(self):
        answers = [{"cpu_s": 1.0}, {"cpu_s": 0.5}]
        self.assertAlmostEqual(300, measure.copy_rate(answers, 100, 2))
        self.assertAlmostEqual(300, measure.copy_rate(answers * 4, 100, 2))

    def test_who_cannot_win_and_is_expensive_sits_out(self):
        samples_ = {"weft/private": [900.0] * 3, "a/x": [100.0] * 3, "b/slow": [151.0] * 3, "c/cheap": [900.0] * 3,
                    "d/close": [149.0] * 3, "e/early": [900.0] * 2}
        turn_s = {name: 0.01 if name == "c/cheap" else 1.0 for name in samples_}
        self.assertEqual({"b/slow"}, measure.sitting_out(samples_, turn_s))
        self.assertEqual(set(), measure.sitting_out({"weft/private": [9.0] * 3}, turn_s))

    def test_command_has_every_word_of_the_protocol(self):
        line = measure.command(cell("all_gather"), "private", 3, 20, 5, True, False)
        self.assertEqual("op=all_gather dtype=float32 bytes=4096 place=in memory=private sets=3 calls=20 warmup=5 check=1 keep=0",
                         line)


class Intervals(unittest.TestCase):
    def test_median_quartiles_and_mean(self):
        self.assertEqual(2, intervals.median([3, 1, 2]))
        self.assertEqual((2, 4), intervals.quartiles([1, 2, 3, 4, 5]))
        self.assertEqual((1, 2), intervals.quartiles([2, 1]))
        self.assertAlmostEqual(2.0, intervals.geometric_mean([1, 4]))
        self.assertIsNone(intervals.geometric_mean([]))

    def test_equal_rounds_have_an_interval_of_one_point(self):
        self.assertEqual((2.0, 2.0, 2.0), intervals.ratio_interval([4.0] * 9, [2.0] * 9))

    def test_a_disturbance_of_both_in_a_round_cancels(self):
        ours = [1.0, 1.0, 9.0, 1.0, 5.0, 1.0, 1.0, 2.0, 1.0]
        self.assertEqual((3.0, 3.0, 3.0), tuple(round(x, 9) for x in intervals.ratio_interval([3 * x for x in ours], ours)))

    def test_interval_covers_the_true_ratio_about_as_often_as_it_says(self):
        chance = random.Random(7)
        covered = 0
        for trial in range(200):
            theirs = [2 * chance.lognormvariate(0, 0.1) for _ in range(9)]
            ours = [chance.lognormvariate(0, 0.1) for _ in range(9)]
            _, low, high = intervals.ratio_interval(theirs, ours, seed=trial, resamples=400)
            covered += low <= 2 <= high
        self.assertGreaterEqual(covered, 170)
        self.assertLess(covered, 200)

    def test_any_figure_of_several_samples_has_an_interval(self):
        def difference(a, b):
            return intervals.median(a) - intervals.median(b)

        self.assertEqual((1.0, 1.0, 1.0), intervals.paired_interval(difference, [3.0, 5.0, 9.0], [2.0, 4.0, 8.0]))
        figure, low, high = intervals.paired_interval(intervals.median, [1.0, 2.0, 3.0, 4.0, 50.0])
        self.assertEqual(3.0, figure)
        self.assertEqual((1.0, 50.0), (low, high))

    def test_same_samples_give_the_same_interval(self):
        self.assertEqual(intervals.ratio_interval([3, 4, 5], [1, 2, 1]), intervals.ratio_interval([3, 4, 5], [1, 2, 1]))


class Judgement(unittest.TestCase):
    def found(self, contestants, **changes):
        return findings.judge(samples.cell(contestants, **changes))

    def test_best_setting_of_each_peer_and_best_peer(self):
        found = self.found({"weft/private": samples.entry([2, 2, 2]), "mpich/default": samples.entry([9, 9, 9]),
                            "mpich/release_gather": samples.entry([5, 5, 5]), "impi/default": samples.entry([4, 4, 4]),
                            "impi/shm": samples.entry([6, 6, 6])})
        self.assertEqual({"mpich": "mpich/release_gather", "impi": "impi/default"}, found.best_settings)
        self.assertEqual("impi/default", found.best_peer)
        self.assertEqual((2, 2, 2), found.ratio)
        self.assertIsNone(found.symmetric_ratio)

    def test_who_failed_or_was_wrong_is_not_the_best(self):
        found = self.found({"weft/private": samples.entry([2]), "mpich/default": samples.entry([1], error="3 values are wrong"),
                            "impi/default": samples.entry([], refusal="no bfloat16"), "openmpi/default": samples.entry([3])})
        self.assertEqual("openmpi/default", found.best_peer)
        self.assertNotIn("mpich", found.best_settings)

    def test_no_peer_and_no_weft_are_told(self):
        self.assertIsNone(self.found({"weft/private": samples.entry([2])}).ratio)
        found = self.found({"weft/private": samples.entry([], error="lost"), "mpich/default": samples.entry([2])})
        self.assertIsNone(found.weft)
        self.assertIsNone(found.ratio)
        self.assertIsNone(found.share)

    def test_share_of_the_bound(self):
        # 8 * 4096 / (2 * 10 GB/s) = 1.6384 us, and 1 us
        found = self.found({"weft/private": samples.entry([5.2768]), "weft/symmetric": samples.entry([3.6384])})
        self.assertAlmostEqual(0.5, found.share)
        self.assertAlmostEqual(1.8192 / 3.6384, found.symmetric_share)
        # 4 * 4096 / (2 * 5 GB/s) = 1.6384 us, and 1 us: of copies in symmetric memory where they were measured
        found = self.found({"weft/private": samples.entry([5.2768]), "weft/symmetric": samples.entry([2.6384])},
                           heap_copy_bytes_per_s=[5e9] * 3)
        self.assertAlmostEqual(0.5, found.share)
        self.assertAlmostEqual(1.0, found.symmetric_share)


class Targets(unittest.TestCase):
    def found(self, ratios, **changes):
        """One finding per ratio; the best peer takes ratio microseconds, weft one."""
        return [findings.judge(samples.cell({"weft/private": samples.entry([1, 1, 1]), "weft/symmetric": samples.entry([1, 1, 1]),
                                             "mpich/default": samples.entry(times)}, **dict(changes, bytes=8 << index)))
                for index, times in enumerate(ratios)]

    def test_certain_and_uncertain_cells(self):
        certain, uncertain = summary.below(self.found([[0.5] * 3, [0.9, 1.1, 0.9], [2.0] * 3]), 1.0)
        self.assertEqual([8], [finding.cell.bytes for finding in certain])
        self.assertEqual([16], [finding.cell.bytes for finding in uncertain])

    def test_lines_name_mean_and_offenders(self):
        text = "\n".join(summary.lines(self.found([[0.5] * 3, [2.0] * 3])))
        self.assertIn("geometric mean **1.00**", text)
        self.assertIn("below 1.0: all_reduce 8 float32 hot 0.50. Not certain: none", text)
        # At 16 bytes the share of the bound is above 80 %, but so it is at 8.
        self.assertIn("below 1.2 and below 80 % of the bound: none", text)

    def test_broadcast_has_targets_of_its_own(self):
        text = "\n".join(summary.lines(self.found([[0.8] * 3], op="broadcast")))
        self.assertIn("broadcast: geometric mean **0.80**; below 0.9: broadcast 8 float32 hot 0.80", text)
        self.assertNotIn("without broadcast", text)

    def test_eight_ranks_and_bfloat16(self):
        self.assertIn("8 ranks, every size and buffer: below 2.0: all_reduce 8 float32 hot 1.50",
                      "\n".join(summary.lines(self.found([[1.5] * 3], ranks=8))))
        text = "\n".join(summary.lines(self.found([[1.5] * 3]) + self.found([[1.5] * 3], dtype="bfloat16")))
        self.assertIn("bfloat16 all_reduce against float32 in bytes/s, target 0.9: least 1.00; below: none", text)

    def test_nothing_is_said_to_be_nothing(self):
        self.assertEqual(["Nothing to judge."], summary.lines([]))


class Peers(unittest.TestCase):
    def test_every_package_is_pinned(self):
        pinned = install.pins()
        for name, line in pinned.items():
            self.assertRegex(line, rf"^{name}==[\w.]+$")
        self.assertEqual(set(), {name for peer in peers.PEERS for name in peer.packages} - set(pinned))

    def test_every_peer_begins_with_its_default_and_says_why_of_all(self):
        for peer in peers.PEERS:
            self.assertEqual(("default", {}, ()), (peer.settings[0].name, peer.settings[0].environment, peer.settings[0].arguments))
            self.assertEqual(len(peer.settings), len({setting.name for setting in peer.settings}))
            self.assertTrue(all(setting.why for setting in peer.settings))

    def test_settings_for_few_cores_and_for_components(self):
        peer = peers.Peer("x", "X", (), (peers.Setting("default", "-"), peers.Setting("yield", "-", when="crowded"),
                                         peers.Setting("xhc", "-", component="coll: xhc")))
        self.assertEqual(["default"], [setting.name for setting in peers.settings_for(peer, False)])
        self.assertEqual(["default", "yield"], [setting.name for setting in peers.settings_for(peer, True, "MCA coll: sm (")])
        self.assertEqual(["default", "xhc"], [setting.name for setting in peers.settings_for(peer, False, "MCA coll: xhc (MCA")])


if __name__ == "__main__":
    unittest.main()
