"""./dev compare --trainer: which figures each target looks at, who starts what, and its page."""
import unittest

import samples  # noqa: F401  (finds the tree)
from bench.compare import training, training_page

_ROUNDS = 9
_MIB = 1 << 20


def cell(group="ddp", dtype="fp32", exposed_s=None, losses=None, peaks=None, **seconds):
    """A turn is of 3 steps of 1000 tokens; names of contestants have _ for spaces."""
    names = {name.replace("__", ", ").replace("_", " "): values for name, values in seconds.items()}
    return {"shape": "bytes", "dtype": dtype, "group": group, "tokens": 1000, "block": 3, "flops_per_token": 2e6,
            "seconds": {name: values if isinstance(values, list) else [values] * _ROUNDS for name, values in names.items()},
            "losses": losses or {name: [5.5, 5.4, 5.3, 9.9] for name in names}, "exposed_s": exposed_s or {},
            "peak_bytes": {name: [one * _MIB for one in (peaks or {}).get(name, (100, 100))] for name in names},
            "before_bytes": {name: [40 * _MIB] * 2 for name in names}}


def results(*cells, errors=()):
    return {"rounds": _ROUNDS, "ranks": 2, "versions": {"weft": "weft 0.1", "torch": "torch 2"}, "cells": list(cells), "errors": list(errors),
            "shapes": {name: training.SHAPES[name] for name in ("bytes", "gpt2")},
            "machine": {"date": "2026-01-02", "processor": "one", "cores": 2, "load": 0.1, "commit": "abc"}}


def verdict(found, words):
    return next((one["verdict"], one["figure"] and round(one["figure"], 3)) for one in found if words in one["target"])


class Figures(unittest.TestCase):
    def test_rates_are_tokens_of_a_turn_over_its_median(self):
        one = cell(weft_ddp=[1.0, 2.0, 30.0])
        self.assertEqual((1500.0, 100.0, 3000.0), training_page.rate(one, "weft ddp"))

    def test_the_peer_is_the_quickest_of_torch_that_communicates(self):
        one = cell("full-shard", "bf16", weft_full_shard=1, FSDP2=4, FSDP2__bf16_policy=3, FSDP2__silent=2)
        self.assertEqual("FSDP2, bf16 policy", training_page.best_peer(one))
        self.assertEqual((3.0, 3.0, 3.0), training_page.ratio(one, "weft full shard", "FSDP2, bf16 policy"))
        self.assertIsNone(training_page.best_peer(cell(weft_ddp=1)))

    def test_pairs_of_a_round_cancel_what_disturbed_both(self):
        ours = [1.0, 1.0, 7.0, 1.0, 3.0, 1.0, 2.0, 1.0, 1.0]
        found = training_page.ratio(cell(weft_ddp=ours, DDP=[2 * one for one in ours]), "weft ddp", "DDP")
        self.assertEqual((2.0, 2.0, 2.0), found)

    def test_exposed_is_a_step_minus_the_same_without_communication(self):
        one = cell(weft_ddp=2.0, weft_ddp__silent=1.5, DDP=4.0, DDP__silent=3.0)
        self.assertEqual((0.25, 0.25, 0.25, "step without"), training_page.exposed(one, "weft ddp"))
        self.assertEqual((0.25, 0.25, 0.25, "step without"), training_page.exposed(one, "DDP"))
        self.assertIsNone(training_page.exposed(one, "DDP, silent"))

    def test_without_a_silent_one_exposed_is_what_was_waited(self):
        one = cell("full-shard", weft_full_shard=2.0, FSDP2=4.0, exposed_s={"weft full shard": [0.5] * _ROUNDS})
        self.assertEqual((0.25, 0.25, 0.25, "waited"), training_page.exposed(one, "weft full shard"))
        self.assertIsNone(training_page.exposed(one, "FSDP2"))

    def test_who_computes_otherwise_is_not_compared_with_a_silent_one(self):
        one = cell("full-shard", "bf16", FSDP2__bf16_policy=4.0, FSDP2__silent=3.0)
        self.assertIsNone(training_page.exposed(one, "FSDP2, bf16 policy"))

    def test_losses_are_those_of_the_first_steps_without_the_silent(self):
        losses = {"weft ddp": [5.5, 5.5, 5.5, 1.0], "DDP": [5.5, 5.0, 5.5, 9.0], "DDP, silent": [1.0, 1.0, 1.0, 1.0]}
        one = cell(weft_ddp=1, DDP=2, DDP__silent=1, losses=losses)
        self.assertAlmostEqual(0.1, training_page.losses_apart(one))
        self.assertIsNone(training_page.losses_apart(cell(weft_ddp=1)))


