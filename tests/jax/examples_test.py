"""The examples train alike on any number of ranks, and the programs of docs/jax.md and docs/sharding_jax.md print what these show."""
import subprocess
import sys

from jax_ranks import ROOT, JaxTest, launched, main, ranks, sizes

_EXAMPLES = ROOT / "bindings" / "python" / "examples"
_DOCUMENT = ROOT / "docs" / "jax.md"


class Examples(JaxTest):
    def losses(self, name, size):
        job = self.launch("-n", size, sys.executable, "-B", _EXAMPLES / name, environment={**ranks.environment(), "JAX_PLATFORMS": "cpu"})
        code, out, err = job.finish()
        self.assertEqual((0, []), (code, err), out)
        return [float(line.split()[-1]) for line in out]

    def compare(self, name, counts):
        alone = self.losses(name, 1)
        self.assertEqual(20, len(alone))
        for size in counts:
            for one, other in zip(alone, self.losses(name, size)):
                self.assertLessEqual(abs(one - other), 1e-6 * abs(one), (name, size))

    def test_data_parallel(self):
        self.compare("jax_data_parallel.py", sizes(2))

    def test_zero1(self):
        self.compare("jax_zero1.py", sizes(2))

    def test_fsdp(self):
        self.compare("jax_fsdp.py", sizes(3))

    def test_they_are_short(self):
        for path in _EXAMPLES.glob("jax_*.py"):
            self.assertLess(len(path.read_text().splitlines()), 60, path)

    def test_programs_of_the_document(self):
        """Each block of Python as 2 ranks, and what the block of text behind it shows of its output."""
        found = ranks.programs_of(_DOCUMENT)
        self.assertGreaterEqual(len(found), 3)
        of_sharding = ranks.programs_of(_DOCUMENT.with_name("sharding_jax.md"))
        self.assertEqual(1, len(of_sharding))
        found += of_sharding
        for code, shown in found:
            with self.subTest(code):
                path = self.program(code, start="")
                done = subprocess.run([sys.executable, "-B", "-m", "weft.run", "-n", "2", str(path)], env={**ranks.environment(), "JAX_PLATFORMS": "cpu"},
                                      capture_output=True, text=True, timeout=launched.DEADLINE_S, check=False)
                self.assertEqual((0, ""), (done.returncode, done.stderr), done.stdout)
                if shown:
                    self.assertEqual(sorted(shown.splitlines()), sorted(done.stdout.splitlines()))

    def test_document_has_every_name(self):
        import weft.jax
        text = _DOCUMENT.read_text()
        self.assertEqual([], [name for name in weft.jax.__all__ if f"`{name}" not in text])


if __name__ == "__main__":
    main()
