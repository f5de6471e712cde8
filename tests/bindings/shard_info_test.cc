// What shard_info.h says of units and params is what was declared, before finalize, in a step and after a failure.
#include <atomic>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>

#include "tests/bindings/local_threads.h"
#include "tests/bindings/shard_calls.h"

namespace weft::test::shard_info_test {
namespace {

using testing::HasSubstr;

template <typename Info, typename Handle>
Info InfoOf(weft_result_t (*call)(Handle, Info*), Handle handle) {
  Info info;
  std::memset(&info, 0x5a, sizeof(info));
  info.struct_size = sizeof(info);
  EXPECT_EQ(call(handle, &info), WEFT_SUCCESS) << weft_last_error();
  return info;
}

weft_shard_param_info_t Info(weft_shard_param_t param) {
  return InfoOf(weft_shard_param_info, param);
}

weft_shard_unit_info_t Info(weft_shard_unit_t unit) {
  return InfoOf(weft_shard_unit_info, unit);
}

// An embedding, a block that is cut by rows, a frozen scalar, and a head that shares the embedding's table.
struct Model {
  weft_shard_context_t context = nullptr;
  weft_shard_unit_t embed = nullptr;
  weft_shard_unit_t block = nullptr;
  weft_shard_unit_t head = nullptr;
  weft_shard_param_t table = nullptr;
  weft_shard_param_t weight = nullptr;
  weft_shard_param_t scale = nullptr;
  weft_shard_param_t tied = nullptr;

  void Declare(weft_mesh_t mesh) {
    ASSERT_EQ(weft_shard_context_create(mesh, nullptr, &context), WEFT_SUCCESS)
        << weft_last_error();
    ASSERT_EQ(weft_shard_unit_begin(context, "embed", nullptr, &embed), WEFT_SUCCESS);
    const int64_t of_table[] = {19, 11};
    ASSERT_EQ(AddParam(embed, "embed.table", of_table, 2, WEFT_FLOAT32, 0, &table), WEFT_SUCCESS);
    ASSERT_EQ(weft_shard_unit_seal(embed), WEFT_SUCCESS);
    weft_shard_policy_t policy = {};
    policy.struct_size = sizeof(policy);
    policy.preset = WEFT_SHARD_FULL_SHARD;
    policy.cut = WEFT_SHARD_CUT_BLOCK;
    policy.cut_rows = 4;
    policy.float32_gradients = 1;
    policy.wire = WEFT_SHARD_WIRE_BFLOAT16;
    policy.between = WEFT_SHARD_PLACE_WHOLE;
    ASSERT_EQ(weft_shard_unit_begin(context, "block", &policy, &block), WEFT_SUCCESS)
        << weft_last_error();
    const int64_t of_weight[] = {8, 3, 5};
    ASSERT_EQ(AddParam(block, "block.weight", of_weight, 3, WEFT_BFLOAT16,
                       WEFT_SHARD_PARAM_NO_DECAY | WEFT_SHARD_PARAM_WRITES_GRAD |
                           WEFT_SHARD_PARAM_NOT_COUNTED,
                       &weight),
              WEFT_SUCCESS);
    ASSERT_EQ(
        AddParam(block, "block.scale", nullptr, 0, WEFT_FLOAT64, WEFT_SHARD_PARAM_FROZEN, &scale),
        WEFT_SUCCESS);
    ASSERT_EQ(weft_shard_unit_seal(block), WEFT_SUCCESS);
    ASSERT_EQ(weft_shard_unit_begin(context, "head", nullptr, &head), WEFT_SUCCESS);
    ASSERT_EQ(weft_shard_unit_tie_param(head, "head.table", table, &tied), WEFT_SUCCESS);
  }

