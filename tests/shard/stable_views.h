// What tests of stable views share: options, and an eye on addresses.
//
//   Addresses addresses;
//   addresses.Watch(model);
//   ... steps ...
//   EXPECT_EQ(addresses.moved(), 0);
#pragma once

#include <map>
#include <vector>

#include "shard/context/context_options.h"
#include "tests/shard/exact_model.h"

namespace weft {

inline const char* NameOf(weft_shard_views_t views) {
  return views == WEFT_SHARD_VIEWS_MOVE     ? "MOVE"
         : views == WEFT_SHARD_VIEWS_STABLE ? "STABLE"
                                            : "APART";
}

inline ContextOptions OptionsOf(weft_shard_views_t views) {
  ContextOptions options;
  options.average = false;
  options.limits = {.bucket_bytes = 1024, .first_bucket_bytes = 1024};
  options.views = views;
  options.memory.poison = true;
  return options;
}

// Remembers where each param was seen first, and counts where it was seen elsewhere.
class Addresses {
 public:
  void Watch(ExactModel& model) {
    model.seen = [this](int param, const void* data) {
      if (data == nullptr) return;
      const auto [at, first] = seen_.emplace(param, data);
      if (!first && at->second != data) ++moved_;
    };
  }

  int moved() const { return moved_; }

  const void* Of(int param) const { return seen_.at(param); }

 private:
  std::map<int, const void*> seen_;
  int moved_ = 0;
};

inline Script Joined(std::vector<Script> parts) {
  Script all;
  for (const Script& part : parts)
    all.insert(all.end(), part.begin(), part.end());
  return all;
}

inline std::vector<int> Declared(int units) {
  std::vector<int> order;
  for (int unit = 0; unit < units; ++unit)
    order.push_back(unit);
  return order;
}

}  // namespace weft
