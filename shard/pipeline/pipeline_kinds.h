// The schedules that are known by name.
//
// naive: one micro-batch at a time. gpipe: all forward, then all backward (Huang et al. 2019).
// 1f1b: as few micro-batches in flight as keep all ranks busy (PipeDream-flush, Narayanan et al.
// 2021). interleaved: 1f1b over several chunks of each rank, whose bubbles are shorter (Narayanan
// et al. 2021, Megatron-LM). zb-h1: 1f1b whose backward is cut in two, the later half of which
// fills bubbles (Qi et al. 2023, "Zero Bubble Pipeline Parallelism").
//
// In all of them a chunk's gradients are added in the order of the micro-batches, so that the sums
// are the same.
#pragma once

#include <optional>
#include <string_view>

#include "absl/status/statusor.h"
#include "shard/pipeline/pipeline_schedule.h"

namespace weft {

enum class PipelineKind { kNaive, kGpipe, kOneForwardOneBackward, kInterleaved, kZeroBubbleH1 };

inline constexpr PipelineKind kPipelineKinds[] = {
    PipelineKind::kNaive, PipelineKind::kGpipe, PipelineKind::kOneForwardOneBackward,
    PipelineKind::kInterleaved, PipelineKind::kZeroBubbleH1};

// "naive", "gpipe", "1f1b", "interleaved", "zb-h1".
const char* NameOf(PipelineKind kind);
std::optional<PipelineKind> PipelineKindOf(std::string_view name);

// INVALID_ARGUMENT for what cannot be: counts below 1, chunks where a kind has one, micro-batches
// of interleaved that are no multiple of the ranks.
absl::StatusOr<PipelineSchedule> BuildPipeline(PipelineKind kind, const PipelineShape& shape);

}  // namespace weft