  void ExpectParams() const {
    const weft_shard_param_info_t of_weight = Info(weight);
    EXPECT_EQ(of_weight.struct_size, sizeof(of_weight));
    EXPECT_STREQ(of_weight.name, "block.weight");
    EXPECT_EQ(of_weight.unit, block);
    EXPECT_STREQ(of_weight.unit_name, "block");
    EXPECT_EQ(of_weight.tied_to, nullptr);
    EXPECT_EQ(of_weight.count, 120u);
    EXPECT_EQ(of_weight.ndim, 3);
    const std::vector<int64_t> shape(of_weight.shape, of_weight.shape + WEFT_SHARD_DIMS_MAX);
    std::vector<int64_t> expected = {8, 3, 5};
    expected.resize(WEFT_SHARD_DIMS_MAX);
    EXPECT_EQ(shape, expected);
    EXPECT_EQ(of_weight.dtype, WEFT_BFLOAT16);
    EXPECT_EQ(of_weight.flags, WEFT_SHARD_PARAM_NO_DECAY | WEFT_SHARD_PARAM_WRITES_GRAD |
                                   WEFT_SHARD_PARAM_NOT_COUNTED);
    EXPECT_EQ(of_weight.index, 0);

    const weft_shard_param_info_t of_scale = Info(scale);
    EXPECT_EQ(of_scale.ndim, 0);
    EXPECT_EQ(of_scale.count, 1u);
    EXPECT_EQ(of_scale.flags, WEFT_SHARD_PARAM_FROZEN);
    EXPECT_EQ(of_scale.index, 1);

    const weft_shard_param_info_t of_tied = Info(tied);
    EXPECT_STREQ(of_tied.name, "head.table");
    EXPECT_EQ(of_tied.unit, head);
    EXPECT_EQ(of_tied.tied_to, table);
    EXPECT_EQ(of_tied.count, 209u);
    EXPECT_EQ(of_tied.flags, 0u);
    EXPECT_EQ(Info(table).tied_to, nullptr);
  }

  void ExpectUnits() const {
    const weft_shard_unit_info_t of_embed = Info(embed);
    EXPECT_STREQ(of_embed.name, "embed");
    EXPECT_EQ(of_embed.index, 0u);
    EXPECT_EQ(of_embed.param_count, 1u);
    EXPECT_EQ(of_embed.preset, WEFT_SHARD_NO_SHARD);
    EXPECT_EQ(of_embed.params, WEFT_SHARD_PLACE_WHOLE);
    EXPECT_EQ(of_embed.optimizer, WEFT_SHARD_PLACE_WHOLE);
    EXPECT_EQ(of_embed.cut, WEFT_SHARD_CUT_FLAT);
    EXPECT_EQ(of_embed.cut_rows, 0);
    EXPECT_EQ(of_embed.sealed, 1);

    const weft_shard_unit_info_t of_block = Info(block);
    EXPECT_EQ(of_block.index, 1u);
    EXPECT_EQ(of_block.param_count, 2u);
    EXPECT_EQ(of_block.preset, WEFT_SHARD_FULL_SHARD);
    EXPECT_EQ(of_block.params, WEFT_SHARD_PLACE_SHARDED);
    EXPECT_EQ(of_block.between, WEFT_SHARD_PLACE_WHOLE);
    EXPECT_EQ(of_block.gradients, WEFT_SHARD_PLACE_SHARDED);
    EXPECT_EQ(of_block.optimizer, WEFT_SHARD_PLACE_SHARDED);
    EXPECT_EQ(of_block.cut, WEFT_SHARD_CUT_BLOCK);
    EXPECT_EQ(of_block.cut_rows, 4);
    EXPECT_EQ(of_block.float32_gradients, 1);
    EXPECT_EQ(of_block.wire, WEFT_SHARD_WIRE_BFLOAT16);
  }

