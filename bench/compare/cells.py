"""What is measured: operations, sizes, buffers, and the bound that the rate of memory sets to each."""
import dataclasses

OPERATIONS = ("all_reduce", "all_gather", "reduce_scatter", "broadcast", "all_to_all")
DTYPES = {"float32": 4, "bfloat16": 2}
BUFFERS = ("hot", "rotated")
SIZES = tuple(8 ** power for power in range(1, 9)) + (64 << 20,)
QUICK_SIZES = SIZES
MIN_ROTATED_BYTES = 64 << 20
MAX_ROTATED_BYTES = 1 << 30
_PAGE = 4096


@dataclasses.dataclass(frozen=True)
class Cell:
    """One line of a table."""

    ranks: int
    op: str
    dtype: str
    bytes: int
    buffers: str
    place: str

    @property
    def label(self):
        return (f"{self.op} {size_text(self.bytes)} {self.dtype} {self.buffers}, {self.ranks} ranks"
                + (", in place" if self.place == "in" else ""))


def size_text(count):
    """8, 4 Ki, 64 Mi."""
    for shift, unit in ((20, " Mi"), (10, " Ki")):
        if count >= 1 << shift and count % (1 << shift) == 0:
            return f"{count >> shift}{unit}"
    return str(count)


def place_of(op, wanted):
    """Where the result goes. Broadcast has one buffer; reduce_scatter and all_to_all are measured out of place only: what
    MPI means by in place there is not what weft means."""
    if op == "broadcast":
        return "in"
    return wanted if op in ("all_reduce", "all_gather") else "out"


def chunk_count(cell):
    """Elements per rank of an operation on chunks; the drivers compute the same."""
    size = DTYPES[cell.dtype]
    per_rank = cell.bytes // size // cell.ranks
    return max(per_rank & ~(16 // size - 1), 1)


def in_and_out_bytes(cell):
    """Bytes of the in and the out buffer of a rank."""
    size = DTYPES[cell.dtype]
    chunk = chunk_count(cell) * size
    everything = chunk * cell.ranks
    whole = cell.bytes // size * size
    return {"all_gather": (chunk, everything), "reduce_scatter": (everything, chunk),
            "all_to_all": (everything, everything)}.get(cell.op, (whole, whole))


def set_bytes(cell):
    """What one set of buffers takes, in whole pages."""
    in_bytes, out_bytes = (-(-count // _PAGE) * _PAGE for count in in_and_out_bytes(cell))
    if cell.op == "broadcast" or cell.place == "in":
        return max(in_bytes, out_bytes)
    return in_bytes + out_bytes


def set_count(cell, l3_bytes):
    """How many sets the calls cycle through: 1 when hot; else enough that all ranks' together do not fit the last level
    cache, at least 2, and no more than 1 GiB of them unless 2 take that."""
    if cell.buffers == "hot":
        return 1
    wanted = min(max(MIN_ROTATED_BYTES, 2 * l3_bytes), MAX_ROTATED_BYTES)
    return max(2, -(-wanted // (set_bytes(cell) * cell.ranks)))


def heap_copy_bytes(cell):
    """Of a memcpy per rank with the footprint of the cell's buffers; 0 where weft on symmetric memory has no target against the
    rate of such copies: all_gather in place and reduce_scatter above 1 MiB have."""
    judged = cell.op == "reduce_scatter" or (cell.op == "all_gather" and cell.place == "in")
    return set_bytes(cell) // 2 // _PAGE * _PAGE if judged and cell.bytes > 1 << 20 else 0


def accesses(cell, symmetric):
    """Bytes loaded and stored per byte of the size, all ranks together, at the least: as `bound` of weft_perf has it.

    Private memory: each rank reads its own input and writes its own output, and all between goes through shared memory once
    in and once out. Symmetric memory: each input is read once and each output written once.
    """
    n = cell.ranks
    in_place = cell.place == "in"
    if cell.op == "all_reduce":
        return 2 * n if symmetric else 5 * n - 2
    if cell.op == "reduce_scatter":
        return n + 1 if symmetric else 3 * n - 1
    if cell.op == "all_gather":
        return (n if symmetric else 2 * n) + (0 if in_place else 1)
    if cell.op == "broadcast":
        return n if symmetric else 2 * n
    return (2 if symmetric else 4) * (n - 1) + (0 if in_place else 2)


def bound_us(cell, copy_bytes_per_s, sync_us, symmetric=False):
    """The time below which the operation cannot come: its bytes at the measured rate of memcpy (which loads and stores
    each byte), and one synchronisation."""
    if copy_bytes_per_s <= 0:
        return sync_us
    return accesses(cell, symmetric) * cell.bytes / (2 * copy_bytes_per_s) * 1e6 + sync_us


def cells_of(ranks, dtypes, buffers, ops, sizes, place):
    """All cells, in the order in which they are measured; what shares its jobs stands together."""
    return [Cell(count, op, dtype, size, kind, place_of(op, place)) for count in ranks for dtype in dtypes for kind in buffers
            for op in ops for size in sizes if size >= DTYPES[dtype]]
