// What an island must not forget when another of its processes speaks for it: its word in agreements and about failures, its deaths,
// and which other islands have ended.
//
//   const uint64_t term = memory->Take();          // now this process speaks
//   IslandState state = memory->Read();
//   state.promised = ballot;
//   if (!memory->Write(term, state)) ...           // another one has taken over meanwhile: nothing may be said
//   memory->SetPresence(process, IslandPresence::kLeaving);
//
// It lies where all processes of the island have it, so it lives as long as one of them does. A speaker may be stopped at any
// point and go on when another one has taken over: so each write is one step that fails unless the term is still the
// writer's, and what follows from a write is sent after it.
//
// Thread-safety: the implementation's; Write and Take of different processes are ordered.
#pragma once

#include <cstdint>
#include <vector>

#include "comm/agent/island_number_set.h"
#include "comm/agent/island_protocol.h"

namespace weft {

// All member ranks of an island have died or left. Of what it had promised and accepted when it saw that, in short: the most.
struct EndedIsland {
  int32_t island = -1;
  uint64_t left = 0;  // bits, by the order of its ranks: it has not died
  uint64_t promised = 0;
  bool accepted = false;
};

struct IslandState {
  uint32_t epoch = 1;
  IslandNumberSet members;  // world ranks
  // Of the agreement on epoch + 1.
  uint64_t promised = 0;
  uint64_t accepted = 0;
  IslandNumberSet accepted_ranks;
  // Member ranks of this island that have ended, with what stood here when that was seen.
  std::vector<RankDeath> deaths;
  // Other islands none of whose member ranks is left: nobody may be there any more who would say so again.
  std::vector<EndedIsland> elsewhere;
};

// kLeaving: it takes no part in the job any more, though it lives, and may still speak; kGone: nor does it speak.
enum class IslandPresence : uint8_t { kThere, kLeaving, kGone };

class IslandMemory {
 public:
  virtual ~IslandMemory() = default;
  // The term of a new speaker; from here on the one before it cannot write.
  virtual uint64_t Take() = 0;
  virtual bool Holds(uint64_t term) = 0;
  virtual IslandState Read() = 0;
  // False if the term has passed to another process: nothing was written.
  virtual bool Write(uint64_t term, const IslandState& state) = 0;

  // Of the groups that this island has closed (island_relay.h), what it has said last. A new epoch begins with none.
  virtual std::vector<GroupVerdict> ReadVerdicts() = 0;
  // Replaces what was written of the same group; at most IslandRelay::kGroupsMax are kept, the latest.
  virtual bool WriteVerdict(uint64_t term, const GroupVerdict& verdict) = 0;

  // Of a process, by its place in the island's list; said by itself, and never taken back.
  virtual void SetPresence(int process, IslandPresence presence) = 0;
  virtual IslandPresence PresenceOf(int process) = 0;
};

}  // namespace weft
