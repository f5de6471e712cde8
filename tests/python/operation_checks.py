"""Every operation of one rank against reference.py. For processes and for threads: each rank calls check(communicator) at the same time."""
import ctypes
import itertools

import reference

COUNTS = (0, 1, 7, 1031)


def value_of(rank, i, dtype):
    return (rank + i) % 2 if dtype == "bool" else (rank * 3 + i * 5) % 3


class Memory:
    """Elements of any type at an address; what the tests pass is (address, dtype, count)."""

    def __init__(self, dtype, values):
        data = reference.encode(values, dtype)
        self.dtype, self.count = dtype, len(values)
        self.block = (ctypes.c_char * max(len(data), 1)).from_buffer_copy(data or b"\0")

    @property
    def view(self):
        return ctypes.addressof(self.block) if self.count else 0, self.dtype, self.count

    def values(self):
        return reference.decode(self.block.raw[:self.count * reference.item_bytes(self.dtype)], self.dtype)


def call(function, *arguments, async_op, **options):
    if async_op:
        work = function(*arguments, async_op=True, **options)
        work.wait(timeout=30)
        assert work.done() and work.exception() is None
    else:
        assert function(*arguments, **options) is None


def check(world):
    for number, (dtype, count) in enumerate(itertools.product(reference.DTYPES, COUNTS)):
        async_op, in_place = number % 2 == 1, number % 3 == 1
        check_reductions(world, dtype, count, async_op, in_place)
        check_moves(world, dtype, count, async_op, in_place)


def check_reductions(world, dtype, count, async_op, in_place):
    n, me = world.size, world.rank
    root = count % n
    inputs = [[value_of(rank, i, dtype) for i in range(count * n)] for rank in range(n)]
    for op in reference.ops_of(dtype, n):
        what = f"{op} of {count} {dtype} on rank {me} of {n}"
        whole = reference.reduced(op, dtype, zip(*(given[:count] for given in inputs)))

        given, out = Memory(dtype, inputs[me][:count]), Memory(dtype, [0] * count)
        if in_place:
            call(world.all_reduce, given.view, op=op, async_op=async_op)
        else:
            call(world.all_reduce, given.view, out.view, op, async_op=async_op)
        assert (given if in_place else out).values() == whole, f"all_reduce {what}"

        given, out = Memory(dtype, inputs[me][:count]), Memory(dtype, [0] * count)
        if in_place:
            call(world.reduce, given.view, op=op, root=root, async_op=async_op)
        else:
            call(world.reduce, given.view, out.view if me == root else None, op, root, async_op=async_op)
        if me == root:
            assert (given if in_place else out).values() == whole, f"reduce {what}"

        for name, ranks in (("scan", me + 1), ("exscan", me)):
            before = reference.reduced(op, dtype, zip(*(given[:count] for given in inputs[:ranks]))) if ranks else inputs[me][:count]
            given, out = Memory(dtype, inputs[me][:count]), Memory(dtype, inputs[me][:count])
            if in_place:
                call(getattr(world, name), given.view, op=op, async_op=async_op)
            else:
                call(getattr(world, name), given.view, out.view, op, async_op=async_op)
            assert (given if in_place else out).values() == before, f"{name} {what}"

        mine = reference.reduced(op, dtype, zip(*(given[me * count:(me + 1) * count] for given in inputs)))
        given, out = Memory(dtype, inputs[me]), Memory(dtype, [0] * count)
        if in_place:
            call(world.reduce_scatter, given.view, op=op, async_op=async_op)
            assert given.values()[me * count:(me + 1) * count] == mine, f"reduce_scatter {what}"
        else:
            call(world.reduce_scatter, given.view, out.view, op, async_op=async_op)
            assert out.values() == mine, f"reduce_scatter {what}"


def check_moves(world, dtype, count, async_op, in_place):
    n, me = world.size, world.rank
    root = count % n
    inputs = [[value_of(rank, i, dtype) for i in range(count * n)] for rank in range(n)]
    what = f"of {count} {dtype} on rank {me} of {n}"
    parts = [given[:count] for given in inputs]

    given, out = Memory(dtype, parts[me]), Memory(dtype, [0] * count)
    if in_place:
        call(world.broadcast, given.view, root=root, async_op=async_op)
    else:
        call(world.broadcast, given.view if me == root else None, out.view, root, async_op=async_op)
    assert (given if in_place else out).values() == parts[root], f"broadcast {what}"

    gathered = [value for part in parts for value in part]
    blank = [0] * (count * n)
    blank[me * count:(me + 1) * count] = parts[me]
    given, out = Memory(dtype, parts[me]), Memory(dtype, blank if in_place else [0] * (count * n))
    call(world.all_gather, None if in_place else given.view, out.view, async_op=async_op)
    assert out.values() == gathered, f"all_gather {what}"

    out = Memory(dtype, blank if in_place else [0] * (count * n))
    if me == root:
        call(world.gather, None if in_place else given.view, out.view, root, async_op=async_op)
        assert out.values() == gathered, f"gather {what}"
    else:
        call(world.gather, given.view, root=root, async_op=async_op)

    given, out = Memory(dtype, inputs[me]), Memory(dtype, [0] * count)
    if me == root and in_place:
        call(world.scatter, given.view, root=root, async_op=async_op)
        assert given.values() == inputs[root], f"scatter {what}"
    else:
        call(world.scatter, given.view if me == root else None, out.view, root, async_op=async_op)
        assert out.values() == inputs[root][me * count:(me + 1) * count], f"scatter {what}"

    exchanged = [value for rank in range(n) for value in inputs[rank][me * count:(me + 1) * count]]
    given, out = Memory(dtype, inputs[me]), Memory(dtype, [0] * (count * n))
    call(world.all_to_all, given.view, *(() if in_place else (out.view,)), async_op=async_op)
    assert (given if in_place else out).values() == exchanged, f"all_to_all {what}"

    given, out = Memory(dtype, parts[me]), Memory(dtype, [0] * count)
    right, left = (me + 1) % n, (me - 1) % n
    sending = world.send(given.view, right, tag=count, async_op=True)
    if async_op:
        receiving = world.recv(out.view, left, tag=count, async_op=True)
        receiving.wait()
        source = receiving.source
    else:
        source = world.recv(out.view, tag=count)
    sending.wait()
    assert (source, out.values()) == (left, parts[left]), f"messages {what}"
    call(world.barrier, async_op=async_op)
