"""./dev validate finds one bit of a loss or a param, cut-off curves, missing tensors, and what is
no number, and says in which step and tensor."""
import dataclasses
import math
import pathlib
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT))
from known_outcomes import an_outcome, tensor, with_step, with_tensor
from workbench.validate.comparison import TOLERANCE, compare, learned
from workbench.validate.matrix import BITWISE, CLOSE
from workbench.validate.outcome import Tensor


class Comparisons(unittest.TestCase):
    def check_red(self, outcome, *words, kinds=(BITWISE, CLOSE), reference=None):
        for kind in kinds:
            found = compare(kind, outcome, reference or an_outcome())
            self.assertFalse(found.right, kind)
            for word in words:
                self.assertIn(word, found.sentence)

    def check_right(self, kind, outcome, reference=None):
        found = compare(kind, outcome, reference or an_outcome())
        self.assertTrue(found.right, found.sentence)
        self.assertEqual("", found.sentence)
        return found

    def test_the_same_bits_are_right(self):
        for kind in (BITWISE, CLOSE):
            found = self.check_right(kind, an_outcome())
            self.assertEqual({"loss": 0, "grad_norm": 0, "params": 0}, found.worst)

    def test_one_bit_of_a_loss_is_found_at_its_step(self):
        outcome = with_step(an_outcome(), 7, loss=math.nextafter(4.25, 5))
        self.check_red(outcome, "step 7 is the first that differs: loss is 4.250000000000001, the "
                       "reference's 4.25", kinds=(BITWISE,))
        found = self.check_right(CLOSE, outcome)
        self.assertGreater(found.worst["loss"], 0)
        self.assertEqual([7], [step for step, apart in enumerate(found.by_step, 1) if apart])

    def test_one_bit_of_a_param_is_found_though_all_losses_are_alike(self):
        data = bytearray(an_outcome().tensors["wte@value"].data)
        data[4] ^= 1
        outcome = with_tensor(an_outcome(), "wte@value", Tensor("F32", bytes(data)))
        self.check_red(outcome, "1 of 3 tensors differ at the end: wte@value from element 1 on, "
                       "by 7.9e-08", kinds=(BITWISE,))
        self.check_right(CLOSE, outcome)
        self.assertNotEqual(outcome.digest(), an_outcome().digest())

    def test_signs_of_zeros_are_bits(self):
        outcome = with_tensor(an_outcome(), "wte@moment1", tensor(0, 0.5, -0.0))
        self.check_red(outcome, "wte@moment1 from element 2 on", kinds=(BITWISE,))
        self.check_right(CLOSE, outcome)

    def test_close_is_a_relative_tolerance_of_each_series_and_tensor(self):
        for wide, right in ((0.9 * TOLERANCE, True), (1.1 * TOLERANCE, False)):
            for outcome in (with_step(an_outcome(), 3, loss=4.75 * (1 + wide)),
                            with_step(an_outcome(), 3, grad_norm=1.5 * (1 - wide)),
                            with_tensor(an_outcome(), "wte@value", tensor(1 + 3 * wide, -2, 3)),
                            with_tensor(an_outcome(), "wte@moment1", tensor(0, 0.5, wide / 2))):
                found = compare(CLOSE, outcome, an_outcome())
                self.assertEqual(right, found.right, found.sentence)
                self.assertAlmostEqual(wide / TOLERANCE, max(found.worst.values()) / TOLERANCE, 1)

    def test_the_largest_loss_of_a_rank_counts_among_equal_ranks_only(self):
        outcome = with_step(an_outcome(), 2, loss_max=6.0)
        self.check_red(outcome, "step 2 is the first that differs: loss_max", kinds=(BITWISE,))
        self.check_right(CLOSE, outcome)

    def test_a_curve_that_is_cut_off_or_too_long(self):
        short = dataclasses.replace(an_outcome(), steps=an_outcome().steps[:12])
        self.check_red(short, "it ends after step 12, the reference after step 20")
        self.check_red(an_outcome(), "it ends after step 20, the reference after step 12",
                       reference=short)
        none = dataclasses.replace(an_outcome(), steps=())
        self.check_red(none, "it has no steps", reference=none)

    def test_tensors_that_are_missing_or_new_or_of_another_size(self):
        less = {"wte@value": tensor(1, -2, 3)}
        self.check_red(dataclasses.replace(an_outcome(), tensors=less),
                       "it lacks lnf.bias@value, wte@moment1")
        self.check_red(an_outcome(), "it has beside the reference's lnf.bias@value, wte@moment1",
                       reference=dataclasses.replace(an_outcome(), tensors=less))
        self.check_red(with_tensor(an_outcome(), "wte@value", tensor(1, -2)), "wte@value")
        none = dataclasses.replace(an_outcome(), tensors={})
        self.check_red(none, "it has no tensors", reference=none)

    def test_what_is_no_number_is_wrong_also_if_the_reference_has_it(self):
        for value in (None, math.nan, math.inf, ...):
            for name in ("loss", "grad_norm"):
                outcome = with_step(an_outcome(), 5, **{name: value})
                words = f"step 5 is the first that differs: {name} is "
                self.check_red(outcome, words)
                self.check_red(outcome, words, reference=outcome)
        for value in (math.nan, math.inf):
            outcome = with_tensor(an_outcome(), "wte@value", tensor(1, value, 3))
            words = "wte@value from element 1 on, by inf"
            self.check_red(outcome, words)
            self.check_red(outcome, words, reference=outcome)
        self.check_red(an_outcome(), "step 1 is the first", "grad_norm is 1.5, the reference's nan",
                       reference=with_step(an_outcome(), 1, grad_norm=math.nan))

    def test_a_step_that_updated_nothing_has_no_norm_if_neither_has(self):
        skipped = with_step(an_outcome(), 2, grad_norm=None, skipped=True, loss_scale=2.0)
        for kind in (BITWISE, CLOSE):
            self.check_right(kind, skipped, skipped)
        self.check_red(skipped, "step 2 is the first that differs: grad_norm is no number")
        self.check_red(with_step(skipped, 2, skipped=...), "skipped is no number, the reference's "
                       "True", reference=skipped)
        self.check_red(with_step(skipped, 2, loss_scale=4.0), "loss_scale is 4.0",
                       reference=skipped)
        self.check_red(with_step(skipped, 2, loss=None), "loss is no number", reference=skipped)

    def test_many_tensors_are_counted_and_the_first_named(self):
        before, after = ({f"t{i}@value": tensor(value) for i in range(9)} for value in (1, 2))
        self.check_red(dataclasses.replace(an_outcome(), tensors=after),
                       "9 of 9 tensors differ at the end: t0@value from element 0 on, by 1.0e+00",
                       " and 6 more",
                       reference=dataclasses.replace(an_outcome(), tensors=before))

    def test_numbers_of_16_bits_are_what_they_say(self):
        self.assertEqual([1.0, -2.5], list(Tensor("BF16", bytes.fromhex("803f20c0")).numbers()))
        self.assertEqual([1.0, -2.5], list(Tensor("F16", bytes.fromhex("003c00c1")).numbers()))
        one, other = bytes.fromhex("803f20c0"), bytes.fromhex("803f24c0")
        self.check_red(with_tensor(an_outcome(), "a@value", Tensor("BF16", other)),
                       "a@value from element 1 on, by 2.5e-02",
                       reference=with_tensor(an_outcome(), "a@value", Tensor("BF16", one)))

    def test_a_run_that_does_not_learn_proves_nothing(self):
        self.assertTrue(learned(an_outcome()))
        flat = tuple({"loss": 5.0, "grad_norm": 1.0} for _ in range(20))
        self.assertFalse(learned(dataclasses.replace(an_outcome(), steps=flat)))
        self.assertFalse(learned(with_step(an_outcome(), 20, loss=None)))


if __name__ == "__main__":
    unittest.main()
