// Calls of the C interface that are wrong in one way each, and what they must answer.
//
//   for (const BadCall& call : BadCollectives()) RunBadCall(call);
//
// A call gets a Bench: live objects to misuse, and memory that no refused call may change. Whoever
// adds a function to include/weft adds its bad calls here; a test compares the lists.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <ostream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "weft/weft.h"

namespace weft::test {

// What calls write to. Filled with a pattern, compared after the call.
struct Outputs {
  float data[1024];  // in and out of collectives, with plenty of room around both
  void* memory;
  weft_group_t group;
  weft_group_t groups[65];
  weft_work_t work;
  weft_store_t store;
  weft_unique_id_t id;
  weft_mesh_t mesh;
  weft_shard_context_t context;
  weft_shard_unit_t unit;
  weft_shard_param_t param;
  const char* name;
  int number;
  uint64_t sequence;
  weft_op_t op;
  weft_completion_queue_t queue;
  weft_checkpoint_t checkpoint;
  weft_completion_t completions[2];
  size_t count;
};

// One process with a group of one and a group of two, both ranks here, and a shard context with a
// finalized and an open sibling.
class Bench {
 public:
  Bench();
  ~Bench();
  Bench(const Bench&) = delete;
  Bench& operator=(const Bench&) = delete;

  // Memory that is no handle: all zero.
  template <typename Handle>
  Handle Garbage() {
    return reinterpret_cast<Handle>(garbage_);
  }

  // All groups still do an all_reduce.
  void ExpectGroupsWork();

  Outputs out;
  weft_group_t solo = nullptr;
  weft_group_t pair[2] = {};
  weft_work_t done = nullptr;  // ended well
  weft_completion_queue_t queue = nullptr;
  weft_store_t store = nullptr;
  weft_mesh_t mesh = nullptr;
  weft_shard_context_t open = nullptr;  // being declared
  weft_shard_unit_t open_unit = nullptr;
  weft_shard_context_t ready = nullptr;  // finalized
  weft_shard_unit_t unit = nullptr;
  weft_shard_param_t param = nullptr;
  weft_checkpoint_t checkpoint = nullptr;  // of `solo`, in a directory that is not there

 private:
  void MakeContexts();