  // Every handle is found by its index and by its name.
  void ExpectFound() const {
    size_t count = 0;
    ASSERT_EQ(weft_shard_context_unit_count(context, &count), WEFT_SUCCESS);
    ASSERT_EQ(count, 3u);
    const std::vector<weft_shard_unit_t> units = {embed, block, head};
    const std::vector<std::vector<weft_shard_param_t>> params = {{table}, {weight, scale}, {tied}};
    for (size_t u = 0; u < units.size(); ++u) {
      weft_shard_unit_t unit = nullptr;
      ASSERT_EQ(weft_shard_context_unit_at(context, u, &unit), WEFT_SUCCESS);
      EXPECT_EQ(unit, units[u]);
      unit = nullptr;
      ASSERT_EQ(weft_shard_context_unit_by_name(context, Info(units[u]).name, &unit), WEFT_SUCCESS);
      EXPECT_EQ(unit, units[u]);
      ASSERT_EQ(Info(unit).param_count, params[u].size());
      for (size_t p = 0; p < params[u].size(); ++p) {
        weft_shard_param_t param = nullptr;
        ASSERT_EQ(weft_shard_unit_param_at(unit, p, &param), WEFT_SUCCESS);
        EXPECT_EQ(param, params[u][p]);
        param = nullptr;
        ASSERT_EQ(weft_shard_context_param_by_name(context, Info(params[u][p]).name, &param),
                  WEFT_SUCCESS);
        EXPECT_EQ(param, params[u][p]);
      }
    }
  }
};

TEST(ShardInfo, IsWhatWasDeclaredFromDeclarationToTheEndOfAStep) {
  constexpr int kRanks = 2;
  const weft_group_config_t config = ConfigNamed("info");
  weft_group_t groups[kRanks] = {};
  ASSERT_EQ(weft_group_create_local(kRanks, &config, groups), WEFT_SUCCESS) << weft_last_error();
  OnThreads(kRanks, [&](int rank) {
    weft_mesh_t mesh = nullptr;
    ASSERT_EQ(weft_mesh_create(groups[rank], nullptr, &mesh), WEFT_SUCCESS);
    Model model;
    model.Declare(mesh);
    model.ExpectParams();
    model.ExpectUnits();
    model.ExpectFound();
    EXPECT_EQ(Info(model.head).sealed, 0);
    EXPECT_EQ(Info(model.embed).unsharded, 0) << "there is nothing yet";
    const char* const name = Info(model.weight).name;
    ASSERT_EQ(weft_shard_unit_seal(model.head), WEFT_SUCCESS);
    EXPECT_EQ(Info(model.head).sealed, 1);
    ASSERT_EQ(weft_shard_context_finalize(model.context, nullptr), WEFT_SUCCESS)
        << weft_last_error();
    EXPECT_EQ(Info(model.embed).unsharded, 1);
    EXPECT_EQ(Info(model.block).unsharded, 0);

    ASSERT_EQ(StepBegin(model.context, WEFT_SHARD_EVAL, 0), WEFT_SUCCESS);
    ASSERT_EQ(MicrobatchBegin(model.context, 0, 1), WEFT_SUCCESS);
    ASSERT_EQ(weft_shard_pre_forward(model.block, nullptr), WEFT_SUCCESS) << weft_last_error();
    EXPECT_EQ(Info(model.block).unsharded, 1);
    model.ExpectParams();
    model.ExpectFound();
    ASSERT_EQ(weft_shard_post_forward(model.block, nullptr), WEFT_SUCCESS);
    EXPECT_EQ(Info(model.block).unsharded, 0);
    ASSERT_EQ(weft_shard_microbatch_end(model.context, nullptr), WEFT_SUCCESS);
    ASSERT_EQ(weft_shard_step_end(model.context), WEFT_SUCCESS);

    // Whoever leaves it knows that the other has ended its step. The other may find the abort still inside.
    (void)weft_barrier(groups[rank], nullptr, nullptr);
    EXPECT_EQ(weft_shard_abort_step(model.context, "enough"), WEFT_SUCCESS);
    model.ExpectParams();
    model.ExpectUnits();
    model.ExpectFound();
    EXPECT_EQ(Info(model.weight).name, name) << "strings stay where they are";
    EXPECT_EQ(weft_shard_context_destroy(model.context), WEFT_SUCCESS);
    EXPECT_EQ(weft_mesh_destroy(mesh), WEFT_SUCCESS);
    EXPECT_EQ(weft_group_destroy(groups[rank]), WEFT_SUCCESS);
  });
}

TEST(ShardInfo, FindsUnitsAndParamsThatWereMadeFromAList) {
  weft_mesh_config_t axes = {};
  axes.struct_size = sizeof(axes);
  axes.axis_count = 1;
  axes.axis_names[0] = "data";
  axes.axis_sizes[0] = 64;
  weft_mesh_t mesh = nullptr;
  ASSERT_EQ(weft_mesh_create_dry(&axes, 3, &mesh), WEFT_SUCCESS) << weft_last_error();
  weft_shard_context_t context = nullptr;
  ASSERT_EQ(weft_shard_context_create(mesh, nullptr, &context), WEFT_SUCCESS);
  constexpr size_t kBlocks = 100;
  std::vector<std::string> names;
  for (size_t i = 0; i < kBlocks; ++i) {
    for (const char* const part : {".norm", ".weight"})
      names.push_back("blocks." + std::to_string(i) + part);
  }
  const int64_t shape[] = {16};
  std::vector<weft_shard_param_config_t> specs;
  specs.reserve(names.size());
  for (const std::string& name : names)
    specs.push_back({sizeof(weft_shard_param_config_t), name.c_str(), shape, 1, WEFT_FLOAT32, 0});
  weft_shard_grouping_t grouping = {};
  grouping.struct_size = sizeof(grouping);
  grouping.by_prefix = "blocks.*";
  std::vector<weft_shard_param_t> params(names.size());
  std::vector<weft_shard_unit_t> units(kBlocks);
  size_t unit_count = kBlocks;
  ASSERT_EQ(weft_shard_add_units(context, specs.data(), specs.size(), &grouping, nullptr,
                                 params.data(), units.data(), &unit_count),
            WEFT_SUCCESS)
      << weft_last_error();
  ASSERT_EQ(unit_count, kBlocks);
  for (size_t i = 0; i < params.size(); ++i) {
    const weft_shard_param_info_t info = Info(params[i]);
    EXPECT_EQ(info.name, names[i]);
    EXPECT_EQ(info.unit, units[i / 2]);
    EXPECT_EQ(info.unit_name, "blocks." + std::to_string(i / 2));
    EXPECT_EQ(info.index, static_cast<int>(i % 2));
    weft_shard_param_t found = nullptr;
    EXPECT_EQ(weft_shard_context_param_by_name(context, names[i].c_str(), &found), WEFT_SUCCESS);
    EXPECT_EQ(found, params[i]);
  }
  weft_shard_param_t none = nullptr;
  EXPECT_EQ(weft_shard_context_param_by_name(context, "blocks.17.wieght", &none),
            WEFT_INVALID_ARGUMENT);
  EXPECT_THAT(weft_last_error(), HasSubstr("of the 200"));
  EXPECT_THAT(weft_last_error(), HasSubstr("\"blocks.17.weight\" is the nearest"));
  EXPECT_EQ(none, nullptr);
  EXPECT_EQ(weft_shard_context_destroy(context), WEFT_SUCCESS);
  EXPECT_EQ(weft_mesh_destroy(mesh), WEFT_SUCCESS);
}

// The model of a group of one rank, with all units sealed.
struct ModelOfOne : Model {
  weft_group_t group = nullptr;
  weft_mesh_t mesh = nullptr;

