"""How compile_time.py judges a translation unit on a machine whose speed drifts."""
import unittest

from compile_time import LIMIT_S, CALIBRATION_S, judged_seconds, logged_seconds, suspects


class CompileTime(unittest.TestCase):
    def test_a_machine_that_slows_down_is_no_excuse_and_no_fault(self):
        def judged(*pairs):
            suspects, calibrations = (iter(column) for column in zip(*pairs))
            return judged_seconds(lambda: next(suspects), lambda: next(calibrations))

        self.assertEqual(4.0, judged((4.0, CALIBRATION_S)))  # one pair is enough
        self.assertEqual(4.0, judged((8.0, 2 * CALIBRATION_S)))
        self.assertEqual(4.5, judged((9.0, CALIBRATION_S), (9.0, 2 * CALIBRATION_S)))
        self.assertEqual(5.5, judged((6.0, CALIBRATION_S), (5.5, CALIBRATION_S), (16.5, 2 * CALIBRATION_S)))
        self.assertEqual(4.0, judged((4.0, CALIBRATION_S / 2)))  # a quicker machine has the same limit

    def test_only_the_slowest_are_suspects(self):
        seconds = {f"{i}.o": LIMIT_S + i for i in range(100)}
        found = suspects(seconds, [*seconds, "unknown.o"])
        self.assertEqual((40, "99.o", "60.o"), (len(found), found[0], found[-1]))
        self.assertEqual([], suspects({"a.o": LIMIT_S}, ["a.o"]))

    def test_log_is_read(self):
        log = "# ninja log v5\n0\t6100\t1\ta.o\tff\n100\t200\t1\tb.o\tfe\n0\t900\t2\ta.o\tff\n"
        self.assertEqual({"a.o": 0.9, "b.o": 0.1}, logged_seconds(log))


if __name__ == "__main__":
    unittest.main()
