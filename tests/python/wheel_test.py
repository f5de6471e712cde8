"""The source distribution and the wheel that ./dev wheel makes, installed into a fresh environment, and there the examples, all programs of docs/python.md, and programs of torch's
that do not know weft. Takes the minutes of a whole build, so only `./dev test --all-cases`, and with it nightly, does it; skipped where pip reaches no registry."""
import functools
import os
import pathlib
import re
import subprocess
import sys
import tarfile
import tempfile
import unittest
import zipfile

import ranks
from ranks import launched

_BUILD_DEADLINE_S = 3000
_DEADLINE_S = 300  # a fresh environment takes a minute on a busy machine
_BYTES_MAX = 6 << 20
_PIP = ("-m", "pip", "--disable-pip-version-check", "--retries", "1", "install")
_FRAMEWORKS = ("torch", "jax")
_IMPORT_TIME = "import time; start = time.perf_counter(), time.process_time(); import weft; print((time.perf_counter() - start[0]) * 1e3, (time.process_time() - start[1]) * 1e3)"

# As a user of gloo has it: weft is a name, which torch looks up among the entry points of what is installed.
_TRAINS = """\
import sys
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

assert "weft" not in sys.modules
dist.init_process_group("weft")
rank, size = dist.get_rank(), dist.get_world_size()
x = torch.randn(12, 4, generator=torch.Generator().manual_seed(1))
y = x.square().sum(1, keepdim=True)


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 1))


def trained(model, rank, size):
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    for step in range(20):
        optimizer.zero_grad()
        nn.functional.mse_loss(model(x[rank::size]), y[rank::size]).backward()
        optimizer.step()
    return model


alone = trained(network(), 0, 1).state_dict()
ddp = trained(nn.parallel.DistributedDataParallel(network()), rank, size).module.state_dict()
fsdp = {name: tensor.full_tensor() for name, tensor in trained(fully_shard(network(), mesh=init_device_mesh("cpu", (size,))), rank, size).state_dict().items()}
for found in (ddp, fsdp):
    for name, wanted in alone.items():
        torch.testing.assert_close(found[name], wanted, rtol=1e-4, atol=1e-5)
print(f"rank {rank} of {size} trained over {dist.get_backend()}, which is installed: {sys.modules['weft'].__file__.startswith(sys.prefix)}\\n", end="", flush=True)
dist.destroy_process_group()
"""
_TORCHRUN = ("torch.distributed.run", "--standalone", "--nproc-per-node")


def run(*command, deadline_s=_DEADLINE_S, cwd=None, **environment):
    return subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=deadline_s, env=launched.clean_environment(**environment), check=False, cwd=cwd)


