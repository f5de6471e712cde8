#include "shard/pipeline/pipeline_kinds.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace weft {
namespace {

using enum PipelineActionKind;
using Actions = std::vector<PipelineAction>;

constexpr const char* kKindNames[] = {"naive", "gpipe", "1f1b", "interleaved", "zb-h1"};

Actions Naive(const PipelineShape& shape) {
  Actions actions;
  for (int i = 0; i < shape.microbatches; i++) {
    actions.push_back({kForward, i});
    actions.push_back({kBackward, i});
  }
  return actions;
}

Actions Gpipe(const PipelineShape& shape) {
  Actions actions;
  for (int i = 0; i < shape.microbatches; i++)
    actions.push_back({kForward, i});
  for (int i = 0; i < shape.microbatches; i++)
    actions.push_back({kBackward, i});
  return actions;
}

// `first` forwards, then a forward and a backward in turns, then what is left. forward(k) and
// backward(k): the k-th of each.
template <typename Forward, typename Backward>
Actions InTurns(int count, int first, const Forward& forward, const Backward& backward) {
  Actions actions;
  int forwards = 0, backwards = 0;
  while (forwards < std::min(first, count))
    actions.push_back(forward(forwards++));
  while (backwards < count) {
    if (forwards < count) actions.push_back(forward(forwards++));
    actions.push_back(backward(backwards++));
  }
  return actions;
}

// A rank lets as many micro-batches pass as there are ranks behind it.
Actions OneForwardOneBackward(const PipelineShape& shape, int rank) {
  return InTurns(
      shape.microbatches, shape.ranks - 1 - rank,
      [](int k) {
        return PipelineAction{kForward, k};
      },
      [](int k) {
        return PipelineAction{kBackward, k};
      });
}

// As many micro-batches as there are ranks go through a chunk, then through the next. Before its
// first backward a rank does what lets the last chunk of the last rank begin: all chunks but one of
// one such group, and two for each rank behind it, since the last chunk's outputs and gradients
// pass both ways.
Actions Interleaved(const PipelineShape& shape, int rank) {
  const int group = shape.ranks * shape.chunks;
  const auto microbatch = [&](int k) {
    return k / group * shape.ranks + k % shape.ranks;
  };
  const auto chunk = [&](int k) {
    return k % group / shape.ranks;
  };
  return InTurns(
      shape.microbatches * shape.chunks,
      (shape.ranks - 1 - rank) * 2 + (shape.chunks - 1) * shape.ranks,
      [&](int k) {
        return PipelineAction{kForward, microbatch(k), chunk(k)};
      },
      [&](int k) {
        return PipelineAction{kBackward, microbatch(k), shape.chunks - 1 - chunk(k)};
      });
}

// Weights wait for as many micro-batches as there are ranks before this one, which is how many
// fewer it keeps in flight: no rank keeps more than the first.
Actions ZeroBubbleH1(const PipelineShape& shape, int rank) {
  Actions actions;
  int weights = 0, inputs = 0;
  for (const PipelineAction& action : OneForwardOneBackward(shape, rank)) {
    if (action.kind == kForward) {
      actions.push_back(action);
      continue;
    }
    actions.push_back({kBackwardInput, inputs++});
    if (inputs > rank) actions.push_back({kBackwardWeight, weights++});
  }
  while (weights < shape.microbatches)
    actions.push_back({kBackwardWeight, weights++});
  return actions;
}

Actions ComputingOf(PipelineKind kind, const PipelineShape& shape, int rank) {
  switch (kind) {
    case PipelineKind::kNaive:
      return Naive(shape);
    case PipelineKind::kGpipe:
      return Gpipe(shape);
    case PipelineKind::kOneForwardOneBackward:
      return OneForwardOneBackward(shape, rank);
    case PipelineKind::kInterleaved:
      return Interleaved(shape, rank);
    case PipelineKind::kZeroBubbleH1:
      return ZeroBubbleH1(shape, rank);
  }
  return {};
}

absl::Status CheckShape(PipelineKind kind, const PipelineShape& shape) {
  if (shape.ranks < 1 || shape.microbatches < 1 || shape.chunks < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("a pipeline has at least 1 rank, 1 micro-batch and 1 chunk, not ", shape.ranks,
                     ", ", shape.microbatches, " and ", shape.chunks));
  }
  if (kind != PipelineKind::kInterleaved) {
    if (shape.chunks == 1) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat(
        NameOf(kind), " has one chunk on each rank, not ", shape.chunks, "; use interleaved"));
  }
  if (shape.microbatches % shape.ranks == 0) return absl::OkStatus();
  const int below = shape.microbatches / shape.ranks * shape.ranks;
  return absl::InvalidArgumentError(absl::StrCat(
      "interleaved wants micro-batches in groups of as many as ranks: ", shape.microbatches,
      " are no multiple of ", shape.ranks, "; use ", below > 0 ? absl::StrCat(below, " or ") : "",
      below + shape.ranks));
}

}  // namespace

const char* NameOf(PipelineKind kind) {
  return kKindNames[static_cast<size_t>(kind)];
}

std::optional<PipelineKind> PipelineKindOf(std::string_view name) {
  for (const PipelineKind kind : kPipelineKinds) {
    if (name == NameOf(kind)) return kind;
  }
  return std::nullopt;
}

absl::StatusOr<PipelineSchedule> BuildPipeline(PipelineKind kind, const PipelineShape& shape) {
  if (absl::Status status = CheckShape(kind, shape); !status.ok()) return status;
  PipelineSchedule schedule = {.shape = shape};
  PipelineRoute& route = schedule.routes.emplace_back();
  for (int chunk = 0; chunk < shape.chunks; chunk++) {
    for (int rank = 0; rank < shape.ranks; rank++)
      route.push_back({rank, chunk});
  }
  schedule.route_of.assign(static_cast<size_t>(shape.microbatches), 0);
  for (int rank = 0; rank < shape.ranks; rank++)
    schedule.actions.push_back(WithMessages(schedule, rank, ComputingOf(kind, shape, rank)));
  return schedule;
}

}  // namespace weft
