"""c10d's operations, by the names and arguments that torch calls them with, on a weft group.

Operations whose options say asyncOp=False end in the call and return a work that is done; others are started. What a call cannot give C as it
stands (lists that do not lie together) is copied before it starts or when it has ended.

Thread-safety: any thread; ranks must call in one order.
"""
from __future__ import annotations

import ctypes
import datetime
import functools
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor
from torch._C import _distributed_c10d as c10d

from weft import _capi
from weft._library import library
from weft.core.batch import Batch
from weft.core.calls import MessageOptions
from weft.core.communicator import Communicator
from weft.core.errors import Error
from weft.core.reductions import Reduction
from weft.core.types import Op
from weft.torch import abort_hooks, coalescing, sparse
from weft.torch.events import call_event, profiler
from weft.torch.refusals import begun, refusing, tell
from weft.torch.tensors import ELEMENT_TYPES, Flat, by_rows, check_reduced, elements, is_resolved, like, of, single, to_reduce, write_back
from weft.torch.works import Done, Started, Together, Waiting, explained

_Kinds = c10d.ReduceOp.RedOpType if hasattr(c10d.ReduceOp, "RedOpType") else c10d.ReduceOp
OPS: dict[Any, int] = {_Kinds.SUM: Op.SUM, _Kinds.PRODUCT: Op.PROD, _Kinds.MAX: Op.MAX, _Kinds.MIN: Op.MIN, _Kinds.AVG: Op.AVG,
                       _Kinds.BAND: Op.BIT_AND, _Kinds.BOR: Op.BIT_OR, _Kinds.BXOR: Op.BIT_XOR}
_ADDS = (Op.SUM, Op.AVG)
# Tags of messages between programs are below.
_LIST_TAG = 1 << 63
_NOTHING: MessageOptions = {}
_BACKGROUND: MessageOptions = {"background": True}  # nobody may wait for it: the progress thread takes it up

_all_reduce = library.weft_all_reduce
_all_gather = library.weft_all_gather
_reduce_scatter = library.weft_reduce_scatter
_broadcast = library.weft_broadcast


def _with_timeout(options: MessageOptions, timeout: datetime.timedelta) -> MessageOptions:
    """`timeout` of torch's options: below 0 stands for none."""
    return options if timeout.days < 0 else {**options, "timeout": max(timeout.total_seconds(), 1e-9)}


def _reduction(op: Any, dtype: int, complex_numbers: bool) -> int:
    """weft's number of torch's reduction. One with a factor lasts as long as what is returned, and as operations need it."""
    kind = getattr(op, "op", op)
    number = OPS.get(kind)
    if number is None and kind == _Kinds.PREMUL_SUM:
        factor = torch.as_tensor(op.factor).reshape(-1)
        if factor.numel() != 1:
            raise ValueError(f"the factor of PREMUL_SUM has {factor.numel()} elements; weft takes one")
        factor = factor.to("cpu", ELEMENT_TYPES[dtype])
        return Reduction.premul_sum((factor.data_ptr(), dtype, 1))
    if number is None:
        raise ValueError(f"weft has no reduction {op}")
    if complex_numbers and number not in _ADDS:
        raise ValueError(f"{kind} of complex numbers is not defined; there are SUM and AVG")
    return number