class Wheel(unittest.TestCase):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        built = run(sys.executable, ranks.ROOT / "dev", "wheel", "--out", cls.folder, deadline_s=_BUILD_DEADLINE_S)
        if "tools could not be installed" in built.stderr:
            raise unittest.SkipTest("pip reaches no registry")
        assert built.returncode == 0, built.stdout + built.stderr
        cls.sources, = cls.folder.glob("*.tar.gz")
        cls.wheel, = cls.folder.glob("*.whl")
        with tarfile.open(cls.sources) as archive:
            cls.source_names = {name.partition("/")[2] for name in archive.getnames()}

    def test_what_is_in_it(self):
        top = {name.split("/")[0] for name in self.source_names}
        self.assertEqual(set(), top & {"tests", "bench", "trainer", "build", "docs"})
        self.assertLessEqual({"LICENSE", "include", "comm", "shard", "bindings", "pyproject.toml", "PKG-INFO"}, top)
        # By glibc's version, unless the system's libraries are of another kind.
        self.assertRegex(self.wheel.name, r"\Aweft-\d+\.\d+\.\d+-py3-none-manylinux_2_\d+_\w+\.whl\Z")
        print(f"{self.wheel.name}: {self.wheel.stat().st_size / 1e6:.1f} MB, {self.sources.name}: {self.sources.stat().st_size / 1e6:.1f} MB")
        self.assertLess(self.wheel.stat().st_size, _BYTES_MAX)
        archive = zipfile.ZipFile(self.wheel)
        files = {name for name in archive.namelist() if name.startswith("weft/") and not name.endswith("/")}
        below = "bindings/python/src/"
        modules = {name[len(below):] for name in self.source_names if name.startswith(below) and name.endswith((".py", ".typed", ".cc"))}
        headers = {f"weft/{name}" for name in self.source_names if name.startswith("include/weft/") and name.endswith(".h")}
        optional = {f"weft/lib/{name}" for name in ("libweft_uring.so", "libweft_ucx.so", "weft_quick.abi3.so")}
        self.assertEqual(modules | headers | {"weft/lib/libweft.so.0", "weft/bin/weftrun"}, files - optional)
        entries = next(name for name in archive.namelist() if name.endswith(".dist-info/entry_points.txt"))
        self.assertIn("weft = weft.torch:register", archive.read(entries).decode())

    @functools.cached_property
    def python(self):
        """Of a fresh environment that has the wheel, and nothing else."""
        run(sys.executable, "-m", "venv", self.folder / "fresh")
        python = self.folder / "fresh" / "bin" / "python"
        installed = run(python, *_PIP, "--no-index", self.wheel)
        self.assertEqual(0, installed.returncode, installed.stdout + installed.stderr)
        return python

    def test_it_installs_and_runs_examples_and_the_document(self):
        python = self.python
        elapsed, used = (min(times) for times in zip(*(map(float, run(python, "-c", _IMPORT_TIME).stdout.split()) for _ in range(5))))
        print(f"import weft, with neither numpy nor torch installed: {elapsed:.0f} ms at best, {used:.0f} of the processor's")
        installed = run(python, *_PIP, *re.findall(r"^numpy==.*$", (ranks.ROOT / "tests" / "requirements.txt").read_text(), re.MULTILINE))
        self.assertEqual(0, installed.returncode, installed.stdout + installed.stderr)

        def expect(program, shown="", **environment):
            with self.subTest(program):
                ended = run(python, "-m", "weft.run", "-n", 2, program, cwd=self.folder, **environment)
                self.assertEqual((0, ""), (ended.returncode, ended.stderr), ended.stdout)
                if shown:
                    self.assertEqual(sorted(shown.splitlines()), sorted(ended.stdout.splitlines()))

        found = ranks.programs_of(ranks.ROOT / "docs" / "python.md")
        self.assertGreaterEqual(len(found), 5)
        for number, (code, shown) in enumerate(found):
            program = self.folder / f"program{number}.py"
            program.write_text(code)
            expect(program, shown)
        ran = []
        for program in sorted((ranks.ROOT / "bindings" / "python" / "examples").glob("*.py")):
            needed = [name for name in _FRAMEWORKS if re.search(rf"^(import|from) {name}\b", program.read_text(), re.MULTILINE)]
            folders = [ranks.packages.parent / name for name in needed]
            if all((folder / "requirements.txt").exists() for folder in folders):
                expect(program, PYTHONPATH=os.pathsep.join(map(str, folders)), JAX_PLATFORMS="cpu", CUDA_VISIBLE_DEVICES="")
                ran.append(program.name)
        print(f"programs of the document: {len(found)}; examples: {' '.join(ran)}")

    def test_torch_finds_it_by_its_entry_point(self):
        """As processes of either launcher that do not import it. torch is that of its label's tests, since it takes gigabytes."""
        torch = ranks.packages.parent / "torch"
        if not (torch / "requirements.txt").exists():
            self.skipTest("./dev test torch has not installed torch")
        program = self.folder / "trains.py"
        program.write_text(_TRAINS)
        for launcher in (("weft.run", "-n"), _TORCHRUN):
            with self.subTest(launcher):
                ended = run(self.python, "-m", *launcher, 2, program, cwd=self.folder, PYTHONPATH=torch, OMP_NUM_THREADS="1", CUDA_VISIBLE_DEVICES="")
                lines = sorted(line[line.index("rank"):] for line in ended.stdout.splitlines() if "rank" in line)
                self.assertEqual((0, [f"rank {rank} of 2 trained over weft, which is installed: True" for rank in range(2)]), (ended.returncode, lines), ended.stderr)


if __name__ == "__main__":
    if os.environ.get("TEST_CASES") != "all":
        print("builds everything anew: only with TEST_CASES=all")
        sys.exit(ranks.SKIPPED)
    ranks.take_arguments()
    ranks.main()
