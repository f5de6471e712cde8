"""The _v and _iov forms and sendrecv of one rank against plain lists. For processes and for threads: each rank calls check(communicator) at the same time."""
import array
import itertools

import reference
import weft
from operation_checks import Memory, call, value_of

_DTYPES = ("int32", "float64", "bfloat16", "uint8")


def _counts(kind, n):
    return {"even": [3] * n, "uneven": [(rank * 5 + 2) % 4 * 7 for rank in range(n)], "none": [0] * n, "one": [0] * (n - 1) + [1031]}[kind]


def _displacements(counts):
    """The last rank's block first, and a gap of two in front of each; and how many elements that takes."""
    places, end = [0] * len(counts), 0
    for rank in reversed(range(len(counts))):
        places[rank] = end + 2
        end = places[rank] + counts[rank]
    return places, end


def _packed(counts):
    return [0, *itertools.accumulate(counts)][:-1], sum(counts)


def _written(length, firsts, blocks):
    values = [1] * length
    for first, block in zip(firsts, blocks):
        values[first:first + len(block)] = block
    return values


def check(world):
    for number, (dtype, kind, placed) in enumerate(itertools.product(_DTYPES, ("even", "uneven", "none", "one"), (False, True))):
        check_vectors(world, dtype, kind, placed, async_op=number % 2 == 1, in_place=number % 3 == 1)
    for number, (dtype, counts) in enumerate(itertools.product(_DTYPES, ((), (1,), (5, 0, 700, 3)))):
        check_lists(world, dtype, counts, async_op=number % 2 == 1)
    check_sendrecv(world)
    check_probes(world)


def check_vectors(world, dtype, kind, placed, async_op, in_place):
    n, me = world.size, world.rank
    counts, root = _counts(kind, n), len(kind) % n
    firsts, length = (_displacements if placed else _packed)(counts)
    # As a list, an array, and whatever else is iterable.
    c_counts, places = (array.array("q", counts), array.array("Q", firsts) if placed else None) if async_op else (counts, tuple(firsts) if placed else None)
    parts = [[value_of(rank, i, dtype) for i in range(counts[rank])] for rank in range(n)]
    whole = [_written(length, firsts, [[value_of(rank, first + i, dtype) for i in range(count)] for first, count in zip(firsts, counts)]) for rank in range(n)]
    what = f"of {counts} {dtype} at {places} on rank {me} of {n}, {async_op=} {in_place=}"

    def filled(blocks, others):
        return Memory(dtype, _written(length, firsts, [block if rank == me or others else [1] * len(block) for rank, block in enumerate(blocks)]))

    given, out = Memory(dtype, parts[me]), filled(parts, others=False) if in_place else Memory(dtype, [1] * length)
    call(world.all_gather_v, None if in_place else given.view, out.view, c_counts, places, async_op=async_op)
    assert out.values() == _written(length, firsts, parts), f"all_gather_v {what}"

    given, out = Memory(dtype, whole[me]), Memory(dtype, [1] * counts[me])
    call(world.reduce_scatter_v, given.view, None if in_place else out.view, c_counts, places, "max", async_op=async_op)
    mine = reference.reduced("max", dtype, zip(*(values[firsts[me]:firsts[me] + counts[me]] for values in whole)))
    if in_place:
        assert given.values() == _written(length, [0, firsts[me]], [whole[me], mine]), f"reduce_scatter_v {what}"
    else:
        assert (out.values(), given.values()) == (mine, whole[me]), f"reduce_scatter_v {what}"

    given = Memory(dtype, parts[me])
    if me == root:
        out = filled(parts, others=False) if in_place else Memory(dtype, [1] * length)
        call(world.gather_v, None if in_place else given.view, out.view, c_counts, places, root, async_op=async_op)
        assert out.values() == _written(length, firsts, parts), f"gather_v {what}"
    else:
        call(world.gather_v, given.view, root=root, async_op=async_op)

    given, out = Memory(dtype, whole[me]), Memory(dtype, [1] * counts[me])
    if me == root:
        call(world.scatter_v, given.view, None if in_place else out.view, c_counts, places, root, async_op=async_op)
    else:
        call(world.scatter_v, None, out.view, root=root, async_op=async_op)
    if me != root or not in_place:
        assert out.values() == whole[root][firsts[me]:firsts[me] + counts[me]], f"scatter_v {what}"
    assert given.values() == whole[me]

    # Rank r sends (r + to) % 3 * k elements to rank `to`, which is the same in both directions.
    def sent(r, to):
        return (r + to) % 3 * 5

    to_me, from_me = [sent(r, me) for r in range(n)], [sent(me, to) for to in range(n)]
    blocks = [[[value_of(r * n + to, i, dtype) for i in range(sent(r, to))] for to in range(n)] for r in range(n)]
    in_firsts, in_length = (_displacements if placed else _packed)(from_me)
    out_firsts, out_length = (_displacements if placed else _packed)(to_me)
    given = Memory(dtype, _written(in_length, in_firsts, blocks[me]))
    expected = _written(out_length, out_firsts, [blocks[r][me] for r in range(n)])
    if in_place:
        call(world.all_to_all_v, given.view, None, from_me, None, in_firsts if placed else None, async_op=async_op)
        assert given.values() == expected, f"all_to_all_v {what}"
    else:
        out = Memory(dtype, [1] * out_length)
        call(world.all_to_all_v, given.view, out.view, from_me, to_me, in_firsts if placed else None, out_firsts if placed else None, async_op=async_op)
        assert out.values() == expected, f"all_to_all_v {what}"


