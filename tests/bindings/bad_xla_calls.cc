// Calls by XLA that are wrong in one way each.
#include <climits>

#include "tests/bindings/bad_input.h"
#include "tests/bindings/xla_frames.h"

namespace weft::test {
namespace {

using xla::ElementType;
using Spoil = std::function<void(XlaFrame&)>;

// Wrong in what all handlers share. `needs` are the sides without which there is nothing to spoil.
struct Fault {
  const char* name;
  const char* needle;
  bool in;
  bool out;
  Spoil spoil;
};

// NOLINTNEXTLINE(readability-function-size): a table
std::vector<Fault> Faults() {
  return {
      {"a_short_frame", "frame has 8 bytes", false, false,
       [](XlaFrame& f) {
         f.call.struct_size = 8;
       }},
      {"a_group_that_never_was", "no group with the number 1099511627776", false, false,
       [](XlaFrame& f) {
         *static_cast<int64_t*>(f.scalar(1).value) = int64_t{1} << 40;
       }},
      {"group_0", "no group with the number 0", false, false,
       [](XlaFrame& f) {
         *static_cast<int64_t*>(f.scalar(1).value) = 0;
       }},
      {"group_a_float", "group is no 64-bit integer", false, false,
       [](XlaFrame& f) {
         f.scalar(1).type = ElementType::kF64;
       }},
      {"group_an_array", "group is no 64-bit integer", false, false,
       [](XlaFrame& f) {
         f.call.attributes.kinds[1] = 1;
       }},
      {"group_without_a_value", "group is no 64-bit integer", false, false,
       [](XlaFrame& f) {
         f.scalar(1).value = nullptr;
       }},
      {"no_attributes", "attribute group is missing", false, false,
       [](XlaFrame& f) {
         f.call.attributes = {};
       }},
      {"attribute_names_NULL", "attribute group is missing", false, false,
       [](XlaFrame& f) {
         f.call.attributes.names = nullptr;
       }},
      {"a_name_NULL", "attribute group is missing", false, false,
       [](XlaFrame& f) {
         f.call.attributes.names[1] = nullptr;
       }},
      {"attribute_kinds_NULL", "group is no 64-bit integer", false, false,
       [](XlaFrame& f) {
         f.call.attributes.kinds = nullptr;
       }},
      {"minus_1_operands", "there are -1 operands", false, false,
       [](XlaFrame& f) {
         f.call.operands.size = -1;
       }},
      {"5_operands", "there are 5 operands", false, false,
       [](XlaFrame& f) {
         f.call.operands.size = 5;
       }},
      {"5_results", "5 results", false, false,
       [](XlaFrame& f) {
         f.call.results.size = 5;
       }},
      {"operand_kind", "operand 0 is no buffer", true, false,
       [](XlaFrame& f) {
         f.call.operands.kinds[0] = 2;
       }},
      {"operand_NULL", "operand 0 is no buffer", true, false,
       [](XlaFrame& f) {
         f.call.operands.items[0] = nullptr;
       }},
      {"operand_list_NULL", "operand 0 is no buffer", true, false,
       [](XlaFrame& f) {
         f.call.operands.items = nullptr;
       }},
      {"operand_data_NULL", "operand 0 is NULL", true, false,
       [](XlaFrame& f) {
         f.operand(0).data = nullptr;
       }},
      {"operand_rank_minus_1", "operand 0 has -1 dimensions", true, false,
       [](XlaFrame& f) {
         f.operand(0).rank = -1;
       }},
      {"operand_dims_NULL", "operand 0 has 1 dimensions", true, false,
       [](XlaFrame& f) {
         f.operand(0).dims = nullptr;
       }},
      {"operand_of_minus_1", "-1 elements in dimension 0", true, false,
       [](XlaFrame& f) {
         f.operand(0).dims[0] = -1;
       }},
      {"operand_cut_short", "operand 0 is described by 8 bytes", true, false,
       [](XlaFrame& f) {
         f.operand(0).struct_size = 8;
       }},
      {"operand_of_4_bits", "XLA's type 21", true, false,
       [](XlaFrame& f) {
         f.operand(0).type = static_cast<ElementType>(21);
         if (f.call.results.size > 0) f.result(0).type = static_cast<ElementType>(21);
       }},
      {"result_NULL", "result 0 is no buffer", false, true,
       [](XlaFrame& f) {
         f.call.results.items[0] = nullptr;
       }},
      {"result_data_NULL", "result 0 is NULL", false, true,
       [](XlaFrame& f) {
         f.result(0).data = nullptr;
       }},
      {"result_without_end", "elements", false, true,
       [](XlaFrame& f) {
         f.result(0).dims[0] = INT64_MAX;
       }},
      {"tokens_that_differ", "token among the results", false, false,
       [](XlaFrame& f) {
         f.Operand(ElementType::kToken, nullptr, {}).Result(ElementType::kF32, nullptr, {0}).Seal();
       }},
      {"a_token_of_4_bits", "token has elements of XLA's type 21", false, false,
       [](XlaFrame& f) {
         static const float from = 1;
         static float to = 0;
         constexpr auto kType = static_cast<ElementType>(21);
         f.Operand(kType, &from, {}).Result(kType, &to, {}).Seal();
       }},
      {"timeout_minus_1", "timeout_ns is negative", false, false, nullptr},
  };
}

BadCall Made(const NamedXlaHandler& handler, const Fault& fault) {
  return {handler.function, fault.name, WEFT_INVALID_ARGUMENT, fault.needle,
          [handler, fault](Bench& bench) {
            int64_t group = 0;
            EXPECT_EQ(weft_xla_group_number(bench.solo, &group), WEFT_SUCCESS);
            XlaFrame frame;
            FillXlaFrame(handler, group, bench.out.data, bench.out.data + 9, &frame);
            if (fault.spoil == nullptr) frame.Attribute("timeout_ns", -1);
            frame.Seal();
            if (fault.spoil != nullptr) fault.spoil(frame);
            return frame.RunForResult(handler.handler);
          }};
}

// An attribute that a handler has beside `group`.
void AddNumber(const NamedXlaHandler& handler, const char* fault, const char* needle, size_t i,
               int64_t value, std::vector<BadCall>* calls) {
  calls->push_back(Made(handler, {fault, needle, false, false, [i, value](XlaFrame& frame) {
                                    *static_cast<int64_t*>(frame.scalar(i).value) = value;
                                  }}));
}

void AddNumbers(const NamedXlaHandler& handler, std::vector<BadCall>* calls) {
  const std::string name(handler.function);
  if (name.ends_with("reduce") || name.ends_with("reduce_scatter")) {
    AddNumber(handler, "op_minus_1", "op -1", 2, -1, calls);
    AddNumber(handler, "op_5", "op 5", 2, 5, calls);
    AddNumber(handler, "op_min_loc", "op 103", 2, WEFT_MIN_LOC, calls);
    AddNumber(handler, "op_1023", "op 1023", 2, 1023, calls);
    AddNumber(handler, "op_of_the_run_time", "op 1024", 2, WEFT_OP_CUSTOM_FIRST, calls);
    AddNumber(handler, "op_without_end", "op ", 2, INT64_MAX, calls);
    AddNumber(handler, "bits_of_floats", "bit_and", 2, WEFT_BIT_AND, calls);
    calls->push_back(Made(handler, {"complex_max", "XLA's type 15", true, true, [](XlaFrame& f) {
                                      *static_cast<int64_t*>(f.scalar(2).value) = WEFT_MAX;
                                      f.operand(0).type = ElementType::kC64;
                                      f.result(0).type = ElementType::kC64;
                                    }}));
  }
  if (name == "weft_xla_reduce" || name.ends_with("broadcast") || name.ends_with("xla_gather") ||
      name.ends_with("xla_scatter")) {
    AddNumber(handler, "root_1", "root", 3, 1, calls);
    AddNumber(handler, "root_minus_1", "root", 3, -1, calls);
    AddNumber(handler, "root_without_end", "root is", 3, int64_t{1} << 32, calls);
  }
  if (name.ends_with("send") || name.ends_with("sendrecv")) {
    AddNumber(handler, "destination_1", "1", 0, 1, calls);
    AddNumber(handler, "destination_without_end", "destination is", 0, INT64_MIN, calls);
  }
  if (name.ends_with("recv")) {
    AddNumber(handler, "source_1", "1", 4, 1, calls);
    AddNumber(handler, "source_minus_7", "-7", 4, -7, calls);
  }
}

// Operand and result that do not fit each other.
void AddPairs(const NamedXlaHandler& handler, std::vector<BadCall>* calls) {
  if (!handler.in || !handler.out || handler.handler == weft_xla_sendrecv) return;
  calls->push_back(
      Made(handler, {"types_that_differ", "differ in type", true, true, [](XlaFrame& f) {
                       f.result(0).type = ElementType::kS32;
                     }}));
  calls->push_back(Made(
      handler, {"shapes_that_differ", "does not fit a group of 1", true, true, [](XlaFrame& f) {
                  f.result(0).dims[0] = 2;
                }}));
}

}  // namespace

std::vector<BadCall> BadXlaCalls() {
  std::vector<BadCall> calls = {
      {"weft_xla_group_number", "group_NULL", WEFT_INVALID_ARGUMENT, "group is NULL",
       [](Bench&) {
         int64_t number = 0;
         return weft_xla_group_number(nullptr, &number);
       }},
      {"weft_xla_group_number", "garbage", WEFT_INVALID_ARGUMENT, "not a group",
       [](Bench& b) {
         int64_t number = 0;
         return weft_xla_group_number(b.Garbage<weft_group_t>(), &number);
       }},
      {"weft_xla_group_number", "number_NULL", WEFT_INVALID_ARGUMENT, "number is NULL",
       [](Bench& b) {
         return weft_xla_group_number(b.solo, nullptr);
       }},
  };
  const std::vector<Fault> faults = Faults();
  for (const NamedXlaHandler& handler : kXlaHandlers) {
    for (const Fault& fault : faults) {
      if ((fault.in && !handler.in) || (fault.out && !handler.out)) continue;
      calls.push_back(Made(handler, fault));
    }
    AddNumbers(handler, &calls);
    AddPairs(handler, &calls);
  }
  return calls;
}

}  // namespace weft::test
