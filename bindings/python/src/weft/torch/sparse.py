"""The sum of sparse tensors: ranks gather each other's indices and values, and each adds them up in the order of ranks."""
from __future__ import annotations

import torch

from weft.core.communicator import Communicator
from weft.torch.tensors import DTYPES


def all_reduce(comm: Communicator, tensor: torch.Tensor) -> None:
    """In place, for COO tensors of one shape on all ranks; how many elements each rank has may differ."""
    if tensor.layout is not torch.sparse_coo:
        raise ValueError(f"weft reduces sparse tensors of layout torch.sparse_coo, not {tensor.layout}")
    if not tensor.is_cpu:
        raise ValueError(f"a tensor on {tensor.device} was given to a process group of weft, which works on the CPU's memory")
    own = tensor.detach().coalesce()
    indices, values = own.indices().contiguous(), own.values().contiguous()
    kind, per_element = DTYPES[values.dtype]
    counts = torch.zeros(comm.size, dtype=torch.int64)
    comm.all_gather(torch.tensor([indices.shape[1]]), counts)
    # Every rank's, padded to the longest: their number is small beside what they would be dense.
    longest = int(counts.max())
    all_indices = torch.zeros(comm.size, indices.shape[0], longest, dtype=torch.int64)
    all_values = torch.zeros((comm.size, longest, *values.shape[1:]), dtype=values.dtype)
    own_indices, own_values = torch.zeros_like(all_indices[0]), torch.zeros_like(all_values[0])
    own_indices[:, :indices.shape[1]] = indices
    own_values[:values.shape[0]] = values
    if longest:
        comm.all_gather(own_indices, all_indices)
        count = own_values.numel() * per_element
        comm.all_gather((own_values.data_ptr(), kind, count), (all_values.data_ptr(), kind, count * comm.size))
    total = torch.sparse_coo_tensor(size=tensor.shape, dtype=tensor.dtype)
    for rank, count_of_rank in enumerate(counts.tolist()):
        total = total + torch.sparse_coo_tensor(all_indices[rank, :, :count_of_rank], all_values[rank, :count_of_rank], tensor.shape)
    with torch.no_grad():
        tensor.copy_(total.coalesce())
