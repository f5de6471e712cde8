// Collectives with several counts, with one wrong argument each; the caller is rank 1 of two.
#include "tests/bindings/bad_input.h"

namespace weft::test {
namespace {

constexpr size_t kHuge = PTRDIFF_MAX / sizeof(float) + 1;

struct Arguments {
  const void* in;
  void* out;
  size_t count;
  const size_t* in_counts;
  const size_t* in_offsets;
  const size_t* out_counts;
  const size_t* out_offsets;
  weft_dtype_t dtype;
  weft_op_t op;
  int root;
  weft_group_t group;
};

struct Kind {
  const char* function;
  bool in_counts;
  bool out_counts;
  bool reduces;
  bool has_root;
  weft_result_t (*issue)(const Arguments&);
};

const Kind kKinds[] = {
    {"weft_all_gather_v", false, true, false, false,
     [](const Arguments& a) {
       return weft_all_gather_v(a.in, a.out, a.out_counts, a.out_offsets, a.dtype, a.group, nullptr,
                                nullptr);
     }},
    {"weft_reduce_scatter_v", true, false, true, false,
     [](const Arguments& a) {
       return weft_reduce_scatter_v(a.in, a.out, a.in_counts, a.in_offsets, a.dtype, a.op, a.group,
                                    nullptr, nullptr);
     }},
    {"weft_gather_v", false, true, false, true,
     [](const Arguments& a) {
       return weft_gather_v(a.in, a.count, a.out, a.out_counts, a.out_offsets, a.dtype, a.root,
                            a.group, nullptr, nullptr);
     }},
    {"weft_scatter_v", true, false, false, true,
     [](const Arguments& a) {
       return weft_scatter_v(a.in, a.in_counts, a.in_offsets, a.out, a.count, a.dtype, a.root,
                             a.group, nullptr, nullptr);
     }},
    {"weft_all_to_all_v", true, true, false, false,
     [](const Arguments& a) {
       return weft_all_to_all_v(a.in, a.in_counts, a.in_offsets, a.out, a.out_counts, a.out_offsets,
                                a.dtype, a.group, nullptr, nullptr);
     }},
};

constexpr size_t kCounts[] = {8, 16};
constexpr size_t kHugeCounts[] = {8, kHuge};
constexpr size_t kWrappingCounts[] = {SIZE_MAX, 16};
constexpr size_t kOverlapping[] = {0, 7};
constexpr size_t kBoth[] = {16, 16};
constexpr size_t kShifted[] = {8, 0};
constexpr size_t kFarOffsets[] = {0, SIZE_MAX - 4};

using Spoil = std::function<void(Arguments&, Bench&)>;

void Add(const Kind& kind, const char* fault, const char* needle, const Spoil& spoil,
         std::vector<BadCall>* calls) {
  calls->push_back({kind.function, fault, WEFT_INVALID_ARGUMENT, needle,
                    [issue = kind.issue, spoil](Bench& bench) {
                      Arguments arguments = {.in = bench.out.data + 64,
                                             .out = bench.out.data + 512,
                                             .count = 16,
                                             .in_counts = kCounts,
                                             .in_offsets = nullptr,
                                             .out_counts = kCounts,
                                             .out_offsets = nullptr,
                                             .dtype = WEFT_FLOAT32,
                                             .op = WEFT_SUM,
                                             .root = 1,
                                             .group = bench.pair[1]};
                      spoil(arguments, bench);
                      return issue(arguments);
                    }});
}

void AddCountFaults(const Kind& kind, std::vector<BadCall>* calls) {
  if (kind.in_counts) {
    Add(
        kind, "in_counts_NULL", "is NULL", [](Arguments& a, Bench&) { a.in_counts = nullptr; },
        calls);
    Add(
        kind, "in_counts_too_large", "fit in memory",
        [](Arguments& a, Bench&) { a.in_counts = kHugeCounts; }, calls);
    Add(
        kind, "in_counts_that_wrap", "fit in memory",
        [](Arguments& a, Bench&) { a.in_counts = kWrappingCounts; }, calls);
    Add(
        kind, "in_offsets_that_wrap", "fit in memory",
        [](Arguments& a, Bench&) { a.in_offsets = kFarOffsets; }, calls);
  }
  if (kind.out_counts) {
    Add(
        kind, "out_counts_NULL", "is NULL", [](Arguments& a, Bench&) { a.out_counts = nullptr; },
        calls);
    Add(
        kind, "out_counts_too_large", "fit in memory",
        [](Arguments& a, Bench&) { a.out_counts = kHugeCounts; }, calls);
    Add(
        kind, "out_offsets_that_wrap", "fit in memory",
        [](Arguments& a, Bench&) { a.out_offsets = kFarOffsets; }, calls);
    Add(
        kind, "out_blocks_that_overlap", "overlap each other",
        [](Arguments& a, Bench&) { a.out_offsets = kOverlapping; }, calls);
  }
}

void AddFaults(const Kind& kind, std::vector<BadCall>* calls) {
  Add(
      kind, "group_NULL", "group is NULL", [](Arguments& a, Bench&) { a.group = nullptr; }, calls);
  Add(
      kind, "garbage_group", "not a group",
      [](Arguments& a, Bench& b) { a.group = b.Garbage<weft_group_t>(); }, calls);
  Add(
      kind, "dtype_12", "is not a data type",
      [](Arguments& a, Bench&) { a.dtype = Unknown<weft_dtype_t>(12); }, calls);
  Add(
      kind, "in_NULL", "in is NULL", [](Arguments& a, Bench&) { a.in = nullptr; }, calls);
  Add(
      kind, "out_NULL", "out is NULL", [](Arguments& a, Bench&) { a.out = nullptr; }, calls);
  Add(
      kind, "out_overlapping_in", "overlap",
      [](Arguments& a, Bench&) { a.out = static_cast<char*>(const_cast<void*>(a.in)) + 4; }, calls);
  if (kind.reduces) {
    Add(
        kind, "op_12", "is not a reduction",
        [](Arguments& a, Bench&) { a.op = Unknown<weft_op_t>(12); }, calls);
  }
  if (std::string(kind.function) == "weft_reduce_scatter_v") {
    // In place at its own block, which reaches into that of rank 0.
    Add(
        kind, "in_place_over_another_block", "overlap",
        [](Arguments& a, Bench&) {
          a.in_counts = kBoth;
          a.in_offsets = kShifted;
          a.out = const_cast<void*>(a.in);
        },
        calls);
  }
  if (kind.has_root) {
    Add(
        kind, "root_2", "root 2", [](Arguments& a, Bench&) { a.root = 2; }, calls);
    Add(
        kind, "root_below_0", "root -1", [](Arguments& a, Bench&) { a.root = -1; }, calls);
  }
  AddCountFaults(kind, calls);
}

using IssueParts = weft_result_t (*)(const weft_iov_t*, size_t, weft_dtype_t, weft_group_t);

void AddPartFaults(const char* function, IssueParts issue, std::vector<BadCall>* calls) {
  const auto add = [&](const char* fault, const char* needle, auto spoil) {
    calls->push_back({function, fault, WEFT_INVALID_ARGUMENT, needle, [issue, spoil](Bench& bench) {
                        weft_iov_t parts[2] = {{bench.out.data, bench.out.data + 256, 16},
                                               {bench.out.data + 64, bench.out.data + 512, 8}};
                        const weft_iov_t* given = parts;
                        size_t count = 2;
                        weft_dtype_t dtype = WEFT_FLOAT32;
                        weft_group_t group = bench.pair[1];
                        spoil(parts, given, count, dtype, group);
                        return issue(given, count, dtype, group);
                      }});
  };
  add("group_NULL", "group is NULL",
      [](weft_iov_t*, const weft_iov_t*&, size_t&, weft_dtype_t&, weft_group_t& group) {
        group = nullptr;
      });
  add("parts_NULL", "parts is NULL",
      [](weft_iov_t*, const weft_iov_t*& given, size_t&, weft_dtype_t&, weft_group_t&) {
        given = nullptr;
      });
  add("too_many_parts", "parts, at most",
      [](weft_iov_t*, const weft_iov_t*&, size_t& count, weft_dtype_t&, weft_group_t&) {
        count = WEFT_IOV_PARTS_MAX + 1;
      });
  add("dtype_99", "is not a data type",
      [](weft_iov_t*, const weft_iov_t*&, size_t&, weft_dtype_t& dtype, weft_group_t&) {
        dtype = Unknown<weft_dtype_t>(99);
      });
  add("in_NULL", "in of part 1 is NULL",
      [](weft_iov_t* parts, const weft_iov_t*&, size_t&, weft_dtype_t&, weft_group_t&) {
        parts[1].in = nullptr;
      });
  add("out_NULL", "out of part 0 is NULL",
      [](weft_iov_t* parts, const weft_iov_t*&, size_t&, weft_dtype_t&, weft_group_t&) {
        parts[0].out = nullptr;
      });
  add("counts_that_wrap", "fit in memory",
      [](weft_iov_t* parts, const weft_iov_t*&, size_t&, weft_dtype_t&, weft_group_t&) {
        parts[0].count = SIZE_MAX;
      });
  add("outs_that_overlap", "overlap each other",
      [](weft_iov_t* parts, const weft_iov_t*&, size_t&, weft_dtype_t&, weft_group_t&) {
        parts[1].out = static_cast<float*>(parts[0].out) + 1;
      });
  if (std::string(function) == "weft_reduce_scatter_iov") {
    add("a_part_in_place_whose_in_overlaps_the_other_out", "overlaps an out",
        [](weft_iov_t* parts, const weft_iov_t*&, size_t&, weft_dtype_t&, weft_group_t&) {
          auto* const in = static_cast<float*>(const_cast<void*>(parts[0].in));
          parts[0].out = in + parts[0].count;
          parts[1].out = in + 4;
        });
  }
  add("an_in_that_overlaps_the_other_out", "overlaps an out",
      [](weft_iov_t* parts, const weft_iov_t*&, size_t&, weft_dtype_t&, weft_group_t&) {
        parts[1].in = static_cast<float*>(parts[0].out) + 1;
      });
}

}  // namespace

std::vector<BadCall> BadVectorCalls() {
  std::vector<BadCall> calls;
  for (const Kind& kind : kKinds)
    AddFaults(kind, &calls);
  AddPartFaults(
      "weft_all_reduce_iov",
      [](const weft_iov_t* parts, size_t count, weft_dtype_t dtype, weft_group_t group) {
        return weft_all_reduce_iov(parts, count, dtype, WEFT_SUM, group, nullptr, nullptr);
      },
      &calls);
  AddPartFaults(
      "weft_all_gather_iov",
      [](const weft_iov_t* parts, size_t count, weft_dtype_t dtype, weft_group_t group) {
        return weft_all_gather_iov(parts, count, dtype, group, nullptr, nullptr);
      },
      &calls);
  AddPartFaults(
      "weft_reduce_scatter_iov",
      [](const weft_iov_t* parts, size_t count, weft_dtype_t dtype, weft_group_t group) {
        return weft_reduce_scatter_iov(parts, count, dtype, WEFT_SUM, group, nullptr, nullptr);
      },
      &calls);
  return calls;
}

}  // namespace weft::test
