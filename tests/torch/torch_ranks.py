"""Runs functions as ranks of a process group of torch for tests: the ranks are forked, so that torch is imported once.

    class Operations(TorchRanksTest):
        def test_it(self):
            def rank(_):
                dist.all_reduce(x)
            self.run_ranks(2, rank)         # fails if a rank does

    if __name__ == "__main__":
        main()      # arguments: weftrun, libweft.so, the folder of what ./dev test torch installs
"""
import datetime
import multiprocessing
import os
import pathlib
import sys
import tempfile
import time
import traceback
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path[:0] = [str(ROOT / "tests" / "python"), str(ROOT / "tests" / "torch")]
import ranks  # noqa: E402

# The first import of torch reads a gigabyte, which on a busy machine takes a minute.
DEADLINE_S = ranks.launched.DEADLINE_S = 300
ranks.take_arguments()
if not ranks.has_packages():
    print("./dev test torch could not install torch")
    sys.exit(ranks.SKIPPED)
os.environ.update(WEFT_TUNE="static", OMP_NUM_THREADS="1", CUDA_VISIBLE_DEVICES="")
os.environ.setdefault("WEFT_TORCH_EXTENSION", "0")  # extension_test.py has it; the others not what happens to be built

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402

torch.set_num_threads(1)
_fork = multiprocessing.get_context("fork")


class TorchRanksTest(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self._runs = 0

    def run_ranks(self, size, function, backend="weft", timeout=30, destroy=True, expect_codes=None):
        """Calls function(rank) on `size` ranks; returns what they returned. With `destroy`, each ends by destroy_process_group()."""
        self._runs += 1
        store = self.folder / f"store{self._runs}"
        pipes = [_fork.Pipe(duplex=False) for _ in range(size)]

        def run(rank):
            import weft.torch  # noqa: F401, PLC0415
            # Makes torch's thread pool, which a fork loses. Else several threads of autograd make it at once, and one of
            # them ends the process: "Invalid thread pool!"
            torch.set_num_threads(1)
            try:
                if backend:
                    dist.init_process_group(backend, init_method=f"file://{store}", rank=rank, world_size=size, timeout=datetime.timedelta(seconds=timeout))
                result = function(rank)
                if destroy and backend:
                    dist.destroy_process_group()
                pipes[rank][1].send((True, result))
            except BaseException:
                pipes[rank][1].send((False, traceback.format_exc()))
                sys.stdout.flush()
                os._exit(1)

        processes = [_fork.Process(target=run, args=(rank,)) for rank in range(size)]
        for process in processes:
            process.start()
        end = time.monotonic() + DEADLINE_S
        results = [None] * size
        try:
            for rank, (reader, writer) in enumerate(pipes):
                writer.close()
                try:
                    if reader.poll(max(0, end - time.monotonic())):
                        results[rank] = reader.recv()
                except EOFError:
                    pass  # it ended without a word
                reader.close()
            for process in processes:
                process.join(max(0, end - time.monotonic()))
        finally:
            for process in processes:
                if process.is_alive():
                    process.kill()
                    process.join()
        codes = [process.exitcode for process in processes]
        failed = "\n".join(f"rank {rank}: {result[1] if result else f'ended with {codes[rank]}'}" for rank, result in enumerate(results)
                           if not result or not result[0])
        self.assertEqual(expect_codes or [0] * size, codes, failed)
        return [result[1] if result else None for result in results]


def main():
    unittest.main(module="__main__", argv=[sys.argv[0], *sys.argv[2:]])
