// A bucket may need more than one operation: down to the replica's part, over the replicas, and a division or a rounding
// at the end. The links of such a chain cannot be waited for here, under the mutex, so each one's completion asks for the
// next. Chains go on with the inter-replica all_reduce in the order in which they were started, whatever order they end
// in, because the ranks on the other side do the same.
#include "shard/step/reduction.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/status.h"
#include "base/text.h"
#include "base/wait.h"
#include "comm/kernels/dtype.h"
#include "comm/kernels/reduce.h"
#include "shard/layout/widen.h"
#include "shard/step/accumulate.h"

namespace weft {
namespace {

// What gradients of a type are added in.
weft_dtype_t SumTypeOf(weft_dtype_t dtype) {
  return DtypeSize(dtype) == 2 ? WEFT_FLOAT32 : dtype;
}

// Gradients are reduced in fewer bits than they have.
bool IsRounded(const Space& space) {
  return space.wire_dtype != space.grad_dtype;
}

}  // namespace

Reduction::Reduction(std::shared_ptr<ProcessGroup> group, const Layout& layout,
                     const Storage& storage, const ExtentCalls& calls,
                     UnshardManager& unshard_manager, const Options& options)
    : group_(std::move(group)),
      layout_(layout),
      storage_(storage),
      calls_(calls),
      unshard_manager_(unshard_manager),
      options_(options) {}

const Extent& Reduction::ExtentOf(int bucket, size_t i) const {
  const int index = layout_.buckets[static_cast<size_t>(bucket)].pack.extents[i];
  return layout_.extents[static_cast<size_t>(index)];
}

// Bytes before this rank's part of an extent that lies in its wire type.
size_t Reduction::NarrowBefore(const Extent& extent) const {
  return (layout_.OwnFirst(extent) - extent.range.begin) *
         DtypeSize(layout_.SpaceOf(extent).wire_dtype);
}

std::byte* Reduction::ReducedOf(const Extent& extent) const {
  return storage_.Reduced(layout_, extent).data;
}

std::byte* Reduction::WholeOf(int bucket, int extent) const {
  const Extent& of = layout_.extents[static_cast<size_t>(extent)];
  return layout_.SpaceOf(of).placement.gradients_sharded
             ? unshard_manager_.BucketExtent(bucket, extent)
             : storage_.Grad(of.range.space, of.range.begin);
}

Collective Reduction::CallOf(int bucket, size_t i) const {
  const int extent = layout_.buckets[static_cast<size_t>(bucket)].pack.extents[i];
  const Extent& of = layout_.extents[static_cast<size_t>(extent)];
  const Space& space = layout_.SpaceOf(of);
  if (space.placement.replicated) {
    return calls_.Reduce(extent, WEFT_SUM, SumsOf(bucket, i), OwnSumsOf(bucket, i).data);
  }
  std::byte* const whole = WholeOf(bucket, extent);
  if (space.placement.optimizer_sharded) {
    std::byte* const own = IsRounded(space) ? whole + NarrowBefore(of) : ReducedOf(of);
    return calls_.Reduce(extent, options_.op, whole, own);
  }
  return {.kind = OpKind::kAllReduce,
          .dtype = space.wire_dtype,
          .op = options_.op,
          .count = of.range.count,
          .in = whole,
          .out = whole,
          .timeout_ns = options_.timeout_ns};
}

Reduction::~Reduction() {
  if (scatter_ != nullptr) scatter_->Close();
  if (inter_replica_ != nullptr) inter_replica_->Close();
}

void Reduction::SetReplicaGroups(std::shared_ptr<ProcessGroup> scatter,
                                 std::shared_ptr<ProcessGroup> inter_replica) {
  scatter_ = std::move(scatter);
  inter_replica_ = std::move(inter_replica);
}

void Reduction::ForEachGroup(const std::function<void(ProcessGroup&)>& visit) const {
  if (scatter_ != nullptr) visit(*scatter_);
  if (inter_replica_ != nullptr) visit(*inter_replica_);
}

absl::Status Reduction::StartWorks(int bucket, const CallPurpose& purpose,
                                   const std::vector<Collective>& calls, ProcessGroup& group,
                                   Works* works) {
  for (Collective call : calls) {
    call.purpose = purpose;
    call.background = true;
    absl::StatusOr<WorkRef> work = group.Start(call);
    if (!work.ok()) {
      // If a reduction started before it has ended the group, this is the refusal and not the cause.
      const absl::Status cause = group.error();
      return Annotate(cause.ok() ? work.status() : cause,
                      StrCat("reducing gradient bucket ", bucket, ": "));
    }
    works->push_back(*work);
    started_.push_back({*std::move(work), bucket, std::make_shared<std::atomic<int64_t>>(0)});
  }
  return absl::OkStatus();
}

// The last `count` that were started; after everything else, because one that has ended calls back at once.
void Reduction::CallBack(size_t count) {
  for (size_t i = started_.size() - count; i < started_.size(); ++i) {
    started_[i].work->OnComplete(
        [ended_ns = started_[i].ended_ns, doorbell = options_.doorbell](const absl::Status&) {
          ended_ns->store(MonotonicNs(), std::memory_order_release);
          if (doorbell != nullptr) doorbell->Ring();
        });
  }
}

absl::Status Reduction::Start(int bucket) {
  if (first_start_ns_ == 0) first_start_ns_ = MonotonicNs();
  const Bucket& of = layout_.buckets[static_cast<size_t>(bucket)];
  started_bytes_ += of.wire_bytes;
  const bool replicated = layout_.PlacementOf(of).replicated;
  std::vector<Collective> calls;
  bool settles = replicated;
  for (size_t i = 0; i < of.pack.extents.size(); ++i) {
    Prepare(bucket, i);
    settles = settles || IsRounded(layout_.SpaceOf(ExtentOf(bucket, i)));
    calls.push_back(CallOf(bucket, i));
  }
  const CallPurpose purpose = options_.purposes->OfReduction(bucket);
  Works works;
  WEFT_RETURN_IF_ERROR(
      StartWorks(bucket, purpose, calls, replicated ? *scatter_ : *group_, &works));
  const size_t count = works.size();
  if (unshard_manager_.GradientsAreSharded(bucket))
    unshard_manager_.ReductionStarted(bucket, works, settles);
  if (settles) {
    chains_.push_back({.bucket = bucket,
                       .purpose = purpose,
                       .works = std::move(works),
                       .inter_replica = replicated && last_,
                       .first = first_,
                       .last = last_});
  }
  CallBack(count);
  return absl::OkStatus();
}

std::byte* Reduction::SumsOf(int bucket, size_t i) const {
  return unshard_manager_.BucketData(bucket) + layout_.buckets[static_cast<size_t>(bucket)].sums[i];
}

Part Reduction::OwnSumsOf(int bucket, size_t i) const {
  const int index = layout_.buckets[static_cast<size_t>(bucket)].pack.extents[i];
  const Extent& extent = layout_.extents[static_cast<size_t>(index)];
  const size_t before = layout_.OwnFirst(extent) - extent.range.begin;
  return {SumsOf(bucket, i) + before * DtypeSize(SumTypeOf(layout_.SpaceOf(extent).grad_dtype)),
          layout_.OwnCount(extent)};
}

void Reduction::Prepare(int bucket, size_t i) const {
  const Extent& extent = ExtentOf(bucket, i);
  const Space& space = layout_.SpaceOf(extent);
  const int index = layout_.buckets[static_cast<size_t>(bucket)].pack.extents[i];
  const size_t count = extent.range.count;
  if (IsRounded(space)) {
    auto* const values = reinterpret_cast<float*>(WholeOf(bucket, index));
    NarrowQuotients(space.wire_dtype, values, count, 1, values);
    // Sums of replicas are made in float32 all the way.
    if (space.placement.replicated) Widen(space.wire_dtype, values, count, values);
  } else if (space.placement.replicated && DtypeSize(space.grad_dtype) == 2) {
    Widen(space.grad_dtype, WholeOf(bucket, index), count,
          reinterpret_cast<float*>(SumsOf(bucket, i)));
  }
}

absl::Status Reduction::StartInterReplica(Chain& chain) {
  const Pack& pack = layout_.buckets[static_cast<size_t>(chain.bucket)].pack;
  std::vector<Collective> calls;
  for (size_t i = 0; i < pack.extents.size(); ++i) {
    if (!chain.first) AddKeptSums(chain.bucket, i);
    const Part own = OwnSumsOf(chain.bucket, i);
    calls.push_back({.kind = OpKind::kAllReduce,
                     .dtype = SumTypeOf(layout_.SpaceOf(ExtentOf(chain.bucket, i)).grad_dtype),
                     .op = WEFT_SUM,
                     .count = own.count,
                     .in = own.data,
                     .out = own.data,
                     .timeout_ns = options_.timeout_ns});
  }
  chain.works.clear();
  chain.inter_replica = false;
  WEFT_RETURN_IF_ERROR(
      StartWorks(chain.bucket, chain.purpose, calls, *inter_replica_, &chain.works));
  unshard_manager_.ReductionStarted(chain.bucket, chain.works, /*goes_on=*/true);
  CallBack(chain.works.size());
  return absl::OkStatus();
}

void Reduction::EndChain(const Chain& chain) {
  const int bucket = chain.bucket;
  for (size_t i = 0; i < layout_.buckets[static_cast<size_t>(bucket)].pack.extents.size(); ++i) {
    const Space& space = layout_.SpaceOf(ExtentOf(bucket, i));
    if (!space.placement.replicated) {
      WidenReduced(bucket, i);
    } else if (chain.last) {
      Divide(bucket, i);
    } else {
      KeepSums(bucket, i, chain.first);
    }
  }
  if (unshard_manager_.GradientsAreSharded(bucket)) unshard_manager_.ReductionEnded(bucket);
}

void Reduction::WidenReduced(int bucket, size_t i) const {
  const Extent& extent = ExtentOf(bucket, i);
  const Space& space = layout_.SpaceOf(extent);
  if (!IsRounded(space)) return;
  const Part reduced = storage_.Reduced(layout_, extent);
  const int index = layout_.buckets[static_cast<size_t>(bucket)].pack.extents[i];
  const size_t before = space.placement.optimizer_sharded ? NarrowBefore(extent) : 0;
  Widen(space.wire_dtype, WholeOf(bucket, index) + before, reduced.count,
        reinterpret_cast<float*>(reduced.data));
}

void Reduction::KeepSums(int bucket, size_t i, bool first) const {
  const Extent& extent = ExtentOf(bucket, i);
  const weft_dtype_t dtype = SumTypeOf(layout_.SpaceOf(extent).grad_dtype);
  const Part own = OwnSumsOf(bucket, i);
  std::byte* const kept = storage_.Accumulated(layout_, extent);
  if (own.count == 0) return;
  if (first) {
    std::memcpy(kept, own.data, own.count * DtypeSize(dtype));
  } else {
    AddTo(kept, own.data, own.count, dtype, options_.isa);
  }
}

void Reduction::AddKeptSums(int bucket, size_t i) const {
  const Extent& extent = ExtentOf(bucket, i);
  const Part own = OwnSumsOf(bucket, i);
  if (own.count == 0) return;
  AddTo(own.data, storage_.Accumulated(layout_, extent), own.count,
        SumTypeOf(layout_.SpaceOf(extent).grad_dtype), options_.isa);
}

void Reduction::Divide(int bucket, size_t i) const {
  const Extent& extent = ExtentOf(bucket, i);
  const Space& space = layout_.SpaceOf(extent);
  const int64_t divisor = options_.op == WEFT_AVG ? layout_.member.size : 1;
  const Part own = OwnSumsOf(bucket, i);
  void* const reduced = ReducedOf(extent);
  if (own.count == 0) return;
  if (DtypeSize(space.wire_dtype) == 2) {
    NarrowQuotients(space.wire_dtype, reinterpret_cast<const float*>(own.data), own.count, divisor,
                    reduced);
    if (IsRounded(space)) Widen(space.wire_dtype, reduced, own.count, static_cast<float*>(reduced));
    return;
  }
  const void* const sources[] = {own.data};
  FindReduceKernel(options_.isa, space.grad_dtype, WEFT_AVG)({.sources = sources,
                                                              .source_count = 1,
                                                              .destinations = &reduced,
                                                              .destination_count = 1,
                                                              .count = own.count,
                                                              .divisor = divisor});
}

absl::Status Reduction::Advance() {
  const auto ended = [](const Chain& chain) {
    return std::all_of(chain.works.begin(), chain.works.end(),
                       [](const WorkRef& work) { return work->ended() && work->Test(); });
  };
  const auto failure = [](const Chain& chain) {
    for (const WorkRef& work : chain.works) {
      WEFT_RETURN_IF_ERROR(
          Annotate(work->status(), StrCat("reducing gradient bucket ", chain.bucket, ": ")));
    }
    return absl::OkStatus();
  };
  for (Chain& chain : chains_) {
    if (!chain.inter_replica) continue;
    if (!ended(chain)) break;
    WEFT_RETURN_IF_ERROR(failure(chain));
    WEFT_RETURN_IF_ERROR(StartInterReplica(chain));
  }
  for (auto chain = chains_.begin(); chain != chains_.end();) {
    if (chain->inter_replica || !ended(*chain)) {
      ++chain;
      continue;
    }
    WEFT_RETURN_IF_ERROR(failure(*chain));
    EndChain(*chain);
    chain = chains_.erase(chain);
  }
  return absl::OkStatus();
}

Works Reduction::Left(int bucket) const {
  const auto of_bucket = [bucket](const Chain& chain) {
    return chain.bucket == bucket;
  };
  const auto last = std::find_if(chains_.begin(), chains_.end(), of_bucket);
  if (last == chains_.end()) {
    Works works;
    for (const StartedReduce& reduce : started_) {
      if (reduce.bucket == bucket) works.push_back(reduce.work);
    }
    return NotEnded(works);
  }
  for (auto chain = chains_.begin(); chain != last; ++chain) {
    Works left = NotEnded(chain->works);
    if (!left.empty()) return left;
  }
  return last->works;
}

std::vector<StartedReduce> Reduction::TakeStarted() {
  return std::exchange(started_, {});
}

void Reduction::BeginStep() {
  first_start_ns_ = 0;
  started_bytes_ = 0;
}

}  // namespace weft
