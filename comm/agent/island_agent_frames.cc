// What a speaker does with the frames of others. All of it may come twice, late, or from an island that has missed something; a body
// that cannot be read ends the connection. What is to be told on is told by the step.
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "base/text.h"
#include "comm/agent/island_agent.h"

namespace weft {

// False if this was the last one of the epoch, or this process speaks no more.
bool IslandAgent::Handle(int from, const Frame& frame) {
  const auto type = static_cast<IslandFrame>(frame.type);
  absl::Status status;
  switch (type) {
    case IslandFrame::kMembership: {
      const absl::StatusOr<IslandMembers> members = DecodeMembers(frame.body, map_.rank_count());
      if (members.ok()) {
        const uint32_t before = voice_->membership->epoch();
        Adopt(*members, from);
        return speaking() && voice_->membership->epoch() == before;
      }
      status = members.status();
      break;
    }
    case IslandFrame::kAsk:
    case IslandFrame::kAnswer:
      status = HandleQuestion(frame);
      break;
    case IslandFrame::kDeaths:
    case IslandFrame::kReach:
    case IslandFrame::kRecord:
    case IslandFrame::kReady:
      status = HandleKnowledge(from, frame);
      break;
    default:
      status = HandleAgreement(from, frame);
  }
  if (speaking() && !status.ok()) voice_->links.Reject(from, status);
  return speaking();
}

absl::Status IslandAgent::HandleKnowledge(int from, const Frame& frame) {
  Voice& voice = *voice_;
  switch (static_cast<IslandFrame>(frame.type)) {
    case IslandFrame::kDeaths: {
      WEFT_ASSIGN_OR_RETURN(const std::vector<RankDeath> deaths, DecodeDeaths(frame.body));
      // Of its own processes an island hears from nobody; but that others know what it has said.
      for (const RankDeath& death : deaths) {
        if (map_.IslandOf(death.world_rank) != island_)
          MergeDeath(death);
        else
          voice.known_by.try_emplace(from, map_.rank_count()).first->second.Add(death.world_rank);
      }
      return absl::OkStatus();
    }
    case IslandFrame::kReach: {
      WEFT_ASSIGN_OR_RETURN(const std::vector<ReachReport> reports, DecodeReach(frame.body));
      for (const ReachReport& report : reports) {
        if (voice.reach->Merge(report)) voice.untold_reports.push_back(report);
      }
      return absl::OkStatus();
    }
    case IslandFrame::kRecord: {
      WEFT_ASSIGN_OR_RETURN(const GroupVerdict verdict,
                            DecodeVerdictOf(frame.body, map_.island_count()));
      const uint64_t group = verdict.record.group_id;
      const bool known = voice.relay->Of(group) != nullptr;
      voice.relay->Merge(from, verdict, seams_.clock->NowNs());
      const GroupVerdict* const now = voice.relay->Of(group);
      if (!known && now != nullptr) {
        Emit({.kind = IslandEvent::Kind::kGroupFailed,
              .verdict = *now,
              .epoch = voice.membership->epoch()});
      }
      return absl::OkStatus();
    }
    default: {
      WEFT_ASSIGN_OR_RETURN(const IslandNumberSet ranks,
                            DecodeRanks(frame.body, map_.rank_count()));
      if (voice.agreement->MergeReady(ranks)) {
        voice.links.Broadcast(IslandFrame::kReady, EncodeRanks(voice.agreement->ready()));
      }
      return absl::OkStatus();
    }
  }
}

absl::Status IslandAgent::HandleAgreement(int from, const Frame& frame) {
  IslandAgreement& agreement = *voice_->agreement;
  switch (static_cast<IslandFrame>(frame.type)) {
    case IslandFrame::kPrepare: {
      WEFT_ASSIGN_OR_RETURN(const uint64_t ballot, DecodeBallot(frame.body));
      agreement.OnPrepare(from, ballot);
      return absl::OkStatus();
    }
    case IslandFrame::kPromise: {
      WEFT_ASSIGN_OR_RETURN(const AgreementPromise promise,
                            DecodePromise(frame.body, map_.rank_count()));
      agreement.OnPromise(promise);
      return absl::OkStatus();
    }
    case IslandFrame::kPropose: {
      WEFT_ASSIGN_OR_RETURN(const AgreementProposal proposal,
                            DecodeProposal(frame.body, map_.rank_count()));
      agreement.OnPropose(from, proposal);
      return absl::OkStatus();
    }
    case IslandFrame::kAccepted:
    case IslandFrame::kRefuse: {
      WEFT_ASSIGN_OR_RETURN(const AgreementReply reply, DecodeReply(frame.body));
      const bool refused = frame.type == static_cast<FrameType>(IslandFrame::kRefuse);
      refused ? agreement.OnRefuse(reply) : agreement.OnAccepted(reply);
      return absl::OkStatus();
    }
    default:
      return MakeError(WEFT_CORRUPT, StrCat("a frame of type ", static_cast<int>(frame.type),
                                            " is none of an island's"));
  }
}

absl::Status IslandAgent::HandleQuestion(const Frame& frame) {
  Voice& voice = *voice_;
  if (frame.type == static_cast<FrameType>(IslandFrame::kAsk)) {
    WEFT_ASSIGN_OR_RETURN(const IslandAsk ask, DecodeAsk(frame.body));
    if (ask.target == island_)
      Answer(ask);
    else if (ask.via == island_)
      voice.links.Send(ask.target, IslandFrame::kAsk, frame.body);
    return absl::OkStatus();
  }
  WEFT_ASSIGN_OR_RETURN(const IslandAnswer answer, DecodeAnswer(frame.body));
  if (answer.asker != island_) {
    if (answer.via == island_) voice.links.Send(answer.asker, IslandFrame::kAnswer, frame.body);
    return absl::OkStatus();
  }
  if (voice.questions->Close(answer)) ++answers_;
  // Whatever has become of that process: its island is there.
  voice.reach->Heard(answer.target, seams_.clock->NowNs());
  return absl::OkStatus();
}

// By what this machine knows of the process. If it has ended that is a fact for all, not for the asker alone.
void IslandAgent::Answer(const IslandAsk& ask) {
  const int place = map_.Find(island_, ask.pid, ask.start_time);
  if (place < 0) return;
  IslandAnswer answer{.asker = ask.asker, .via = ask.via, .target = island_, .number = ask.number};
  const absl::StatusOr<std::unique_ptr<PeerProcess>> process =
      seams_.proc->Open(ask.pid, ask.start_time);
  if (!process.ok()) return;
  answer.ended = (*process)->Ended();
  if (answer.ended) {
    answer.exit = (*process)->Exit();
    LocalDeath(map_.island(island_).processes[static_cast<size_t>(place)].world_rank, answer.exit);
    if (!speaking() || !TellNewDeaths()) return;
  }
  const int to = ask.via >= 0 ? ask.via : ask.asker;
  voice_->links.Send(to, IslandFrame::kAnswer, EncodeAnswer(answer));
}

}  // namespace weft
