// `weftctl tune`: prints what this machine costs, where that is known from, and what follows from it.
//
// Thread-safety: as comm/select/load_model.h; may measure, which takes a tenth of a second.
#pragma once

#include <string>

#include "base/host.h"
#include "comm/select/load_model.h"

namespace weft {

// With the settings of this process; `measure` is WEFT_TUNE=measure. Tables for people, or JSON.
std::string FormatTune(bool measure, bool json);

// The same of a model that has been loaded.
std::string FormatTune(const HostFacts& host, const LoadedModel& loaded, bool json);

}  // namespace weft
