// Sends and receives with one wrong argument each.
#include "tests/bindings/bad_input.h"

namespace weft::test {
namespace {

constexpr size_t kCount = 16;

struct Arguments {
  const void* in;
  void* out;
  size_t count;
  weft_dtype_t dtype;
  int destination;
  int source;
  weft_group_t group;
  const weft_call_t* call;
  weft_work_t* work;
};

struct Kind {
  const char* function;
  bool sends;
  bool receives;
  weft_result_t (*issue)(const Arguments&, int* sender);
};

const Kind kKinds[] = {
    {"weft_send", true, false,
     [](const Arguments& a, int*) {
       return weft_send(a.in, a.count, a.dtype, a.destination, 1, a.group, a.call, a.work);
     }},
    {"weft_recv", false, true,
     [](const Arguments& a, int* sender) {
       return weft_recv(a.out, a.count, a.dtype, a.source, 1, sender, a.group, a.call, a.work);
     }},
    {"weft_recv_info", false, true,
     [](const Arguments& a, int*) {
       return weft_recv_info(a.out, a.count, a.dtype, a.source, 1, nullptr, a.group, a.call,
                             a.work);
     }},
    {"weft_sendrecv", true, true,
     [](const Arguments& a, int* sender) {
       return weft_sendrecv(a.in, a.count, a.destination, 1, a.out, a.count, a.source, 1, a.dtype,
                            sender, a.group, a.call, a.work);
     }},
};

// Right arguments for rank 1 of two.
Arguments Right(Bench& bench) {
  return {.in = bench.out.data + 64,
          .out = bench.out.data + 512,
          .count = kCount,
          .dtype = WEFT_FLOAT32,
          .destination = 0,
          .source = 0,
          .group = bench.pair[1],
          .call = nullptr,
          .work = nullptr};
}

using Spoil = std::function<void(Arguments&, Bench&)>;

class Faults {
 public:
  explicit Faults(const Kind& kind) : kind_(kind) {}

  // As a blocking call, and as one that would give a work.
  void Add(const std::string& fault, const std::string& needle, const Spoil& spoil,
           weft_result_t expected = WEFT_INVALID_ARGUMENT) {
    for (const bool started : {false, true}) {
      calls_.push_back({kind_.function, fault + (started ? "_started" : ""), expected, needle,
                        [issue = kind_.issue, spoil, started](Bench& bench) {
                          Arguments arguments = Right(bench);
                          if (started) arguments.work = &bench.out.work;
                          spoil(arguments, bench);
                          return issue(arguments, &bench.out.number);
                        }});
    }
  }

  void AddOption(const std::string& fault, const std::string& needle,
                 const std::function<void(weft_call_t&)>& spoil,
                 weft_result_t expected = WEFT_INVALID_ARGUMENT) {
    calls_.push_back(
        {kind_.function, fault, expected, needle, [issue = kind_.issue, spoil](Bench& bench) {
           weft_call_t call = {};
           call.struct_size = sizeof(call);
           spoil(call);
           Arguments arguments = Right(bench);
           arguments.call = &call;
           return issue(arguments, &bench.out.number);
         }});
  }

  std::vector<BadCall> Take() { return std::move(calls_); }

