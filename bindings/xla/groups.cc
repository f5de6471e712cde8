#include "bindings/xla/groups.h"

#include <map>

#include "weft/xla.h"

#include "base/mutex.h"
#include "base/status.h"
#include "base/text.h"
#include "bindings/c/guard.h"
#include "bindings/c/handles.h"
#include "comm/group/fork.h"

namespace weft::xla {
namespace {

class Numbers {
 public:
  static Numbers& Get() {
    static auto* const numbers =
        new Numbers;  // never destroyed: handlers may run while a program ends
    return *numbers;
  }

  int64_t Of(const std::shared_ptr<ProcessGroup>& group) WEFT_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    for (auto entry = entries_.begin(); entry != entries_.end();) {
      if (entry->second.expired()) {
        entry = entries_.erase(entry);
      } else if (entry->second.lock() == group) {
        return entry->first;
      } else {
        ++entry;
      }
    }
    entries_.emplace(last_ + 1, group);
    return ++last_;
  }

  absl::StatusOr<std::shared_ptr<ProcessGroup>> Find(std::string_view call, int64_t number)
      WEFT_EXCLUDES(mutex_) {
    // A child forked from this process has no group of its own; and another thread may hold the lock for ever there.
    if (!origin_.here()) return ForkedError(call, "group");
    const MutexLock lock(mutex_);
    if (number < 1 || number > last_) {
      return InvalidArgument(
          call,
          StrCat("there is no group with the number ", number,
                 "; the program was compiled in another process, or the attribute is not from "
                 "weft_xla_group_number"));
    }
    const auto found = entries_.find(number);
    std::shared_ptr<ProcessGroup> group = found == entries_.end() ? nullptr : found->second.lock();
    if (group == nullptr) {
      return CallError(WEFT_BAD_STATE, call,
                       StrCat("the group with the number ", number,
                              " was destroyed; trace the program anew with a live one"));
    }
    return group;
  }

 private:
  Numbers() = default;

  const Origin origin_;
  Mutex mutex_;
  std::map<int64_t, std::weak_ptr<ProcessGroup>> entries_ WEFT_GUARDED_BY(mutex_);
  int64_t last_ WEFT_GUARDED_BY(mutex_) = 0;
};

}  // namespace

absl::StatusOr<std::shared_ptr<ProcessGroup>> GroupOf(std::string_view call, int64_t number) {
  return Numbers::Get().Find(call, number);
}

}  // namespace weft::xla

weft_result_t weft_xla_group_number(weft_group_t group, int64_t* number) {
  return weft::Guarded([&]() -> absl::Status {
    constexpr const char* kCall = "weft_xla_group_number";
    WEFT_RETURN_IF_ERROR(weft::CheckGroup(kCall, group));
    if (number == nullptr) return weft::InvalidArgument(kCall, "number is NULL");
    *number = weft::xla::Numbers::Get().Of(group->group.shared());
    return absl::OkStatus();
  });
}
