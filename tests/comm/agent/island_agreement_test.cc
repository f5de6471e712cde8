// The agreement against an adversary: it delivers any message at any time, twice or never, shows every island whatever view of
// the others it likes, kills ranks at any point, and lets other processes speak. There is one set of survivors all the same;
// and without any one of the rules (A1), (A2), (A3) of comm/agent/island_agreement.h there is not.
#include "comm/agent/island_agreement.h"

#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/text.h"
#include "tests/comm/agent/island_job.h"
#include "tests/support/case_sample.h"
#include "tests/support/leak_check.h"

namespace weft::test::island_agreement_test {
namespace {

enum class Without { kNothing, kA1, kA2, kA3 };

// Without (A1) it forgets what was promised and accepted.
class Memory : public SimIslandMemory {
 public:
  Memory(IslandNumberSet members, bool forgets)
      : SimIslandMemory(std::move(members)), forgets_(forgets) {}

  IslandState Read() override {
    IslandState state = SimIslandMemory::Read();
    if (forgets_) state.promised = 0;
    if (forgets_) state.accepted = 0;
    return state;
  }

 private:
  const bool forgets_;
};

// Some islands, and everything that is under way between them.
class World {
 public:
  World(uint64_t seed, Without without) : random_(seed), without_(without) {
    const int count = 2 + static_cast<int>(Pick(3));
    std::vector<Island> islands(static_cast<size_t>(count));
    int ranks = 0;
    for (Island& island : islands) {
      const int size = 1 + static_cast<int>(Pick(3));
      for (int i = 0; i < size; ++i)
        island.processes.push_back({.world_rank = ranks++});
    }
    map_ = std::make_unique<IslandMap>(std::move(islands), ranks, static_cast<int>(Pick(count)));
    membership_ = std::make_unique<IslandMembership>(*map_, 1, IslandNumberSet::All(ranks));
    for (int island = 0; island < count; ++island) {
      memories_.push_back(
          std::make_unique<Memory>(IslandNumberSet::All(ranks), without == Without::kA1));
      deaths_.push_back(std::make_unique<IslandDeaths>(ranks));
      speakers_.emplace_back();
      NewSpeaker(island);
    }
  }

  // Two islands have decided on different sets.
  bool Broken() const { return broken_; }

  bool Decided() const { return decided_.has_value(); }

  void Act() {
    const int island = static_cast<int>(Pick(speakers_.size()));
    const uint64_t kind = Pick(40);
    if (kind == 0) {
      NewSpeaker(island);
    } else if (kind <= 2) {
      Kill(island);
    } else if (kind <= 5) {
      Show(island);
    } else if (kind <= 11 || under_way_.empty()) {
      now_ns_ += static_cast<int64_t>(Pick(3)) * kAttemptNs / 2;
      speakers_[island]->Step(now_ns_);
    } else {
      Deliver();
    }
    for (size_t i = 0; i < speakers_.size(); ++i)
      Collect(static_cast<int>(i));
  }

 private:
  static constexpr int64_t kAttemptNs = 1000;

  struct Message {
    int from;
    int to;
    IslandFrame type;
    std::string body;
  };

  uint64_t Pick(uint64_t bound) { return random_() % bound; }

  void NewSpeaker(int island) {
    terms_.resize(memories_.size());
    terms_[island] = memories_[island]->Take();
    speakers_[island] = std::make_unique<IslandAgreement>(*map_, *membership_, *deaths_[island],
                                                          memories_[island].get(), terms_[island],
                                                          island, kAttemptNs);
    // All ranks wait, so that whoever is shown a view in which it leads proposes.
    speakers_[island]->Start(membership_->ranks(), INT64_MAX);
    Show(island);
  }

  void Show(int island) {
    IslandNumberSet connected(map_->island_count());
    for (int other = 0; other < map_->island_count(); ++other) {
      if (other == island || Pick(2) == 0) connected.Add(other);
    }
    speakers_[island]->See(connected, false);
  }

  void Kill(int island) {
    const std::vector<int> ranks = map_->RanksOf(island);
    const int rank = ranks[Pick(ranks.size())];
    if (!deaths_[island]->ranks().Has(rank)) {
      IslandState state = memories_[island]->Read();
      // Every other one has left: that counts alike.
      RankDeath death{.world_rank = rank,
                      .promised = state.promised,
                      .accepted = state.accepted != 0,
                      .left = rank % 2 != 0};
      state.deaths.push_back(death);
      (void)memories_[island]->Write(terms_[island], state);
      deaths_[island]->Merge(death);
    }
    RankDeath told = deaths_[island]->Of(rank);
    if (without_ == Without::kA3) told = {.world_rank = rank};
    for (int other = 0; other < map_->island_count(); ++other) {
      if (other == island) continue;
      under_way_.push_back({island, other, IslandFrame::kDeaths, EncodeDeaths({told})});
    }
  }

