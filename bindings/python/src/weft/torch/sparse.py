"""The sum of sparse tensors: ranks gather each other's indices and values, and each adds them up in the order of ranks."""
from __future__ import annotations

import torch

from weft.core.communicator import Communicator
from weft.core.errors import Error, Result
from weft.torch.refusals import begun
from weft.torch.tensors import DTYPES, check_reduced, to_reduce

_KINDS = list(DTYPES)


def all_reduce(comm: Communicator, tensor: torch.Tensor) -> None:
    """In place, for COO tensors of one shape and type on all ranks; how many elements each rank has may differ. Ranks that differ are all told: MISMATCH."""
    if tensor.layout is not torch.sparse_coo:
        raise ValueError(f"weft reduces sparse tensors of layout torch.sparse_coo, not {tensor.layout}")
    if not tensor.is_cpu:
        raise ValueError(f"a tensor on {tensor.device} was given to a process group of weft, which works on the CPU's memory")
    check_reduced(tensor._values())
    nothing = torch.sparse_coo_tensor(size=tensor.shape, dtype=tensor.dtype, check_invariants=False)
    own = tensor.detach().coalesce()
    _ = nothing + own  # what torch cannot add it refuses here, before anything is sent
    indices, values = own.indices().contiguous(), own.values().contiguous()
    try:
        total = _sum(comm, tensor, indices, values, nothing)
    except Error as error:
        raise begun(error)
    with torch.no_grad():
        tensor.copy_(total.coalesce())


def _sum(comm: Communicator, tensor: torch.Tensor, indices: torch.Tensor, values: torch.Tensor, total: torch.Tensor) -> torch.Tensor:
    """Of all ranks' indices and values, added to `total`."""
    counts = _counts(comm, tensor, indices.shape[1])
    # Every rank's, padded to the longest: their number is small beside what they would be dense.
    longest = max(counts)
    all_indices = torch.zeros(comm.size, indices.shape[0], longest, dtype=torch.int64)
    all_values = torch.zeros((comm.size, longest, *values.shape[1:]), dtype=values.dtype)
    own_indices, own_values = torch.zeros_like(all_indices[0]), torch.zeros_like(all_values[0])
    own_indices[:, :indices.shape[1]] = indices
    own_values[:values.shape[0]] = values
    if longest:
        comm.all_gather(own_indices, all_indices)
        address, kind, count = to_reduce(own_values)
        comm.all_gather((address, kind, count), (all_values.data_ptr(), kind, count * comm.size))
    for rank, count_of_rank in enumerate(counts):
        total = total + torch.sparse_coo_tensor(all_indices[rank, :, :count_of_rank], all_values[rank, :count_of_rank], tensor.shape, check_invariants=False)
    return total


def _counts(comm: Communicator, tensor: torch.Tensor, count: int) -> list[int]:
    """How many elements each rank has, once all are seen to have the same type and shape."""
    own = torch.tensor([count, _KINDS.index(tensor.dtype), tensor.sparse_dim(), tensor.dim()])
    heads = torch.zeros(comm.size, len(own), dtype=torch.int64)
    comm.all_gather(own, heads)
    shapes = torch.zeros(comm.size, int(heads[:, 3].max()), dtype=torch.int64)
    shape = torch.zeros_like(shapes[0])
    shape[:tensor.dim()] = torch.tensor(tensor.shape)
    if shape.numel():
        comm.all_gather(shape, shapes)
    kinds = [(_KINDS[kind], tuple(shape[:dims]), sparse_dims) for (_, kind, sparse_dims, dims), shape in zip(heads.tolist(), shapes.tolist())]
    for rank, kind in enumerate(kinds):
        if kind != kinds[0]:
            raise Error(f"all_reduce of sparse tensors on {comm.name}: rank {rank} has {_text(*kind)}, rank 0 has {_text(*kinds[0])}; "
                        "give tensors of one type and shape", Result.MISMATCH, rank=rank, op="all_reduce", group=comm.name)
    return [int(head) for head in heads[:, 0]]


def _text(dtype: torch.dtype, shape: tuple[int, ...], sparse_dims: int) -> str:
    return f"{dtype} of shape {shape} with {sparse_dims} sparse dimensions"