class Collectives:
    """Mixed into torch's ProcessGroup and Backend, which share one communicator."""

    _comm: Communicator
    _calls: Any = None  # the extension, which carries out what is plain; None is its answer to the rest
    _open: coalescing.OfThread

    # ---- one tensor ----

    def allreduce(self, tensors: list[Tensor], opts: Any = None) -> Any:
        """In place. AVG and PREMUL_SUM too; complex numbers have SUM and AVG."""
        if self._calls is not None and self._is_plain(tensors) and (done := self._calls.allreduce(self._comm, tensors, opts)) is not None:
            return done
        return self._allreduce(tensors, opts)

    @refusing("all_reduce")
    def _allreduce(self, tensors: list[Tensor], opts: Any) -> Any:
        opts = opts if opts is not None else c10d.AllreduceOptions()
        tensor = single(tensors)
        if tensor.layout is not torch.strided:
            return self.allreduce_sparse(tensors, opts)
        rows = by_rows(tensor, written=True)
        address, dtype, count = to_reduce(rows)
        number = _reduction(opts.reduceOp, dtype, tensor.is_complex())
        return self._run(_all_reduce, (address, address, count, dtype, number), opts, tensors, None, write_back((tensor, rows)))

    def broadcast(self, tensors: list[Tensor], opts: Any) -> Any:
        if self._calls is not None and self._is_plain(tensors) and (done := self._calls.broadcast(self._comm, tensors, opts)) is not None:
            return done
        return self._broadcast(tensors, opts)

    @refusing("broadcast")
    def _broadcast(self, tensors: list[Tensor], opts: Any) -> Any:
        tensor, is_root = single(tensors), self._comm.rank == opts.rootRank
        rows = by_rows(tensor, read=is_root, written=not is_root)
        address, dtype, count = of(rows)
        finish = None if is_root else write_back((tensor, rows))
        return self._run(_broadcast, (address, address, count, dtype, opts.rootRank), opts, tensors, rows if is_root and rows is not tensor else None, finish)

    def reduce(self, tensors: list[Tensor], opts: Any) -> Any:
        """The root's tensor gets the result; the others stay as they are."""
        if self._calls is not None and self._is_plain(tensors) and (done := self._calls.reduce(self._comm, tensors, opts)) is not None:
            return done
        return self._reduce(tensors, opts)

    @refusing("reduce")
    def _reduce(self, tensors: list[Tensor], opts: Any) -> Any:
        tensor, is_root = single(tensors), self._comm.rank == opts.rootRank
        rows = by_rows(tensor, written=is_root)
        address, dtype, count = to_reduce(rows)
        number = _reduction(opts.reduceOp, dtype, tensor.is_complex())
        finish = write_back((tensor, rows)) if is_root else None
        return self._run(library.weft_reduce, (address, address if is_root else None, count, dtype, number, opts.rootRank), opts, tensors,
                         rows if rows is not tensor else None, finish)

    def all_gather_single(self, output: Tensor, input: Tensor, opts: Any = None) -> Any:  # noqa: A002
        if self._calls is not None and self._is_plain((output, input)) and (done := self._calls.all_gather_single(self._comm, output, input, opts)) is not None:
            return done
        return self._all_gather_single(output, input, opts)

    @refusing("all_gather")
    def _all_gather_single(self, output: Tensor, input: Tensor, opts: Any) -> Any:  # noqa: A002
        like(output, input, self._comm.size)
        given, taken = by_rows(input), by_rows(output, read=False, written=True)
        address, dtype, count = of(given)
        return self._run(_all_gather, (address, of(taken)[0], count, dtype), opts or c10d.AllgatherOptions(), [output], given, write_back((output, taken)))

    def reduce_scatter_single(self, output: Tensor, input: Tensor, opts: Any = None) -> Any:  # noqa: A002
        if self._calls is not None and self._is_plain((output, input)) and (
                done := self._calls.reduce_scatter_single(self._comm, output, input, opts)) is not None:
            return done
        return self._reduce_scatter_single(output, input, opts)

    @refusing("reduce_scatter")
    def _reduce_scatter_single(self, output: Tensor, input: Tensor, opts: Any) -> Any:  # noqa: A002
        like(input, output, self._comm.size, "the input")
        opts = opts or c10d.ReduceScatterOptions()
        given, taken = by_rows(input), by_rows(output, read=False, written=True)
        address, dtype, count = to_reduce(taken)
        number = _reduction(opts.reduceOp, dtype, output.is_complex())
        return self._run(_reduce_scatter, (to_reduce(given)[0], address, count, dtype, number), opts, [output], given, write_back((output, taken)))

    @refusing("all_to_all")
    def all_to_all_single(self, output: Tensor, input: Tensor, output_splits: list[int], input_splits: list[int], opts: Any = None) -> Any:  # noqa: A002
        """Splits are rows of the first dimension; none: equal parts."""
        equal, size = not output_splits and not input_splits, self._comm.size
        if equal:
            for tensor, name in ((output, "output"), (input, "input")):
                _equal_rows(tensor, size, name)
            if self._calls is not None and self._is_plain((output, input)) and (
                    done := self._calls.all_to_all_single(self._comm, output, input, opts)) is not None:
                return done
        if output.dtype is not input.dtype:
            like(output, input)
        opts = opts or c10d.AllToAllOptions()
        rows, rows_taken = by_rows(input), by_rows(output, read=False, written=True)
        finish = write_back((output, rows_taken))
        (given, dtype, given_count), (taken, _, taken_count) = of(rows), of(rows_taken)
        if equal:
            like(output, input)
            return self._run(library.weft_all_to_all, (given, taken, given_count // size, dtype), opts, [output], rows, finish)
        counts = (ctypes.c_size_t * size)
        given_counts = counts(*_split_counts(input_splits, input, given_count, size, "input"))
        taken_counts = counts(*_split_counts(output_splits, output, taken_count, size, "output"))
        return self._run(library.weft_all_to_all_v, (given, given_counts, None, taken, taken_counts, None, dtype), opts, [output], rows, finish)

    def barrier(self, opts: Any = None) -> Any:
        if self._calls is not None and self._is_plain(()) and (done := self._calls.barrier(self._comm, opts)) is not None:
            return done
        return self._barrier(opts)

    @refusing("barrier")
    def _barrier(self, opts: Any) -> Any:
        return self._run(library.weft_barrier, (), opts or c10d.BarrierOptions(), [])

    # ---- lists ----

    @refusing("all_gather")
    def allgather(self, outputs: list[list[Tensor]], inputs: list[Tensor], opts: Any = None) -> Any:
        """Ranks may have different counts, which their outputs say."""
        given, (taken,) = by_rows(single(inputs)), outputs
        opts = opts or c10d.AllgatherOptions()
        self._check_list(taken, "outputs")
        flat = Flat(taken, written=True)
        if flat.counts[self._comm.rank] != given.numel() or taken[0].dtype is not given.dtype:
            like(taken[self._comm.rank], given, name="this rank's output")
        address, dtype, count = of(given)
        whole = flat.tensor
        if min(flat.counts) == max(flat.counts):
            return self._run(_all_gather, (address, whole.data_ptr(), count, dtype), opts, taken, (given, whole), flat.spread)
        counts = (ctypes.c_size_t * self._comm.size)(*map(elements, taken))
        return self._run(library.weft_all_gather_v, (address, whole.data_ptr(), counts, None, dtype), opts, taken, (given, whole), flat.spread)

    @refusing("gather")
    def gather(self, outputs: list[list[Tensor]], inputs: list[Tensor], opts: Any) -> Any:
        given = by_rows(single(inputs))
        address, dtype, count = of(given)
        if self._comm.rank != opts.rootRank:
            return self._run(library.weft_gather, (address, None, count, dtype, opts.rootRank), opts, [], given)
        taken = outputs[0] if outputs else []
        self._check_list(taken, "outputs")
        for output in taken:
            like(output, given)
        flat = Flat(taken, written=True)
        return self._run(library.weft_gather, (address, flat.tensor.data_ptr(), count, dtype, opts.rootRank), opts, taken, (given, flat.tensor), flat.spread)

    @refusing("scatter")
    def scatter(self, outputs: list[Tensor], inputs: list[list[Tensor]], opts: Any) -> Any:
        taken = single(outputs)
        rows = by_rows(taken, read=False, written=True)
        finish = write_back((taken, rows))
        address, dtype, count = of(rows)
        if self._comm.rank != opts.rootRank:
            return self._run(library.weft_scatter, (None, address, count, dtype, opts.rootRank), opts, outputs, None, finish)
        given = inputs[0] if inputs else []
        self._check_list(given, "inputs")
        for tensor in given:
            like(tensor, taken, name="an input")
        whole = Flat(given).gather()
        return self._run(library.weft_scatter, (whole.data_ptr(), address, count, dtype, opts.rootRank), opts, outputs, whole, finish)

    @refusing("reduce_scatter")
    def reduce_scatter(self, outputs: list[Tensor], inputs: list[list[Tensor]], opts: Any = None) -> Any:
        """Ranks may have different counts, which the inputs say."""
        taken, (given,) = single(outputs), inputs
        opts = opts or c10d.ReduceScatterOptions()
        self._check_list(given, "inputs")
        flat = Flat(given)
        like(taken, given[self._comm.rank], name="output")
        rows = by_rows(taken, read=False, written=True)
        finish = write_back((taken, rows))
        whole = flat.gather()
        address, dtype, count = to_reduce(rows)
        number = _reduction(opts.reduceOp, dtype, taken.is_complex())
        if min(flat.counts) == max(flat.counts):
            return self._run(_reduce_scatter, (whole.data_ptr(), address, count, dtype, number), opts, outputs, whole, finish)
        counts = (ctypes.c_size_t * self._comm.size)(*map(elements, given))
        return self._run(library.weft_reduce_scatter_v, (whole.data_ptr(), address, counts, None, dtype, number), opts, outputs, whole, finish)

    def alltoall(self, outputs: list[Tensor], inputs: list[Tensor], opts: Any = None) -> Any:
        """Messages of one batch, straight between the tensors where they lie by rows. Shapes may be any, if sender and receiver agree."""
        opts = opts or c10d.AllToAllOptions()
        self._check_list(outputs, "outputs")
        self._check_list(inputs, "inputs")
        rank, call, works = self._comm.rank, _with_timeout(_BACKGROUND, opts.timeout), []
        like(outputs[rank], inputs[rank], name="this rank's output")
        # Before the batch, which an exception would end together with its group.
        taken, sent = [by_rows(output, written=True) for output in outputs], [by_rows(given) for given in inputs]
        with Batch():
            for peer in range(self._comm.size):
                if peer != rank:
                    works.append(self._receive(outputs[peer], taken[peer], peer, _LIST_TAG, call))
                    works.append(self._send(inputs[peer], sent[peer], peer, _LIST_TAG, call))
        outputs[rank].detach().copy_(inputs[rank])
        work = Together(works, outputs)
        if not getattr(opts, "asyncOp", True):
            work.wait()
        return work

    # ---- several operations as one ----

    @refusing("all_reduce")
    def allreduce_coalesced(self, tensors: list[Tensor], opts: Any) -> Any:
        return self._each(tensors, tensors, opts, library.weft_all_reduce_iov, lambda tensor, _: self.allreduce([tensor], opts), opts.reduceOp)

    @refusing("all_gather")
    def all_gather_single_coalesced(self, outputs: list[Tensor], inputs: list[Tensor], opts: Any = None) -> Any:
        opts = opts or c10d.AllgatherOptions()
        for output, given in zip(outputs, inputs):
            like(output, given, self._comm.size)
        return self._each(outputs, inputs, opts, library.weft_all_gather_iov, lambda output, given: self.all_gather_single(output, given, opts))

    @refusing("reduce_scatter")
    def reduce_scatter_single_coalesced(self, outputs: list[Tensor], inputs: list[Tensor], opts: Any = None) -> Any:
        opts = opts or c10d.ReduceScatterOptions()
        for output, given in zip(outputs, inputs):
            like(given, output, self._comm.size, "an input")
        return self._each(outputs, inputs, opts, library.weft_reduce_scatter_iov, lambda output, given: self.reduce_scatter_single(output, given, opts),
                          opts.reduceOp)

    @refusing("all_gather")
    def allgather_coalesced(self, outputs: list[list[Tensor]], inputs: list[Tensor], opts: Any = None) -> Any:
        """outputs[r][i] gets inputs[i] of rank r."""
        opts = opts or c10d.AllgatherOptions()
        self._check_list(outputs, "lists of outputs")
        rows = [by_rows(given) for given in inputs]  # before the batch, as above
        for of_rank in outputs:
            if len(of_rank) != len(inputs):
                raise ValueError(f"a list of outputs has {len(of_rank)} tensors, and there are {len(inputs)} inputs")
            for output, given in zip(of_rank, inputs):
                like(output, given)
        with Batch():
            works = [self.allgather([[of_rank[place] for of_rank in outputs]], [given], _asynchronous(opts)) for place, given in enumerate(rows)]
        work = Together(works)
        if not getattr(opts, "asyncOp", True):
            work.wait()
        return work

    def _each(self, outputs: list[Tensor], inputs: list[Tensor], opts: Any, function: Callable[..., int], plain: Callable[[Tensor, Tensor], Any],
              op: Any = None) -> Any:
        """One operation over all parts if their type is one, else a batch of operations."""
        if len(outputs) != len(inputs):
            raise ValueError(f"{len(outputs)} outputs and {len(inputs)} inputs; there must be one for each")
        if len(inputs) == 1:
            return plain(outputs[0], inputs[0])
        if not inputs:
            return Done([])
        for tensor in inputs if op is not None else ():
            check_reduced(tensor)
        given = [by_rows(tensor, written=outputs is inputs) for tensor in inputs]
        taken = given if outputs is inputs else [by_rows(tensor, read=False, written=True) for tensor in outputs]
        finish = write_back(*zip(outputs, taken))
        if any(tensor.dtype is not inputs[0].dtype for tensor in inputs):  # nothing is refused in the batch, which would end the group
            blocks = not self._starts(opts)  # at the end of the batch
            with Batch():
                works = [plain(output, tensor) for output, tensor in (zip(taken, given) if blocks else zip(outputs, inputs))]
            if blocks and finish is not None:
                finish()
            return Together([work for work in works if isinstance(work, Started)], outputs)
        parts = (_capi.weft_iov_t * len(inputs))()
        for part, out, tensor in zip(parts, taken, given):
            part.out, part.count = of(out)[0], min(elements(out), elements(tensor))  # of a rank's share
            setattr(part, "in", of(tensor)[0])
        dtype = of(given[0])[1]
        if op is None:
            return self._run(function, (parts, len(inputs), dtype), opts, outputs, given, finish)
        number = _reduction(op, dtype, inputs[0].is_complex())
        return self._run(function, (parts, len(inputs), dtype, number), opts, outputs, given, finish)

    @refusing("all_reduce")
    def allreduce_sparse(self, tensors: list[Tensor], opts: Any = None) -> Any:
        """The sum of sparse tensors (COO). In place; ends in the call."""
        opts = opts or c10d.AllreduceOptions()
        if opts.reduceOp.op != _Kinds.SUM:
            raise ValueError(f"unsupported reduction {opts.reduceOp} of sparse tensors; there is SUM")
        tensor = single(tensors)
        try:
            sparse.all_reduce(self._comm, tensor)
        except Error as error:
            raise self._explained(error) from None
        return Done(tensors)

    def start_coalescing(self) -> None:
        """Operations of this thread from now on start together, at end_coalescing(). They are checked when they are called; an exception there, or of the
        program's, leaves nothing behind."""
        self._open.begin()

    def end_coalescing(self, device: Any = None) -> Any:
        works = self._open.end()
        try:
            with Batch():
                for work in works:
                    work.begin()
        except Exception as error:  # the others' first operation of these meets the refusal
            tell(self._comm, None, error)
            raise
        return Together(works)

    # ---- messages ----

    def send(self, tensors: list[Tensor], destination: int, tag: int = 0) -> Any:
        tensor = single(tensors)
        return self._send(tensor, by_rows(tensor), self._peer(destination), _tag(tag), _BACKGROUND)

    def recv(self, tensors: list[Tensor], source: int, tag: int = 0) -> Any:
        return self._receive_from(single(tensors), self._peer(source), tag)

    def recv_anysource(self, tensors: list[Tensor], tag: int = 0) -> Any:
        return self._receive_from(single(tensors), _capi.WEFT_ANY_SOURCE, tag)

    def _receive_from(self, tensor: Tensor, source: int, tag: int) -> Started:
        return self._receive(tensor, by_rows(tensor, written=True), source, _tag(tag), _BACKGROUND)

    def _send(self, tensor: Tensor, rows: Tensor, destination: int, tag: int, call: MessageOptions) -> Started:
        address, dtype, count = of(rows)
        return self._start(library.weft_send, (address, count, dtype, destination, tag), call, [tensor], rows)

    def _receive(self, tensor: Tensor, rows: Tensor, source: int, tag: int, call: MessageOptions) -> Started:
        address, dtype, count = of(rows)
        return self._started(self._comm._receive, library.weft_recv, (address, count, dtype, source, tag), call, [tensor], rows, write_back((tensor, rows)))

    # ---- inside ----

    def _explained(self, error: BaseException) -> BaseException:
        """What a call that has failed raises."""
        abort_hooks.look(self._comm)
        return explained(error)

    def _is_plain(self, tensors: Iterable[Tensor]) -> bool:
        """Whether the extension, which sees the rest, may take up an operation on these."""
        return self._open.coalescing is None and all(map(is_resolved, tensors))

    def _starts(self, opts: Any) -> bool:
        """Whether an operation goes on after its call, or begins later."""
        return getattr(opts, "asyncOp", True) or (self._open.coalescing is not None and self._open.current() is not None)

    def _run(self, function: Callable[..., int], arguments: tuple[Any, ...], opts: Any, outputs: Any, kept: object = None,
             finish: Callable[[], None] | None = None) -> Any:
        """`kept`: what must live as long as the operation besides the outputs; `finish`: what is left to do after it."""
        if self._starts(opts):
            return self._start(function, arguments, _with_timeout(_BACKGROUND, opts.timeout), outputs, kept, finish)
        call = _with_timeout(_NOTHING, opts.timeout)
        try:
            if profiler._is_profiler_enabled:
                with call_event(function, self._comm, outputs, kept):
                    self._comm._issue(function, arguments, None, False, call)
            else:
                self._comm._issue(function, arguments, None, False, call)
            if finish is not None:
                finish()
        except Error as error:
            raise self._explained(error) from None
        except Exception as error:  # a signal handler's
            raise begun(error)
        return Done(outputs)

    def _start(self, function: Callable[..., int], arguments: tuple[Any, ...], call: MessageOptions, outputs: Any, kept: object = None,
               finish: Callable[[], None] | None = None) -> Started:
        return self._started(self._comm._issue, function, arguments, call, outputs, kept, finish)

    def _started(self, issue: Callable[..., Any], function: Callable[..., int], arguments: tuple[Any, ...], call: MessageOptions, outputs: Any,
                 kept: object = None, finish: Callable[[], None] | None = None) -> Started:
        """Now; while coalescing is open, at its end."""
        together = self._open.current()
        if together is None:
            return Started(self._issued(issue, function, arguments, call, outputs, kept), outputs, function, finish, self._explained)
        start = functools.partial(self._issued, issue, function, arguments, call, outputs, kept)
        work = Started(Waiting(start, together), outputs, function, finish, self._explained)
        together.works.append(work)
        return work

    def _issued(self, issue: Callable[..., Any], function: Callable[..., int], arguments: tuple[Any, ...], call: MessageOptions, outputs: Any,
                kept: object) -> Any:
        try:
            if profiler._is_profiler_enabled:
                with call_event(function, self._comm, outputs, kept):
                    return issue(function, arguments, (outputs, kept), True, call)
            return issue(function, arguments, (outputs, kept), True, call)
        except Error as error:
            raise self._explained(error) from None
        except Exception as error:  # a signal handler's
            raise begun(error)

    def _peer(self, rank: int) -> int:
        if not 0 <= rank < self._comm.size:
            raise ValueError(f"rank {rank} is not in the group, which has ranks 0 to {self._comm.size - 1}")
        return rank

    def _check_list(self, tensors: Any, name: str) -> None:
        if len(tensors) != self._comm.size:
            raise ValueError(f"{len(tensors)} {name} were given in a group of {self._comm.size} ranks; there must be one for each")


def _asynchronous(opts: Any) -> Any:
    other = type(opts)()
    other.timeout = opts.timeout
    return other


def _split_counts(splits: list[int], tensor: Tensor, count: int, size: int, name: str) -> list[int]:
    """Elements for each rank."""
    rows = tensor.shape[0] if tensor.dim() else 1
    if not splits:
        splits = [_equal_rows(tensor, size, name)] * size
    if len(splits) != size:
        raise ValueError(f"Number of tensor splits not equal to group size: {len(splits)} of the {name}, {size} ranks")
    if sum(splits) != rows or min(splits) < 0:
        raise ValueError(f"Split sizes doesn't match total dim 0 size: {list(splits)} of the {name}, which has {rows} rows")
    row = count // rows if rows else 0
    return [split * row for split in splits]


def _equal_rows(tensor: Tensor, size: int, name: str) -> int:
    """For each rank."""
    rows = tensor.shape[0] if tensor.dim() else 1
    if rows % size:
        raise ValueError(f"Tensor's dim 0 does not divide equally across group size: the {name} has {rows} rows, and there are {size} ranks; give splits")
    return rows // size


def _tag(tag: int) -> int:
    if not 0 <= tag < _LIST_TAG:
        raise ValueError(f"tag is {tag}; it must be a whole number from 0, below 2**63")
    return tag
