"""The calls of weft, weft.shard and weft.checkpoint that wait for other ranks."""
import array
import asyncio
import dataclasses
import fcntl
import os
import pathlib
import time
from collections.abc import Callable

import weft
import weft.checkpoint
import weft.shard

TIMEOUT_S = 30
_offered = []  # an id is served by the process that made it


@dataclasses.dataclass
class Case:
    """`prepare(place)` is called on all ranks and returns the call that waits."""

    prepare: Callable[["Place"], Callable[[], object]]
    told: bool = True  # whether an interrupt ends it for the other ranks, too; else they go on
    victim: int = 0  # who is interrupted
    mortal: bool = True  # whether the death of the absent rank ends it
    interruptible: bool = True  # whether Ctrl-C ends it
    late: bool = True  # whether a rank that comes afterwards is told; else it waits, as for ranks that may still come


def offer(say):
    """Rank 0 makes the id by which the ranks of the next attempt meet."""
    _offered[:] = [weft.UniqueId()]
    say(id=bytes(_offered[0]).hex())


class Place:
    """What one rank has in one attempt."""

    def __init__(self, rank, size, folder, command):
        self.rank, self.size, self.folder, self._command, self.kept = rank, size, folder, command, []

    def world(self):
        made = weft.Communicator.from_id(weft.UniqueId.from_bytes(bytes.fromhex(self._command["id"])), self.rank, self.size, timeout=TIMEOUT_S)
        self.kept.append(made)
        return made

    def leave(self):
        """Newest first."""
        while self.kept:
            self.kept.pop().destroy()

    # ---- collectives, messages ----

    def numbers(self, count=2):
        return array.array("f", bytes(4 * count))


CASES: dict[str, Case] = {}


def case(name, **options):
    def add(prepare):
        CASES[name] = Case(prepare, **options)
        return prepare

    return add


def operation(name, call, **options):
    """A case that needs a communicator alone: call(world, place)."""
    @case(name, **options)
    def prepare(place):
        world = place.world()
        return lambda: call(world, place)


operation("all_reduce, 8 B", lambda world, place: world.all_reduce(place.numbers()))
operation("all_reduce, 4 MiB", lambda world, place: world.all_reduce(place.numbers(1 << 20)))
operation("barrier", lambda world, place: world.barrier())
operation("recv", lambda world, place: world.recv(place.numbers(), 2))
operation("send, 4 MiB", lambda world, place: world.send(place.numbers(1 << 20), 2))
operation("bound all_reduce", lambda world, place: world.bind.all_reduce(place.numbers())())
operation("split", lambda world, place: place.kept.append(world.split(0)))
operation("subset", lambda world, place: world.subset([0, 1]))
operation("shared", lambda world, place: world.shared(4))
operation("reconfigure", lambda world, place: world.reconfigure(), late=False, mortal=False)


@case("batch")
def _(place):
    world = place.world()

    def call():
        with weft.batch():
            world.send(place.numbers(), (place.rank + 1) % place.size)
            world.recv(place.numbers(), (place.rank - 1) % place.size)
            world.all_reduce(place.numbers())

    return call


def started(name, wait):
    """A work under way: the interrupt ends the wait alone."""
    @case(name, told=False)
    def prepare(place):
        world, kept = place.world(), []

        def call():
            if not kept:
                kept.append(world.all_reduce(place.numbers(), async_op=True))
            wait(kept[0])

        return call


async def _awaited(work):
    await work


started("Work.wait()", lambda work: work.wait())
started("Work.wait(timeout)", lambda work: work.wait(TIMEOUT_S))
started("await work", lambda work: asyncio.run(_awaited(work)))


# ---- ranks that meet ----


