// The model that this process uses: constants, a file, or a measurement, as WEFT_TUNE says.
//
//   const Tuning tuning = ProcessTuning(ranks);      // on a group's rank 0
//
// Thread-safety: any thread. The first ProcessModel() may take a tenth of a second (kMeasureBudgetNs)
// and start and join a thread; others that call it meanwhile wait.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/host.h"
#include "comm/select/machine_model.h"
#include "comm/select/tuning.h"

namespace weft {

enum class ModelOrigin : uint8_t { kStatic, kFile, kMeasured };
// "static", "file", "measured"
const char* ModelOriginName(ModelOrigin origin);

struct LoadedModel {
  MachineModel model;
  ModelOrigin origin = ModelOrigin::kStatic;
  std::string path;      // of the file, read or written; "" if there is none
  int64_t age_s = 0;     // kFile: since it was measured
  int64_t took_ns = 0;   // kMeasured: the measurement
  bool complete = true;  // kFile and kMeasured: nothing was left out for lack of time
};

// `tune` is a value of WEFT_TUNE; `folder` that of the cache, "" for none:
//   static   constants, and nothing is read or written but what `host` says
//   auto     the file, if it may be used; otherwise as measure
//   measure  measured, and kept in the file; a file that cannot be written is one line in the log
LoadedModel LoadModel(std::string_view tune, const HostFacts& host, const std::string& folder,
                      int64_t now_s);

// LoadModel with the settings and the machine of this process, once.
const LoadedModel& ProcessModel();

// What a group goes by whose rank 0 this process is: Choose by the model, and WEFT_COMBINE. One rank has nothing to
// choose, and does not wait for a measurement.
Tuning ProcessTuning(int ranks);

// Seconds since 1970, which is what the age of a file is counted in.
int64_t UnixSeconds();

}  // namespace weft
