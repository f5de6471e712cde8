// A pipeline's schedule as text (docs/formats/pipeline.md) and back.
//
//   const std::string text = PipelineAsJson(schedule);
//   WEFT_ASSIGN_OR_RETURN(const PipelineSchedule read, PipelineFromJson(text));
//   WEFT_RETURN_IF_ERROR(VerifyPipeline(read).status());      // a text proves nothing
//
// Thread-safety: pure functions.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "shard/pipeline/pipeline_schedule.h"

namespace weft {

inline constexpr int kPipelineFormatVersion = 1;
inline constexpr size_t kPipelineTextBytesMax = 64 << 20;

// One JSON document, a line for each rank's actions.
std::string PipelineAsJson(const PipelineSchedule& schedule);

// CORRUPT with a sentence if the text is too long, no JSON, of another format version, or lacks a
// member or has one that is not of its type or out of range. Members that are not known are
// ignored.
absl::StatusOr<PipelineSchedule> PipelineFromJson(std::string_view text);

}  // namespace weft
