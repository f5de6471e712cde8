"""What `python -m weft.torch.build_ext` makes: operations mean the same with it and without it; when it is used, and when it cannot be made."""
import contextlib
import datetime
import io
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
import unittest
import unittest.mock

os.environ["WEFT_TORCH_EXTENSION"] = "1"

# First: behind torch_ranks tests/python is found before, which has one of the same name.
import operations_test  # noqa: E402
import groups_test  # noqa: E402
from groups_test import expect_raises  # noqa: E402
from operations_test import expect_equal, numbers  # noqa: E402
import torch_ranks  # noqa: E402
from torch_ranks import TorchRanksTest, dist, ranks, torch  # noqa: E402
from torch._C import _distributed_c10d as c10d  # noqa: E402

ALL = os.environ.get("TEST_CASES") == "all"
# Compiling takes a minute, so what was compiled stays; its name says of what.
CACHE = ranks.packages.parent / "torch_extension"
_TYPES = (torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int8, torch.uint8, torch.int32, torch.int64, torch.bool, torch.float8_e5m2)
_OPS = (dist.ReduceOp.SUM, dist.ReduceOp.PRODUCT, dist.ReduceOp.MAX, dist.ReduceOp.MIN, dist.ReduceOp.AVG, dist.ReduceOp.BOR)


def setUpModule():  # noqa: N802
    os.environ["XDG_CACHE_HOME"] = str(CACHE)
    subprocess.run([sys.executable, "-B", "-m", "weft.torch.build_ext", *(["--force"] if ALL else [])], check=True, timeout=torch_ranks.DEADLINE_S,
                   env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, (ranks.SOURCE, ranks.packages)))})


def options(kind, **fields):
    made = kind()
    made.asyncOp = False
    for name, value in fields.items():
        setattr(made, name, value)
    return made


def outcome(call, out):
    """The elements of `out` after the call, or the error in words."""
    try:
        work = call()
    except Exception as error:
        return type(error), str(error)
    assert work.wait() and work.is_completed() and work.is_success() and work.exception() is None and work.source_rank() == -1
    assert all(one is other for one, other in zip(work.result(), work.get_future().wait()))
    return out.view(torch.uint8).tolist()


