"""What weft moves and reduces of a torch.Tensor: its address, element type and count. Nothing is copied."""
from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from weft.core.types import DType

# By torch's type: (weft's, how many of weft's elements one of torch's is).
DTYPES: dict[torch.dtype, tuple[int, int]] = {
    torch.float32: (DType.FLOAT32, 1), torch.float64: (DType.FLOAT64, 1), torch.float16: (DType.FLOAT16, 1), torch.bfloat16: (DType.BFLOAT16, 1),
    torch.int8: (DType.INT8, 1), torch.uint8: (DType.UINT8, 1), torch.int32: (DType.INT32, 1), torch.int64: (DType.INT64, 1), torch.bool: (DType.BOOL, 1),
    torch.float8_e4m3fn: (DType.FLOAT8_E4M3, 1), torch.float8_e5m2: (DType.FLOAT8_E5M2, 1),
    torch.complex64: (DType.FLOAT32, 2), torch.complex128: (DType.FLOAT64, 2),
    **{kind: (DType.UINT32 if bits == 32 else DType.UINT64, 1) for kind, bits in ((getattr(torch, f"uint{bits}", None), bits) for bits in (32, 64))
       if kind is not None},
}
# torch's, by weft's.
ELEMENT_TYPES: dict[int, torch.dtype] = {known: kind for kind, (known, elements) in DTYPES.items() if elements == 1}

Memory = tuple[int, int, int]  # address, weft's element type, count of its elements


def of(tensor: Tensor) -> Memory:
    """Of a tensor that is only moved; types that weft has not are bytes to it."""
    if not tensor.is_cpu or not tensor.is_contiguous() or not is_resolved(tensor):
        raise _refused(tensor)
    known = DTYPES.get(tensor.dtype)
    if known is None:
        return tensor.data_ptr(), DType.UINT8, tensor.nbytes
    return tensor.data_ptr(), known[0], tensor.numel() * known[1]


def to_reduce(tensor: Tensor) -> Memory:
    """Of a tensor with whose elements weft computes."""
    memory = of(tensor)
    if tensor.dtype not in DTYPES:
        raise TypeError(f"weft cannot reduce elements of {tensor.dtype}; it has {', '.join(str(kind) for kind in DTYPES)}")
    return memory


def is_resolved(tensor: Tensor) -> bool:
    """Whether the values are those in memory: of a view that torch negates or conjugates when it reads, they are not."""
    return not (tensor.is_neg() or tensor.is_conj())


def _refused(tensor: Tensor) -> Exception:
    if not isinstance(tensor, Tensor):
        return TypeError(f"a {type(tensor).__name__} is no torch.Tensor")
    if not tensor.is_cpu:
        return ValueError(f"a tensor on {tensor.device} was given to a process group of weft, which works on the CPU's memory; "
                          "init_process_group('cpu:weft,cuda:nccl') has a backend for each")
    if tensor.layout is not torch.strided:
        return ValueError(f"a tensor of layout {tensor.layout} was given to a process group of weft; all_reduce alone takes sparse ones")
    if not is_resolved(tensor):
        return ValueError("a tensor is a view whose values torch negates or conjugates when it reads them, and has others in memory; "
                          "call resolve_neg() and resolve_conj() first")
    return ValueError("a tensor is not contiguous, and weft does not copy it together; call contiguous() first")


def single(tensors: Any) -> Tensor:
    """The tensor of a list of one, as c10d passes them."""
    if len(tensors) != 1:
        raise ValueError(f"weft takes one tensor per rank and call here, not {len(tensors)}")
    return tensors[0]


def like(output: Tensor, given: Tensor, share: int = 1, name: str = "output") -> None:
    """Refuses an output that is not of the input's type with `share` times its elements."""
    if output.dtype is not given.dtype:
        raise TypeError(f"Invalid usage of tensors with different dtypes: {name} has {output.dtype}, the input {given.dtype}")
    if output.numel() != given.numel() * share:
        raise ValueError(f"{name} has {output.numel()} elements, it must have {given.numel() * share}")


class Flat:
    """Tensors of one type as one: the memory they share if they lie one behind the other, else a block of its own."""

    def __init__(self, tensors: list[Tensor]) -> None:
        first = tensors[0]
        self._tensors = tensors
        self.counts = [tensor.numel() for tensor in tensors]
        for tensor in tensors:
            if tensor.dtype is not first.dtype:
                raise TypeError(f"Invalid usage of tensors with different dtypes: {first.dtype} and {tensor.dtype} in one list")
            if not tensor.is_cpu or tensor.layout is not torch.strided:
                raise _refused(tensor)
        self.copied = not self._lie_together()
        self.tensor = torch.empty(sum(self.counts), dtype=first.dtype) if self.copied else first.as_strided(
            (sum(self.counts),), (1,))

    def _lie_together(self) -> bool:
        first = self._tensors[0]
        address, storage = first.data_ptr(), first.untyped_storage().data_ptr()
        for tensor in self._tensors:
            if not tensor.is_contiguous() or not is_resolved(tensor) or tensor.data_ptr() != address or tensor.untyped_storage().data_ptr() != storage:
                return False
            address += tensor.nbytes
        return True

    def gather(self) -> Tensor:
        """The block, with the tensors' elements."""
        if self.copied:
            torch.cat([tensor.detach().reshape(-1) for tensor in self._tensors], out=self.tensor)
        return self.tensor

    def spread(self) -> None:
        """Writes the block's elements to the tensors."""
        if self.copied:
            for tensor, part in zip(self._tensors, self.tensor.split(self.counts)):
                tensor.detach().copy_(part.view(tensor.shape))