  void Collect(int island) {
    for (AgreementMessage& message : speakers_[island]->TakeMessages()) {
      for (int other = 0; other < map_->island_count(); ++other) {
        if (other == island || other == message.except) continue;
        if (message.to != AgreementMessage::kAll && message.to != other) continue;
        under_way_.push_back({island, other, message.type, message.body});
      }
    }
    const std::optional<IslandNumberSet>& decided = speakers_[island]->decided();
    if (!decided) return;
    if (!decided_) decided_ = *decided;
    if (!(*decided_ == *decided)) broken_ = true;
  }

  void Deliver() {
    const size_t index = Pick(under_way_.size());
    const Message message = under_way_[index];
    const uint64_t fate = Pick(10);
    // Kept: it comes again. Lost: it never comes.
    if (fate != 0) {
      under_way_[index] = under_way_.back();
      under_way_.pop_back();
    }
    if (fate == 1) return;
    const int ranks = map_->rank_count();
    IslandAgreement& to = *speakers_[message.to];
    switch (message.type) {
      case IslandFrame::kDeaths:
        deaths_[message.to]->Merge((*DecodeDeaths(message.body))[0]);
        break;
      case IslandFrame::kPrepare:
        to.OnPrepare(message.from, *DecodeBallot(message.body));
        break;
      case IslandFrame::kPropose: {
        AgreementProposal proposal = *DecodeProposal(message.body, ranks);
        if (without_ == Without::kA2) proposal.dead.AddAll(deaths_[message.to]->ranks());
        to.OnPropose(message.from, proposal);
        break;
      }
      case IslandFrame::kPromise:
        to.OnPromise(*DecodePromise(message.body, ranks));
        break;
      case IslandFrame::kAccepted:
        to.OnAccepted(*DecodeReply(message.body));
        break;
      default:
        to.OnRefuse(*DecodeReply(message.body));
    }
  }

  std::mt19937_64 random_;
  const Without without_;
  int64_t now_ns_ = 0;
  std::unique_ptr<IslandMap> map_;
  std::unique_ptr<IslandMembership> membership_;
  std::vector<std::unique_ptr<Memory>> memories_;
  std::vector<std::unique_ptr<IslandDeaths>> deaths_;
  std::vector<uint64_t> terms_;
  std::vector<std::unique_ptr<IslandAgreement>> speakers_;
  std::vector<Message> under_way_;
  std::optional<IslandNumberSet> decided_;
  bool broken_ = false;
};

constexpr int kActs = 300;

// The first seed from `first` on that ends in two sets; 0: none of `seeds`.
uint64_t FirstBroken(uint64_t first, uint64_t seeds, Without without, uint64_t* decided) {
  for (uint64_t seed = first; seed < first + seeds; ++seed) {
    World world(seed, without);
    for (int act = 0; act < kActs && !world.Broken(); ++act)
      world.Act();
    if (world.Broken()) return seed;
    *decided += world.Decided() ? 1 : 0;
  }
  return 0;
}

TEST(IslandAgreement, AnAdversaryFindsNoSecondSet) {
  const uint64_t chosen = TestSeed(0);
#ifdef WEFT_SANITIZE
  const uint64_t seeds = chosen != 0 ? 1 : 1000;
#else
  const uint64_t seeds = chosen != 0 ? 1 : AllCasesWanted() ? 1'000'000 : 8'000;
#endif
  uint64_t decided = 0;
  EXPECT_EQ(FirstBroken(chosen != 0 ? chosen : 1, seeds, Without::kNothing, &decided), 0u)
      << "WEFT_TEST_SEED is that number";
  if (chosen == 0) {
    EXPECT_GT(decided, seeds / 4);
  }
  std::printf("agreement: %llu of %llu runs decided\n", static_cast<unsigned long long>(decided),
              static_cast<unsigned long long>(seeds));
}

TEST(IslandAgreement, WithoutAnyOneRuleTheAdversaryFindsASecondSet) {
  struct Case {
    Without without;
    const char* name;
    uint64_t first;  // (A2) is rarely missed: near a seed that does
  };

  for (const auto& [without, name, first] :
       {Case{Without::kA1, "A1", 1}, {Without::kA2, "A2", 71'700}, {Without::kA3, "A3", 1}}) {
    uint64_t decided = 0;
    const uint64_t seed = FirstBroken(first, 1'000'000, without, &decided);
    EXPECT_NE(seed, 0u) << "without " << name;
    std::printf("without %s: seed %llu has two sets\n", name,
                static_cast<unsigned long long>(seed));
  }
}

}  // namespace
}  // namespace weft::test::island_agreement_test
