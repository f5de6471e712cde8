"""How ranks keep a tensor's elements, and the exchange from one way of keeping them to another.

Elements are counted within the tensor, by rows. An interval is (begin, count). A shard context cuts anywhere; torch's DTensors are cut by rows.
"""
from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Sequence
from typing import Any

import torch

from weft.core.communicator import Communicator
from weft.shard import Param
from weft.torch.tensors import of

Interval = tuple[int, int]


class Layout:
    """Of one param: this rank's part of it, and its rows.

    Thread-safety: as the context."""

    def __init__(self, param: Param, shape: Sequence[int], communicator: Communicator) -> None:
        self._param, self._shape, self._communicator = param, tuple(shape), communicator

    @functools.cached_property
    def part(self) -> Interval:
        """What the context keeps of it on this rank, optimizer state included."""
        return self._parts[self._communicator.rank]

    @functools.cached_property
    def is_sharded(self) -> bool:
        """Some rank does not keep all of it."""
        return any(count != math.prod(self._shape) for _, count in self._parts)

    @functools.cached_property
    def is_cut(self) -> bool:
        """Some rank keeps a part of it, and another one the rest."""
        return any(count not in (0, math.prod(self._shape)) for _, count in self._parts)

    @functools.cached_property
    def part_shape(self) -> tuple[int, ...]:
        """In which an optimizer sees what this rank keeps: as the tensor is, without rows where another rank keeps it. Of one that is cut, one dimension."""
        count = self.part[1]
        if self.is_cut or not self._shape:
            return (count,)
        return (self._shape[0] if count == math.prod(self._shape) else 0, *self._shape[1:])

    def to_rows(self, part: Any) -> Any:
        """This rank's rows, of a tensor of its part in one dimension. All of it, if it has no dimensions. Collective."""
        return self._part_to_rows(part).view(self._local_shape)

    def to_part(self, rows: Any) -> Any:
        """The other way. Collective."""
        return self._rows_to_part(rows.detach().reshape(-1))

    # ---- inside ----

    @functools.cached_property
    def _local_shape(self) -> tuple[int, ...]:
        return (_chunk(self._shape[0], self._communicator.size, self._communicator.rank)[1], *self._shape[1:]) if self._shape else ()

    @functools.cached_property
    def _parts(self) -> list[Interval]:
        return [self._param.interval(rank) for rank in range(self._communicator.size)]

    @functools.cached_property
    def _rows(self) -> list[Interval]:
        size = self._communicator.size
        if not self._shape:
            return [(0, 1)] * size
        row, chunks = math.prod(self._shape[1:]), [_chunk(self._shape[0], size, rank) for rank in range(size)]
        return [(begin * row, count * row) for begin, count in chunks]

    @functools.cached_property
    def _part_to_rows(self) -> Exchange:
        return Exchange(self._parts, self._rows, self._communicator)

    @functools.cached_property
    def _rows_to_part(self) -> Exchange:
        return Exchange(self._rows, self._parts, self._communicator)


class Exchange:
    """From the intervals `kept` to the intervals `wanted`, which are by rank. What several ranks keep is the same on all of them; a rank uses what it keeps
    itself, and gets the rest from the others in one all_to_all, of which there is none if no rank needs it."""

    def __init__(self, kept: Sequence[Interval], wanted: Sequence[Interval], communicator: Communicator) -> None:
        """Raises ValueError if nobody keeps what is wanted."""
        size, rank = communicator.size, communicator.rank
        self._communicator = communicator
        self._sent: list[list[Interval]] = [[] for _ in range(size)]  # by rank, in what this rank keeps
        self._got: list[list[Interval]] = [[] for _ in range(size)]  # by rank, in what this rank wants
        self._own: list[tuple[int, int, int]] = []  # in either, and how many
        self._kept_count, self._wanted_count, self._needed = kept[rank][1], wanted[rank][1], False
        for destination in range(size):
            for source, begin, count in _pieces(kept, wanted[destination], destination):
                if source == destination:
                    if rank == destination:
                        self._own.append((begin - kept[rank][0], begin - wanted[rank][0], count))
                    continue
                self._needed = True
                if source == rank:
                    self._sent[destination].append((begin - kept[rank][0], count))
                if destination == rank:
                    self._got[source].append((begin - wanted[rank][0], count))

    def __call__(self, given: Any) -> Any:
        """given: [kept] of this rank, contiguous. Returns [wanted]."""
        assert given.dim() == 1 and given.numel() == self._kept_count, (given.shape, self._kept_count)
        taken = torch.empty(self._wanted_count, dtype=given.dtype)
        for begin, to, count in self._own:
            taken[to:to + count] = given[begin:begin + count]
        if self._needed:
            width = given.dtype.itemsize
            packed = [given[begin:begin + count] for pieces in self._sent for begin, count in pieces]
            sent = torch.cat(packed) if packed else given[:0].clone()
            got = torch.empty(sum(count for pieces in self._got for _, count in pieces), dtype=given.dtype)
            self._communicator.all_to_all_v(of(sent.view(torch.uint8)), of(got.view(torch.uint8)), *([sum(count for _, count in pieces) * width for pieces in way]
                                                                                                    for way in (self._sent, self._got)))
            begin = 0
            for to, count in (piece for pieces in self._got for piece in pieces):
                taken[to:to + count] = got[begin:begin + count]
                begin += count
        return taken


def _pieces(kept: Sequence[Interval], wanted: Interval, destination: int) -> Iterator[tuple[int, int, int]]:
    """(source, begin, count) in growing order: what one rank wants."""
    begin, end = wanted[0], wanted[0] + wanted[1]
    own, own_end = kept[destination][0], sum(kept[destination])
    while begin < end:
        if own <= begin < own_end:
            source, upto = destination, own_end
        else:
            # Whoever has most of it; of several a different one for each rank.
            upto, _, source = max(((sum(one), -((rank - destination) % len(kept)), rank) for rank, one in enumerate(kept) if one[0] <= begin < sum(one)),
                                  default=(0, 0, -1))
            if source < 0:
                raise ValueError(f"no rank keeps element {begin}")
            if begin < own < own_end:
                upto = min(upto, own)
        count = min(upto, end) - begin
        yield source, begin, count
        begin += count


def _chunk(rows: int, size: int, rank: int) -> Interval:
    """As torch.chunk cuts; the last ranks may have none."""
    most = -(-rows // size)
    begin = min(rank * most, rows)
    return begin, min(most, rows - begin)
