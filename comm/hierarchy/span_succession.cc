#include "comm/hierarchy/span_succession.h"

#include "comm/hierarchy/span_group.h"

namespace weft {

void SpanSuccession::Drop() {
  std::optional<SpanCore> core;
  std::shared_ptr<SpanGroup> next;
  {
    MutexLock lock(mutex_);
    core.swap(core_);
    next.swap(next_);
  }
  if (next != nullptr) {
    next->Close();
  } else if (core && core->inner != nullptr) {
    core->inner->Close();
  }
}

}  // namespace weft
