"""Every target: its figure, its verdict, and what is named when it is missed."""
import unittest

import samples
from bench.compare import alone, findings, machine, targets


def found(ratios, rounds=9, **changes):
    """One finding per ratio, of sizes 8, 16...: the best peer takes ratio microseconds, weft one in both memories."""
    ours = samples.entry([1.0] * rounds)
    return [findings.judge(samples.cell({"weft/private": ours, "weft/symmetric": ours,
                                         "mpich/default": samples.entry([ratio] * rounds if isinstance(ratio, float) else ratio)},
                                        **{"bytes": 8 << index, **changes}))
            for index, ratio in enumerate(ratios)]


def pair(reference, judged, size=65536, **more):
    return {"memory": "private", "bytes": size, "reference_us": reference, "judged_us": judged, **more}


def tail(ranks=4, size=8, p999=100.0, most=200.0, steal=0.0, throttled=0.0):
    return {"ranks": ranks, "bytes": size, "calls": 10000, "median_us": 10.0, "p999_us": p999, "max_us": most, "steal_s": steal,
            "throttled_s": throttled}


class Verdicts(unittest.TestCase):
    def target(self, name, cells=(), alone_=None, rounds=9):
        return next(target for target in targets.judged(list(cells), alone_, rounds) if target["target"].startswith(name))

    def test_nothing_measured_is_never_a_pass(self):
        judged = targets.judged([], None, 9)
        self.assertEqual({"not measured"}, {target["verdict"] for target in judged})
        self.assertEqual(len(judged), len({target["target"] for target in judged}))

    def test_cells_fail_when_their_whole_interval_is_below(self):
        name = "private, hot: no cell below 1.0"
        target = self.target(name, found([2.0, 0.5]))
        self.assertEqual(("fail", 0.5, "below: all_reduce 16 float32 hot 0.50"), (target["verdict"], target["figure"], target["detail"]))
        self.assertEqual("pass", self.target(name, found([2.0, 1.5]))["verdict"])
        target = self.target(name, found([[0.9, 1.1, 1.1, 0.9, 1.1, 0.9, 1.1, 0.9, 1.1]]))
        self.assertEqual("uncertain", target["verdict"])
        self.assertIn("not certain: all_reduce 8", target["detail"])

    def test_fewer_rounds_than_nine_prove_no_interval(self):
        self.assertEqual("uncertain", self.target("private, hot: no cell below 1.0", found([2.0], rounds=3), rounds=3)["verdict"])

    def test_weak_cells_are_below_both(self):
        name = "private, hot: cells below 1.2"
        self.assertEqual("pass", self.target(name, found([1.1]))["verdict"])  # at more than 80 % of the bound
        target = self.target(name, found([1.1], sync_us=[0.1]))
        self.assertEqual(("fail", 1), (target["verdict"], target["figure"]))

    def test_means(self):
        self.assertEqual(("pass", 2.0), tuple(round(x, 6) if isinstance(x, float) else x for x in map(
            self.target("private, hot: geometric mean", found([1.0, 4.0])).get, ("verdict", "figure"))))
        self.assertEqual("fail", self.target("broadcast, hot: geometric mean", found([1.1], op="broadcast"))["verdict"])
        self.assertEqual("not measured", self.target("private, hot: geometric mean", found([1.1], op="broadcast"))["verdict"])

    def test_more_ranks_than_cores(self):
        self.assertEqual("fail", self.target("8 ranks", found([1.9], ranks=8))["verdict"])
        self.assertEqual("fail", self.target("4 ranks: geometric", found([1.3], ranks=4))["verdict"])
        self.assertEqual("pass", self.target("4 ranks: no cell", found([1.3], ranks=4))["verdict"])

    def test_symmetric_targets_have_their_sizes(self):
        name = "symmetric all_reduce"
        self.assertEqual("not measured", self.target(name, found([1.0], bytes=32768))["verdict"])
        self.assertEqual("fail", self.target(name, found([3.9], bytes=65536))["verdict"])
        self.assertEqual("pass", self.target(name, found([4.1], bytes=64 << 20))["verdict"])
        small = "symmetric all_gather in place and reduce_scatter, to 1 MiB"
        self.assertEqual("pass", self.target(small, found([2.6], op="all_gather", bytes=1 << 20))["verdict"])
        self.assertEqual("not measured", self.target(small, found([2.6], op="all_gather", place="out", bytes=1 << 20))["verdict"])
        large = "symmetric all_gather in place and reduce_scatter, above"
        # 3 * 2 MiB / (2 * 10 GB/s) = 315 us: far more than the microsecond that weft takes.
        self.assertEqual("pass", self.target(large, found([1.0], op="reduce_scatter", bytes=2 << 20))["verdict"])
        target = self.target(large, found([1.0], op="reduce_scatter", bytes=2 << 20, sync_us=[0.0], copy_bytes_per_s=[1e13]))
        self.assertEqual("fail", target["verdict"])
        self.assertIn("reduce_scatter 2 Mi float32 hot", target["detail"])

    def test_pairs_name_what_is_slower(self):
        entries = [pair([9.0] * 9, [9.0] * 9), pair([8.0] * 9, [10.0] * 9, 1 << 20, flight=4)]
        target = self.target("asynchronous", alone_={"flights": entries})
        self.assertEqual(("fail", 0.8, "below: private 1 Mi, 4 under way 0.80"), (target["verdict"], target["figure"], target["detail"]))
        self.assertEqual("pass", self.target("bfloat16", alone_={"dtypes": entries[:1]})["verdict"])

    def test_a_part_that_failed_fails_its_target(self):
        target = self.target("idle", alone_={"idle": [{"after": "blocking", "seconds": 10, "share": 0.0}, {"error": "rank 1 was lost"}]})
        self.assertEqual(("fail", "rank 1 was lost"), (target["verdict"], target["detail"]))

    def test_idle_is_judged_by_the_busiest(self):
        entries = [{"after": "blocking", "seconds": 10, "share": 0.001}, {"after": "asynchronous", "seconds": 10, "share": 0.006}]
        target = self.target("idle", alone_={"idle": entries})
        self.assertEqual(("fail", 0.006), (target["verdict"], target["figure"]))
        self.assertEqual("pass", self.target("idle", alone_={"idle": entries[:1]})["verdict"])

    def test_tails_name_the_maximum_and_what_excuses_it(self):
        target = self.target("4 and 8 ranks", alone_={"tails": [tail(), tail(8, 65536, 4900.0, 9000.0, steal=0.25)]})
        self.assertEqual(("pass", 4.9), (target["verdict"], target["figure"]))
        self.assertIn("maximum 9.00 ms (8 ranks, 64 Ki; in its window steal 0.25 s, throttled 0.00 s)", target["detail"])
        self.assertNotIn("no excuse", target["detail"])
        target = self.target("4 and 8 ranks", alone_={"tails": [tail(most=6000.0)]})
        self.assertIn("no excuse for a maximum above 5 ms: 4 ranks 8 6.00 ms", target["detail"])
        self.assertEqual("fail", self.target("4 and 8 ranks", alone_={"tails": [tail(p999=5001.0)]})["verdict"])

    def test_table_has_a_row_for_each(self):
        judged = targets.judged(found([2.0]), None, 9)
        rows = targets.lines(judged)
        self.assertEqual(len(judged) + 2, len(rows))
        self.assertEqual({rows[0].count("|")}, {row.count("|") for row in rows})