  void Make() {
    ASSERT_EQ(weft_group_create_local(1, nullptr, &group), WEFT_SUCCESS);
    ASSERT_EQ(weft_mesh_create(group, nullptr, &mesh), WEFT_SUCCESS);
    ASSERT_NO_FATAL_FAILURE(Declare(mesh));
    ASSERT_EQ(weft_shard_unit_seal(head), WEFT_SUCCESS);
  }

  void Destroy() {
    EXPECT_EQ(weft_shard_context_destroy(context), WEFT_SUCCESS);
    EXPECT_EQ(weft_mesh_destroy(mesh), WEFT_SUCCESS);
    EXPECT_EQ(weft_group_destroy(group), WEFT_SUCCESS);
  }
};

// A tie to a tied param is one to the param that has the storage.
TEST(ShardInfo, NamesTheParamThatHasTheStorage) {
  ModelOfOne model;
  ASSERT_NO_FATAL_FAILURE(model.Make());
  weft_shard_unit_t third = nullptr;
  ASSERT_EQ(weft_shard_unit_begin(model.context, "third", nullptr, &third), WEFT_SUCCESS);
  weft_shard_param_t again = nullptr;
  ASSERT_EQ(weft_shard_unit_tie_param(third, "third.table", model.tied, &again), WEFT_SUCCESS)
      << weft_last_error();
  EXPECT_EQ(Info(again).tied_to, model.table);
  model.Destroy();
}

// From finalize on any thread may ask, while another one makes the calls of steps.
TEST(ShardInfo, MayBeAskedForOnAnyThreadDuringSteps) {
  ModelOfOne model;
  ASSERT_NO_FATAL_FAILURE(model.Make());
  ASSERT_EQ(weft_shard_context_finalize(model.context, nullptr), WEFT_SUCCESS) << weft_last_error();
  std::atomic<bool> over{false};
  std::thread asker([&] {
    do {
      model.ExpectParams();
      model.ExpectUnits();
      model.ExpectFound();
    } while (!over.load());
  });
  for (int step = 0; step < 50; ++step) {
    EXPECT_EQ(StepBegin(model.context, WEFT_SHARD_EVAL, 0), WEFT_SUCCESS);
    EXPECT_EQ(MicrobatchBegin(model.context, 0, 1), WEFT_SUCCESS);
    EXPECT_EQ(weft_shard_pre_forward(model.block, nullptr), WEFT_SUCCESS);
    EXPECT_EQ(weft_shard_post_forward(model.block, nullptr), WEFT_SUCCESS);
    EXPECT_EQ(weft_shard_microbatch_end(model.context, nullptr), WEFT_SUCCESS);
    EXPECT_EQ(weft_shard_step_end(model.context), WEFT_SUCCESS);
  }
  over.store(true);
  asker.join();
  model.Destroy();
}

}  // namespace
}  // namespace weft::test::shard_info_test