 private:
  const Kind& kind_;
  std::vector<BadCall> calls_;
};

void AddFaults(const Kind& kind, Faults* faults) {
  faults->Add("group_NULL", "group is NULL", [](Arguments& a, Bench&) { a.group = nullptr; });
  faults->Add("garbage_group", "not a group",
              [](Arguments& a, Bench& b) { a.group = b.Garbage<weft_group_t>(); });
  for (const int number : {-1, 12, INT32_MAX}) {
    faults->Add("dtype_" + std::to_string(static_cast<uint32_t>(number)), "is not a data type",
                [number](Arguments& a, Bench&) { a.dtype = Unknown<weft_dtype_t>(number); });
  }
  faults->Add("count_SIZE_MAX", "do not fit in memory",
              [](Arguments& a, Bench&) { a.count = SIZE_MAX; });
  faults->Add("count_just_too_large", "do not fit in memory",
              [](Arguments& a, Bench&) { a.count = PTRDIFF_MAX / sizeof(float) + 1; });
  for (const int rank : {-2, 2, INT32_MAX, INT32_MIN}) {
    const std::string name = std::to_string(static_cast<uint32_t>(rank));
    if (kind.sends) {
      faults->Add("destination_" + name, "destination " + std::to_string(rank),
                  [rank](Arguments& a, Bench&) { a.destination = rank; });
    }
    if (kind.receives) {
      faults->Add("source_" + name, "source " + std::to_string(rank),
                  [rank](Arguments& a, Bench&) { a.source = rank; });
    }
  }
  if (kind.sends) {
    faults->Add("in_NULL", "in is NULL", [](Arguments& a, Bench&) { a.in = nullptr; });
    faults->Add("any_destination", "destination -1",
                [](Arguments& a, Bench&) { a.destination = WEFT_ANY_SOURCE; });
  }
  if (kind.receives) {
    faults->Add("out_NULL", "out is NULL", [](Arguments& a, Bench&) { a.out = nullptr; });
  }
  if (kind.sends && kind.receives) {
    for (const int shift : {-4, 0, 4}) {
      faults->Add("overlap_" + std::to_string(shift + 4), "overlap", [shift](Arguments& a, Bench&) {
        a.out = static_cast<char*>(const_cast<void*>(a.in)) + shift;
      });
    }
  }
  faults->AddOption("timeout_negative", "timeout_ns is negative",
                    [](weft_call_t& call) { call.timeout_ns = -1; });
  faults->AddOption("unknown_fields", "unknown bits", [](weft_call_t& call) { call.fields = 17; });
  faults->AddOption(
      "another_wire_dtype", "wire_dtype float16",
      [](weft_call_t& call) {
        call.fields = WEFT_CALL_WIRE_DTYPE;
        call.wire_dtype = WEFT_FLOAT16;
      },
      WEFT_UNSUPPORTED);
  faults->AddOption("unknown_numerics", "numerics 2",
                    [](weft_call_t& call) { call.numerics = Unknown<weft_numerics_t>(2); });
  faults->AddOption(
      "a_stream", "stream is set", [](weft_call_t& call) { call.stream = &call; },
      WEFT_UNSUPPORTED);
  faults->AddOption(
      "the_default_stream", "stream is set",
      [](weft_call_t& call) { call.fields = WEFT_CALL_STREAM; }, WEFT_UNSUPPORTED);
  faults->AddOption(
      "an_algorithm", "algorithm \"ring\"", [](weft_call_t& call) { call.algorithm = "ring"; },
      WEFT_UNSUPPORTED);
}

using ProbeCall = weft_result_t (*)(int source, weft_message_info_t* info, weft_group_t group,
                                    int* found);

// Probes, which have neither a buffer nor a type.
void AddProbes(const char* function, ProbeCall call, std::vector<BadCall>* all) {
  const auto add = [&](
                       const std::string& fault, const std::string& needle, int source,
                       size_t struct_size,
                       weft_group_t (*group)(Bench&) = [](Bench& b) { return b.pair[1]; }) {
    all->push_back({function, fault, WEFT_INVALID_ARGUMENT, needle, [=](Bench& bench) {
                      weft_message_info_t info = {};
                      info.struct_size = struct_size;
                      return call(source, &info, group(bench), &bench.out.number);
                    }});
  };
  constexpr size_t kRight = sizeof(weft_message_info_t);
  add("group_NULL", "group is NULL", 0, kRight, [](Bench&) -> weft_group_t { return nullptr; });
  add("garbage_group", "not a group", 0, kRight,
      [](Bench& b) { return b.Garbage<weft_group_t>(); });
  for (const int rank : {-2, 2, INT32_MAX}) {
    const std::string name = std::to_string(static_cast<uint32_t>(rank));
    add("source_" + name, "source " + std::to_string(rank), rank, kRight);
  }
  for (const size_t bytes : {size_t{0}, size_t{8}, kRight - 1, SIZE_MAX})
    add("struct_size_" + std::to_string(bytes), "struct_size", 0, bytes);
}

}  // namespace

std::vector<BadCall> BadMessages() {
  std::vector<BadCall> all;
  AddProbes(
      "weft_probe",
      [](int source, weft_message_info_t* info, weft_group_t group, int*) {
        return weft_probe(source, 1, info, group, nullptr, nullptr);
      },
      &all);
  AddProbes(
      "weft_iprobe",
      [](int source, weft_message_info_t* info, weft_group_t group, int* found) {
        return weft_iprobe(source, 1, found, info, group);
      },
      &all);
  all.push_back(
      {"weft_iprobe", "found_NULL", WEFT_INVALID_ARGUMENT, "found is NULL", [](Bench& bench) {
         return weft_iprobe(0, 1, nullptr, nullptr, bench.pair[1]);
       }});
  all.push_back({"weft_send", "any_tag", WEFT_INVALID_ARGUMENT, "WEFT_ANY_TAG", [](Bench& bench) {
                   return weft_send(bench.out.data + 64, 4, WEFT_FLOAT32, 0, WEFT_ANY_TAG,
                                    bench.pair[1], nullptr, nullptr);
                 }});
  for (const Kind& kind : kKinds) {
    Faults faults(kind);
    AddFaults(kind, &faults);
    std::vector<BadCall> calls = faults.Take();
    AddConfigFaults<weft_call_t>(kind.function, &calls,
                                 [issue = kind.issue](Bench& bench, const weft_call_t* call) {
                                   Arguments arguments = Right(bench);
                                   arguments.call = call;
                                   return issue(arguments, &bench.out.number);
                                 });
    all.insert(all.end(), calls.begin(), calls.end());
  }
  return all;
}

}  // namespace weft::test