def check_lists(world, dtype, counts, async_op):
    n, me = world.size, world.rank
    inputs = [[[value_of(rank + part, i, dtype) for i in range(count * n)] for part, count in enumerate(counts)] for rank in range(n)]
    what = f"of {counts} {dtype} on rank {me} of {n}"
    given = [Memory(dtype, values) for values in inputs[me]]
    outs = [Memory(dtype, [0] * (count * n)) for count in counts]

    # Every other part in place.
    call(world.all_reduce_iov, [(one.view, out.view) if i % 2 else one.view for i, (one, out) in enumerate(zip(given, outs))], "min", async_op=async_op)
    for i, (one, out) in enumerate(zip(given, outs)):
        assert (out if i % 2 else one).values() == reference.reduced("min", dtype, zip(*(values[i] for values in inputs))), f"all_reduce_iov {what}"

    outs = [Memory(dtype, _written(count * n, [me * count], [inputs[me][i][:count]])) for i, count in enumerate(counts)]
    given = [Memory(dtype, inputs[me][i][:count]) for i, count in enumerate(counts)]
    call(world.all_gather_iov, [(None if i % 2 else one.view, out.view) for i, (one, out) in enumerate(zip(given, outs))], async_op=async_op)
    for i, count in enumerate(counts):
        assert outs[i].values() == [value for rank in range(n) for value in inputs[rank][i][:count]], f"all_gather_iov {what}"

    given, outs = [Memory(dtype, values) for values in inputs[me]], [Memory(dtype, [0] * count) for count in counts]
    call(world.reduce_scatter_iov, [(one.view, out.view) if i % 2 else one.view for i, (one, out) in enumerate(zip(given, outs))], "max", async_op=async_op)
    for i, count in enumerate(counts):
        mine = reference.reduced("max", dtype, zip(*(values[i][me * count:(me + 1) * count] for values in inputs)))
        assert (outs[i].values() if i % 2 else given[i].values()[me * count:(me + 1) * count]) == mine, f"reduce_scatter_iov {what}"


def check_probes(world):
    size, me = world.size, world.rank
    right, left = (me + 1) % size, (me - 1) % size
    assert world.iprobe(tag=size) is None
    sent = [array.array("d" if i % 2 else "i", [me + i] * (i * 700)) for i in range(4)]
    works = [world.send(x, right, 40 + i % 2, async_op=True) for i, x in enumerate(sent)]
    for i in range(4):
        probed = world.probe(left if i % 2 else weft.ANY_SOURCE, timeout=30)
        assert probed == (left, 40 + i % 2, i * 700, weft.DType.FLOAT64 if i % 2 else weft.DType.INT32), f"{probed} is message {i}"
        assert world.iprobe(left) == probed and world.iprobe(left, probed.tag) == probed
        out = array.array("d" if i % 2 else "i", [-1] * probed.elements)
        assert world.recv(out, probed.source, weft.ANY_TAG if i < 2 else probed.tag) == left
        assert list(out) == [left + i] * probed.elements, f"message {i}"
    for work in works:
        work.wait(timeout=30)
    assert world.iprobe() is None
    world.barrier()  # nobody sends anything else before


def check_sendrecv(world):
    n, me = world.size, world.rank
    right, left = (me + 1) % n, (me - 1) % n
    for size in (0, 1, 100000):     # more than may be on its way unreceived
        given, out = array.array("i", [me] * size), array.array("i", [-1] * size)
        if size == 1:
            work = world.sendrecv(given, right, out, left, 7, async_op=True)
            work.wait()
            source = work.source
        else:
            source = world.sendrecv(given, right, out, tag=size)
        assert (source, out) == (left, array.array("i", [left] * size)), (source, size)
    # Counts and tags of its own for each direction.
    if n > 1:
        partner = n - 1 - me
        out = array.array("d", [0] * (1 + partner))
        world.sendrecv(array.array("d", [me] * (1 + me)), partner, out, partner, me, partner)
        assert out == array.array("d", [partner] * (1 + partner))
