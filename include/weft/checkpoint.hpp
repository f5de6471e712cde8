// Checkpoints for C++17; see checkpoint.h and checkpoint_files.h.
//
//   weft::Checkpoint checkpoint(group, config);
//   checkpoint.Add(context);
//   const weft_checkpoint_loaded_t loaded = checkpoint.Load();       // loaded.found is 0 in a new run
//   checkpoint.SaveInBackground(step);
//   checkpoint.Wait();
//   weft::ExportCheckpoint(export_config);                            // for other programs; no group
//
// Order of calls, collective calls, errors and the thread rules are as in those.
#ifndef WEFT_CHECKPOINT_HPP_
#define WEFT_CHECKPOINT_HPP_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "weft/checkpoint.h"
#include "weft/checkpoint_files.h"
#include "weft/shard.hpp"
#include "weft/weft.hpp"

namespace weft {
inline namespace interface_0 {

// Contexts and memory that were added must outlive it.
class Checkpoint : public Handle<weft_checkpoint_t, weft_checkpoint_destroy> {
 public:
  Checkpoint() noexcept = default;

  // Collective.
  Checkpoint(const Group& group, const weft_checkpoint_config_t& config)
      : Handle(
            internal::Returned<weft_checkpoint_t>(weft_checkpoint_create, group.get(), &config)) {}

  void Add(const ShardContext& context, const char* name = nullptr) const {
    Check(weft_checkpoint_add_context(get(), name, context.get()));
  }

  void Add(const weft_checkpoint_tensor_t& tensor) const {
    Check(weft_checkpoint_add_tensor(get(), &tensor));
  }

  void Add(const weft_checkpoint_value_t& value) const {
    Check(weft_checkpoint_add_value(get(), &value));
  }

  // Returns when the checkpoint is committed.
  void Save(std::int64_t step) const { SaveAt(step, 0, 0); }

  // Returns when this rank's part is copied.
  void SaveInBackground(std::int64_t step) const { SaveAt(step, 1, 0); }

  // Returns when this rank's params are copied; the next update waits until optimizer state is written.
  void SaveInPlace(std::int64_t step) const { SaveAt(step, 1, 1); }

  // Whether the last save has ended; throws what it failed with.
  bool Test() const { return internal::Returned<int>(weft_checkpoint_test, get()) != 0; }

  // Until it has ended; 0: at its own deadline.
  void Wait(std::chrono::nanoseconds timeout = std::chrono::nanoseconds::zero()) const {
    Check(weft_checkpoint_wait(get(), timeout.count()));
  }

  // The latest that is whole. Collective.
  weft_checkpoint_loaded_t Load(std::uint32_t flags = 0) const { return LoadWith(flags, 0); }

  // From elsewhere, with other names or types, or a part. Collective.
  weft_checkpoint_loaded_t Load(const weft_checkpoint_load_config_t& config) const {
    return internal::Filled<weft_checkpoint_loaded_t>(weft_checkpoint_load, get(), &config);
  }

  // That of a step. Collective.
  weft_checkpoint_loaded_t LoadStep(std::int64_t step, std::uint32_t flags = 0) const {
    return LoadWith(flags | WEFT_CHECKPOINT_STEP, step);
  }

  // A value of what was loaded last, of any rank that saved it; -1: that of all. Nothing if it has none. Valid until the next call.
  std::optional<std::string_view> Value(const char* name, int rank = -1) const {
    const void* bytes = nullptr;
    std::size_t count = 0;
    Check(weft_checkpoint_value_read(get(), name, rank, &bytes, &count));
    if (bytes == nullptr) return std::nullopt;
    return std::string_view(static_cast<const char*>(bytes), count);
  }

 private:
  void SaveAt(std::int64_t step, int background, int in_place) const {
    weft_checkpoint_save_config_t config = {};
    config.struct_size = sizeof(config);
    config.step = step;
    config.background = background;
    config.in_place = in_place;
    Check(weft_checkpoint_save(get(), &config));
  }

  weft_checkpoint_loaded_t LoadWith(std::uint32_t flags, std::int64_t step) const {
    weft_checkpoint_load_config_t config = {};
    config.struct_size = sizeof(config);
    config.flags = flags;
    config.step = step;
    return Load(config);
  }
};

// A checkpoint's tensors in files for other programs. The path in the answer is valid until the thread's next call of one of these two.
inline weft_checkpoint_copied_t ExportCheckpoint(const weft_checkpoint_export_config_t& config) {
  return internal::Filled<weft_checkpoint_copied_t>(weft_checkpoint_export, &config);
}

// A checkpoint of other programs' files.
inline weft_checkpoint_copied_t ImportCheckpoint(const weft_checkpoint_import_config_t& config) {
  return internal::Filled<weft_checkpoint_copied_t>(weft_checkpoint_import, &config);
}

}  // namespace interface_0
}  // namespace weft

#endif  // WEFT_CHECKPOINT_HPP_