class Extension(TorchRanksTest):
    def test_same_results_and_refusals(self):
        def rank_of(size):
            def run(rank):
                world = dist.group.WORLD
                calls = world._calls
                assert calls is not None and world._get_backend(torch.device("cpu"))._calls is calls

                def compare(what, method, out, *arguments):
                    before, outcomes = out.clone(), []
                    for world._calls in (calls, None):
                        out.copy_(before)
                        outcomes.append(outcome(lambda: getattr(world, method)(*arguments), out))
                    assert outcomes[0] == outcomes[1], (what, outcomes)

                for dtype in _TYPES:
                    for op in _OPS:
                        x, whole = numbers(rank, 5, dtype), numbers(rank, 5 * size, dtype)
                        compare(f"{op} {dtype}", "allreduce", x, [x], options(c10d.AllreduceOptions, reduceOp=op))
                        x = numbers(rank, 5, dtype)
                        compare(f"{op} {dtype}", "reduce", x, [x], options(c10d.ReduceOptions, reduceOp=op, rootRank=size - 1))
                        compare(f"{op} {dtype}", "reduce_scatter_single", x, x, whole, options(c10d.ReduceScatterOptions, reduceOp=op))
                    for count in (0, 1, 7, 3000):
                        x, whole, other = (numbers(rank, count * times, dtype) for times in (1, size, size))
                        compare(dtype, "broadcast", x, [x], options(c10d.BroadcastOptions, rootRank=size - 1))
                        compare(dtype, "all_gather_single", whole, whole, x, options(c10d.AllgatherOptions))
                        compare(dtype, "all_to_all_single", whole, whole, other, [], [], options(c10d.AllToAllOptions))
                x = torch.zeros(1)
                compare("barrier", "barrier", x, options(c10d.BarrierOptions))
            return run
        for size in (1, 2, 3):
            self.run_ranks(size, rank_of(size))

    def test_what_is_plain_is_taken_and_nothing_else(self):
        def run(rank):
            import weft.core.batch
            from weft.torch import extension
            calls, comm = extension.calls(), dist.group.WORLD.communicator
            x, y, blocking = torch.ones(4), torch.ones(8), options(c10d.AllreduceOptions)
            parameter = torch.nn.Parameter(torch.ones(4))

            def taken():
                return (calls.allreduce(comm, [x], blocking), calls.allreduce(comm, [parameter], blocking), calls.broadcast(comm, [x], options(c10d.BroadcastOptions)),
                        calls.reduce(comm, [x], options(c10d.ReduceOptions)), calls.all_gather_single(comm, y, x, options(c10d.AllgatherOptions)),
                        calls.reduce_scatter_single(comm, x, y, options(c10d.ReduceScatterOptions)),
                        calls.all_to_all_single(comm, y, y.clone(), options(c10d.AllToAllOptions)), calls.barrier(comm, options(c10d.BarrierOptions)))
            assert None not in taken()
            before = comm.sequence
            with torch.profiler.profile():
                profiled = calls.allreduce(comm, [x], blocking)
            declined = [
                profiled,
                calls.allreduce(comm, [x], c10d.AllreduceOptions()), calls.allreduce(comm, [x], None),
                calls.allreduce(comm, [x], options(c10d.AllreduceOptions, timeout=datetime.timedelta(seconds=1))), calls.allreduce(comm, [x], options(c10d.BroadcastOptions)),
                calls.barrier(comm, None), calls.barrier(comm, options(c10d.BarrierOptions, timeout=datetime.timedelta(0)))]
            declined += [calls.allreduce(comm, tensors, blocking) for tensors in (
                x, None, (x,), [], [x, x], [None], [[1.0]], [torch.ones(4, 4).t()], [torch.ones(2, device="meta")], [torch.eye(2).to_sparse()],
                [torch.ones(2, dtype=torch.int16)], [torch.ones(2, dtype=torch.complex64)], [torch.ones(2).as_subclass(type("Own", (torch.Tensor,), {}))])]
            declined.append(calls.allreduce(comm, [x], options(c10d.AllreduceOptions, reduceOp=dist._make_nccl_premul_sum(0.5))))
            declined += [calls.all_gather_single(comm, output, given, options(c10d.AllgatherOptions)) for output, given in (
                (x, x), (y.double(), x), (torch.ones(8, 2)[:, 0], x), (y, None), ([y], [x]))]
            declined += [calls.reduce_scatter_single(comm, x, torch.ones(5), options(c10d.ReduceScatterOptions)),
                         calls.all_to_all_single(comm, torch.ones(3), torch.ones(3), options(c10d.AllToAllOptions)),
                         calls.all_to_all_single(comm, x, y, options(c10d.AllToAllOptions))]
            thread = threading.Thread(target=lambda: declined.append(calls.allreduce(comm, [x], blocking)))
            with weft.batch():
                declined.append(calls.allreduce(comm, [x], blocking))
                thread.start()
                thread.join()
            assert declined == [None] * len(declined) and comm.sequence == before, declined
            assert None not in taken()
            comm.destroy()
            assert taken() == (None,) * 8
            expect_raises(weft.Error, "is destroyed", lambda: dist.all_reduce(x))
        self.run_ranks(2, run)

    def test_errors_are_those_without_it(self):
        def failures(rank):
            import weft
            told = []

            def tell(error, *more):
                """Without what differs from run to run: processes, and after whose operation a mismatch of two is called, that of whoever finds it."""
                said = re.sub(r"pid \d+|process \w+|(barrier|all_gather) (?=#)", "", str(error))
                told.append((said, error.code, error.rank, "one of two" if error.op in ("barrier", "all_gather") else error.op, error.sequence, *more))

            for call in (lambda group: dist.all_reduce(torch.ones(2 + rank), group=group), lambda group: dist.broadcast(torch.ones(2), rank, group=group),
                         lambda group: (dist.barrier, lambda group: dist.all_gather_into_tensor(torch.empty(4), torch.ones(2), group=group))[rank](group)):
                group = dist.new_group([0, 1], timeout=datetime.timedelta(seconds=20))
                dist.all_reduce(torch.ones(1), group=group)
                for _ in range(2):  # the second finds the group of no more use
                    error = expect_raises(weft.Error, "rank", lambda: call(group))
                    tell(error, error.group, group._get_sequence_number_for_group())
            group = dist.new_group([0, 1])
            group.set_timeout(datetime.timedelta(seconds=0.2))
            if rank == 0:
                tell(expect_raises(weft.Error, "within 0.2 s; the timeout of operations", lambda: dist.all_reduce(torch.ones(1), group=group)))
            dist.barrier()
            return told
        with_it = self.run_ranks(2, failures)
        with unittest.mock.patch.dict(os.environ, WEFT_TORCH_EXTENSION="0"):
            self.assertEqual(self.run_ranks(2, failures), with_it)

    def test_signals_and_threads_while_it_waits(self):
        def run(rank):
            import weft
            store, group = dist.distributed_c10d._get_default_store(), dist.new_group([0, 1])
            if rank == 1:
                store.wait(["counted"])
                dist.barrier(group=group)
                store.wait(["interrupted"])
                expect_raises(weft.Error, "rank 0", lambda: dist.all_reduce(torch.ones(1), group=group))
                return
            counting, told = threading.Event(), []

            def count():
                counting.wait()
                time.sleep(0.1)  # the barrier has begun
                store.set("counted", "")
            thread = threading.Thread(target=count)
            thread.start()
            counting.set()
            dist.barrier(group=group)  # the other rank comes when the thread has run
            thread.join()

            def handler(*_):
                try:
                    dist.all_reduce(torch.ones(1), group=group)
                except weft.Error as error:
                    told.append(str(error))
                raise KeyboardInterrupt
            signal.signal(signal.SIGALRM, handler)
            signal.setitimer(signal.ITIMER_REAL, 0.2)
            start = time.monotonic()
            expect_raises(KeyboardInterrupt, "", lambda: dist.all_reduce(torch.ones(1), group=group))
            assert time.monotonic() - start < 5 and "cannot be called from a signal handler" in told[0], told
            store.set("interrupted", "")
        self.run_ranks(2, run)


