#include "cli/weftctl/tune_command.h"

#include "base/options.h"
#include "cli/weftctl/tune_report.h"
#include "comm/select/model_cache.h"

namespace weft {

std::string FormatTune(const HostFacts& host, const LoadedModel& loaded, bool json) {
  return json ? TuneAsJson(host, loaded) : TuneAsText(host, loaded);
}

std::string FormatTune(bool measure, bool json) {
  const HostFacts host = ReadHostFacts();
  const LoadedModel loaded =
      LoadModel(measure ? "measure" : GetOptions().tune, host, ModelCacheFolder(), UnixSeconds());
  return FormatTune(host, loaded, json);
}

}  // namespace weft
