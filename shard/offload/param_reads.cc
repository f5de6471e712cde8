// Fetches are read one after the other, each with several reads under way: the next one is needed first, and the disk has enough to do with it.
#include "shard/offload/param_reads.h"

#include <algorithm>
#include <span>
#include <utility>

#include "base/hidden_thread.h"
#include "base/status.h"
#include "base/text.h"
#include "comm/group/fork.h"
#include "comm/kernels/dtype.h"

namespace weft {

absl::StatusOr<std::unique_ptr<ParamReads>> ParamReads::Start(const Layout& layout,
                                                              const OffloadPlan& plan, Block memory,
                                                              std::unique_ptr<BlockStore> store,
                                                              std::function<void()> told) {
  std::unique_ptr<ParamReads> reads(
      new ParamReads(layout, plan, std::move(memory), std::move(store), std::move(told)));
  absl::StatusOr<std::thread> thread =
      StartHiddenThread("weft-params", [started = reads.get()] { started->Loop(); });
  if (!thread.ok()) return Annotate(thread.status(), "the thread that reads offloaded params: ");
  reads->thread_ = *std::move(thread);
  return reads;
}

ParamReads::ParamReads(const Layout& layout, const OffloadPlan& plan, Block memory,
                       std::unique_ptr<BlockStore> store, std::function<void()> told)
    : pieces_(layout.units.size()),
      fork_generation_(ForkGeneration()),
      memory_(std::move(memory)),
      store_(std::move(store)),
      told_(std::move(told)) {
  const std::span<std::byte> slots = AlignedPart(memory_, plan.reads.bytes());
  for (size_t i = 0; i < plan.reads.slot_count; ++i)
    buffers_.push_back(slots.data() + i * plan.reads.slot_bytes);
  for (size_t unit = 0; unit < layout.units.size(); ++unit) {
    const Pack& pack = layout.units[unit];
    for (size_t i = 0; i < pack.extents.size(); ++i) {
      const Extent& extent = layout.extents[static_cast<size_t>(pack.extents[i])];
      const size_t size = DtypeSize(layout.SpaceOf(extent).dtype);
      for (const ValueRun& run :
           ValueRunsOf(plan.windows, pack.extents[i], plan.reads.slot_bytes)) {
        pieces_[unit].push_back({run, pack.offsets[i] + (run.first - extent.range.begin) * size});
      }
    }
  }
}

ParamReads::~ParamReads() {
  if (!IsForkGeneration(fork_generation_)) {
    if (thread_.joinable()) thread_.detach();
    return;
  }
  {
    MutexLock lock(mutex_);
    ending_ = true;
    for (const Request& request : requests_)
      request.fetch->Cancel();
  }
  asked_or_ending_.notify_one();
  if (thread_.joinable()) thread_.join();
  if (memory_is_lost_) static_cast<void>(new Block(std::move(memory_)));  // as OffloadedState does
}

std::shared_ptr<PartFetch> ParamReads::Fetch(int unit, std::byte* whole) {
  auto fetch = std::make_shared<PartFetch>();
  {
    MutexLock lock(mutex_);
    requests_.push_back({unit, whole, fetch});
  }
  asked_or_ending_.notify_one();
  return fetch;
}

absl::Status ParamReads::failure() const {
  MutexLock lock(mutex_);
  return failure_;
}

bool ParamReads::Next(Request* request) {
  MutexLock lock(mutex_);
  while (requests_.empty() && !ending_)
    lock.Wait(asked_or_ending_);
  if (requests_.empty()) return false;
  *request = std::move(requests_.front());
  requests_.pop_front();
  return true;
}

void ParamReads::Loop() {
  Request request;
  while (Next(&request)) {
    absl::Status read = failure();
    if (read.ok() && !request.fetch->ended()) read = Read(request);
    if (!read.ok()) {
      memory_is_lost_ = memory_is_lost_ || ResultOf(read) == WEFT_TIMEOUT;
      MutexLock lock(mutex_);
      // Whatever it was, it is this rank's disk alone: others do not have it.
      if (failure_.ok()) {
        failure_ = MakeError(
            WEFT_SYSTEM_ERROR,
            StrCat("params that are offloaded cannot be used any more, go back to a checkpoint: ",
                   FromAbsl(read.message())));
      }
    }
    request.fetch->End();
    request = {};
    told_();
  }
}

absl::Status ParamReads::Read(const Request& request) {
  const std::vector<Piece>& pieces = pieces_[static_cast<size_t>(request.unit)];
  std::vector<BlockStore::Ticket> tickets(buffers_.size());
  const auto start = [&](size_t i) {
    const ValueRun& run = pieces[i].run;
    const size_t at = i % buffers_.size();
    tickets[at] = store_->StartRead(run.read_offset(), buffers_[at], run.read_bytes());
  };
  for (size_t i = 0; i < std::min(buffers_.size(), pieces.size()); ++i)
    start(i);
  absl::Status read;
  for (size_t i = 0; i < pieces.size(); ++i) {
    const size_t at = i % buffers_.size();
    if (tickets[at] == 0) break;
    const absl::Status came = store_->Wait(std::exchange(tickets[at], 0));
    if (read.ok()) read = came;
    if (!read.ok() || request.fetch->ended()) continue;  // the others are waited for, too
    const auto& [run, to] = pieces[i];
    request.fetch->Copy(request.whole + to, buffers_[at] + (run.offset - run.read_offset()),
                        run.bytes);
    if (i + buffers_.size() < pieces.size()) start(i + buffers_.size());
  }
  return read;
}

}  // namespace weft
