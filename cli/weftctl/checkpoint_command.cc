// ListCheckpointsIn, ShowCheckpoint.
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/files.h"
#include "base/status.h"
#include "base/text.h"
#include "cli/weftctl/byte_progress.h"
#include "cli/weftctl/commands.h"
#include "shard/checkpoint/found_checkpoints.h"
#include "shard/checkpoint/manifest_json.h"
#include "shard/checkpoint/safetensors.h"
#include "shard/checkpoint/saved_checkpoint.h"

namespace weft {
namespace {

std::string AsJsonText(const Json& json) {
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

// ---- list ---------------------------------------------------------------------------------------

struct ListedCheckpoint {
  FoundCheckpoint found;
  size_t file_bytes = 0;
  int ranks = 0;  // 0: not known
  size_t tensors = 0;
  bool latest = false;
  std::string problem;  // with what it has to be read by; "": none
};

// Of all its files that can be looked at.
size_t FileBytesIn(const std::string& path) {
  const auto names = SystemFiles().List(path);
  if (!names.ok()) return 0;
  size_t bytes = 0;
  for (const std::string& name : *names) {
    const auto file = SystemFiles().Open(JoinPath(path, name));
    if (!file.ok()) continue;
    const auto size = (*file)->Size();
    if (size.ok()) bytes += *size;
  }
  return bytes;
}

absl::StatusOr<std::vector<ListedCheckpoint>> List(const std::string& directory) {
  WEFT_ASSIGN_OR_RETURN(std::vector<FoundCheckpoint> found,
                        FindCheckpoints(SystemFiles(), directory));
  std::vector<ListedCheckpoint> all;
  ListedCheckpoint* latest = nullptr;
  all.reserve(found.size());
  for (FoundCheckpoint& one : found) {
    ListedCheckpoint& listed = all.emplace_back();
    listed.file_bytes = FileBytesIn(one.path);
    if (one.committed || one.unreadable) {
      const auto saved = SavedCheckpoint::Open(SystemFiles(), one.path);
      if (saved.ok()) {
        listed.ranks = saved->manifest().ranks;
        listed.tensors = saved->manifest().tensors.size();
        latest = &listed;
      } else {
        listed.problem = FromAbsl(saved.status().message());
      }
    }
    listed.found = std::move(one);
  }
  if (latest != nullptr) latest->latest = true;
  return all;
}

std::string StateOf(const ListedCheckpoint& one) {
  if (!one.problem.empty())
    return (one.found.unreadable ? "unreadable: " : "damaged: ") + one.problem;
  if (!one.found.committed) return "not committed";
  return StrCat(one.latest ? "latest" : "", one.latest && one.found.pinned ? ", " : "",
                one.found.pinned ? "pinned" : "");
}

std::string ListAsText(const std::vector<ListedCheckpoint>& all) {
  std::string text = fmt::format("{:>10}  {:>4}  {:>6}  {:>8}  {:>10}  {}\n", "step", "run",
                                 "ranks", "tensors", "size", "path");
  for (const ListedCheckpoint& one : all) {
    const bool known = one.ranks > 0;
    const std::string state = StateOf(one);
    text += fmt::format("{:>10}  {:>4}  {:>6}  {:>8}  {:>10}  {}{}{}\n", one.found.name.step,
                        one.found.name.run, known ? std::to_string(one.ranks) : "-",
                        known ? std::to_string(one.tensors) : "-", ByteText(one.file_bytes),
                        one.found.path, state.empty() ? "" : "  ", state);
  }
  return text;
}

std::string ListAsJson(const std::string& directory, const std::vector<ListedCheckpoint>& all) {
  Json checkpoints = Json::array();
  for (const ListedCheckpoint& one : all) {
    const bool known = one.ranks > 0;
    checkpoints.push_back({{"path", one.found.path},
                           {"step", one.found.name.step},
                           {"run", one.found.name.run},
                           {"committed", one.found.committed},
                           {"latest", one.latest},
                           {"pinned", one.found.pinned},
                           {"file_bytes", one.file_bytes},
                           {"ranks", known ? Json(one.ranks) : Json()},
                           {"tensors", known ? Json(one.tensors) : Json()},
                           {"problem", one.problem.empty() ? Json() : Json(one.problem)}});
  }
  return AsJsonText(
      {{"version", 1}, {"directory", directory}, {"checkpoints", std::move(checkpoints)}});
}

// ---- show ---------------------------------------------------------------------------------------

std::vector<const char*> KindNames(const SavedTensor& tensor) {
  std::vector<const char*> names;
  for (int number = 0; number < WEFT_SHARD_STATE_KINDS; ++number) {
    const auto kind = static_cast<weft_shard_state_kind_t>(number);
    if (tensor.Has(kind)) names.push_back(StateKindName(kind));
  }
  return names;
}

// On one line, whatever a file says.
std::string NameText(std::string name) {
  for (char& c : name) {
    if (static_cast<unsigned char>(c) < ' ' || c == '\x7f') c = '?';
  }
  return name;
}

std::string ShowAsText(const SavedCheckpoint& saved) {
  const Manifest& manifest = saved.manifest();
  std::string text =
      fmt::format("{}: step {}, saved by {} rank{}; {} tensors, {} in all states\n", saved.path(),
                  manifest.step, manifest.ranks, manifest.ranks == 1 ? "" : "s",
                  manifest.tensors.size(), ByteText(saved.data_bytes()));
  if (manifest.config.bytes > 0)
    text += fmt::format("config.json: {}\n", ByteText(manifest.config.bytes));
  for (const SavedTensor& tensor : manifest.tensors) {
    text += fmt::format("tensor {}: {} {}; {}; cuts", NameText(tensor.name), tensor.dtype.name(),
                        ShapeText(tensor.shape), fmt::join(KindNames(tensor), " "));
    for (const TensorCut& cut : tensor.cuts)
      text += fmt::format(" {}:[{}:{})", cut.rank, cut.begin, cut.end);
    text += tensor.cuts.empty() ? " none" : "";
    if (tensor.frozen) text += "; frozen";
    if (tensor.optimizer) text += fmt::format("; updated by {}", OptimizerName(*tensor.optimizer));
    text += "\n";
  }
  for (const auto& [name, scalars] : manifest.scalars) {
    text += fmt::format(
        "numbers of context \"{}\": steps_begun {}, train_steps_begun {}, update_count {}, "
        "loss_scale {}, loss_scale_good_steps {}, loss_scale_overflows_left {}, nonfinite_steps "
        "{}\n",
        NameText(name), scalars.steps_begun, scalars.train_steps_begun, scalars.update_count,
        scalars.loss_scale, scalars.loss_scale_good_steps, scalars.loss_scale_overflows_left,
        scalars.nonfinite_steps);
  }
  for (const auto& [name, groups] : manifest.optimizers) {
    for (size_t i = 0; i < groups.size(); ++i) {
      text += fmt::format("optimizer of context \"{}\", group {}: {}", NameText(name), i,
                          OptimizerName(groups[i].kind));
      for (const auto& [number, value] : groups[i].numbers)
        text += fmt::format(", {} {}", NameText(number), value);
      text += "\n";
    }
  }
  for (const SavedValue& value : manifest.values) {
    text += fmt::format("value {}: {}, {}\n", NameText(value.name),
                        value.rank < 0 ? "of all ranks" : fmt::format("of rank {}", value.rank),
                        ByteText(value.size()));
  }
  return text;
}

std::string ShowAsJson(const SavedCheckpoint& saved) {
  const Manifest& manifest = saved.manifest();
  Json tensors = Json::array();
  for (const SavedTensor& tensor : manifest.tensors) {
    Json cuts = Json::array();
    for (const TensorCut& cut : tensor.cuts)
      cuts.push_back({{"rank", cut.rank}, {"begin", cut.begin}, {"end", cut.end}});
    tensors.push_back(
        {{"name", tensor.name},
         {"dtype", tensor.dtype.name()},
         {"shape", tensor.shape},
         {"kinds", KindNames(tensor)},
         {"frozen", tensor.frozen},
         {"optimizer", tensor.optimizer ? Json(OptimizerName(*tensor.optimizer)) : Json()},
         {"cuts", std::move(cuts)}});
  }
  Json contexts = Json::array();
  for (const auto& named : manifest.scalars)
    contexts.push_back(ScalarsJson(named));
  Json optimizers = Json::array();
  for (const auto& named : manifest.optimizers)
    optimizers.push_back(OptimizerJson(named));
  Json values = Json::array();
  for (const SavedValue& value : manifest.values) {
    values.push_back({{"name", value.name},
                      {"rank", value.rank < 0 ? Json() : Json(value.rank)},
                      {"bytes", value.size()}});
  }
  return AsJsonText({{"version", 1},
                     {"path", saved.path()},
                     {"step", manifest.step},
                     {"ranks", manifest.ranks},
                     {"data_bytes", saved.data_bytes()},
                     {"config_bytes", manifest.config.bytes},
                     {"tensors", std::move(tensors)},
                     {"scalars", std::move(contexts)},
                     {"optimizers", std::move(optimizers)},
                     {"values", std::move(values)}});
}

absl::StatusOr<SavedCheckpoint> OpenLatest(const std::string& path) {
  WEFT_ASSIGN_OR_RETURN(const std::vector<FoundCheckpoint> found, CommittedAt(SystemFiles(), path));
  return SavedCheckpoint::Open(SystemFiles(), found.back().path);
}

}  // namespace

CommandOutput ListCheckpointsIn(const std::string& directory, bool json) {
  const auto all = List(directory);
  if (!all.ok()) return {"", {std::string(all.status().message())}};
  return {json ? ListAsJson(directory, *all) : ListAsText(*all), {}};
}

CommandOutput ShowCheckpoint(const std::string& path, bool json) {
  const auto saved = OpenLatest(path);
  if (!saved.ok()) return {"", {std::string(saved.status().message())}};
  return {json ? ShowAsJson(*saved) : ShowAsText(*saved), {}};
}

}  // namespace weft
