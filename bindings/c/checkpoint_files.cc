// The C interface of include/weft/checkpoint_files.h over shard/checkpoint.
#include "weft/checkpoint_files.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>

#include "base/files.h"
#include "base/per_thread.h"
#include "base/status.h"
#include "base/text.h"
#include "bindings/c/guard.h"
#include "bindings/c/name_map.h"
#include "bindings/c/shard_handles.h"
#include "bindings/c/struct_size.h"
#include "comm/kernels/dtype.h"
#include "shard/checkpoint/checkpoint_names.h"
#include "shard/checkpoint/model_copy.h"

namespace calls = weft::shard_calls;
using weft::Guarded;
using weft::StrCat;

namespace {

// That weft_checkpoint_copied_t points to.
struct CopiedPath {
  std::string path;
};

absl::Status CheckPath(const char* call, const char* what, const char* path, const char* then) {
  if (path != nullptr && path[0] != '\0') return absl::OkStatus();
  return calls::Invalid(call, StrCat(what, " is NULL or empty; ", then));
}

absl::Status CheckCopied(const char* call, weft_checkpoint_copied_t* copied) {
  return copied == nullptr ? absl::OkStatus() : weft::CheckAnswer(call, copied);
}

void Answer(weft::ModelCopy made, weft_checkpoint_copied_t* copied) {
  if (copied == nullptr) return;
  std::string& path = weft::PerThread<CopiedPath>::Get().path;
  path = std::move(made.checkpoint);
  weft_checkpoint_copied_t answer{};
  answer.struct_size = sizeof(answer);
  answer.step = made.step;
  answer.tensor_count = made.tensors;
  answer.value_bytes = made.bytes;
  answer.file_count = static_cast<size_t>(
      std::count_if(made.files.begin(), made.files.end(), [&](const std::string& name) {
        // An index is never alone; a file may have any name.
        return made.files.size() == 1 || !name.ends_with(".index.json");
      }));
  answer.checkpoint = path.c_str();
  weft::WriteAnswer(answer, copied);
}

absl::StatusOr<weft::ExportRequest> ReadRequest(const char* call,
                                                const weft_checkpoint_export_config_t* config) {
  weft_checkpoint_export_config_t copy{};
  WEFT_RETURN_IF_ERROR(weft::ReadConfig(call, config, &copy));
  WEFT_RETURN_IF_ERROR(
      CheckPath(call, "source", copy.source, "say where the checkpoint is that is exported"));
  WEFT_RETURN_IF_ERROR(
      CheckPath(call, "target", copy.target, "say which file or folder is to be made"));
  weft::ExportRequest request{
      .from = copy.source, .to = copy.target, .shard_bytes = copy.shard_bytes};
  if (copy.floats_as != 0) {
    if (!weft::IsDtype(copy.floats_as) || !weft::IsFloatingDtype(copy.floats_as)) {
      return calls::Invalid(
          call, StrCat("floats_as is ", calls::NumberOf(copy.floats_as),
                       "; use a floating-point type of weft_dtype_t, or 0 for each tensor's own"));
    }
    request.rules.floats_as = copy.floats_as;
  }
  WEFT_ASSIGN_OR_RETURN(request.rules.names,
                        weft::ReadNameMap(call, {"names", copy.names},
                                          {"file_names", copy.file_names}, copy.name_count));
  return request;
}

absl::StatusOr<weft::ImportRequest> ReadRequest(const char* call,
                                                const weft_checkpoint_import_config_t* config) {
  weft_checkpoint_import_config_t copy{};
  WEFT_RETURN_IF_ERROR(weft::ReadConfig(call, config, &copy));
  WEFT_RETURN_IF_ERROR(
      CheckPath(call, "source", copy.source, "say which files are to be imported"));
  WEFT_RETURN_IF_ERROR(
      CheckPath(call, "directory", copy.directory, "say where checkpoints are to be"));
  if (copy.step < 0 || copy.step > weft::kCheckpointStepMax)
    return calls::Invalid(call, StrCat("step is ", copy.step, "; use 0 to 2^53"));
  return weft::ImportRequest{.from = copy.source, .directory = copy.directory, .step = copy.step};
}

}  // namespace

extern "C" {

weft_result_t weft_checkpoint_export(const weft_checkpoint_export_config_t* config,
                                     weft_checkpoint_copied_t* copied) {
  return Guarded([&]() -> absl::Status {
    constexpr char kCall[] = "checkpoint_export";
    if (config == nullptr)
      return calls::Invalid(kCall, "config is NULL; say at least what is exported, and where to");
    WEFT_RETURN_IF_ERROR(CheckCopied(kCall, copied));
    WEFT_ASSIGN_OR_RETURN(const weft::ExportRequest request, ReadRequest(kCall, config));
    absl::StatusOr<weft::ModelCopy> made = weft::ExportModel(weft::SystemFiles(), request);
    if (!made.ok()) return weft::Annotate(made.status(), "checkpoint_export: ");
    Answer(*std::move(made), copied);
    return absl::OkStatus();
  });
}

weft_result_t weft_checkpoint_import(const weft_checkpoint_import_config_t* config,
                                     weft_checkpoint_copied_t* copied) {
  return Guarded([&]() -> absl::Status {
    constexpr char kCall[] = "checkpoint_import";
    if (config == nullptr)
      return calls::Invalid(kCall, "config is NULL; say at least what is imported, and where to");
    WEFT_RETURN_IF_ERROR(CheckCopied(kCall, copied));
    WEFT_ASSIGN_OR_RETURN(const weft::ImportRequest request, ReadRequest(kCall, config));
    absl::StatusOr<weft::ModelCopy> made = weft::ImportModel(weft::SystemFiles(), request);
    if (!made.ok()) return weft::Annotate(made.status(), "checkpoint_import: ");
    Answer(*std::move(made), copied);
    return absl::OkStatus();
  });
}

}  // extern "C"
