"""The rows of ./dev validate: each has a reference that differs in one thing, and all are there."""
import pathlib
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT))
from workbench.validate.matrix import BITWISE, CLOSE, FAMILIES, MODES, PRESETS, groups, rows
from workbench.validate.settings import STEPS, Settings


class Matrix(unittest.TestCase):
    def test_settings_are_equal_if_they_train_the_same(self):
        self.assertEqual(Settings({"ranks": 2, "accumulate": 1, "nodes": None}), Settings({}))
        one = Settings({"strategy": "full-shard", "ranks": 4, "accumulate": 2, "no-overlap": True})
        self.assertEqual("full-shard x4 accumulate=2 no-overlap", one.name)
        self.assertEqual(Settings({"ranks": 4, "accumulate": 2}),
                         one.but({"strategy": "ddp", "no-overlap": None}))
        words = one.arguments()
        self.assertIn("--no-overlap", words)
        self.assertEqual("full-shard", words[words.index("--strategy") + 1])
        self.assertNotIn("--ranks", words)

    def test_legs_go_on_from_each_other(self):
        one = Settings({"strategy": "zero1", "legs": ((4, (("ranks", 3),)),
                                                      (9, (("strategy", "ddp"),)))})
        self.assertEqual("zero1 x2 after-4:ranks=3 after-9:strategy=ddp", one.name)
        self.assertEqual([(4, "zero1 x2"), (9, "zero1 x3"), (STEPS, "ddp x3")],
                         [(until, leg.name) for until, leg in one.legs()])

    def test_the_short_form_is_a_part_of_the_whole(self):
        whole = {(row.kind, row.settings, row.reference) for row in rows()}
        short = {(row.kind, row.settings, row.reference) for row in rows(short=True)}
        self.assertEqual(set(), short - whole)
        for family in FAMILIES:
            self.assertTrue(family.proves and family.rows, family.name)

    def test_rows_are_there_once_and_names_tell_them_apart(self):
        for short in (False, True):
            found = rows(short)
            keys = [(row.settings, row.reference) for row in found]
            self.assertEqual(len(keys), len(set(keys)))
            all_of = {row.settings for row in found} | {row.reference for row in found} - {None}
            self.assertEqual(len(all_of), len({one.name for one in all_of}))

    def test_a_bitwise_reference_has_the_ranks_micro_batches_and_mode_of_its_row(self):
        for row in rows():
            if row.kind == BITWISE and row.reference and row.family != "one micro-batch":
                for name in ("ranks", "accumulate", "accumulation", "batch", "seed", "lr", "dtype"):
                    self.assertEqual(row.settings.get(name), row.reference.get(name), row)
            self.assertNotEqual(row.settings, row.reference)
            if row.family == "one micro-batch":
                self.assertEqual(1, row.settings.get("accumulate"))
            if row.kind == CLOSE:
                self.assertEqual((1, 1, "ddp"), tuple(map(row.reference.get, (
                    "ranks", "accumulate", "strategy"))))

    def test_all_presets_modes_and_ranks_are_there(self):
        there = {tuple(map(row.settings.get, ("strategy", "ranks", "accumulate", "accumulation")))
                 for row in rows() if row.family == "presets"}
        for preset in PRESETS[1:]:
            for ranks in (2, 4):
                for mode in MODES:
                    for accumulate in (1, 2, 4):
                        self.assertIn((preset, ranks, accumulate, mode), there)

    def test_rows_of_a_reference_stand_together(self):
        grouped = groups(rows())
        self.assertEqual(len(rows()), sum(len(some) for _, some in grouped))
        references = [reference for reference, _ in grouped if reference]
        self.assertEqual(len(references), len(set(references)))
        for reference, some in grouped:
            self.assertEqual({reference}, {row.reference for row in some})


if __name__ == "__main__":
    unittest.main()
