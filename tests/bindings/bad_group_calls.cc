// Calls of group.h, store.h and work.h with one wrong argument each.
#include "tests/bindings/bad_input.h"

namespace weft::test {
namespace {

using Make = std::function<weft_result_t(Bench&, int size, int rank,
                                         const weft_group_config_t* config, weft_group_t* group)>;

struct Maker {
  const char* function;
  bool has_size;
  bool has_rank;
  Make make;
};

std::vector<Maker> Makers() {
  return {
      {"weft_group_create_from_env", false, false,
       [](Bench&, int, int, const weft_group_config_t* config, weft_group_t* group) {
         return weft_group_create_from_env(config, group);
       }},
      {"weft_group_create_from_id", true, true,
       [](Bench&, int size, int rank, const weft_group_config_t* config, weft_group_t* group) {
         const weft_unique_id_t id = {};
         return weft_group_create_from_id(&id, size, rank, config, group);
       }},
      {"weft_batch_group_create_from_id", true, true,
       [](Bench&, int size, int rank, const weft_group_config_t* config, weft_group_t* group) {
         const weft_unique_id_t id = {};
         return weft_batch_group_create_from_id(&id, size, rank, config, group);
       }},
      {"weft_batch_group_split", false, false,
       [](Bench& b, int, int, const weft_group_config_t* config, weft_group_t* group) {
         return weft_batch_group_split(b.pair[0], 0, 0, config, group);
       }},
      {"weft_group_create_from_store", true, true,
       [](Bench& b, int size, int rank, const weft_group_config_t* config, weft_group_t* group) {
         return weft_group_create_from_store(b.store, size, rank, config, group);
       }},
      {"weft_group_join", false, false,
       [](Bench& b, int, int, const weft_group_config_t* config, weft_group_t* group) {
         return weft_group_join(b.store, config, group);
       }},
      {"weft_group_create_local", true, false,
       [](Bench& b, int size, int, const weft_group_config_t* config, weft_group_t* group) {
         return weft_group_create_local(size, config, group == nullptr ? nullptr : b.out.groups);
       }},
      {"weft_group_split", false, false,
       [](Bench& b, int, int, const weft_group_config_t* config, weft_group_t* group) {
         return weft_group_split(b.pair[0], 0, 0, config, group);
       }},
      {"weft_group_create_from_ranks", false, false,
       [](Bench& b, int, int, const weft_group_config_t* config, weft_group_t* group) {
         const int ranks[] = {1, 0};
         return weft_group_create_from_ranks(b.pair[0], ranks, 2, config, group);
       }},
      {"weft_group_reconfigure", false, false,
       [](Bench& b, int, int, const weft_group_config_t* config, weft_group_t* group) {
         return weft_group_reconfigure(group == nullptr ? nullptr : b.pair[0], nullptr, 0, config);
       }},
  };
}

void AddPlaceFaults(const Maker& maker, std::vector<BadCall>* calls) {
  const auto add = [&](const char* fault, weft_result_t expected, const char* needle, int size,
                       int rank) {
    calls->push_back(
        {maker.function, fault, expected, needle, [make = maker.make, size, rank](Bench& bench) {
           return make(bench, size, rank, nullptr, &bench.out.group);
         }});
  };
  if (maker.has_size) {
    add("size_0", WEFT_INVALID_ARGUMENT, "size is 0", 0, 0);
    add("size_minus_1", WEFT_INVALID_ARGUMENT, "size is -1", -1, 0);
    add("size_INT32_MIN", WEFT_INVALID_ARGUMENT, "size is -2147483648", INT32_MIN, 0);
    if (!maker.has_rank) add("size_65", WEFT_UNSUPPORTED, "65", 65, 0);
    add("size_65537", WEFT_UNSUPPORTED, "65537", 65537, 0);
    add("size_INT32_MAX", WEFT_UNSUPPORTED, "2147483647", INT32_MAX, 0);
  }
  if (maker.has_rank) {
    add("rank_minus_1", WEFT_INVALID_ARGUMENT, "rank -1", 2, -1);
    add("rank_of_the_size", WEFT_INVALID_ARGUMENT, "rank 2", 2, 2);
    add("rank_INT32_MAX", WEFT_INVALID_ARGUMENT, "rank 2147483647", 2, INT32_MAX);
  }
}

void AddMakerFaults(const Maker& maker, std::vector<BadCall>* calls) {
  calls->push_back({maker.function, "group_NULL", WEFT_INVALID_ARGUMENT, "group is NULL",
                    [make = maker.make](Bench& b) {
                      return make(b, 2, 0, nullptr, nullptr);
                    }});
  AddPlaceFaults(maker, calls);
  const auto add = [&](const char* fault, const char* needle, int64_t timeout_ns,
                       int64_t init_timeout_ns, size_t name_bytes) {
    calls->push_back({maker.function, fault, WEFT_INVALID_ARGUMENT, needle,
                      [=, make = maker.make](Bench& bench) {
                        const std::string name(name_bytes, 'n');
                        weft_group_config_t config = {};
                        config.struct_size = sizeof(config);
                        config.timeout_ns = timeout_ns;
                        config.init_timeout_ns = init_timeout_ns;
                        if (name_bytes > 0) config.name = name.c_str();
                        return make(bench, 2, 0, &config, &bench.out.group);
                      }});
  };
  add("timeout_negative", "a timeout is negative", -1, 0, 0);
  add("init_timeout_negative", "a timeout is negative", 0, INT64_MIN, 0);
  add("name_of_64_bytes", "64", 0, 0, 64);
  add("name_of_a_megabyte", "1048576", 0, 0, 1 << 20);
  AddConfigFaults<weft_group_config_t>(
      maker.function, calls, [make = maker.make](Bench& bench, const weft_group_config_t* config) {
        return make(bench, 2, 0, config, &bench.out.group);
      });
}

std::vector<BadCall> BadGroupHandles() {
  const std::pair<const char*, std::function<weft_result_t(Bench&, weft_group_t)>> calls[] = {
      {"weft_group_rank",
       [](Bench& b, weft_group_t group) {
         return weft_group_rank(group, &b.out.number);
       }},
      {"weft_group_size",
       [](Bench& b, weft_group_t group) {
         return weft_group_size(group, &b.out.number);
       }},
      {"weft_group_name",
       [](Bench& b, weft_group_t group) {
         return weft_group_name(group, &b.out.name);
       }},
      {"weft_group_set_timeout",
       [](Bench&, weft_group_t group) {
         return weft_group_set_timeout(group, 1);
       }},
      {"weft_group_sequence",
       [](Bench& b, weft_group_t group) {
         return weft_group_sequence(group, &b.out.sequence);
       }},
      {"weft_group_error",
       [](Bench&, weft_group_t group) {
         return weft_group_error(group);
       }},
      {"weft_group_refuse",
       [](Bench&, weft_group_t group) {
         return weft_group_refuse(group, "all_reduce", "because");
       }},
      {"weft_group_abort",
       [](Bench&, weft_group_t group) {
         return weft_group_abort(group, "because");
       }},
      {"weft_group_split",
       [](Bench& b, weft_group_t group) {
         return weft_group_split(group, 0, 0, nullptr, &b.out.group);
       }},
      {"weft_batch_group_split",
       [](Bench& b, weft_group_t group) {
         return weft_batch_group_split(group, 0, 0, nullptr, &b.out.group);
       }},
      {"weft_group_create_from_ranks",
       [](Bench& b, weft_group_t group) {
         const int rank = 0;
         return weft_group_create_from_ranks(group, &rank, 1, nullptr, &b.out.group);
       }},
      {"weft_group_reconfigure",
       [](Bench&, weft_group_t group) {
         return weft_group_reconfigure(group, nullptr, 0, nullptr);
       }},
      {"weft_group_newcomers",
       [](Bench& b, weft_group_t group) {
         int count = 0;
         return weft_group_newcomers(group, b.store, &count);
       }},
      {"weft_group_epoch",
       [](Bench&, weft_group_t group) {
         uint32_t epoch = 0;
         return weft_group_epoch(group, &epoch);
       }},
      {"weft_group_stats",
       [](Bench&, weft_group_t group) {
         return WithAnswer<weft_group_stats_t>(
             sizeof(weft_group_stats_t),
             [group](weft_group_stats_t* stats) { return weft_group_stats(group, stats); });
       }},
      {"weft_group_destroy",
       [](Bench&, weft_group_t group) {
         return weft_group_destroy(group);
       }},
  };
  std::vector<BadCall> bad;
  for (const auto& [function, call] : calls) {
    if (std::string_view(function) != "weft_group_destroy") {  // whose NULL is fine
      bad.push_back({function, "handle_NULL", WEFT_INVALID_ARGUMENT, "group is NULL",
                     [call = call](Bench& b) {
                       return call(b, nullptr);
                     }});
    }
    bad.push_back(
        {function, "garbage_handle", WEFT_INVALID_ARGUMENT, "not a group", [call = call](Bench& b) {
           return call(b, b.Garbage<weft_group_t>());
         }});
    bad.push_back({function, "a_work_for_a_group", WEFT_INVALID_ARGUMENT, "not a group",
                   [call = call](Bench& b) {
                     return call(b, reinterpret_cast<weft_group_t>(b.done));
                   }});
  }
  return bad;
}

// NOLINTNEXTLINE(readability-function-size): a table
std::vector<BadCall> BadGroupArguments() {
  const auto split = [](int color) {
    return [color](Bench& b) {
      return weft_group_split(b.pair[0], color, 0, nullptr, &b.out.group);
    };
  };
  const auto from_ranks = [](std::vector<int> ranks, int count) {
    return [ranks = std::move(ranks), count](Bench& b) {
      return weft_group_create_from_ranks(b.pair[0], ranks.data(), count, nullptr, &b.out.group);
    };
  };
  const auto anew = [](std::vector<int> members, int count) {
    return [members = std::move(members), count](Bench& b) {
      return weft_group_reconfigure(b.pair[0], members.data(), count, nullptr);
    };
  };
  const auto stats = [](size_t struct_size) {
    return [struct_size](Bench& b) {
      return WithAnswer<weft_group_stats_t>(
          struct_size, [&b](weft_group_stats_t* to) { return weft_group_stats(b.solo, to); });
    };
  };
  return {
      {"weft_group_create_from_ranks", "ranks_NULL", WEFT_INVALID_ARGUMENT, "ranks is NULL",
       [](Bench& b) {
         return weft_group_create_from_ranks(b.pair[0], nullptr, 1, nullptr, &b.out.group);
       }},
      {"weft_group_create_from_ranks", "count_0", WEFT_INVALID_ARGUMENT, "count is 0",
       from_ranks({0}, 0)},
      {"weft_group_create_from_ranks", "count_minus_1", WEFT_INVALID_ARGUMENT, "count is -1",
       from_ranks({0}, -1)},
      {"weft_group_create_from_ranks", "count_over_the_size", WEFT_INVALID_ARGUMENT, "count is 3",
       from_ranks({0, 1, 2}, 3)},
      {"weft_group_create_from_ranks", "count_INT32_MAX", WEFT_INVALID_ARGUMENT,
       "count is 2147483647", from_ranks({0}, INT32_MAX)},
      {"weft_group_create_from_ranks", "a_rank_twice", WEFT_INVALID_ARGUMENT, "listed twice",
       from_ranks({1, 1}, 2)},
      {"weft_group_create_from_ranks", "rank_minus_1", WEFT_INVALID_ARGUMENT, "rank -1",
       from_ranks({0, -1}, 2)},
      {"weft_group_create_from_ranks", "rank_of_the_size", WEFT_INVALID_ARGUMENT, "rank 2",
       from_ranks({2, 0}, 2)},
      {"weft_group_reconfigure", "members_NULL", WEFT_INVALID_ARGUMENT, "members is NULL, count 1",
       [](Bench& b) {
         return weft_group_reconfigure(b.pair[0], nullptr, 1, nullptr);
       }},
      {"weft_group_reconfigure", "members_NULL_count_minus_1", WEFT_INVALID_ARGUMENT, "count -1",
       [](Bench& b) {
         return weft_group_reconfigure(b.pair[0], nullptr, -1, nullptr);
       }},
      {"weft_group_reconfigure", "count_0", WEFT_INVALID_ARGUMENT, "count is 0", anew({0}, 0)},
      {"weft_group_reconfigure", "count_minus_1", WEFT_INVALID_ARGUMENT, "count is -1",
       anew({0}, -1)},
      {"weft_group_reconfigure", "count_over_the_size", WEFT_INVALID_ARGUMENT, "rank 2",
       anew({0, 1, 2}, 3)},
      {"weft_group_reconfigure", "count_INT32_MAX", WEFT_UNSUPPORTED, "count is 2147483647",
       anew({0}, INT32_MAX)},
      {"weft_group_reconfigure", "a_rank_twice", WEFT_INVALID_ARGUMENT, "listed twice",
       anew({1, 1}, 2)},
      {"weft_group_reconfigure", "rank_minus_2", WEFT_INVALID_ARGUMENT, "rank -2",
       anew({0, -2}, 2)},
      {"weft_group_reconfigure", "new_rank_without_a_store", WEFT_INVALID_USAGE, "store is NULL",
       anew({0, WEFT_NEW_RANK}, 2)},
      {"weft_group_reconfigure", "new_ranks_only", WEFT_INVALID_ARGUMENT, "all are WEFT_NEW_RANK",
       anew({WEFT_NEW_RANK, WEFT_NEW_RANK}, 2)},
      {"weft_group_newcomers", "count_NULL", WEFT_INVALID_ARGUMENT, "count is NULL",
       [](Bench& b) {
         return weft_group_newcomers(b.pair[0], b.store, nullptr);
       }},
      {"weft_group_newcomers", "store_NULL", WEFT_INVALID_USAGE, "store is NULL",
       [](Bench& b) {
         int count = 0;
         return weft_group_newcomers(b.pair[0], nullptr, &count);
       }},
      {"weft_group_join", "store_NULL", WEFT_INVALID_USAGE, "store is NULL",
       [](Bench& b) {
         return weft_group_join(nullptr, nullptr, &b.out.group);
       }},
      {"weft_group_epoch", "epoch_NULL", WEFT_INVALID_ARGUMENT, "epoch is NULL",
       [](Bench& b) {
         return weft_group_epoch(b.pair[0], nullptr);
       }},
      {"weft_group_reconfigure", "rank_of_the_size", WEFT_INVALID_ARGUMENT, "rank 2",
       anew({2, 0}, 2)},
      {"weft_group_stats", "stats_NULL", WEFT_INVALID_ARGUMENT, "stats is NULL",
       [](Bench& b) {
         return weft_group_stats(b.solo, nullptr);
       }},
      {"weft_group_stats", "struct_size_0", WEFT_INVALID_ARGUMENT, "struct_size is 0", stats(0)},
      {"weft_group_stats", "struct_size_4", WEFT_INVALID_ARGUMENT, "struct_size is 4", stats(4)},
      {"weft_group_stats", "struct_size_that_cuts_a_field", WEFT_INVALID_ARGUMENT,
       "struct_size is 12", stats(12)},
      {"weft_group_stats", "struct_size_without_end", WEFT_INVALID_ARGUMENT, "struct_size is 1844",
       stats(SIZE_MAX)},
      {"weft_group_rank", "rank_NULL", WEFT_INVALID_ARGUMENT, "rank is NULL",
       [](Bench& b) {
         return weft_group_rank(b.solo, nullptr);
       }},
      {"weft_group_size", "size_NULL", WEFT_INVALID_ARGUMENT, "size is NULL",
       [](Bench& b) {
         return weft_group_size(b.solo, nullptr);
       }},
      {"weft_group_name", "name_NULL", WEFT_INVALID_ARGUMENT, "name is NULL",
       [](Bench& b) {
         return weft_group_name(b.solo, nullptr);
       }},
      {"weft_group_set_timeout", "timeout_minus_1", WEFT_INVALID_ARGUMENT, "timeout_ns is -1",
       [](Bench& b) {
         return weft_group_set_timeout(b.pair[0], -1);
       }},
      {"weft_group_set_timeout", "timeout_INT64_MIN", WEFT_INVALID_ARGUMENT,
       "timeout_ns is -9223372036854775808",
       [](Bench& b) {
         return weft_group_set_timeout(b.pair[0], INT64_MIN);
       }},
      {"weft_group_sequence", "sequence_NULL", WEFT_INVALID_ARGUMENT, "sequence is NULL",
       [](Bench& b) {
         return weft_group_sequence(b.solo, nullptr);
       }},
      {"weft_group_split", "color_minus_2", WEFT_INVALID_ARGUMENT, "color -2", split(-2)},
      {"weft_group_split", "color_INT32_MIN", WEFT_INVALID_ARGUMENT, "color -2147483648",
       split(INT32_MIN)},
      {"weft_group_create_from_id", "id_NULL", WEFT_INVALID_ARGUMENT, "id is NULL",
       [](Bench& b) {
         return weft_group_create_from_id(nullptr, 1, 0, nullptr, &b.out.group);
       }},
      {"weft_batch_group_create_from_id", "id_NULL", WEFT_INVALID_ARGUMENT, "id is NULL",
       [](Bench& b) {
         return weft_batch_group_create_from_id(nullptr, 1, 0, nullptr, &b.out.group);
       }},
      {"weft_batch_group_create_from_id", "more_than_a_batch_makes", WEFT_INVALID_USAGE,
       "at most 256",
       [](Bench& b) {
         const weft_unique_id_t id = {};
         EXPECT_EQ(weft_batch_begin(), WEFT_SUCCESS);
         weft_result_t last = WEFT_SUCCESS;
         for (int i = 0; i < 257; ++i)
           last = weft_batch_group_create_from_id(&id, 257, i, nullptr, &b.out.group);
         const std::string said = weft_last_error();
         EXPECT_EQ(weft_batch_cancel(), WEFT_SUCCESS) << said;
         return last;
       }},
      {"weft_batch_group_split", "color_minus_2", WEFT_INVALID_ARGUMENT, "color -2",
       [](Bench& b) {
         return weft_batch_group_split(b.pair[0], -2, 0, nullptr, &b.out.group);
       }},
      {"weft_group_create_from_id", "id_of_zeros", WEFT_INVALID_ARGUMENT, "unique id",
       [](Bench& b) {
         const weft_unique_id_t id = {};
         return weft_group_create_from_id(&id, 2, 0, nullptr, &b.out.group);
       }},
      {"weft_group_create_from_id", "id_changed_on_its_way", WEFT_INVALID_ARGUMENT, "changed",
       [](Bench& b) {
         weft_unique_id_t id;
         EXPECT_EQ(weft_unique_id_create(&id), WEFT_SUCCESS) << weft_last_error();
         id.internal[20] = static_cast<char>(id.internal[20] ^ 1);
         return weft_group_create_from_id(&id, 2, 0, nullptr, &b.out.group);
       }},
      {"weft_group_create_from_store", "store_NULL", WEFT_INVALID_ARGUMENT, "store is NULL",
       [](Bench& b) {
         return weft_group_create_from_store(nullptr, 1, 0, nullptr, &b.out.group);
       }},
      {"weft_group_create_from_store", "garbage_store", WEFT_INVALID_ARGUMENT, "not a store",
       [](Bench& b) {
         return weft_group_create_from_store(b.Garbage<weft_store_t>(), 2, 0, nullptr,
                                             &b.out.group);
       }},
  };
}

std::vector<BadCall> BadStoreCalls() {
  std::vector<BadCall> calls = {
      {"weft_unique_id_create", "id_NULL", WEFT_INVALID_ARGUMENT, "id is NULL",
       [](Bench&) {
         return weft_unique_id_create(nullptr);
       }},
      {"weft_store_create_callbacks", "callbacks_NULL", WEFT_INVALID_ARGUMENT, "is NULL",
       [](Bench& b) {
         return weft_store_create_callbacks(nullptr, &b.out.store);
       }},
      {"weft_store_create_callbacks", "store_NULL", WEFT_INVALID_ARGUMENT, "is NULL",
       [](Bench&) {
         weft_store_callbacks_t callbacks = {};
         callbacks.struct_size = sizeof(callbacks);
         return weft_store_create_callbacks(&callbacks, nullptr);
       }},
      {"weft_store_create_callbacks", "no_functions", WEFT_INVALID_ARGUMENT, "set, get and add",
       [](Bench& b) {
         weft_store_callbacks_t callbacks = {};
         callbacks.struct_size = sizeof(callbacks);
         return weft_store_create_callbacks(&callbacks, &b.out.store);
       }},
      {"weft_store_create_callbacks", "all_zero", WEFT_INVALID_ARGUMENT, "set, get and add",
       [](Bench& b) {
         const weft_store_callbacks_t callbacks = {};
         return weft_store_create_callbacks(&callbacks, &b.out.store);
       }},
      {"weft_store_create_callbacks", "one_function_missing", WEFT_INVALID_ARGUMENT,
       "set, get and add",
       [](Bench& b) {
         weft_store_callbacks_t callbacks = {};
         callbacks.struct_size = sizeof(callbacks);
         callbacks.set = [](void*, const char*, const void*, size_t) {
           return WEFT_SUCCESS;
         };
         callbacks.add = [](void*, const char*, int64_t, int64_t*) {
           return WEFT_SUCCESS;
         };
         return weft_store_create_callbacks(&callbacks, &b.out.store);
       }},
      {"weft_store_destroy", "garbage_handle", WEFT_INVALID_ARGUMENT, "not a store",
       [](Bench& b) {
         return weft_store_destroy(b.Garbage<weft_store_t>());
       }},
      {"weft_store_destroy", "a_group_for_a_store", WEFT_INVALID_ARGUMENT, "not a store",
       [](Bench& b) {
         return weft_store_destroy(reinterpret_cast<weft_store_t>(b.solo));
       }},
  };
  AddConfigFaults<weft_store_callbacks_t>(
      "weft_store_create_callbacks", &calls, [](Bench& b, const weft_store_callbacks_t* callbacks) {
        return weft_store_create_callbacks(callbacks, &b.out.store);
      });
  return calls;
}

// A work whose batch has not ended; `call` is made with it, and the batch ended afterwards.
BadCall InBatch(const char* function,
                const std::function<weft_result_t(Bench&, weft_work_t)>& call) {
  return {function, "a_work_of_an_open_batch", WEFT_BAD_STATE, "batch", [call](Bench& b) {
            weft_work_t work = nullptr;
            EXPECT_EQ(weft_batch_begin(), WEFT_SUCCESS);
            EXPECT_EQ(weft_barrier(b.solo, nullptr, &work), WEFT_SUCCESS) << weft_last_error();
            const weft_result_t result = call(b, work);
            EXPECT_EQ(weft_batch_end(), WEFT_SUCCESS);
            EXPECT_EQ(weft_work_wait(work, 0), WEFT_SUCCESS);
            EXPECT_EQ(weft_work_free(work), WEFT_SUCCESS);
            return result;
          }};
}

std::vector<BadCall> BadBatchCalls() {
  return {
      {"weft_batch_end", "no_begin", WEFT_BAD_STATE, "no weft_batch_begin",
       [](Bench&) {
         return weft_batch_end();
       }},
      {"weft_batch_end", "one_end_too_many", WEFT_BAD_STATE, "no weft_batch_begin",
       [](Bench&) {
         EXPECT_EQ(weft_batch_begin(), WEFT_SUCCESS);
         EXPECT_EQ(weft_batch_end(), WEFT_SUCCESS);
         return weft_batch_end();
       }},
      {"weft_batch_cancel", "no_begin", WEFT_BAD_STATE, "no weft_batch_begin",
       [](Bench&) {
         return weft_batch_cancel();
       }},
      {"weft_batch_cancel", "one_cancel_too_many", WEFT_BAD_STATE, "no weft_batch_begin",
       [](Bench&) {
         EXPECT_EQ(weft_batch_begin(), WEFT_SUCCESS);
         EXPECT_EQ(weft_batch_cancel(), WEFT_SUCCESS);
         return weft_batch_cancel();
       }},
      {"weft_batch_end", "after_the_cancel", WEFT_BAD_STATE, "no weft_batch_begin",
       [](Bench&) {
         EXPECT_EQ(weft_batch_begin(), WEFT_SUCCESS);
         EXPECT_EQ(weft_batch_cancel(), WEFT_SUCCESS);
         return weft_batch_end();
       }},
      InBatch("weft_work_test",
              [](Bench& b, weft_work_t work) { return weft_work_test(work, &b.out.number); }),
      InBatch("weft_work_wait", [](Bench&, weft_work_t work) { return weft_work_wait(work, 0); }),
      InBatch("weft_work_error", [](Bench&, weft_work_t work) { return weft_work_error(work); }),
      InBatch("weft_work_error_info",
              [](Bench&, weft_work_t work) {
                return WithAnswer<weft_error_info_t>(
                    sizeof(weft_error_info_t),
                    [work](weft_error_info_t* info) { return weft_work_error_info(work, info); });
              }),
      InBatch(
          "weft_work_error_message",
          [](Bench& b, weft_work_t work) { return weft_work_error_message(work, &b.out.name); }),
      InBatch(
          "weft_completion_queue_add",
          [](Bench& b, weft_work_t work) { return weft_completion_queue_add(b.queue, work, 1); }),
      InBatch("weft_work_on_complete",
              [](Bench&, weft_work_t work) {
                const weft_work_callback_t callback = [](weft_result_t, void*) {
                  ADD_FAILURE() << "the callback of a refused call was called";
                };
                return weft_work_on_complete(work, callback, nullptr);
              }),
  };
}

BadCall WorkErrorSize(const char* fault, size_t struct_size) {
  return {"weft_work_error_info", fault, WEFT_INVALID_ARGUMENT,
          "struct_size is " + std::to_string(struct_size), [struct_size](Bench& b) {
            return WithAnswer<weft_error_info_t>(struct_size, [&](weft_error_info_t* info) {
              return weft_work_error_info(b.done, info);
            });
          }};
}

std::vector<BadCall> BadWorkErrorCalls() {
  const auto info_of = [](weft_work_t work) {
    return WithAnswer<weft_error_info_t>(
        sizeof(weft_error_info_t),
        [work](weft_error_info_t* info) { return weft_work_error_info(work, info); });
  };
  return {
      {"weft_work_error_info", "work_NULL", WEFT_INVALID_ARGUMENT, "work is NULL",
       [=](Bench&) {
         return info_of(nullptr);
       }},
      {"weft_work_error_info", "garbage_work", WEFT_INVALID_ARGUMENT, "not a work",
       [=](Bench& b) {
         return info_of(b.Garbage<weft_work_t>());
       }},
      {"weft_work_error_info", "info_NULL", WEFT_INVALID_ARGUMENT, "info is NULL",
       [](Bench& b) {
         return weft_work_error_info(b.done, nullptr);
       }},
      WorkErrorSize("struct_size_0", 0),
      WorkErrorSize("struct_size_1", 1),
      WorkErrorSize("struct_size_4", 4),
      WorkErrorSize("struct_size_without_end", SIZE_MAX),
      {"weft_work_error_message", "work_NULL", WEFT_INVALID_ARGUMENT, "work is NULL",
       [](Bench& b) {
         return weft_work_error_message(nullptr, &b.out.name);
       }},
      {"weft_work_error_message", "garbage_work", WEFT_INVALID_ARGUMENT, "not a work",
       [](Bench& b) {
         return weft_work_error_message(b.Garbage<weft_work_t>(), &b.out.name);
       }},
      {"weft_work_error_message", "message_NULL", WEFT_INVALID_ARGUMENT, "message is NULL",
       [](Bench& b) {
         return weft_work_error_message(b.done, nullptr);
       }},
  };
}

std::vector<BadCall> BadWorkCalls() {
  const weft_work_callback_t callback = [](weft_result_t, void*) {
    ADD_FAILURE() << "the callback of a refused call was called";
  };
  return {
      {"weft_work_test", "work_NULL", WEFT_INVALID_ARGUMENT, "work is NULL",
       [](Bench& b) {
         return weft_work_test(nullptr, &b.out.number);
       }},
      {"weft_work_test", "garbage_work", WEFT_INVALID_ARGUMENT, "not a work",
       [](Bench& b) {
         return weft_work_test(b.Garbage<weft_work_t>(), &b.out.number);
       }},
      {"weft_work_test", "done_NULL", WEFT_INVALID_ARGUMENT, "done is NULL",
       [](Bench& b) {
         return weft_work_test(b.done, nullptr);
       }},
      {"weft_work_wait", "work_NULL", WEFT_INVALID_ARGUMENT, "work is NULL",
       [](Bench&) {
         return weft_work_wait(nullptr, 0);
       }},
      {"weft_work_wait", "garbage_work", WEFT_INVALID_ARGUMENT, "not a work",
       [](Bench& b) {
         return weft_work_wait(b.Garbage<weft_work_t>(), 0);
       }},
      {"weft_work_wait", "timeout_negative", WEFT_INVALID_ARGUMENT, "timeout_ns is negative",
       [](Bench& b) {
         return weft_work_wait(b.done, -1);
       }},
      {"weft_work_error", "work_NULL", WEFT_INVALID_ARGUMENT, "work is NULL",
       [](Bench&) {
         return weft_work_error(nullptr);
       }},
      {"weft_work_error", "garbage_work", WEFT_INVALID_ARGUMENT, "not a work",
       [](Bench& b) {
         return weft_work_error(b.Garbage<weft_work_t>());
       }},
      {"weft_work_stream_wait", "work_NULL", WEFT_INVALID_ARGUMENT, "work is NULL",
       [](Bench&) {
         return weft_work_stream_wait(nullptr, nullptr);
       }},
      {"weft_work_stream_wait", "garbage_work", WEFT_INVALID_ARGUMENT, "not a work",
       [](Bench& b) {
         return weft_work_stream_wait(b.Garbage<weft_work_t>(), nullptr);
       }},
      {"weft_work_stream_wait", "of_a_host_group", WEFT_UNSUPPORTED, "host memory",
       [](Bench& b) {
         return weft_work_stream_wait(b.done, nullptr);
       }},
      {"weft_progress_fd", "fd_NULL", WEFT_INVALID_ARGUMENT, "fd is NULL",
       [](Bench&) {
         return weft_progress_fd(nullptr);
       }},
      {"weft_work_on_complete", "work_NULL", WEFT_INVALID_ARGUMENT, "work is NULL",
       [callback](Bench&) {
         return weft_work_on_complete(nullptr, callback, nullptr);
       }},
      {"weft_work_on_complete", "garbage_work", WEFT_INVALID_ARGUMENT, "not a work",
       [callback](Bench& b) {
         return weft_work_on_complete(b.Garbage<weft_work_t>(), callback, nullptr);
       }},
      {"weft_work_on_complete", "callback_NULL", WEFT_INVALID_ARGUMENT, "callback is NULL",
       [](Bench& b) {
         return weft_work_on_complete(b.done, nullptr, nullptr);
       }},
      {"weft_work_on_complete", "second_callback", WEFT_INVALID_USAGE, "has a callback, or a",
       [callback](Bench& b) {
         const weft_work_callback_t first = [](weft_result_t, void*) {
         };
         EXPECT_EQ(weft_work_on_complete(b.done, first, nullptr), WEFT_SUCCESS);
         return weft_work_on_complete(b.done, callback, nullptr);
       }},
      {"weft_work_on_complete", "a_work_of_a_completion_queue", WEFT_INVALID_USAGE,
       "completion queue, already",
       [callback](Bench& b) {
         EXPECT_EQ(weft_completion_queue_add(b.queue, b.done, 1), WEFT_SUCCESS);
         return weft_work_on_complete(b.done, callback, nullptr);
       }},
      {"weft_work_free", "garbage_work", WEFT_INVALID_ARGUMENT, "not a work",
       [](Bench& b) {
         return weft_work_free(b.Garbage<weft_work_t>());
       }},
      {"weft_work_free", "a_group_for_a_work", WEFT_INVALID_ARGUMENT, "not a work",
       [](Bench& b) {
         return weft_work_free(reinterpret_cast<weft_work_t>(b.solo));
       }},
  };
}

}  // namespace

std::vector<BadCall> BadGroupCalls() {
  std::vector<BadCall> all;
  for (const Maker& maker : Makers())
    AddMakerFaults(maker, &all);
  for (const std::vector<BadCall>& calls : {BadGroupHandles(), BadGroupArguments(), BadStoreCalls(),
                                            BadWorkCalls(), BadWorkErrorCalls(), BadBatchCalls()}) {
    all.insert(all.end(), calls.begin(), calls.end());
  }
  return all;
}

}  // namespace weft::test