class GroupsWithIt(groups_test.Groups):
    pass


class BadInputWithIt(groups_test.BadInput):
    pass


@unittest.skipUnless(ALL, "only with TEST_CASES=all")
class OperationsWithIt(operations_test.Operations):
    pass


@unittest.skipUnless(ALL, "only with TEST_CASES=all")
class WorksWithIt(groups_test.Works):
    pass


# In place of a compiler: it knows the result.
_STAND_IN = """#!/bin/sh
case "$1" in -v | --version | -dump*) exec c++ "$@" ;; esac
while [ "$1" != -o ]; do [ "$1" = -MF ] && : > "$2"; shift; done
cp {result} "$2"
"""


class Building(TorchRanksTest):
    """Each call in a process of its own, which has torch already."""

    def setUp(self):
        super().setUp()
        import weft.torch.extension  # noqa: F401, PLC0415
        self.made = CACHE / "weft" / weft.torch.extension.file_name()
        self.place = self.folder / "cache" / "weft" / self.made.name
        patch = unittest.mock.patch.dict(os.environ, XDG_CACHE_HOME=str(self.folder / "cache"))
        patch.start()
        self.addCleanup(patch.stop)

    def build(self, *arguments, size=1, expect=0, **environment):
        """What it writes, to stdout and to stderr."""
        def run(_):
            from weft.torch import build_ext
            os.environ.update(environment)
            sys.argv[1:], out, err = arguments, io.StringIO(), io.StringIO()
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
                code = build_ext.main()
            return code, out.getvalue(), err.getvalue()
        codes, outs, errs = zip(*self.run_ranks(size, run, backend=None))
        self.assertEqual((expect,) * size, codes, errs)
        self.assertEqual(("" if expect else f"{self.place}\n",) * size, outs)
        return "".join(errs)

    def compiler(self, result):
        path = self.folder / "compiler"
        path.write_text(_STAND_IN.format(result=result))
        path.chmod(0o755)
        return str(path)

    def used(self):
        """By a group of one rank: the file or None; warnings, how show_config() ends."""
        def run(_):
            import warnings
            import weft
            said = io.StringIO()
            with warnings.catch_warnings(record=True) as caught, contextlib.redirect_stdout(said):
                warnings.simplefilter("always")
                dist.init_process_group("weft", init_method=f"file://{self.folder}/used{self._runs}", rank=0, world_size=1)
                group = dist.new_group([0])
                weft.show_config()
            x = torch.ones(2)
            dist.all_reduce(x, group=group)
            expect_equal(x, torch.ones(2), "all_reduce")
            calls = dist.group.WORLD._calls
            dist.destroy_process_group()
            return calls and calls.__file__, [str(one.message) for one in caught if issubclass(one.category, RuntimeWarning)], said.getvalue().splitlines()[-1]
        return self.run_ranks(1, run, backend=None)[0]

    def test_it_is_there_when_it_was_built(self):
        self.assertIn(f"no extension for torch {torch.__version__}: {self.place}: it is not there", self.build("--check", expect=1))
        self.assertEqual((None, [], f"torch: {torch.__version__}, extension: not there, python -m weft.torch.build_ext makes it"), self.used())
        compiler = self.compiler(self.made)
        self.assertIn("compiled in", self.build(CXX=compiler))
        self.assertEqual("", self.build("--check"))
        self.assertEqual("", self.build(CXX="none"))
        self.assertIn("compiled in", self.build("--force", CXX=compiler))
        self.assertEqual((str(self.place), [], f"torch: {torch.__version__}, extension: {self.place}"), self.used())
        self.assertEqual([self.place.name], os.listdir(self.place.parent))
        for off in ("0", "off"):
            with unittest.mock.patch.dict(os.environ, WEFT_TORCH_EXTENSION=off):
                self.assertEqual((None, [], f"torch: {torch.__version__}, extension: not used, WEFT_TORCH_EXTENSION is {off}"), self.used())

    def test_a_package_without_its_source_does_without(self):
        import weft.torch.extension
        with unittest.mock.patch.object(weft.torch.extension, "SOURCE", self.folder / "calls.cc"):
            weft.torch.extension.file_name.cache_clear()
            self.addCleanup(weft.torch.extension.file_name.cache_clear)
            file, warned, said = self.used()
        self.assertEqual((None, []), (file, warned))
        self.assertIn("extension: cannot be made: ", said)

    def test_several_build_at_once(self):
        self.build("--force", size=4, CXX=self.compiler(self.made))
        self.assertEqual([self.place.name], os.listdir(self.place.parent))
        self.assertEqual(str(self.place), self.used()[0])

    def test_what_is_missing_is_named(self):
        self.assertIn("there is no C++ compiler no-such-compiler; install one", self.build(expect=1, CXX="no-such-compiler"))
        tools = self.folder / "tools"
        tools.mkdir()
        self.assertIn("there is no C++ compiler c++", self.build(expect=1, CXX="", PATH=str(tools)))
        (tools / "c++").symlink_to("/bin/false")
        self.assertIn("ninja, which is not there", self.build(expect=1, CXX="", PATH=str(tools)))
        self.assertIn("could not make it", self.build(expect=1, CXX="/bin/false"))
        self.assertIn("file too short", self.build(expect=1, CXX=self.compiler("/dev/null")))
        self.assertIn("neither XDG_CACHE_HOME nor HOME is an absolute path", self.build(expect=1, XDG_CACHE_HOME="", HOME="here"))
        (self.folder / "file").touch()
        with unittest.mock.patch.dict(os.environ, XDG_CACHE_HOME=str(self.folder / "file")):
            self.assertIn("Not a directory", self.build(expect=1, CXX=self.compiler(self.made)))
        with unittest.mock.patch.dict(os.environ, XDG_CACHE_HOME=str(self.folder / "no_home" / ".cache")):
            self.assertIn("No such file", self.build(expect=1, CXX=self.compiler(self.made)))
        self.assertFalse((self.folder / "no_home").exists())
        self.assertEqual([], list(self.place.parent.iterdir()))

    def test_a_file_that_cannot_be_used_is_said_once_and_made_anew(self):
        self.place.parent.mkdir(parents=True)
        elsewhere = self.folder / "elsewhere"
        shutil.copy(self.made, elsewhere)

        def cut():
            self.place.write_bytes(self.made.read_bytes()[:5000])
            self.place.chmod(0o700)

        def zeros():
            self.place.write_bytes(bytes(1000))
            self.place.chmod(0o700)

        def foreign():
            shutil.copy(next(pathlib.Path(torch.__file__).parent.glob("lib/libshm*.so")), self.place)
            self.place.chmod(0o700)

        def writable():
            shutil.copy(self.made, self.place)
            self.place.chmod(0o770)

        def link():
            self.place.symlink_to(elsewhere)
        for make, reason in ((cut, "it is cut short"), (zeros, "ImportError"), (foreign, "ImportError"), (writable, "not a file of this user's alone"), (link, "not a file of this user's alone")):
            with self.subTest(make.__name__):
                self.place.unlink(missing_ok=True)
                make()
                file, warned, said = self.used()
                self.assertEqual((None, 1), (file, len(warned)), warned)
                self.assertIn(f"the extension {self.place} is not used: ", warned[0])
                self.assertIn(reason, warned[0])
                self.assertIn(f"{self.place} is not used: ", said)
                self.assertIn(reason, self.build("--check", expect=1))
        self.assertIn("compiled in", self.build(CXX=self.compiler(self.made)))
        self.assertEqual(str(self.place), self.used()[0])


if __name__ == "__main__":
    torch_ranks.main()