  alignas(64) unsigned char garbage_[256] = {};
};

struct BadCall {
  std::string function;    // "weft_mem_alloc"
  std::string fault;       // "size_of_0": the rest of the test's name
  weft_result_t expected;  // what it must return
  std::string needle;      // what its sentence must contain besides the operation's name
  std::function<weft_result_t(Bench&)> run;
};

inline void PrintTo(const BadCall& call, std::ostream* to) {
  *to << call.function << " with " << call.fault;
}

std::vector<BadCall> BadCollectives();
std::vector<BadCall> BadVectorCalls();           // vector.h, iov.h
std::vector<BadCall> BadDeviceCalls();           // device.h
std::vector<BadCall> BadDlpackCalls();           // dlpack.h
std::vector<BadCall> BadExplainCalls();          // explain.h
std::vector<BadCall> BadCompletionCalls();       // completion_queue.h
std::vector<BadCall> BadMessages();              // point_to_point.h
std::vector<BadCall> BadGroupCalls();            // group.h, store.h, work.h
std::vector<BadCall> BadShardCalls();            // mesh.h, shard.h, set-up
std::vector<BadCall> BadShardStepCalls();        // shard.h, step
std::vector<BadCall> BadShardOptimizerCalls();   // shard_step.h, optimizers
std::vector<BadCall> BadShardNormCalls();        // shard_norm.h
std::vector<BadCall> BadShardCheckCalls();       // shard_checks.h
std::vector<BadCall> BadSliceCalls();            // shard_global.h
std::vector<BadCall> BadShardInfoCalls();        // shard_info.h
std::vector<BadCall> BadParamGroupCalls();       // shard_param_groups.h
std::vector<BadCall> BadShardStateCalls();       // shard_state.h
std::vector<BadCall> BadCheckpointCalls();       // checkpoint.h
std::vector<BadCall> BadCheckpointFilesCalls();  // checkpoint_files.h
std::vector<BadCall> BadOpCalls();               // op.h
std::vector<BadCall> BadProcessCalls();          // mem.h, log.h, options.h, error.h
std::vector<BadCall> BadXlaCalls();              // xla.h
std::vector<BadCall> BadShardPlanCalls();        // shard_plan.h, shard_units.h

// All of these; made once.
const std::vector<BadCall>& AllBadCalls();

// A number as a value of an enum that may not have it, as a C caller can pass it.
template <typename Enum>
Enum Unknown(int number) {
  Enum value;
  static_assert(sizeof(value) == sizeof(number));
  std::memcpy(&value, &number, sizeof(value));
  return value;
}

// Calls with an answer struct of the given struct_size, filled with a pattern that must stay.
template <typename Answer>
weft_result_t WithAnswer(size_t struct_size, const std::function<weft_result_t(Answer*)>& call) {
  Answer answer;
  std::memset(&answer, 0x5a, sizeof(answer));
  answer.struct_size = struct_size;
  Answer before;
  std::memcpy(&before, &answer, sizeof(answer));
  const weft_result_t result = call(&answer);
  EXPECT_EQ(std::memcmp(&before, &answer, sizeof(answer)), 0) << "the answer was written to";
  return result;
}

// Adds one bad call per way in which a config struct's size can be wrong.
template <typename Config>
void AddConfigFaults(const std::string& function, std::vector<BadCall>* calls,
                     const std::function<weft_result_t(Bench&, const Config*)>& call) {
  const auto add = [&](const char* fault, size_t struct_size, bool fields, const char* needle) {
    calls->push_back({function, fault, WEFT_INVALID_ARGUMENT, needle, [=](Bench& bench) {
                        Config config;
                        std::memset(&config, fields ? 1 : 0, sizeof(config));
                        config.struct_size = struct_size;
                        return call(bench, &config);
                      }});
  };
  add("struct_size_1", 1, false, "struct_size 1");
  add("struct_size_4", 4, false, "struct_size 4");
  add("struct_size_that_cuts_a_field", sizeof(Config) - 1, true, "struct_size");
  add("struct_size_without_end", SIZE_MAX, true, "struct_size");
  add("struct_size_0_and_fields", 0, true, "struct_size is 0");
  calls->push_back(
      {function, "fields_of_a_newer_version", WEFT_UNSUPPORTED, "does not know", [=](Bench& bench) {
         struct Newer {
           Config config;
           uint64_t field;
         } newer;
         std::memset(&newer, 0, sizeof(newer));
         newer.config.struct_size = sizeof(newer);
         newer.field = 1;
         return call(bench, &newer.config);
       }});
}

// Adds bad calls with handles of a shard manager that are none; `kind` is "unit" and the like.
template <typename Handle>
void AddHandleFaults(const char* function, const char* kind,
                     const std::function<weft_result_t(Bench&, Handle)>& call,
                     std::vector<BadCall>* calls) {
  const std::string name(function);
  const bool takes_null = name == "weft_mesh_destroy" || name == "weft_shard_context_destroy" ||
                          name == "weft_checkpoint_destroy";
  if (!takes_null) {
    calls->push_back({function, std::string(kind) + "_NULL", WEFT_INVALID_ARGUMENT,
                      std::string(kind) + " is NULL", [call](Bench& b) {
                        return call(b, nullptr);
                      }});
  }
  calls->push_back({function, std::string("garbage_") + kind, WEFT_INVALID_ARGUMENT,
                    std::string("not the handle of a ") + kind, [call](Bench& b) {
                      return call(b, b.Garbage<Handle>());
                    }});
  calls->push_back({function, std::string("a_group_for_a_") + kind, WEFT_INVALID_ARGUMENT,
                    std::string("not the handle of a ") + kind, [call](Bench& b) {
                      return call(b, reinterpret_cast<Handle>(b.solo));
                    }});
}

}  // namespace weft::test
