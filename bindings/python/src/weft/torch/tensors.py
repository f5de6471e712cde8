"""What weft moves and reduces of a torch.Tensor: its address, element type and count. Only what does not lie by rows is copied."""
from __future__ import annotations

from collections.abc import Callable
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
    """Of a tensor by rows that is only moved; types that weft has not are bytes to it."""
    if not tensor.is_cpu or not _lies_by_rows(tensor):
        raise _refused(tensor)
    known = DTYPES.get(tensor.dtype)
    if known is None:
        return tensor.data_ptr(), DType.UINT8, tensor.nbytes
    return tensor.data_ptr(), known[0], tensor.numel() * known[1]


def to_reduce(tensor: Tensor) -> Memory:
    """Of a tensor by rows with whose elements weft computes."""
    memory = of(tensor)
    check_reduced(tensor)
    return memory


def elements(tensor: Tensor) -> int:
    """As of() counts them, wherever they lie."""
    known = DTYPES.get(tensor.dtype)
    return int(tensor.nbytes) if known is None else tensor.numel() * known[1]


def by_rows(tensor: Tensor, read: bool = True, written: bool = False) -> Tensor:
    """Its elements one row behind the other, whatever its strides: itself if they lie so, else a copy, with its values if they are read. What is written to
    the copy write_back() brings to the tensor. So ranks may have other strides for one tensor."""
    if not isinstance(tensor, Tensor) or not tensor.is_cpu or tensor.layout is not torch.strided:
        raise _refused(tensor)
    if _lies_by_rows(tensor):
        return tensor
    if written:
        _check_written(tensor)
    copy = torch.empty(tensor.shape, dtype=tensor.dtype)
    return copy.copy_(tensor.detach()) if read else copy


def write_back(*pairs: tuple[Tensor, Tensor]) -> Callable[[], None] | None:
    """Of tensors and what by_rows() gave for them: what is to be called after the operation; None if it wrote to the tensors themselves."""
    copied = [(tensor, rows) for tensor, rows in pairs if rows is not tensor]
    if not copied:
        return None

    def write() -> None:
        for tensor, rows in copied:
            tensor.detach().copy_(rows)

    return write


def check_reduced(tensor: Tensor) -> None:
    """Raises TypeError for a type with which weft does not compute."""
    if tensor.dtype not in DTYPES:
        raise TypeError(f"weft cannot reduce elements of {tensor.dtype}; it has {', '.join(str(kind) for kind in DTYPES)}")


def is_resolved(tensor: Tensor) -> bool:
    """Whether the values are those in memory: of a view that torch negates or conjugates when it reads, they are not."""
    return not (tensor.is_neg() or tensor.is_conj())


def _lies_by_rows(tensor: Tensor) -> bool:
    return tensor.is_contiguous() and is_resolved(tensor)


def _check_written(tensor: Tensor) -> None:
    if any(size > 1 and not stride for size, stride in zip(tensor.shape, tensor.stride())):
        raise ValueError("a tensor of expand(), of which several elements are one in memory, cannot be written to; give a clone() of it")


def _refused(tensor: Tensor) -> Exception:
    if not isinstance(tensor, Tensor):
        return TypeError(f"a {type(tensor).__name__} is no torch.Tensor")
    if not tensor.is_cpu:
        return ValueError(f"a tensor on {tensor.device} was given to a process group of weft, which works on the CPU's memory; "
                          "init_process_group('cpu:weft,cuda:nccl') has a backend for each")
    return ValueError(f"a tensor of layout {tensor.layout} was given to a process group of weft; all_reduce alone takes sparse ones")


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

    def __init__(self, tensors: list[Tensor], written: bool = False) -> None:
        first = tensors[0]
        self._tensors = tensors
        self.counts = [tensor.numel() for tensor in tensors]
        for tensor in tensors:
            if tensor.dtype is not first.dtype:
                raise TypeError(f"Invalid usage of tensors with different dtypes: {first.dtype} and {tensor.dtype} in one list")
            if not tensor.is_cpu or tensor.layout is not torch.strided:
                raise _refused(tensor)
            if written:
                _check_written(tensor)
        self.copied = not self._lie_together()
        self.tensor = torch.empty(sum(self.counts), dtype=first.dtype) if self.copied else first.as_strided(
            (sum(self.counts),), (1,))

    def _lie_together(self) -> bool:
        first = self._tensors[0]
        address, storage = first.data_ptr(), first.untyped_storage().data_ptr()
        for tensor in self._tensors:
            if not _lies_by_rows(tensor) or tensor.data_ptr() != address or tensor.untyped_storage().data_ptr() != storage:
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
