"""The calls of torch.distributed on weft, and of weft.torch, that wait for other ranks."""
import datetime
import warnings

import torch
import torch._dynamo  # else a first call would import it
import torch.distributed as dist
import torch.distributed._functional_collectives as funcol
from torch.nn.parallel import DistributedDataParallel

import core_cases
import weft.torch
from core_cases import TIMEOUT_S, Case, offer  # noqa: F401

warnings.filterwarnings("ignore")
torch.set_num_threads(1)
CASES: dict[str, Case] = {}
_TIMEOUT = datetime.timedelta(seconds=TIMEOUT_S)


class Place(core_cases.Place):
    def group(self, method=None):
        torch.set_num_threads(1)  # its threads are gone in a fork
        dist.init_process_group("weft", init_method=method or f"file://{self.folder}.store", rank=self.rank, world_size=self.size, timeout=_TIMEOUT)

    def leave(self):
        super().leave()
        if dist.is_initialized():
            dist.group.WORLD.abort()
            dist.destroy_process_group()


def operation(name, call, **options):
    def prepare(place):
        place.group()
        return lambda: call(place)

    CASES[name] = Case(prepare, **options)


def started(name, start, wait, **options):
    def prepare(place):
        place.group()
        kept = []

        def call():
            if not kept:
                kept.append(start(place))
            wait(kept[0])

        return call

    CASES[name] = Case(prepare, told=False, **options)


def case(name, **options):
    def add(prepare):
        CASES[name] = Case(prepare, **options)
        return prepare

    return add


def _exchange(place):
    return dist.batch_isend_irecv([dist.P2POp(dist.isend, torch.ones(2), (place.rank + 1) % 3), dist.P2POp(dist.irecv, torch.ones(2), (place.rank - 1) % 3)])


def _message(place):
    # Rank 2 answers both, when it is there.
    if place.rank == 2:
        return dist.batch_isend_irecv([dist.P2POp(dist.isend, torch.ones(2), peer) for peer in (0, 1)])
    return [dist.irecv(torch.ones(2), 2)]


def _wait_for_all(works):
    for work in works:
        work.wait()


operation("all_reduce", lambda place: dist.all_reduce(torch.ones(2)))
operation("all_gather", lambda place: dist.all_gather([torch.ones(2) for _ in range(3)], torch.ones(2)))
operation("barrier", lambda place: dist.barrier())
operation("all_gather_object", lambda place: dist.all_gather_object([None] * 3, "x"))
operation("monitored_barrier", lambda place: dist.monitored_barrier(timeout=_TIMEOUT))
operation("new_group", lambda place: dist.new_group([0, 1, 2], timeout=_TIMEOUT), mortal=False)  # whoever is missing may still come, as far as a store knows
started("async all_reduce, wait()", lambda place: dist.all_reduce(torch.ones(2), async_op=True), lambda work: work.wait())
started("async all_reduce, get_future().wait()", lambda place: dist.all_reduce(torch.ones(2), async_op=True), lambda work: work.get_future().wait())
started("functional all_reduce, wait_tensor", lambda place: funcol.all_reduce(torch.ones(2), "sum", dist.group.WORLD), funcol.wait_tensor)
started("recv", _message, _wait_for_all)
started("batch_isend_irecv, wait()", _exchange, _wait_for_all, mortal=False)  # rank 1 has all that it waits for


def meeting(name, method):
    for victim in (0, 1):
        CASES[f"{name}, rank {victim} interrupted"] = Case(lambda place: lambda: place.group(method(place)), victim=victim, late=False, mortal=False)


# Not here, since torch's own C++ waits there, where Python runs no signal handlers: rendezvous by a TCP store.
meeting("init_process_group, file store", lambda place: None)


@case("DDP: forward and backward", interruptible=False)  # for the same reason
def _(place):
    place.group()
    model = DistributedDataParallel(torch.nn.Linear(8, 8))
    return lambda: model(torch.ones(1, 8)).sum().backward()


def managed(name, preset, before):
    @case(name)
    def prepare(place):
        place.group()
        model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.Linear(64, 64))
        optimizer = weft.torch.fully_shard(model, preset, wrap=torch.nn.Linear).optimizer(torch.optim.SGD, lr=0.1)
        loss = model(torch.ones(1, 64)).sum() if before else None

        def call():
            (loss if before else model(torch.ones(1, 64)).sum()).backward()
            optimizer.step()

        return call


managed("weft.torch.fully_shard: forward", "full_shard", False)
managed("weft.torch.fully_shard: backward", "no_shard", True)
