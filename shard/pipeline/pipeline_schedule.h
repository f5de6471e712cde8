// A pipeline as data: what each rank does in a step, in its order. Nothing here runs a model.
//
//   const PipelineShape shape = {.ranks = 4, .microbatches = 8, .chunks = 2};
//   WEFT_ASSIGN_OR_RETURN(PipelineSchedule schedule,
//                         BuildPipeline(PipelineKind::kInterleaved, shape));  // pipeline_kinds.h
//
// A model is cut into stages; a rank keeps one or several of them, its chunks. A micro-batch goes
// through stages along a route. Of the built kinds there is one route, through all stages in the
// order of the model. Routes of their own per micro-batch are what DualPipe needs, whose two
// directions have a copy of each stage; a route that turns round is that of ZB-V.
//
// Thread-safety: values.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace weft {

enum class PipelineActionKind {
  kForward,
  kBackward,        // gradients of input and weights
  kBackwardInput,   // or one after the other, with other actions between
  kBackwardWeight,  // what is kept of a micro-batch is let go after this one
  // Outputs of forward go down the route, gradients of inputs go up. A receive stands where it is
  // waited for, before the action that needs it; whoever runs the list posts it when the action
  // before that one begins. A send stands behind the action whose result it takes, and is waited
  // for before the next send to the same rank in the same direction.
  kSendForward,
  kReceiveForward,
  kSendBackward,
  kReceiveBackward,
};

// "F", "B", "I", "W", "SF", "RF", "SB", "RB": of a schedule's file and picture.
const char* NameOf(PipelineActionKind kind);

constexpr bool IsSend(PipelineActionKind kind) {
  return kind == PipelineActionKind::kSendForward || kind == PipelineActionKind::kSendBackward;
}

constexpr bool IsReceive(PipelineActionKind kind) {
  return kind == PipelineActionKind::kReceiveForward ||
         kind == PipelineActionKind::kReceiveBackward;
}

constexpr bool IsMessage(PipelineActionKind kind) {
  return IsSend(kind) || IsReceive(kind);
}

struct PipelineAction {
  PipelineActionKind kind = PipelineActionKind::kForward;
  int microbatch = 0;
  int chunk = 0;  // of this rank: whose action it is, or whose result or need a message is
  int peer = -1;  // of messages: the other rank

  bool operator==(const PipelineAction&) const = default;
};

// "F 3", "B 3 of chunk 1", "SF 3 to rank 2".
std::string Describe(const PipelineAction& action);

struct PipelineShape {
  int ranks = 1;
  int microbatches = 1;
  int chunks = 1;  // of each rank
};

// Where a stage is.
struct PipelineStage {
  int rank = 0;
  int chunk = 0;

  bool operator==(const PipelineStage&) const = default;
};

using PipelineRoute = std::vector<PipelineStage>;

struct PipelineSchedule {
  PipelineShape shape;
  std::vector<PipelineRoute> routes;
  std::vector<int> route_of;                         // by micro-batch: which of the routes
  std::vector<std::vector<PipelineAction>> actions;  // by rank

  const PipelineRoute& RouteOf(int microbatch) const {
    return routes[static_cast<size_t>(route_of[static_cast<size_t>(microbatch)])];
  }

  // Which stop of its micro-batch's route an action of `rank` belongs to; -1: none.
  int StopOf(int rank, const PipelineAction& action) const;
};

// Actions that compute, each with the messages that the routes ask for around it.
std::vector<PipelineAction> WithMessages(const PipelineSchedule& schedule, int rank,
                                         const std::vector<PipelineAction>& computing);

}  // namespace weft
