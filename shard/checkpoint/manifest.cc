// Writes the texts; manifest_reader.cc reads them.
#include "shard/checkpoint/manifest.h"

#include <utility>

#include "absl/strings/escaping.h"
#include "base/crc32c.h"
#include "base/text.h"
#include "shard/checkpoint/manifest_json.h"
#include "shard/checkpoint/sealed_text.h"

namespace weft {
namespace {

std::string HexText(uint64_t number) {
  std::string text(16, '0');
  for (size_t i = 0; i < text.size(); ++i)
    text[i] = "0123456789abcdef"[number >> (60 - 4 * i) & 15];
  return text;
}

// ,"name":[ with an element per line ].
template <typename List, typename AsText>
std::string ListText(const char* name, const List& list, AsText as_text) {
  std::string text = StrCat(",\n\"", name, "\":[");
  bool first = true;
  for (const auto& one : list) {
    text += std::exchange(first, false) ? "\n" : ",\n";
    text += as_text(one);
  }
  return text + "]";
}

std::string QuotedText(std::string_view text) {
  return JsonLine(Json(text));
}

// By hand: of a million tensors a JSON value each would take most of the time of a save.
std::string TensorText(const SavedTensor& tensor) {
  const auto list = [](const auto& items, const auto& as_text) {
    std::string text = "[";
    for (const auto& item : items) {
      if (text.size() > 1) text += ",";
      text += as_text(item);
    }
    return text + "]";
  };
  std::vector<const char*> kinds;
  for (int kind = 0; kind < WEFT_SHARD_STATE_KINDS; ++kind) {
    const auto one = static_cast<weft_shard_state_kind_t>(kind);
    if (tensor.Has(one)) kinds.push_back(StateKindName(one));
  }
  std::string text = StrCat(
      "{\"name\":", QuotedText(tensor.name),
      ",\"shape\":", list(tensor.shape, [](int64_t size) { return StrCat(size); }), ",\"dtype\":\"",
      tensor.dtype.name(),
      "\",\"kinds\":", list(kinds, [](const char* kind) { return StrCat("\"", kind, "\""); }));
  if (tensor.frozen) text += ",\"frozen\":true";
  if (tensor.optimizer) text += StrCat(",\"optimizer\":\"", OptimizerName(*tensor.optimizer), "\"");
  return StrCat(text, ",\"cuts\":",
                list(tensor.cuts,
                     [](const TensorCut& cut) {
                       return StrCat("[", cut.rank, ",", cut.begin, ",", cut.end, "]");
                     }),
                "}");
}

std::string ValueText(const SavedValue& value) {
  Json json = {{"name", value.name}, {"rank", value.rank}};
  if (value.place) {
    json["begin"] = value.place->begin;
    json["bytes"] = value.place->bytes;
    json["crc32c"] = ChecksumText(value.place->checksum);
  } else {
    json["base64"] = absl::Base64Escape(ToAbsl(value.bytes));
  }
  return JsonLine(json);
}

std::string ScalarsText(const SavedScalars::value_type& named) {
  return JsonLine(ScalarsJson(named));
}

std::string OptimizerText(const SavedOptimizers::value_type& named) {
  return JsonLine(OptimizerJson(named));
}

// What both texts end with.
template <typename Text>
std::string StateText(const Text& text) {
  return ListText("tensors", text.tensors, TensorText) +
         ListText("scalars", text.scalars, ScalarsText) +
         ListText("optimizers", text.optimizers, OptimizerText) +
         ListText("values", text.values, ValueText);
}

std::string SealedFileText(const SealedFile& file) {
  return StrCat("[", file.bytes, ",\"", ChecksumText(file.checksum), "\"]");
}

}  // namespace

Json ScalarsJson(const SavedScalars::value_type& named) {
  const weft_shard_state_scalars_t& scalars = named.second;
  return {{"context", named.first},
          {"steps_begun", scalars.steps_begun},
          {"train_steps_begun", scalars.train_steps_begun},
          {"update_count", scalars.update_count},
          {"loss_scale", scalars.loss_scale},
          {"loss_scale_good_steps", scalars.loss_scale_good_steps},
          {"loss_scale_overflows_left", scalars.loss_scale_overflows_left},
          {"nonfinite_steps", scalars.nonfinite_steps}};
}

Json OptimizerJson(const SavedOptimizers::value_type& named) {
  Json groups = Json::array();
  for (const SavedGroup& group : named.second) {
    Json numbers = Json::object();
    for (const auto& [name, number] : group.numbers)
      numbers[name] = number;
    groups.push_back({{"kind", OptimizerName(group.kind)}, {"numbers", std::move(numbers)}});
  }
  return {{"context", named.first}, {"groups", std::move(groups)}};
}

SealedFile SealedFileOf(std::string_view text) {
  return {.bytes = text.size(), .checksum = Crc32c(0, text.data(), text.size())};
}

std::string RecordText(const RankRecord& record) {
  Json checksums = Json::array();
  for (const uint32_t checksum : record.checksums)
    checksums.push_back(ChecksumText(checksum));
  return Sealed(StrCat("{\"version\":", kCheckpointVersion, ",\"job\":\"", HexText(record.job),
                       "\",\"step\":", record.step, ",\"rank\":", record.rank,
                       ",\"ranks\":", record.ranks, ",\n\"bytes\":", record.file_bytes,
                       ",\"chunk_bytes\":", kCheckpointChunkBytes,
                       ",\"crc32c_of_chunks\":", JsonLine(checksums), StateText(record)));
}

std::string ManifestText(const Manifest& manifest) {
  std::string text =
      StrCat("{\"format\":\"", kManifestFormat, "\",\"version\":", kCheckpointVersion,
             ",\"job\":\"", HexText(manifest.job), "\",\n\"step\":", manifest.step,
             ",\"ranks\":", manifest.ranks, ",\"config\":", SealedFileText(manifest.config));
  text += ListText("records", manifest.records, SealedFileText);
  return Sealed(text + StateText(manifest));
}

}  // namespace weft
