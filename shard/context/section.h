// Holds a context's mutex for a scope; before it lets go it does what completing threads have asked for meanwhile.
#pragma once

#include "shard/context/context.h"

namespace weft {

class WEFT_SCOPED_CAPABILITY Context::Section {
 public:
  explicit Section(Context& context) WEFT_ACQUIRE(context.mutex_) : context_(context) {
    context_.EnterSection();
  }

  ~Section() WEFT_RELEASE() { context_.LeaveSection(); }

  Section(const Section&) = delete;
  Section& operator=(const Section&) = delete;

 private:
  Context& context_;
};

}  // namespace weft