class _FolderStore:
    """A store as a program may have one: files."""

    def __init__(self, folder):
        self._folder = pathlib.Path(folder)
        self._folder.mkdir(exist_ok=True)

    def _path(self, key):
        return self._folder / key.replace("/", "_")

    def set(self, key, value):
        draft = self._path(f"{key}.{os.getpid()}")
        draft.write_bytes(value)
        draft.rename(self._path(key))

    def get(self, key, timeout):
        end = time.monotonic() + timeout
        while not self._path(key).exists():
            if time.monotonic() > end:
                raise TimeoutError(key)
            time.sleep(0.01)
        return self._path(key).read_bytes()

    def add(self, key, amount):
        with (self._folder / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            total = amount + int(self._path(key).read_bytes() if self._path(key).exists() else 0)
            self.set(key, str(total).encode())
            return total


def meeting(name, prepare):
    """Ranks that are not a group yet, and do not know the absent one."""
    for victim in (0, 1):
        CASES[f"{name}, rank {victim} interrupted"] = Case(prepare, victim=victim, late=False, mortal=False)


def _from_environment(place):
    os.environ.update(RANK=str(place.rank), WORLD_SIZE=str(place.size), LOCAL_RANK=str(place.rank), LOCAL_WORLD_SIZE=str(place.size),
                      MASTER_ADDR="127.0.0.1", MASTER_PORT=str(place._command["port"]))
    return lambda: place.kept.append(weft.init(timeout=TIMEOUT_S))


meeting("weft.init()", _from_environment)
meeting("Communicator.from_id", lambda place: place.world)
meeting("Communicator.from_store",
        lambda place: lambda: place.kept.append(weft.Communicator.from_store(_FolderStore(place.folder), place.rank, place.size, timeout=TIMEOUT_S)))


# ---- shard managers ----


def model(place, preset, **options):
    """(context, unit, param) on a new communicator."""
    context = weft.shard.Context(place.world(), **options)
    place.kept.append(context)
    context.set_optimizer("adamw")
    with context.add_unit("unit", preset) as unit:
        param = unit.add_param("param", (1 << 16,))
    return context, unit, param


def backward(context, unit, param):
    """A step to the end of its backward."""
    context.step_begin()
    context.microbatch_begin()
    with unit.forward():
        pass
    with unit.backward():
        param.grad_ready()
    context.microbatch_end()


def step_call(name, preset, call, before=None):
    @case(name)
    def prepare(place):
        context, unit, param = model(place, preset)
        context.finalize()
        if before is not None:
            before(context, unit, param)
        return lambda: call(context, unit, param)


def _begin(context):
    context.step_begin()
    context.microbatch_begin()


def _finish(*parts):
    backward(*parts)
    parts[0].finish()


def _pre_forward(context, unit, _):
    _begin(context)
    unit.pre_forward()


def _wait_for_gather(context, unit, _):
    _begin(context)
    unit.unshard_start()
    unit.unshard_wait()


@case("Context.finalize")
def _(place):
    context, _, _ = model(place, "full_shard")
    return context.finalize


@case("Mesh of two axes")
def _(place):
    world = place.world()
    return lambda: place.kept.append(weft.shard.Mesh(world, {"a": 1, "b": 3}))


step_call("Param.load", "full_shard", lambda _, __, param: param.load(array.array("f", bytes(4 << 16))))
step_call("Param.read", "full_shard", lambda _, __, param: param.read(array.array("f", bytes(4 << 16))))
step_call("Context.broadcast", "no_shard", lambda context, *_: context.broadcast())
step_call("Context.verify", "no_shard", lambda context, *_: context.verify())
step_call("Unit.pre_forward", "full_shard", _pre_forward)
step_call("Unit.unshard_wait", "full_shard", _wait_for_gather)
step_call("finish, no_shard", "no_shard", _finish)
step_call("finish, full_shard", "full_shard", lambda context, *_: context.finish(), backward)
step_call("optimizer_step", "zero2", lambda context, *_: context.optimizer_step(0.1, norm_max=1), _finish)


def checkpoint(place, timeout=TIMEOUT_S):
    context, _, _ = model(place, "full_shard")
    context.finalize()
    made = weft.checkpoint.Checkpoint(place.kept[0], place.folder, timeout=timeout)
    place.kept.append(made)
    made.add_context(context)
    return made


@case("Checkpoint.load")
def _(place):
    return checkpoint(place).load


@case("Checkpoint.save")
def _(place):
    made = checkpoint(place)
    return lambda: made.save(1)


@case("Checkpoint.wait", told=False)
def _(place):
    made, steps = checkpoint(place), []

    def call():
        if not steps:
            steps.append(made.save(1, background=True))
        made.wait()

    return call
