// Collectives with one wrong argument each.
#include "tests/bindings/bad_input.h"

namespace weft::test {
namespace {

constexpr size_t kCount = 16;

struct Arguments {
  const void* in;
  void* out;
  size_t count;
  weft_dtype_t dtype;
  weft_op_t op;
  int root;
  weft_group_t group;
  const weft_call_t* call;
  weft_work_t* work;
};

struct Kind {
  const char* function;
  bool reduces;
  bool has_root;
  bool has_data;
  weft_result_t (*issue)(const Arguments&);
};

const Kind kKinds[] = {
    {"weft_all_reduce", true, false, true,
     [](const Arguments& a) {
       return weft_all_reduce(a.in, a.out, a.count, a.dtype, a.op, a.group, a.call, a.work);
     }},
    {"weft_reduce", true, true, true,
     [](const Arguments& a) {
       return weft_reduce(a.in, a.out, a.count, a.dtype, a.op, a.root, a.group, a.call, a.work);
     }},
    {"weft_broadcast", false, true, true,
     [](const Arguments& a) {
       return weft_broadcast(a.in, a.out, a.count, a.dtype, a.root, a.group, a.call, a.work);
     }},
    {"weft_all_gather", false, false, true,
     [](const Arguments& a) {
       return weft_all_gather(a.in, a.out, a.count, a.dtype, a.group, a.call, a.work);
     }},
    {"weft_reduce_scatter", true, false, true,
     [](const Arguments& a) {
       return weft_reduce_scatter(a.in, a.out, a.count, a.dtype, a.op, a.group, a.call, a.work);
     }},
    {"weft_scan", true, false, true,
     [](const Arguments& a) {
       return weft_scan(a.in, a.out, a.count, a.dtype, a.op, a.group, a.call, a.work);
     }},
    {"weft_exscan", true, false, true,
     [](const Arguments& a) {
       return weft_exscan(a.in, a.out, a.count, a.dtype, a.op, a.group, a.call, a.work);
     }},
    {"weft_gather", false, true, true,
     [](const Arguments& a) {
       return weft_gather(a.in, a.out, a.count, a.dtype, a.root, a.group, a.call, a.work);
     }},
    {"weft_scatter", false, true, true,
     [](const Arguments& a) {
       return weft_scatter(a.in, a.out, a.count, a.dtype, a.root, a.group, a.call, a.work);
     }},
    {"weft_all_to_all", false, false, true,
     [](const Arguments& a) {
       return weft_all_to_all(a.in, a.out, a.count, a.dtype, a.group, a.call, a.work);
     }},
    {"weft_barrier", false, false, false,
     [](const Arguments& a) {
       return weft_barrier(a.group, a.call, a.work);
     }},
};

// Right arguments for rank 1 of two: in and out apart, with room for every collective.
Arguments Right(Bench& bench) {
  return {.in = bench.out.data + 64,
          .out = bench.out.data + 512,
          .count = kCount,
          .dtype = WEFT_FLOAT32,
          .op = WEFT_SUM,
          .root = 1,
          .group = bench.pair[1],
          .call = nullptr,
          .work = nullptr};
}

using Spoil = std::function<void(Arguments&, Bench&)>;
using SpoilCall = std::function<void(weft_call_t&)>;

class Faults {
 public:
  explicit Faults(const Kind& kind) : kind_(kind) {}

  // As a blocking call, and as one that would give a work.
  void Add(const std::string& fault, weft_result_t expected, const std::string& needle,
           const Spoil& spoil) {
    for (const bool started : {false, true}) {
      calls_.push_back({kind_.function, fault + (started ? "_started" : ""), expected, needle,
                        [issue = kind_.issue, spoil, started](Bench& bench) {
                          Arguments arguments = Right(bench);
                          if (started) arguments.work = &bench.out.work;
                          spoil(arguments, bench);
                          return issue(arguments);
                        }});
    }
  }

  void AddInvalid(const std::string& fault, const std::string& needle, const Spoil& spoil) {
    Add(fault, WEFT_INVALID_ARGUMENT, needle, spoil);
  }

  // With wrong options.
  void AddCall(const std::string& fault, weft_result_t expected, const std::string& needle,
               const SpoilCall& spoil) {
    calls_.push_back(
        {kind_.function, fault, expected, needle, [issue = kind_.issue, spoil](Bench& bench) {
           weft_call_t call = {};
           call.struct_size = sizeof(call);
           spoil(call);
           Arguments arguments = Right(bench);
           arguments.call = &call;
           return issue(arguments);
         }});
  }

  std::vector<BadCall> Take() { return std::move(calls_); }