class Alone(unittest.TestCase):
    def test_pairs_differ_in_one_thing(self):
        for _, reference, judged in alone.dtype_pairs() + alone.flight_pairs():
            self.assertEqual(1, sum(reference[key] != judged[key] for key in reference), (reference, judged))
        self.assertEqual({64 << 10, 64 << 20}, {min(alone.SIZES), max(alone.SIZES)})
        # Calls that are under way at a time have buffers of their own.
        self.assertTrue(all(judged["sets"] >= judged["flight"] for _, _, judged in alone.flight_pairs()))

    def test_lines_are_the_protocols(self):
        cell = "op=all_reduce dtype=float32 bytes=65536 place=in memory=symmetric sets=4 calls=20 warmup=5 check=0 keep=1"
        variant = alone.variant_of(65536, "symmetric", sets=4)
        self.assertEqual(cell, alone.line_of(variant, 20, 5))
        self.assertEqual(cell + " flight=4", alone.line_of(dict(variant, flight=4), 20, 5))

    def test_the_slowest_rank_counts(self):
        answers = [{"median_s": 1e-6, "p999_s": 5e-3, "max_s": 6e-3}, {"median_s": 2e-6, "p999_s": 1e-3, "max_s": 9e-3}]
        self.assertEqual({"ranks": 8, "bytes": 8, "calls": 100, "median_us": 2.0, "p999_us": 5000.0, "max_us": 9000.0,
                          "steal_s": 0.5, "throttled_s": 0.0}, alone.tail_entry(answers, 8, 8, 100, 0.5, 0.0))
        self.assertAlmostEqual(0.02, alone.busiest_share([{"cpu_s": 0.1, "begin_s": 5, "end_s": 15},
                                                          {"cpu_s": 0.2, "begin_s": 5, "end_s": 15}]))

    def test_throttling_of_both_versions_of_cgroups(self):
        self.assertAlmostEqual(1.5, machine.throttled_seconds("usage_usec 7\nnr_throttled 3\nthrottled_usec 1500000\n"))
        self.assertAlmostEqual(2.5, machine.throttled_seconds("nr_periods 9\nthrottled_time 2500000000\n"))
        self.assertEqual(0, machine.throttled_seconds("usage_usec 7\n"))
        self.assertGreaterEqual(machine.throttled_s(), 0)


if __name__ == "__main__":
    unittest.main()
