#include <algorithm>
#include <thread>

#include "tests/bindings/bad_input.h"
#include "tests/bindings/shard_calls.h"

namespace weft::test {
namespace {

constexpr int kCount = 64;

weft_result_t Succeed() {
  return WEFT_SUCCESS;
}

// All ranks of `groups` from this one thread: every rank starts, then every rank waits.
void ExpectAllReduceWorks(weft_group_t* groups, int size) {
  std::vector<std::vector<float>> buffers(static_cast<size_t>(size));
  std::vector<weft_work_t> works(static_cast<size_t>(size));
  for (int rank = 0; rank < size; ++rank) {
    auto& buffer = buffers[static_cast<size_t>(rank)];
    buffer.assign(kCount, static_cast<float>(rank + 1));
    ASSERT_EQ(weft_all_reduce(buffer.data(), buffer.data(), kCount, WEFT_FLOAT32, WEFT_SUM,
                              groups[rank], nullptr, &works[static_cast<size_t>(rank)]),
              WEFT_SUCCESS)
        << weft_last_error();
  }
  const std::vector<float> expected(kCount, static_cast<float>(size * (size + 1)) / 2);
  for (int rank = 0; rank < size; ++rank) {
    const auto place = static_cast<size_t>(rank);
    EXPECT_EQ(weft_work_wait(works[place], 0), WEFT_SUCCESS) << weft_last_error();
    EXPECT_EQ(buffers[place], expected);
    EXPECT_EQ(weft_work_free(works[place]), WEFT_SUCCESS);
  }
}

}  // namespace

Bench::Bench() {
  std::memset(&out, 0xa5, sizeof(out));
  weft_group_config_t config = {};
  config.struct_size = sizeof(config);
  config.timeout_ns = 30'000'000'000;
  EXPECT_EQ(weft_group_create_local(1, &config, &solo), WEFT_SUCCESS) << weft_last_error();
  EXPECT_EQ(weft_group_create_local(2, &config, pair), WEFT_SUCCESS) << weft_last_error();
  EXPECT_EQ(weft_barrier(solo, nullptr, &done), WEFT_SUCCESS) << weft_last_error();
  EXPECT_EQ(weft_work_wait(done, 0), WEFT_SUCCESS);
  EXPECT_EQ(weft_completion_queue_create(nullptr, &queue), WEFT_SUCCESS) << weft_last_error();
  weft_store_callbacks_t callbacks = {};
  callbacks.struct_size = sizeof(callbacks);
  callbacks.set = [](void*, const char*, const void*, size_t) {
    return Succeed();
  };
  callbacks.get = [](void*, const char*, void*, size_t*, int64_t) {
    return WEFT_TIMEOUT;
  };
  callbacks.add = [](void*, const char*, int64_t, int64_t*) {
    return WEFT_SYSTEM_ERROR;
  };
  EXPECT_EQ(weft_store_create_callbacks(&callbacks, &store), WEFT_SUCCESS);
  MakeContexts();
}

void Bench::MakeContexts() {
  EXPECT_EQ(weft_mesh_create(solo, nullptr, &mesh), WEFT_SUCCESS) << weft_last_error();
  EXPECT_EQ(weft_shard_context_create(mesh, nullptr, &open), WEFT_SUCCESS);
  EXPECT_EQ(weft_shard_unit_begin(open, "open", nullptr, &open_unit), WEFT_SUCCESS);
  EXPECT_EQ(weft_shard_context_create(mesh, nullptr, &ready), WEFT_SUCCESS);
  EXPECT_EQ(weft_shard_unit_begin(ready, "block", nullptr, &unit), WEFT_SUCCESS);
  const int64_t shape = 4;
  EXPECT_EQ(AddParam(unit, "weight", &shape, 1, WEFT_FLOAT32, 0, &param), WEFT_SUCCESS);
  EXPECT_EQ(weft_shard_unit_seal(unit), WEFT_SUCCESS);
  EXPECT_EQ(weft_shard_context_finalize(ready, nullptr), WEFT_SUCCESS) << weft_last_error();
  weft_checkpoint_config_t config = {};
  config.struct_size = sizeof(config);
  config.directory = "nowhere/checkpoints";
  EXPECT_EQ(weft_checkpoint_create(solo, &config, &checkpoint), WEFT_SUCCESS) << weft_last_error();
}

Bench::~Bench() {
  EXPECT_EQ(weft_checkpoint_destroy(checkpoint), WEFT_SUCCESS);
  EXPECT_EQ(weft_shard_context_destroy(open), WEFT_SUCCESS);
  EXPECT_EQ(weft_shard_context_destroy(ready), WEFT_SUCCESS);
  EXPECT_EQ(weft_mesh_destroy(mesh), WEFT_SUCCESS);
  EXPECT_EQ(weft_store_destroy(store), WEFT_SUCCESS);
  EXPECT_EQ(weft_work_free(done), WEFT_SUCCESS);
  EXPECT_EQ(weft_completion_queue_destroy(queue), WEFT_SUCCESS);
  EXPECT_EQ(weft_group_destroy(solo), WEFT_SUCCESS);
  // At once: a rank that leaves waits a little for the others to do so too.
  std::thread other([this] { EXPECT_EQ(weft_group_destroy(pair[1]), WEFT_SUCCESS); });
  EXPECT_EQ(weft_group_destroy(pair[0]), WEFT_SUCCESS);
  other.join();
  const unsigned char* const end = garbage_ + sizeof(garbage_);
  EXPECT_EQ(std::find_if(static_cast<const unsigned char*>(garbage_), end,
                         [](unsigned char byte) { return byte != 0; }),
            end)
      << "memory that is no handle was written to";
}

void Bench::ExpectGroupsWork() {
  ExpectAllReduceWorks(&solo, 1);
  ExpectAllReduceWorks(pair, 2);
  for (weft_group_t group : {solo, pair[0], pair[1]}) {
    EXPECT_EQ(weft_group_error(group), WEFT_SUCCESS) << weft_last_error();
  }
}

}  // namespace weft::test