 private:
  const Kind& kind_;
  std::vector<BadCall> calls_;
};

void AddHandleFaults(Faults* faults) {
  faults->AddInvalid("group_NULL", "group is NULL",
                     [](Arguments& a, Bench&) { a.group = nullptr; });
  faults->AddInvalid("garbage_group", "not a group",
                     [](Arguments& a, Bench& b) { a.group = b.Garbage<weft_group_t>(); });
  faults->AddInvalid("a_store_for_a_group", "not a group", [](Arguments& a, Bench& b) {
    a.group = reinterpret_cast<weft_group_t>(b.store);
  });
}

void AddValueFaults(const Kind& kind, Faults* faults) {
  for (const int number : {-1, 12, 99, INT32_MAX}) {
    const std::string name = number < 0 ? "minus_1" : std::to_string(number);
    faults->AddInvalid("dtype_" + name, "is not a data type",
                       [number](Arguments& a, Bench&) { a.dtype = Unknown<weft_dtype_t>(number); });
    if (!kind.reduces) continue;
    faults->AddInvalid("op_" + name, "is not a reduction",
                       [number](Arguments& a, Bench&) { a.op = Unknown<weft_op_t>(number); });
  }
  if (!kind.has_root) return;
  for (const int root : {-1, 2, INT32_MAX, INT32_MIN}) {
    const std::string name =
        root < 0 ? std::to_string(-static_cast<int64_t>(root)) + "_below_0" : std::to_string(root);
    faults->AddInvalid("root_" + name, "root " + std::to_string(root),
                       [root](Arguments& a, Bench&) { a.root = root; });
  }
}

void AddBufferFaults(const Kind& kind, Faults* faults) {
  const std::string function = kind.function;
  faults->AddInvalid("in_NULL", "in is NULL", [](Arguments& a, Bench&) { a.in = nullptr; });
  faults->AddInvalid("out_NULL", "out is NULL", [](Arguments& a, Bench&) { a.out = nullptr; });
  faults->AddInvalid("count_SIZE_MAX", "do not fit in memory",
                     [](Arguments& a, Bench&) { a.count = SIZE_MAX; });
  faults->AddInvalid("count_just_too_large", "do not fit in memory",
                     [](Arguments& a, Bench&) { a.count = PTRDIFF_MAX / sizeof(float) + 1; });
  faults->AddInvalid("count_too_large_for_two", "do not fit in memory",
                     [](Arguments& a, Bench&) { a.count = PTRDIFF_MAX / sizeof(float) / 2 + 1; });
  faults->AddInvalid("count_that_wraps", "do not fit in memory",
                     [](Arguments& a, Bench&) { a.count = SIZE_MAX / sizeof(float) + 2; });
  for (const int shift : {-4, -1, 1, 4, static_cast<int>(kCount * sizeof(float)) - 1}) {
    const std::string name = (shift < 0 ? "back_" : "on_") + std::to_string(std::abs(shift));
    faults->AddInvalid("out_overlapping_in_" + name, "overlap", [shift](Arguments& a, Bench&) {
      a.out = static_cast<char*>(const_cast<void*>(a.in)) + shift;
    });
  }
  // Where other collectives are in place, these are not: rank 1's block is not the first.
  if (function == "weft_all_gather" || function == "weft_reduce_scatter" ||
      function == "weft_gather" || function == "weft_scatter") {
    faults->AddInvalid("in_place_at_the_block_of_rank_0", "overlap",
                       [](Arguments& a, Bench&) { a.out = const_cast<void*>(a.in); });
  }
}

void AddOptionFaults(bool has_data, Faults* faults) {
  faults->AddCall("timeout_negative", WEFT_INVALID_ARGUMENT, "timeout_ns is negative",
                  [](weft_call_t& call) { call.timeout_ns = -1; });
  faults->AddCall("timeout_INT64_MIN", WEFT_INVALID_ARGUMENT, "timeout_ns is negative",
                  [](weft_call_t& call) { call.timeout_ns = INT64_MIN; });
  faults->AddCall("unknown_fields", WEFT_INVALID_ARGUMENT, "unknown bits",
                  [](weft_call_t& call) { call.fields = 17; });
  faults->AddCall("unknown_wire_dtype", WEFT_INVALID_ARGUMENT, "wire_dtype 99",
                  [](weft_call_t& call) {
                    call.fields = WEFT_CALL_WIRE_DTYPE;
                    call.wire_dtype = Unknown<weft_dtype_t>(99);
                  });
  if (has_data) {
    faults->AddCall("another_wire_dtype", WEFT_UNSUPPORTED, "wire_dtype float16",
                    [](weft_call_t& call) {
                      call.fields = WEFT_CALL_WIRE_DTYPE;
                      call.wire_dtype = WEFT_FLOAT16;
                    });
  }
  faults->AddCall("unknown_numerics", WEFT_INVALID_ARGUMENT, "numerics 2",
                  [](weft_call_t& call) { call.numerics = Unknown<weft_numerics_t>(2); });
  faults->AddCall("an_algorithm", WEFT_INVALID_ARGUMENT, "algorithm \"ring\"",
                  [](weft_call_t& call) { call.algorithm = "ring"; });
  faults->AddCall("a_stream", WEFT_UNSUPPORTED, "stream is set",
                  [](weft_call_t& call) { call.stream = &call; });
  faults->AddCall("the_default_stream", WEFT_UNSUPPORTED, "stream is set",
                  [](weft_call_t& call) { call.fields = WEFT_CALL_STREAM; });
}

}  // namespace

std::vector<BadCall> BadCollectives() {
  std::vector<BadCall> all;
  for (const Kind& kind : kKinds) {
    Faults faults(kind);
    AddHandleFaults(&faults);
    if (kind.has_data) {
      AddValueFaults(kind, &faults);
      AddBufferFaults(kind, &faults);
    }
    AddOptionFaults(kind.has_data, &faults);
    std::vector<BadCall> calls = faults.Take();
    AddConfigFaults<weft_call_t>(kind.function, &calls,
                                 [issue = kind.issue](Bench& bench, const weft_call_t* call) {
                                   Arguments arguments = Right(bench);
                                   arguments.call = call;
                                   return issue(arguments);
                                 });
    all.insert(all.end(), calls.begin(), calls.end());
  }
  return all;
}

}  // namespace weft::test
