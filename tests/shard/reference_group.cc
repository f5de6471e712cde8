#include "tests/shard/reference_group.h"

#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <mutex>
#include <string>
#include <utility>

#include "base/status.h"
#include "base/text.h"
#include "comm/kernels/dtype.h"
#include "tests/comm/kernels/reference.h"

namespace weft {
namespace {

struct Operation {
  Collective call;
  bool ended = false;
  absl::Status status;
  std::function<void(const absl::Status&)> callback;
};

using OperationRef = std::shared_ptr<Operation>;
using Callbacks = std::vector<std::function<void()>>;

uint64_t LoadElement(const void* memory, size_t size, size_t index) {
  uint64_t bits = 0;
  std::memcpy(&bits, static_cast<const char*>(memory) + index * size, size);
  return bits;
}

void AllReduce(const std::vector<OperationRef>& ranks) {
  const Collective& first = ranks[0]->call;
  const size_t size = DtypeSize(first.dtype);
  for (size_t i = 0; i < first.count; ++i) {
    Elements sources;
    for (const OperationRef& rank : ranks)
      sources.push_back(LoadElement(rank->call.in, size, i));
    const uint64_t result =
        ReduceReference(first.dtype, first.op, sources, static_cast<int64_t>(ranks.size()));
    for (const OperationRef& rank : ranks) {
      std::memcpy(static_cast<char*>(rank->call.out) + i * size, &result, size);
    }
  }
}

void Broadcast(const std::vector<OperationRef>& ranks) {
  const Collective& root = ranks[static_cast<size_t>(ranks[0]->call.root)]->call;
  const size_t bytes = root.count * DtypeSize(root.dtype);
  for (const OperationRef& rank : ranks) {
    if (bytes > 0) std::memmove(rank->call.out, root.in, bytes);
  }
}

void AllGather(const std::vector<OperationRef>& ranks) {
  const size_t bytes = ranks[0]->call.count * DtypeSize(ranks[0]->call.dtype);
  for (const OperationRef& to : ranks) {
    for (size_t from = 0; from < ranks.size() && bytes > 0; ++from) {
      std::memmove(static_cast<char*>(to->call.out) + from * bytes, ranks[from]->call.in, bytes);
    }
  }
}

// Block `block` of what a rank contributes.
std::vector<char> InBlock(const Collective& call, int block, size_t count) {
  std::vector<char> bytes(count * DtypeSize(call.dtype));
  if (count > 0) CopyIn(call, block, 0, count, bytes.data());
  return bytes;
}

void AllGatherV(const std::vector<OperationRef>& ranks) {
  std::vector<std::vector<char>> blocks;
  for (const OperationRef& from : ranks)
    blocks.push_back(InBlock(from->call, 0, InCount(from->call, 0)));
  for (const OperationRef& to : ranks) {
    for (size_t from = 0; from < ranks.size(); ++from) {
      const int block = static_cast<int>(from);
      if (!blocks[from].empty()) {
        CopyOut(to->call, block, 0, OutCount(to->call, block), blocks[from].data());
      }
    }
  }
}

void ReduceScatterV(const std::vector<OperationRef>& ranks) {
  const Collective& first = ranks[0]->call;
  const size_t size = DtypeSize(first.dtype);
  std::vector<std::vector<char>> results;
  for (size_t to = 0; to < ranks.size(); ++to) {
    const int block = static_cast<int>(to);
    const size_t count = InCount(first, block);
    std::vector<std::vector<char>> sources;
    for (const OperationRef& from : ranks)
      sources.push_back(InBlock(from->call, block, count));
    results.emplace_back(count * size);
    for (size_t i = 0; i < count; ++i) {
      Elements elements;
      for (const std::vector<char>& source : sources)
        elements.push_back(LoadElement(source.data(), size, i));
      const uint64_t result =
          ReduceReference(first.dtype, first.op, elements, static_cast<int64_t>(ranks.size()));
      std::memcpy(results.back().data() + i * size, &result, size);
    }
  }
  for (size_t to = 0; to < ranks.size(); ++to) {
    if (!results[to].empty()) {
      CopyOut(ranks[to]->call, 0, 0, OutCount(ranks[to]->call, 0), results[to].data());
    }
  }
}

void Execute(const std::vector<OperationRef>& ranks) {
  switch (ranks[0]->call.kind) {
    case OpKind::kAllReduce:
      return AllReduce(ranks);
    case OpKind::kBroadcast:
      return Broadcast(ranks);
    case OpKind::kAllGather:
      return AllGather(ranks);
    case OpKind::kAllGatherV:
      return AllGatherV(ranks);
    case OpKind::kReduceScatterV:
      return ReduceScatterV(ranks);
    default:
      return;
  }
}

bool SameCall(const Collective& a, const Collective& b) {
  return a.kind == b.kind && a.dtype == b.dtype && a.op == b.op && a.root == b.root &&
         a.count == b.count && a.purpose.signature_salt == b.purpose.signature_salt &&
         (a.layout == nullptr) == (b.layout == nullptr) &&
         (a.layout == nullptr || a.layout->hash == b.layout->hash);
}

std::string CallText(const Collective& call) {
  return StrCat(OpKindName(call.kind), " of ", call.count, " ", DtypeName(call.dtype));
}

class SharedState {
 public:
  SharedState(int size, int64_t timeout_ns, bool lazy)
      : size_(size), timeout_ns_(timeout_ns), lazy_(lazy), issued_(static_cast<size_t>(size)) {}

