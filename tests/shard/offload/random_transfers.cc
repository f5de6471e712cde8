#include "tests/shard/offload/random_transfers.h"

#include <algorithm>
#include <cstring>

#include <gtest/gtest.h>

namespace weft::test {
namespace {

constexpr size_t kUnit = BlockStore::kAlignment;

}  // namespace

RandomTransfers::RandomTransfers(BlockStore& store, size_t bytes,
                                 const std::vector<AlignedMemory>& slots, uint64_t seed)
    : store_(store), slots_(slots), random_(seed), expected_(bytes) {
  for (size_t slot = 0; slot < slots_.size(); ++slot)
    free_slots_.push_back(slot);
}

bool RandomTransfers::IsFree(size_t offset, size_t bytes) const {
  return std::none_of(under_way_.begin(), under_way_.end(), [&](const UnderWay& one) {
    return offset < one.offset + one.bytes && one.offset < offset + bytes;
  });
}

void RandomTransfers::StartOne() {
  const size_t slot = free_slots_.back();
  const size_t units = 1 + random_() % (slots_[slot].size() / kUnit);
  const size_t last = expected_.size() / kUnit - units;
  UnderWay one = {.slot = slot,
                  .offset = random_() % (last + 1) * kUnit,
                  .bytes = units * kUnit,
                  .reads = random_() % 2 == 0};
  if (!IsFree(one.offset, one.bytes)) return;
  free_slots_.pop_back();
  std::byte* const memory = slots_[slot].data();
  if (one.reads) {
    std::memset(memory, 0xee, one.bytes);
    one.ticket = store_.StartRead(one.offset, memory, one.bytes);
  } else {
    for (size_t i = 0; i < one.bytes; i += sizeof(uint64_t)) {
      const uint64_t number = random_();
      std::memcpy(memory + i, &number, sizeof(number));
    }
    std::memcpy(expected_.data() + one.offset, memory, one.bytes);
    one.ticket = store_.StartWrite(one.offset, memory, one.bytes);
  }
  under_way_.push_back(one);
}

void RandomTransfers::WaitForOne() {
  const size_t index = random_() % under_way_.size();
  const UnderWay one = under_way_[index];
  under_way_.erase(under_way_.begin() + static_cast<ptrdiff_t>(index));
  ASSERT_EQ(store_.Wait(one.ticket), absl::OkStatus());
  if (one.reads) {
    ASSERT_EQ(std::memcmp(slots_[one.slot].data(), expected_.data() + one.offset, one.bytes), 0)
        << one.bytes << " bytes at " << one.offset;
  }
  free_slots_.push_back(one.slot);
}

void RandomTransfers::Run(int count) {
  for (int i = 0; i < count && !::testing::Test::HasFatalFailure(); ++i) {
    if (free_slots_.empty() || (!under_way_.empty() && random_() % 3 == 0)) WaitForOne();
    if (!free_slots_.empty()) StartOne();
    if (random_() % 4 == 0) store_.Advance();
  }
  while (!under_way_.empty() && !::testing::Test::HasFatalFailure())
    WaitForOne();
  if (!::testing::Test::HasFatalFailure()) CompareAll();
}

void RandomTransfers::CompareAll() {
  const AlignedMemory& slot = slots_.front();
  for (size_t offset = 0; offset < expected_.size(); offset += slot.size()) {
    const size_t bytes = std::min(slot.size(), expected_.size() - offset);
    ASSERT_EQ(store_.Wait(store_.StartRead(offset, slot.data(), bytes)), absl::OkStatus());
    ASSERT_EQ(std::memcmp(slot.data(), expected_.data() + offset, bytes), 0) << "at " << offset;
  }
}

}  // namespace weft::test
