// The calls of shard_norm.h, with one wrong argument each.
#include <cmath>
#include <string>

#include "tests/bindings/bad_input.h"

namespace weft::test {
namespace {

weft_shard_norm_t GoodNorm() {
  weft_shard_norm_t norm = {};
  norm.struct_size = sizeof(norm);
  norm.loss_scale = 1;
  return norm;
}

struct BadNorm {
  const char* fault;
  const char* needle;
  void (*change)(weft_shard_norm_t& norm);
};

// What weft_shard_gradient_norm never writes.
std::vector<BadNorm> BadNorms() {
  using Norm = weft_shard_norm_t;
  return {{"loss_scale_0", "loss_scale 0",
           [](Norm& n) {
             n.loss_scale = 0;
           }},
          {"loss_scale_negative", "loss_scale -1",
           [](Norm& n) {
             n.loss_scale = -1;
           }},
          {"loss_scale_nan", "loss_scale nan",
           [](Norm& n) {
             n.loss_scale = NAN;
           }},
          {"nonfinite_negative", "nonfinite -1",
           [](Norm& n) {
             n.nonfinite = -1;
           }},
          {"nan", "not finite",
           [](Norm& n) {
             n.norm = NAN;
           }},
          {"infinite", "not finite",
           [](Norm& n) {
             n.norm = INFINITY;
           }},
          {"negative", "below 0",
           [](Norm& n) {
             n.norm = -1;
           }},
          {"squares_nan", "not finite",
           [](Norm& n) {
             n.squares[WEFT_SHARD_NORM_WORDS - 3] = 1;
           }},
          {"squares_negative", "below 0", [](Norm& n) {
             n.squares[WEFT_SHARD_NORM_WORDS - 4] = -1;
           }}};
}

void AddGradientNormFaults(std::vector<BadCall>* calls) {
  AddHandleFaults<weft_shard_context_t>(
      "weft_shard_gradient_norm", "context",
      [](Bench&, weft_shard_context_t c) {
        weft_shard_norm_t norm = {};
        norm.struct_size = sizeof(norm);
        return weft_shard_gradient_norm(c, nullptr, &norm);
      },
      calls);
  calls->push_back({"weft_shard_gradient_norm", "norm_NULL", WEFT_INVALID_ARGUMENT, "norm is NULL",
                    [](Bench& b) {
                      return weft_shard_gradient_norm(b.ready, nullptr, nullptr);
                    }});
  calls->push_back({"weft_shard_gradient_norm", "struct_size_0", WEFT_INVALID_ARGUMENT,
                    "struct_size is 0", [](Bench& b) {
                      weft_shard_norm_t norm = {};
                      return weft_shard_gradient_norm(b.ready, nullptr, &norm);
                    }});
  calls->push_back(
      {"weft_shard_gradient_norm", "between_steps", WEFT_BAD_STATE, "after finish", [](Bench& b) {
         weft_shard_norm_t norm = {};
         norm.struct_size = sizeof(norm);
         return weft_shard_gradient_norm(b.ready, nullptr, &norm);
       }});
}

void AddNormAddFaults(std::vector<BadCall>* calls) {
  calls->push_back(
      {"weft_shard_norm_add", "norm_NULL", WEFT_INVALID_ARGUMENT, "norm is NULL", [](Bench&) {
         const weft_shard_norm_t other = {};
         return weft_shard_norm_add(nullptr, &other);
       }});
  calls->push_back(
      {"weft_shard_norm_add", "other_NULL", WEFT_INVALID_ARGUMENT, "other is NULL", [](Bench&) {
         weft_shard_norm_t norm = {};
         norm.struct_size = sizeof(norm);
         return weft_shard_norm_add(&norm, nullptr);
       }});
  calls->push_back({"weft_shard_norm_add", "another_loss_scale", WEFT_INVALID_ARGUMENT,
                    "loss scales 1 and 2", [](Bench&) {
                      weft_shard_norm_t norm = {};
                      norm.struct_size = sizeof(norm);
                      norm.loss_scale = 1;
                      weft_shard_norm_t other = norm;
                      other.loss_scale = 2;
                      return weft_shard_norm_add(&norm, &other);
                    }});
  for (const auto& [fault, needle, change] : BadNorms()) {
    calls->push_back({"weft_shard_norm_add", std::string("norm_") + fault, WEFT_INVALID_ARGUMENT,
                      needle, [change = change](Bench&) {
                        weft_shard_norm_t norm = GoodNorm();
                        const weft_shard_norm_t other = norm;
                        change(norm);
                        return weft_shard_norm_add(&norm, &other);
                      }});
    calls->push_back({"weft_shard_norm_add", std::string("other_") + fault, WEFT_INVALID_ARGUMENT,
                      needle, [change = change](Bench&) {
                        weft_shard_norm_t norm = GoodNorm(), other = norm;
                        change(other);
                        return weft_shard_norm_add(&norm, &other);
                      }});
  }
}

void AddNormSumFaults(std::vector<BadCall>* calls) {
  constexpr char kCall[] = "weft_shard_norm_sum";
  calls->push_back({kCall, "norm_NULL", WEFT_INVALID_ARGUMENT, "norm is NULL", [](Bench& b) {
                      return weft_shard_norm_sum(nullptr, b.solo, nullptr);
                    }});
  calls->push_back(
      {kCall, "group_NULL", WEFT_INVALID_ARGUMENT, "group is NULL or not a group", [](Bench&) {
         weft_shard_norm_t norm = GoodNorm();
         return weft_shard_norm_sum(&norm, nullptr, nullptr);
       }});
  calls->push_back(
      {kCall, "garbage_group", WEFT_INVALID_ARGUMENT, "group is NULL or not a group", [](Bench& b) {
         weft_shard_norm_t norm = GoodNorm();
         return weft_shard_norm_sum(&norm, b.Garbage<weft_group_t>(), nullptr);
       }});
  calls->push_back({kCall, "a_stream", WEFT_UNSUPPORTED, "a stream was passed", [](Bench& b) {
                      weft_shard_norm_t norm = GoodNorm();
                      return weft_shard_norm_sum(&norm, b.solo, &b);
                    }});
  for (const size_t struct_size : {size_t{0}, size_t{1}, size_t{4}, SIZE_MAX}) {
    calls->push_back({kCall, "struct_size_" + std::to_string(struct_size), WEFT_INVALID_ARGUMENT,
                      "struct_size", [struct_size](Bench& b) {
                        return WithAnswer<weft_shard_norm_t>(
                            struct_size, [&](weft_shard_norm_t* norm) {
                              return weft_shard_norm_sum(norm, b.solo, nullptr);
                            });
                      }});
  }
  for (const auto& [fault, needle, change] : BadNorms()) {
    calls->push_back({kCall, fault, WEFT_INVALID_ARGUMENT, needle, [change = change](Bench& b) {
                        weft_shard_norm_t norm = GoodNorm();
                        change(norm);
                        return weft_shard_norm_sum(&norm, b.pair[0], nullptr);
                      }});
  }
}

}  // namespace

std::vector<BadCall> BadShardNormCalls() {
  std::vector<BadCall> calls;
  AddGradientNormFaults(&calls);
  AddNormAddFaults(&calls);
  AddNormSumFaults(&calls);
  return calls;
}

}  // namespace weft::test