  absl::StatusOr<OperationRef> Start(int rank, const Collective& call) {
    Callbacks callbacks;
    auto operation = std::make_shared<Operation>();
    {
      std::lock_guard lock(mutex_);
      if (!failure_.ok()) return failure_;
      operation->call = call;
      const size_t sequence = issued_[static_cast<size_t>(rank)]++;
      while (slots_.size() <= sequence - done_)
        slots_.emplace_back(static_cast<size_t>(size_));
      std::vector<OperationRef>& slot = slots_[sequence - done_];
      slot[static_cast<size_t>(rank)] = operation;
      CheckMatch(slot, rank, callbacks);
      if (!lazy_) Advance(callbacks);
    }
    RunAll(callbacks);
    return operation;
  }

  bool Test(const OperationRef& operation) {
    Callbacks callbacks;
    bool ended = false;
    {
      std::lock_guard lock(mutex_);
      Advance(callbacks);
      ended = operation->ended;
    }
    RunAll(callbacks);
    return ended;
  }

  absl::Status Wait(const OperationRef& operation, int64_t patience_ns) {
    Callbacks callbacks;
    absl::Status status;
    {
      std::unique_lock lock(mutex_);
      Advance(callbacks);
      const int64_t limit_ns = patience_ns > 0 ? patience_ns : Timeout(operation->call);
      const auto limit = std::chrono::steady_clock::now() + std::chrono::nanoseconds(limit_ns);
      // Whoever completes a lazy operation is a waiter too, so each looks again when woken.
      const bool ended = changed_.wait_until(lock, limit, [&] {
        Advance(callbacks);
        return operation->ended;
      });
      if (ended) {
        status = operation->status;
      } else if (patience_ns > 0) {
        status = MakeError(WEFT_IN_PROGRESS, "not yet");
      } else {
        status = MakeError(WEFT_TIMEOUT, StrCat(CallText(operation->call), " timed out"));
        Fail(status, callbacks);
      }
    }
    RunAll(callbacks);
    return status;
  }

  absl::Status StatusOf(const OperationRef& operation) {
    std::lock_guard lock(mutex_);
    return operation->status;
  }

  bool OnComplete(const OperationRef& operation,
                  std::function<void(const absl::Status&)> callback) {
    {
      std::lock_guard lock(mutex_);
      if (operation->callback) return false;
      operation->callback = callback;
      if (!operation->ended) return true;
    }
    callback(operation->status);
    return true;
  }

  absl::Status error() {
    std::lock_guard lock(mutex_);
    return failure_;
  }

  // What the ranks' calls of Split number `index` share; whoever comes first makes it.
  std::shared_ptr<SharedState> Child(size_t index) {
    std::lock_guard lock(mutex_);
    if (children_.size() <= index) children_.resize(index + 1);
    if (children_[index] == nullptr) {
      children_[index] = std::make_shared<SharedState>(size_, timeout_ns_, lazy_);
    }
    return children_[index];
  }

  void Abort(int rank, std::string_view reason) {
    Callbacks callbacks;
    {
      std::lock_guard lock(mutex_);
      Fail(MakeError(WEFT_ABORTED, {.rank = rank, .group = "reference"},
                     StrCat("rank ", rank, " aborted group reference: ", reason)),
           callbacks);
    }
    RunAll(callbacks);
  }

 private:
  int64_t Timeout(const Collective& call) const {
    return call.timeout_ns > 0 ? call.timeout_ns : timeout_ns_;
  }

  static void RunAll(const Callbacks& callbacks) {
    for (const auto& callback : callbacks)
      callback();
  }

  void End(const OperationRef& operation, const absl::Status& status, Callbacks& callbacks) {
    operation->ended = true;
    operation->status = status;
    if (operation->callback) {
      callbacks.push_back([callback = operation->callback, status] { callback(status); });
    }
    changed_.notify_all();
  }