class Targets(unittest.TestCase):
    def test_tokens_per_second_against_the_bar_of_type_and_group(self):
        for dtype, limit in (("bf16", 2.0), ("fp32", 1.3)):
            for theirs, expected in ((limit + 0.1, "pass"), (limit - 0.1, "fail")):
                found = training_page.judged(results(cell(dtype=dtype, weft_ddp=1.0, DDP=theirs)))
                self.assertEqual((expected, round(theirs, 3)), verdict(found, "tokens/s"))

    def test_memory_is_that_of_the_processes_and_that_beyond_their_libraries(self):
        for ours, whole, of_model in ((99, ("pass", 0.99), ("pass", 0.983)), (101, ("fail", 1.01), ("fail", 1.017))):
            found = training_page.judged(results(cell(weft_ddp=1.0, DDP=2.0, peaks={"weft ddp": (ours, ours)})))
            self.assertEqual(whole, verdict(found, "peak memory at most"))
            self.assertEqual(of_model, verdict(found, "peak memory of the model"))

    def test_exposed_communication_of_ddp(self):
        for silent, expected in ((0.99, "pass"), (0.9, "fail")):
            found = training_page.judged(results(cell(weft_ddp=1.0, weft_ddp__silent=silent, DDP=2.0)))
            self.assertEqual(expected, verdict(found, "exposed")[0])

    def test_losses_that_differ_fail_and_so_do_those_that_are_no_numbers(self):
        for other, expected in ((5.5001, "pass"), (5.6, "fail"), (float("nan"), "fail")):
            losses = {"DDP": [5.5] * 3, "weft ddp": [5.5, other, 5.5]}
            self.assertEqual(expected, verdict(training_page.judged(results(cell(weft_ddp=1.0, DDP=2.0, losses=losses))), "losses")[0])

    def test_nothing_passes_that_was_not_measured(self):
        found = training_page.judged(results(cell(DDP=2.0)))
        self.assertEqual({"not measured"}, {one["verdict"] for one in found})
        self.assertEqual(1, sum("gpt2: all" in one["target"] for one in found))


class Commands(unittest.TestCase):
    def entrant(self, name):
        return next(one for group in training.entrants(2).values() for one in group if one.name == name)

    def words(self, name, dtype="bf16"):
        return list(map(str, self.entrant(name).command({**training.SHAPES["bytes"], "steps": 9}, dtype, "/in", 1)))

    def test_ours_are_started_by_weftrun_with_the_shape_in_words(self):
        words = self.words("weft full-shard")
        self.assertEqual(["-n", "2"], words[1:3])
        for word in ("layers=6", "width=384", "batch=8", "steps=9", "precision=bf16", "threads=1", "strategy=full-shard"):
            self.assertIn(word, words)
        self.assertFalse(any(word.startswith("block") for word in words))

    def test_torch_starts_its_ranks_itself_unless_they_are_wefts(self):
        self.assertIn("ddp", self.words("DDP"))
        self.assertNotIn("-n", self.words("DDP"))
        self.assertEqual(["-n", "2"], self.words("weft.torch no_shard")[1:3])

    def test_every_way_is_one_of_the_drivers(self):
        text = (samples.ROOT / "bench" / "compare" / "driver" / "torch_trainer.py").read_text()
        for group in training.entrants(2).values():
            for one in group:
                if one.way:
                    self.assertIn(f'"{one.way}": (', text)


class Page(unittest.TestCase):
    def test_rows_say_rates_ratios_memory_and_communication(self):
        page = training_page.render({**results(cell(weft_ddp=1.5, weft_ddp__silent=1.2, DDP=3.0), errors=[{"name": "gpt2", "error": "too wide"}]),
                                     "targets": []})
        self.assertIn("| weft ddp | 2000 [2000, 2000] | 2.00 [2.00, 2.00] | 4 | 200 | 120 | 20.0% [20.0%, 20.0%] |", page)
        self.assertIn("| DDP | 1000 [1000, 1000] |  | 2 | 200 | 120 |  |", page)
        self.assertIn("- gpt2: too wide", page)


if __name__ == "__main__":
    unittest.main()
