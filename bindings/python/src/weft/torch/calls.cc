// Blocking operations of torch.distributed on one tensor, in one call from Python: what collectives.py does for them in its own
// words, which also says what everything here means.
//
//   calls.allreduce(communicator, tensors, options)   # the work, done; None: nothing has happened, collectives.py is to do it
//
// Only what is plain is taken up: an operation that blocks, with no timeout of its own, outside of batches and signal handlers, on
// contiguous tensors of the CPU with a type of weft's, while no profiler runs. The rest, wrong arguments first of all, is Python's, so a call has one meaning
// and one error whether this is there or not.
//
// build_ext.py compiles it for one torch and one Python. It is linked with no library of weft: extension.py hands over the functions of
// the one that Python has loaded.
//
// Thread-safety: any thread that holds the interpreter's lock, which is released while weft works.
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include <pybind11/pybind11.h>
#include <torch/csrc/Dtype.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/distributed/c10d/Types.hpp>

#include "weft/collective.h"

namespace {

constexpr int kNone = -1;
constexpr size_t kTypesMax = static_cast<size_t>(c10::ScalarType::NumOptions);
constexpr size_t kOpsMax = static_cast<size_t>(c10d::ReduceOp::UNUSED) + 1;

// What Python handed over. Never freed: the interpreter may be gone before static objects are.
struct Known {
  decltype(&weft_all_reduce) all_reduce;
  decltype(&weft_broadcast) broadcast;
  decltype(&weft_reduce) reduce;
  decltype(&weft_all_gather) all_gather;
  decltype(&weft_reduce_scatter) reduce_scatter;
  decltype(&weft_all_to_all) all_to_all;
  decltype(&weft_barrier) barrier;
  std::array<int, kTypesMax> dtypes;  // weft's by torch's, kNone where weft has none
  std::array<int, kOpsMax> ops;
  PyObject* batch;      // names of weft.core.batch
  PyObject* interrupt;  // names of weft.core.interrupt
  PyObject* profiler;   // names of torch.autograd.profiler
  PyObject* raised;     // list: what signal handlers have raised
  PyObject* done;       // the work of an operation that has ended, given its outputs
  PyObject* failed;  // raises what is to be raised, given the communicator and what weft returned
};

Known* known = nullptr;

struct Names {
  PyObject* group = PyUnicode_InternFromString("_group");
  PyObject* rank = PyUnicode_InternFromString("_rank");
  PyObject* size = PyUnicode_InternFromString("_size");
  PyObject* value = PyUnicode_InternFromString("value");
  PyObject* open_count = PyUnicode_InternFromString("open_count");
  PyObject* running = PyUnicode_InternFromString("running");
  PyObject* gi_running = PyUnicode_InternFromString("gi_running");
  PyObject* profiling = PyUnicode_InternFromString("_is_profiler_enabled");
};

Names* names = nullptr;

// An operation's memory. Keeps it: another thread may drop the tensor while the lock is released.
struct Memory {
  at::Tensor tensor;
  void* address;
  size_t count;
  weft_dtype_t dtype;
};

py::object Attribute(py::handle object, PyObject* name) {
  PyObject* const found = PyObject_GetAttr(object.ptr(), name);
  if (found == nullptr) throw py::error_already_set();
  return py::reinterpret_steal<py::object>(found);
}

int NumberIn(py::handle object, PyObject* name) {
  return static_cast<int>(PyLong_AsLong(Attribute(object, name).ptr()));
}

// What torch's own class holds; nothing for None and for objects that merely look like one.
template <typename Options>
const Options* OptionsIn(py::handle object, py::detail::make_caster<Options>* caster) {
  if (!caster->load(object, false)) return nullptr;
  const Options* const options = py::detail::cast_op<Options*>(*caster);
  const bool plain = known != nullptr && options != nullptr && !options->asyncOp &&
                     options->timeout < std::chrono::milliseconds(0);
  return plain ? options : nullptr;
}

std::optional<Memory> MemoryOf(py::handle object) {
  if (!THPVariable_CheckExact(object.ptr())) return std::nullopt;
  const at::Tensor& tensor = THPVariable_Unpack(object.ptr());
  if (!tensor.defined() || tensor.layout() != c10::kStrided || !tensor.device().is_cpu())
    return std::nullopt;
  if (!tensor.has_storage() || !tensor.is_contiguous()) return std::nullopt;
  const int dtype = known->dtypes[static_cast<size_t>(tensor.scalar_type())];
  if (dtype == kNone) return std::nullopt;
  return Memory{tensor, tensor.data_ptr(), static_cast<size_t>(tensor.numel()),
                static_cast<weft_dtype_t>(dtype)};
}

std::optional<Memory> MemoryOfOne(py::handle list) {
  if (!PyList_Check(list.ptr()) || PyList_GET_SIZE(list.ptr()) != 1) return std::nullopt;
  return MemoryOf(PyList_GET_ITEM(list.ptr(), 0));
}

int NumberOf(const c10d::ReduceOp& op) {
  return static_cast<size_t>(op.op_) < kOpsMax ? known->ops[op.op_] : kNone;
}

// Whether the thread is in no batch, and not in a signal handler that has interrupted a call of weft; and no profiler wants an event.
bool Undisturbed() {
  PyObject* const open_count = PyDict_GetItemWithError(known->batch, names->open_count);
  PyObject* const running = PyDict_GetItemWithError(known->interrupt, names->running);
  if (open_count == nullptr || running == nullptr || PyLong_AsLong(open_count) != 0) return false;
  if (PyDict_GetItemWithError(known->profiler, names->profiling) != Py_False) return false;
  return Attribute(running, names->gi_running).ptr() == Py_False;
}

// Calls weft with the communicator's group. The work, whose outputs are `outputs`; or None, if it is not to be called from here.
template <typename Call>
py::object Carry(py::handle communicator, const py::object& outputs, Call call) {
  if (!Undisturbed()) return py::none();
  const py::object group = Attribute(communicator, names->group);  // keeps the handle
  if (group.is_none()) return py::none();
  void* const handle = PyLong_AsVoidPtr(Attribute(group, names->value).ptr());
  weft_result_t result = WEFT_SUCCESS;
  Py_BEGIN_ALLOW_THREADS;
  result = call(static_cast<weft_group_t>(handle));
  Py_END_ALLOW_THREADS;
  if (result != WEFT_SUCCESS || PyList_GET_SIZE(known->raised) != 0)
    py::handle(known->failed)(communicator, static_cast<int>(result));
  PyObject* const work = PyObject_CallOneArg(known->done, outputs.ptr());
  if (work == nullptr) throw py::error_already_set();
  return py::reinterpret_steal<py::object>(work);
}

py::list ListOf(const py::object& one) {
  py::list list(1);
  list[0] = one;
  return list;
}

py::object AllReduce(py::handle communicator, const py::object& tensors, py::handle given) {
  py::detail::make_caster<c10d::AllreduceOptions> caster;
  const auto* const options = OptionsIn<c10d::AllreduceOptions>(given, &caster);
  if (options == nullptr) return py::none();
  const std::optional<Memory> memory = MemoryOfOne(tensors);
  const int op = NumberOf(options->reduceOp);
  if (!memory || op == kNone) return py::none();
  return Carry(communicator, tensors, [&](weft_group_t group) {
    return known->all_reduce(memory->address, memory->address, memory->count, memory->dtype,
                             static_cast<weft_op_t>(op), group, nullptr, nullptr);
  });
}

py::object Broadcast(py::handle communicator, const py::object& tensors, py::handle given) {
  py::detail::make_caster<c10d::BroadcastOptions> caster;
  const auto* const options = OptionsIn<c10d::BroadcastOptions>(given, &caster);
  if (options == nullptr) return py::none();
  const std::optional<Memory> memory = MemoryOfOne(tensors);
  if (!memory) return py::none();
  return Carry(communicator, tensors, [&](weft_group_t group) {
    return known->broadcast(memory->address, memory->address, memory->count, memory->dtype,
                            static_cast<int>(options->rootRank), group, nullptr, nullptr);
  });
}

py::object Reduce(py::handle communicator, const py::object& tensors, py::handle given) {
  py::detail::make_caster<c10d::ReduceOptions> caster;
  const auto* const options = OptionsIn<c10d::ReduceOptions>(given, &caster);
  if (options == nullptr) return py::none();
  const std::optional<Memory> memory = MemoryOfOne(tensors);
  const int op = NumberOf(options->reduceOp), root = static_cast<int>(options->rootRank);
  if (!memory || op == kNone) return py::none();
  void* const out = NumberIn(communicator, names->rank) == root ? memory->address : nullptr;
  return Carry(communicator, tensors, [&](weft_group_t group) {
    return known->reduce(memory->address, out, memory->count, memory->dtype,
                         static_cast<weft_op_t>(op), root, group, nullptr, nullptr);
  });
}

// Whether `whole` has the elements of `part` of every rank.
bool Holds(const Memory& whole, const Memory& part, py::handle communicator) {
  return whole.dtype == part.dtype &&
         whole.count == part.count * static_cast<size_t>(NumberIn(communicator, names->size));
}

py::object AllGather(py::handle communicator, const py::object& output, py::handle input,
                     py::handle given) {
  py::detail::make_caster<c10d::AllgatherOptions> caster;
  if (OptionsIn<c10d::AllgatherOptions>(given, &caster) == nullptr) return py::none();
  const std::optional<Memory> out = MemoryOf(output), in = MemoryOf(input);
  if (!out || !in || !Holds(*out, *in, communicator)) return py::none();
  return Carry(communicator, ListOf(output), [&](weft_group_t group) {
    return known->all_gather(in->address, out->address, in->count, in->dtype, group, nullptr,
                             nullptr);
  });
}

py::object ReduceScatter(py::handle communicator, const py::object& output, py::handle input,
                         py::handle given) {
  py::detail::make_caster<c10d::ReduceScatterOptions> caster;
  const auto* const options = OptionsIn<c10d::ReduceScatterOptions>(given, &caster);
  if (options == nullptr) return py::none();
  const std::optional<Memory> out = MemoryOf(output), in = MemoryOf(input);
  const int op = NumberOf(options->reduceOp);
  if (!out || !in || op == kNone || !Holds(*in, *out, communicator)) return py::none();
  return Carry(communicator, ListOf(output), [&](weft_group_t group) {
    return known->reduce_scatter(in->address, out->address, out->count, out->dtype,
                                 static_cast<weft_op_t>(op), group, nullptr, nullptr);
  });
}

// Of equal parts.
py::object AllToAll(py::handle communicator, const py::object& output, py::handle input,
                    py::handle given) {
  py::detail::make_caster<c10d::AllToAllOptions> caster;
  if (OptionsIn<c10d::AllToAllOptions>(given, &caster) == nullptr) return py::none();
  const std::optional<Memory> out = MemoryOf(output), in = MemoryOf(input);
  const size_t size = static_cast<size_t>(NumberIn(communicator, names->size));
  if (!out || !in || out->dtype != in->dtype || out->count != in->count || in->count % size != 0)
    return py::none();
  return Carry(communicator, ListOf(output), [&](weft_group_t group) {
    return known->all_to_all(in->address, out->address, in->count / size, in->dtype, group, nullptr,
                             nullptr);
  });
}

py::object Barrier(py::handle communicator, py::handle given) {
  py::detail::make_caster<c10d::BarrierOptions> caster;
  if (OptionsIn<c10d::BarrierOptions>(given, &caster) == nullptr) return py::none();
  return Carry(communicator, py::list(),
               [](weft_group_t group) { return known->barrier(group, nullptr, nullptr); });
}

template <typename Function>
void Take(const py::dict& functions, const char* name, Function* function) {
  *function = reinterpret_cast<Function>(functions[name].cast<uintptr_t>());
}

// Once, before anything else. `functions`: addresses by name; `dtypes` and `ops`: weft's numbers by torch's objects.
void Use(const py::dict& functions, const py::dict& dtypes, const py::dict& ops,
         const py::dict& batch, const py::dict& interrupt, const py::dict& profiler,
         const py::object& done, const py::object& failed) {
  auto* const made = new Known();
  Take(functions, "weft_all_reduce", &made->all_reduce);
  Take(functions, "weft_broadcast", &made->broadcast);
  Take(functions, "weft_reduce", &made->reduce);
  Take(functions, "weft_all_gather", &made->all_gather);
  Take(functions, "weft_reduce_scatter", &made->reduce_scatter);
  Take(functions, "weft_all_to_all", &made->all_to_all);
  Take(functions, "weft_barrier", &made->barrier);
  made->dtypes.fill(kNone);
  for (const auto& [kind, number] : dtypes) {
    if (!THPDtype_Check(kind.ptr())) throw py::type_error("a key is no torch.dtype");
    made->dtypes.at(static_cast<size_t>(reinterpret_cast<THPDtype*>(kind.ptr())->scalar_type)) =
        number.cast<int>();
  }
  made->ops.fill(kNone);
  for (const auto& [kind, number] : ops)
    made->ops.at(kind.cast<c10d::ReduceOp::RedOpType>()) = number.cast<int>();
  made->batch = py::object(batch).release().ptr();
  made->interrupt = py::object(interrupt).release().ptr();
  made->profiler = py::object(profiler).release().ptr();
  made->raised = py::list(interrupt["raised"]).release().ptr();
  made->done = py::object(done).release().ptr();
  made->failed = py::object(failed).release().ptr();
  names = new Names();
  known = made;
}

}  // namespace

PYBIND11_MODULE(TORCH_EXTENSION_NAME, module) {
  module.def("use", &Use);
  module.def("allreduce", &AllReduce);
  module.def("broadcast", &Broadcast);
  module.def("reduce", &Reduce);
  module.def("all_gather_single", &AllGather);
  module.def("reduce_scatter_single", &ReduceScatter);
  module.def("all_to_all_single", &AllToAll);
  module.def("barrier", &Barrier);
}