  void CheckMatch(const std::vector<OperationRef>& slot, int rank, Callbacks& callbacks) {
    const Collective& own = slot[static_cast<size_t>(rank)]->call;
    for (size_t other = 0; other < slot.size(); ++other) {
      if (slot[other] == nullptr || SameCall(slot[other]->call, own)) continue;
      Fail(MakeError(WEFT_MISMATCH, {.rank = rank},
                     StrCat("rank ", rank, " called ", CallText(own), ", rank ", other, " ",
                            CallText(slot[other]->call))),
           callbacks);
      return;
    }
    if (lazy_) changed_.notify_all();
  }

  // Does the operations that all ranks have started, in order.
  void Advance(Callbacks& callbacks) {
    while (failure_.ok() && !slots_.empty()) {
      for (const OperationRef& operation : slots_.front()) {
        if (operation == nullptr) return;
      }
      Execute(slots_.front());
      for (const OperationRef& operation : slots_.front()) {
        End(operation, absl::OkStatus(), callbacks);
      }
      slots_.pop_front();
      ++done_;
    }
  }

  void Fail(const absl::Status& status, Callbacks& callbacks) {
    if (!failure_.ok()) return;
    failure_ = status;
    for (const std::vector<OperationRef>& slot : slots_) {
      for (const OperationRef& operation : slot) {
        if (operation != nullptr && !operation->ended) End(operation, status, callbacks);
      }
    }
  }

  const int size_;
  const int64_t timeout_ns_;
  const bool lazy_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<size_t> issued_;                   // by rank
  std::deque<std::vector<OperationRef>> slots_;  // by sequence number - done_, then by rank
  size_t done_ = 0;
  absl::Status failure_;
  std::vector<std::shared_ptr<SharedState>> children_;
};

class ReferenceWork : public Work {
 public:
  ReferenceWork(std::shared_ptr<SharedState> state, OperationRef operation)
      : state_(std::move(state)), operation_(std::move(operation)) {}

  bool Test() override { return state_->Test(operation_); }

  absl::Status Wait(int64_t timeout_ns) override { return state_->Wait(operation_, timeout_ns); }

  bool ended() const override { return state_->Test(operation_); }

  absl::Status status() override { return state_->StatusOf(operation_); }

  bool OnComplete(std::function<void(const absl::Status&)> callback) override {
    return state_->OnComplete(operation_, std::move(callback));
  }

 private:
  const std::shared_ptr<SharedState> state_;
  const OperationRef operation_;
};

class ReferenceGroup : public ProcessGroup {
 public:
  ReferenceGroup(std::shared_ptr<SharedState> state, int rank, int size)
      : state_(std::move(state)), rank_(rank), size_(size) {}

  int rank() const override { return rank_; }

  int size() const override { return size_; }

  const std::string& name() const override { return name_; }

  absl::Status Run(const Collective& collective) override {
    WEFT_ASSIGN_OR_RETURN(const OperationRef operation, state_->Start(rank_, collective));
    return state_->Wait(operation, 0);
  }

  absl::StatusOr<WorkRef> Start(const Collective& collective) override {
    WEFT_ASSIGN_OR_RETURN(OperationRef operation, state_->Start(rank_, collective));
    return WorkRef(std::make_shared<ReferenceWork>(state_, std::move(operation)));
  }

  // A group of the same ranks; it is not cut.
  absl::StatusOr<std::shared_ptr<ProcessGroup>> Split(int, int, const GroupOptions&) override {
    return std::shared_ptr<ProcessGroup>(
        std::make_shared<ReferenceGroup>(state_->Child(splits_++), rank_, size_));
  }

  std::string Explain(const Collective&, BufferKind) const override {
    return "algorithm: reference\n";
  }

  GroupStats stats() const override { return {}; }

  uint64_t sequence() const override { return 0; }

  void SetTimeout(int64_t) override {}

  absl::Status error() override { return state_->error(); }

  void Abort(std::string_view reason) override { state_->Abort(rank_, reason); }

  void Close() override {}

 private:
  const std::shared_ptr<SharedState> state_;
  const int rank_;
  const int size_;
  size_t splits_ = 0;
  const std::string name_ = "reference";
};

}  // namespace

std::vector<std::shared_ptr<ProcessGroup>> MakeReferenceGroups(int size, int64_t timeout_ns,
                                                               bool lazy) {
  const auto state = std::make_shared<SharedState>(size, timeout_ns, lazy);
  std::vector<std::shared_ptr<ProcessGroup>> groups;
  for (int rank = 0; rank < size; ++rank) {
    groups.push_back(std::make_shared<ReferenceGroup>(state, rank, size));
  }
  return groups;
}

}  // namespace weft
