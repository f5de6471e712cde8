#include "comm/select/model_json.h"

#include <cmath>

#include <nlohmann/json.hpp>

#include "base/status.h"
#include "base/text.h"

namespace weft {
namespace {

using Json = nlohmann::ordered_json;

constexpr int64_t kLatestTime = int64_t{1} << 40;

absl::Status Corrupt(std::string_view what) {
  return MakeError(WEFT_CORRUPT, StrCat("the model of the machine has ", what));
}

// nullptr if `json` is no object or has no such member.
const Json* Member(const Json& json, const char* name) {
  if (!json.is_object()) return nullptr;
  const auto found = json.find(name);
  return found == json.end() ? nullptr : &*found;
}

absl::Status ReadTimes(const Json& json, MachineModel* model) {
  for (const ModelField& field : ModelFields()) {
    const Json* const value = Member(json, field.name);
    if (value == nullptr || !value->is_number()) return Corrupt(StrCat("no number ", field.name));
    const double ns = value->get<double>();
    if (!std::isfinite(ns) || ns <= 0 || ns >= kModelTimeMaxNs) {
      return Corrupt(StrCat(field.name, " = ", ns, ", which is no time"));
    }
    model->*field.value = ns;
  }
  return absl::OkStatus();
}

absl::StatusOr<StoredModel> Read(const Json& json) {
  const Json* const version = Member(json, "version");
  if (version == nullptr || !version->is_number_integer() || *version != kModelFormatVersion) {
    return Corrupt("another format version");
  }
  StoredModel stored;
  const Json* const key = Member(json, "key");
  if (key == nullptr || !key->is_string()) return Corrupt("no key");
  stored.key = key->get<std::string>();
  const Json* const time = Member(json, "measured_at_s");
  if (time == nullptr || !time->is_number_unsigned() || time->get<uint64_t>() > kLatestTime) {
    return Corrupt("no time of measurement");
  }
  stored.measured_at_s = time->get<int64_t>();
  const Json* const complete = Member(json, "complete");
  if (complete == nullptr || !complete->is_boolean()) return Corrupt("no member \"complete\"");
  stored.complete = complete->get<bool>();
  const Json* const times = Member(json, "model");
  if (times == nullptr) return Corrupt("no member \"model\"");
  WEFT_RETURN_IF_ERROR(ReadTimes(*times, &stored.model));
  return stored;
}

}  // namespace

std::string ModelAsJson(const StoredModel& stored) {
  Json model = Json::object();
  for (const ModelField& field : ModelFields())
    model[field.name] = stored.model.*field.value;
  const Json whole = {{"version", kModelFormatVersion},
                      {"key", stored.key},
                      {"measured_at_s", stored.measured_at_s},
                      {"complete", stored.complete},
                      {"model", model}};
  return whole.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

absl::StatusOr<StoredModel> ModelFromJson(std::string_view text) {
  const Json json = Json::parse(text.begin(), text.end(), nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded()) return Corrupt("text that is not JSON");
  return Read(json);
}

}  // namespace weft
