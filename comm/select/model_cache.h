// The file that keeps a measured model, so that a machine is measured once and not by every job.
//
//   const std::string folder = ModelCacheFolder();                     // "" without a home
//   if (auto stored = ReadModelFile(folder, host, now_s)) ...
//   WriteModelFile(folder, host, {.model = model, ...});
//
// <folder>/model-<hash>.json, where the hash is that of what a model depends on: processor, cores,
// kernel, virtual machine or not, instruction set, version of weft and of the format. Format:
// docs/formats/tuning.md.
// A cache that cannot be used is worth one line in the log and nothing more: whoever asked measures. A
// file is used only if it is a file of this user that nobody else can write, and if every number in it
// makes sense. It appears by a rename, so that no reader sees half of it, and the last of several
// writers wins.
//
// Thread-safety: any thread, any number of processes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "base/host.h"
#include "comm/select/model_json.h"

namespace weft {

// A model of a virtual machine is used for a day, as its neighbours change; one of a machine of its own
// for a month; one whose measurement was cut short, on a busy machine, for ten minutes.
constexpr int64_t kModelMaxAgeVirtualS = 86'400;
constexpr int64_t kModelMaxAgeS = 30 * kModelMaxAgeVirtualS;
constexpr int64_t kModelMaxAgeIncompleteS = 600;

// $XDG_CACHE_HOME/weft, or $HOME/.cache/weft; "" if neither is an absolute path.
std::string ModelCacheFolder();

// What a model depends on, in words.
std::string ModelKey(const HostFacts& host);

// The file of `host` in `folder`.
std::string ModelFilePath(const std::string& folder, const HostFacts& host);

// The model kept for `host`, with its caches and cores; nothing if there is none that may be used at
// `now_s` (Unix time). Logs why, unless there is no file: a warning, but of one that is only too old.
std::optional<StoredModel> ReadModelFile(const std::string& folder, const HostFacts& host,
                                         int64_t now_s);

// Keeps a model for `host`; `stored`'s key is set here. Creates the folders that are missing, readable by
// their owner only. Fails with what was attempted and why.
absl::Status WriteModelFile(const std::string& folder, const HostFacts& host, StoredModel stored);

}  // namespace weft
