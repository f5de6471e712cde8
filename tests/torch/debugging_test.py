"""What torch offers to look at a group with, on weft: profilers, the check for NaN, the flight recorder; and memory for FSDP2 from the group."""
import json
import os

import torch_ranks
from groups_test import expect_raises
from torch_ranks import TorchRanksTest, dist, torch

from torch._C import _distributed_c10d as c10d
from torch.profiler import ProfilerActivity, profile


class Profilers(TorchRanksTest):
    def test_events_have_names_shapes_and_groups(self):
        def run(rank):
            x, other = torch.ones(30, 10), torch.ones(3)
            with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as profiled:
                dist.all_reduce(x)
                dist.all_gather_into_tensor(torch.empty(60, 10), x)
                dist.barrier()
                dist.broadcast(x, 0, async_op=True).wait()
                work = dist.isend(x, 1 - rank)
                dist.recv(torch.empty(30, 10), 1 - rank)
                work.wait()
                with dist._coalescing_manager():
                    dist.all_reduce(x)
                    dist.all_reduce(other)
            names = [event.name for event in profiled.events() if event.name.startswith("weft:")]
            assert names == ["weft:all_reduce", "weft:all_gather", "weft:barrier", "weft:broadcast", "weft:broadcast:wait", "weft:send", "weft:recv",
                             "weft:recv:wait", "weft:send:wait", "weft:all_reduce"], names
            trace = self.folder / f"trace{rank}"
            profiled.export_chrome_trace(str(trace))
            about = next(event["args"] for event in json.loads(trace.read_text())["traceEvents"] if event.get("name") == "weft:all_gather")
            wanted = {"Collective name": "all_gather", "Group size": 2, "In msg nelems": 300, "Out msg nelems": 600, "dtype": "float32", "Input Dims": [[30, 10]],
                      "Process Group Name": dist.group.WORLD.communicator.name}
            assert wanted == {key: about.get(key) for key in wanted}, about
            dist.all_reduce(x)  # and none after it
        self.run_ranks(2, run)

    def test_failures_come_out(self):
        def run(rank):
            import weft
            with profile(activities=[ProfilerActivity.CPU]):
                expect_raises(weft.Error, "rank", lambda: dist.all_reduce(torch.ones(2 + rank)))
        self.run_ranks(2, run)


class NanCheck(TorchRanksTest):
    def setUp(self):
        super().setUp()
        os.environ["TORCH_DIST_NAN_CHECK"] = "1"
        self.addCleanup(os.environ.pop, "TORCH_DIST_NAN_CHECK")

    def test_every_operation_is_refused_before_it_sends(self):
        def run(rank):
            bad, good, size = torch.tensor([[1.0, 2.0], [float("nan"), 4.0]]), torch.ones(2, 2), 2
            lists = [torch.empty(2, 2) for _ in range(size)]
            for name, call in (
                    ("all_reduce", lambda: dist.all_reduce(bad)),
                    ("all_reduce", lambda: dist.all_reduce(bad, async_op=True)),
                    ("all_reduce", lambda: dist.all_reduce(bad.to(torch.float8_e4m3fn))),
                    ("all_reduce", lambda: dist.all_reduce(bad.to(torch.complex64))),
                    ("all_reduce", lambda: dist.all_reduce(bad.to_sparse())),
                    ("all_reduce", lambda: dist.all_reduce_coalesced([good, bad])),
                    ("reduce", lambda: dist.reduce(bad, 0)),
                    ("broadcast", lambda: dist.broadcast(bad, rank)),
                    ("all_gather", lambda: dist.all_gather_into_tensor(torch.empty(4, 2), bad)),
                    ("all_gather", lambda: dist.all_gather(lists, bad)),
                    ("gather", lambda: dist.gather(bad, lists if rank == 0 else None)),
                    ("scatter", lambda: dist.scatter(torch.empty(2, 2), [good, bad], rank)),
                    ("reduce_scatter", lambda: dist.reduce_scatter_tensor(torch.empty(1, 2), bad)),
                    ("reduce_scatter", lambda: dist.reduce_scatter(torch.empty(2, 2), [good, bad])),
                    ("all_to_all", lambda: dist.all_to_all(lists, [good, bad])),
                    ("all_to_all", lambda: dist.all_to_all_single(torch.empty(2, 2), bad)),
                    ("send", lambda: dist.send(bad, 1 - rank)),
                    ("send", lambda: dist.group.WORLD._get_backend(torch.device("cpu")).send([bad], 1 - rank, 0)),
                    ("all_gather", lambda: dist.group.WORLD._allgather_base(torch.empty(4, 2), bad)),
            ):
                expect_raises(RuntimeError, f"{name} on torch:...rank {rank} gives NaN, 1 of ...the first at [", call)
            dist.all_reduce(good)
            whole = torch.full((2, 2), float("nan"))
            dist.broadcast(whole if rank else good, 0)  # what is written may be anything
            assert whole.isnan().all() != bool(rank) and good.tolist() == [[2.0, 2.0]] * 2, (whole, good)
            group = dist.split_group(split_ranks=[[0, 1]])
            expect_raises(RuntimeError, "NaN", lambda: dist.all_reduce(bad, group=group))
        self.run_ranks(2, run)

    def test_beside_another_backend_torch_checks(self):
        import torch.testing._internal.distributed.fake_pg  # noqa: F401, PLC0415
        self.run_ranks(2, lambda _: expect_raises(RuntimeError, "NaN", lambda: dist.all_reduce(torch.tensor([float("nan")]))) and None, backend="cpu:weft,meta:fake")


class FlightRecorder(TorchRanksTest):
    def test_torch_records_where_it_is_asked_to(self):
        os.environ["TORCH_FR_BUFFER_SIZE"] = "100"
        self.addCleanup(os.environ.pop, "TORCH_FR_BUFFER_SIZE")

        def run(rank):
            dist.all_reduce(torch.ones(3))
            dist.barrier()
            entries = json.loads(c10d._dump_fr_trace_json(backend="weft"))["entries"]
            assert [entry["profiling_name"] for entry in entries] == ["weft:all_reduce", "weft:barrier"], entries
            assert entries[0]["input_sizes"] == [[3]]
        self.run_ranks(2, run)


class Memory(TorchRanksTest):
    def test_fsdp2_takes_its_buffers_from_the_group(self):
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import fully_shard

        def run(rank):
            import weft
            backend = dist.group.WORLD._get_backend(torch.device("cpu"))
            assert backend.supports_tensor_alloc(torch.device("cpu")) and not backend.supports_tensor_alloc(torch.device("meta"))
            tensor = backend.allocate_tensor(1000, dtype=torch.bfloat16, device=torch.device("cpu"))
            assert tensor.shape == (1000,) and tensor.dtype is torch.bfloat16 and weft.query(tensor).kind is weft.MemoryKind.SYMMETRIC
            losses = []
            for from_group in (False, True):
                torch.manual_seed(0)
                model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Linear(8, 8))
                fully_shard(model, mesh=init_device_mesh("cpu", (2,)))
                model.set_allocate_memory_from_process_group_for_comm(from_group)
                optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
                for _ in range(3):
                    loss = model(torch.ones(2, 8)).square().sum()
                    loss.backward()
                    optimizer.step()
                    optimizer.zero_grad()
                losses.append(loss.item())
            assert losses[0] == losses[1], losses
        self.run_ranks(2, run)


if __name__ == "__main__":
    torch_ranks.main()
