#include "comm/select/load_model.h"

#include <ctime>
#include <optional>

#include "base/log.h"
#include "base/options.h"
#include "comm/select/measure.h"
#include "comm/select/model_cache.h"

namespace weft {

const char* ModelOriginName(ModelOrigin origin) {
  constexpr const char* kNames[] = {"static", "file", "measured"};
  return kNames[static_cast<size_t>(origin)];
}

LoadedModel LoadModel(std::string_view tune, const HostFacts& host, const std::string& folder,
                      int64_t now_s) {
  LoadedModel loaded;
  loaded.model = StaticModel(host);
  if (tune == "static") return loaded;
  if (!folder.empty()) loaded.path = ModelFilePath(folder, host);
  if (tune != "measure") {
    if (const std::optional<StoredModel> stored = ReadModelFile(folder, host, now_s)) {
      loaded.model = stored->model;
      loaded.origin = ModelOrigin::kFile;
      loaded.age_s = now_s > stored->measured_at_s ? now_s - stored->measured_at_s : 0;
      loaded.complete = stored->complete;
      return loaded;
    }
  }
  const MeasuredModel measured = MeasureModel(host, kMeasureBudgetNs);
  loaded.model = measured.model;
  loaded.origin = ModelOrigin::kMeasured;
  loaded.took_ns = measured.took_ns;
  loaded.complete = measured.complete;
  if (folder.empty()) return loaded;
  const absl::Status written = WriteModelFile(
      folder, host, {.measured_at_s = now_s, .complete = measured.complete, .model = loaded.model});
  if (!written.ok()) {
    LogInfo(written.message(), "; the next process measures again");
    loaded.path.clear();
  }
  return loaded;
}

const LoadedModel& ProcessModel() {
  static const LoadedModel loaded =
      LoadModel(GetOptions().tune, ReadHostFacts(), ModelCacheFolder(), UnixSeconds());
  return loaded;
}

Tuning ProcessTuning(int ranks) {
  if (ranks == 1) return {};
  Tuning tuning = Choose(ProcessModel().model, ranks);
  const std::string& combine = GetOptions().combine;
  if (combine != "auto") tuning.combine = combine == "1" ? 1 : 0;
  return tuning;
}

int64_t UnixSeconds() {
  timespec now = {};
  clock_gettime(CLOCK_REALTIME, &now);
  return now.tv_sec;
}

}  // namespace weft
