#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "trainer/failure.h"
#include "trainer/model_files/gpt2_file.h"
#include "trainer/model_files/gpt2_layout.h"
#include "trainer/model_files/llama_layout.h"
#include "trainer/model_files/llmc_file.h"
#include "trainer/model_files/safetensors_file.h"
#include "trainer/model_files/saved_model.h"
#include "trainer/ops.h"

namespace weft::trainer::model_files_test {
namespace {

constexpr ModelConfig kShape = {
    .vocabulary = 130, .seq = 6, .width = 12, .layers = 2, .heads = 3, .tied_head = false};

class ModelFilesTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = testing::TempDir() + "/model_files_" +
              testing::UnitTest::GetInstance()->current_test_info()->name();
    std::filesystem::create_directories(folder_);
  }

  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string Path(const std::string& name) const { return folder_ + "/" + name; }

  void Put(const std::string& name, const std::string& header, const std::string& values = "") {
    const uint64_t length = header.size();
    std::ofstream out(Path(name), std::ios::binary);
    out.write(reinterpret_cast<const char*>(&length), sizeof length);
    out << header << values;
  }

  // "" if it is read.
  std::string Refusal(const std::string& name) {
    try {
      const SafetensorsFile file(Path(name));
      for (const auto& [tensor, about] : file.tensors())
        file.Read(about);
      return "";
    } catch (const BadInput& error) {
      return error.what();
    }
  }

  std::string folder_;
};

TEST_F(ModelFilesTest, WhatIsWrittenIsRead) {
  std::vector<float> a = {1, -2.5f, 3}, b = {7, 8, 9, 10};
  WriteSafetensors(Path("m.safetensors"), {{"a",
                                            {3},
                                            [&] {
                                              return a;
                                            }},
                                           {"b.weight", {2, 2}, [&] {
                                              return b;
                                            }}});
  const SafetensorsFile file(Path("m.safetensors"));
  EXPECT_EQ(file.Read(*file.Find("a")), a);
  EXPECT_EQ(file.Read(*file.Find("b.weight")), b);
  EXPECT_EQ(file.Find("b.weight")->shape, (std::vector<int64_t>{2, 2}));
  EXPECT_EQ(file.Find("c"), nullptr);
}

TEST_F(ModelFilesTest, NumbersOf16BitsAreWidened) {
  Put("m.safetensors",
      R"({"h":{"dtype":"F16","shape":[1],"data_offsets":[0,2]},"b":{"dtype":"BF16","shape":[1],"data_offsets":[2,4]}})",
      std::string("\x00\x3e\xc0\x3f", 4));
  const SafetensorsFile file(Path("m.safetensors"));
  EXPECT_EQ(file.Read(*file.Find("h")), std::vector<float>{1.5f});
  EXPECT_EQ(file.Read(*file.Find("b")), std::vector<float>{1.5f});
}

TEST_F(ModelFilesTest, WhatIsNoSafetensorsFileIsRefused) {
  std::ofstream(Path("empty")) << "";
  std::ofstream(Path("short")) << "abc";
  std::ofstream(Path("text")) << std::string(100, 'x');
  Put("no_json", "{\"a\":");
  Put("beyond", R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", "1234");
  Put("backwards", R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,0]}})", "1234");
  Put("huge", R"({"a":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,4]}})",
      "1234");
  Put("other_size", R"({"a":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}})", "12345678");
  Put("negative", R"({"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}})", "1234");
  Put("integers", R"({"a":{"dtype":"I64","shape":[1],"data_offsets":[0,8]}})", "12345678");
  Put("odd", R"({"a":7})");
  for (const char* name : {"empty", "short", "text", "no_json", "beyond", "backwards", "huge",
                           "other_size", "negative", "integers", "odd", "absent"}) {
    const std::string refusal = Refusal(name);
    EXPECT_EQ(refusal.rfind(Path(name), 0), 0u) << name << ": " << refusal;
    EXPECT_FALSE(OtherProgramsValues(Path(name), kShape));
  }
}

// Of each kind an element whose place follows from what PyTorch's GPT-2 does with it.
TEST(Gpt2Tensor, PutsEachElementWhereTransformersHasIt) {
  const auto tensor_of = [](size_t unit, size_t param) {
    return Gpt2Tensor(ModelUnits(kShape)[unit].params[param], kShape);
  };
  const auto numbered = [](size_t count) {
    std::vector<float> values(count);
    for (size_t i = 0; i < count; i++)
      values[i] = float(i);
    return values;
  };
  // Rows of ours: head 2, values (the third of three), element 1; theirs: columns, all values after
  // all keys.
  const Gpt2Tensor qkv = tensor_of(1, kQkv);
  EXPECT_EQ(qkv.name(), "h.0.attn.c_attn.weight");
  EXPECT_EQ(qkv.shape(), (std::vector<int64_t>{12, 36}));
  constexpr size_t kWidth = 12, kHead = 4, kRow = 2 * kWidth + 2 * kHead + 1, kInput = 5;
  EXPECT_EQ(qkv.ToTheirs(numbered(36 * kWidth))[kInput * 3 * kWidth + kRow],
            float(kRow * kWidth + kInput));
  EXPECT_EQ(tensor_of(2, kQkvBias).ToTheirs(numbered(36))[kRow], float(kRow));
  const Gpt2Tensor up = tensor_of(2, kUp);
  EXPECT_EQ(up.name(), "h.1.mlp.c_fc.weight");
  EXPECT_EQ(up.shape(), (std::vector<int64_t>{12, 48}));
  EXPECT_EQ(up.ToTheirs(numbered(48 * kWidth))[3 * 48 + 40], float(40 * kWidth + 3));
  const Gpt2Tensor down = tensor_of(2, kDown);
  EXPECT_EQ(down.shape(), (std::vector<int64_t>{48, 12}));
  EXPECT_EQ(down.ToTheirs(numbered(48 * kWidth)), numbered(48 * kWidth));
  const Gpt2Tensor wte = tensor_of(0, kTokens);
  EXPECT_EQ(wte.shape(), (std::vector<int64_t>{130, 12}));
  EXPECT_EQ(wte.ToOurs(numbered(130 * kWidth)).size(), 256 * kWidth);
  EXPECT_EQ(wte.ToOurs(numbered(130 * kWidth))[130 * kWidth], 0);
}

TEST(Gpt2Tensor, ThereAndBackChangesNothing) {
  std::set<std::string> names;
  for (const UnitSpec& unit : ModelUnits(kShape)) {
    for (const ParamSpec& spec : unit.params) {
      const Gpt2Tensor tensor(spec, kShape);
      EXPECT_TRUE(names.insert(tensor.name()).second) << tensor.name();
      std::vector<float> values(spec.Count());
      InitParam(spec, 3, names.size(), values.data());
      EXPECT_EQ(tensor.ToOurs(tensor.ToTheirs(values)), values) << tensor.name();
    }
  }
  EXPECT_EQ(names.size(), 2u + 2 * 12 + 3);
  EXPECT_TRUE(names.count("ln_f.bias") == 1 && names.count("lm_head.weight") == 1 &&
              names.count("h.1.ln_2.weight") == 1 && names.count("wpe.weight") == 1);
}

// Values that say which element of which parameter they are.
std::vector<float> Telling(const ParamSpec& spec) {
  std::vector<float> values(spec.Count());
  const size_t kept = values.size() - spec.padding_rows * (values.size() / size_t(spec.shape[0]));
  for (size_t i = 0; i < kept; i++)
    values[i] = float(std::hash<std::string>()(spec.name) % 1000) + float(i) / 65536;
  return values;
}

TEST_F(ModelFilesTest, WhatIsWrittenForLlmcIsRead) {
  ModelConfig model = kShape;
  model.tied_head = true;
  for (const NumberType type : {NumberType::kFloat32, NumberType::kBf16}) {
    WriteLlmc(Path("m.bin"), model, type, Telling);
    EXPECT_TRUE(LlmcFile::IsOne(Path("m.bin")));
    const LlmcFile file(Path("m.bin"));
    EXPECT_EQ(file.type(), type);
    EXPECT_EQ(file.model().heads, model.heads);
    EXPECT_EQ(ParameterCount(ModelUnits(file.model())), ParameterCount(ModelUnits(model)));
    file.CheckFor(model);
    for (const UnitSpec& unit : ModelUnits(model)) {
      for (const ParamSpec& spec : unit.params) {
        std::vector<float> expected = Telling(spec);
        if (type == NumberType::kBf16) {
          std::vector<uint16_t> halves(expected.size());
          GetOps<float>().to_bf16(expected.data(), halves.data(), halves.size());
          GetOps<float>().widen({halves.data(), type}, expected.data(), expected.size());
        }
        EXPECT_EQ(file.Read(spec, model), expected) << spec.name;
      }
    }
  }
}

TEST_F(ModelFilesTest, LlmcHasNoPlaceForAHeadOfItsOwn) {
  EXPECT_THROW(WriteLlmc(Path("m.bin"), kShape, NumberType::kFloat32, Telling), BadInput);
  EXPECT_FALSE(LlmcFile::IsOne(Path("m.bin")));
  EXPECT_FALSE(LlmcFile::IsOne(folder_));
}

// The first positions of a longer table, and as many tokens as there are, whatever rows the file
// has.
TEST_F(ModelFilesTest, AShorterContextTakesTheFirstPositionsOfLlmcs) {
  ModelConfig model = kShape;
  model.tied_head = true;
  model.vocabulary_multiple = 1;
  WriteLlmc(Path("m.bin"), model, NumberType::kFloat32, Telling);
  model.vocabulary_multiple = 128;
  model.seq = 4;
  const LlmcFile file(Path("m.bin"));
  file.CheckFor(model);
  const std::vector<UnitSpec> units = ModelUnits(model);
  for (const ParamSpec& spec : units[0].params)
    EXPECT_EQ(file.Read(spec, model), Telling(spec)) << spec.name;
  model.seq = 7;
  EXPECT_THROW(file.CheckFor(model), BadInput);
}

constexpr ModelConfig kLlamaShape = {.vocabulary = 130,
                                     .seq = 6,
                                     .width = 12,
                                     .layers = 2,
                                     .heads = 6,
                                     .tied_head = false,
                                     .architecture = Architecture::kLlama,
                                     .kv_heads = 3,
                                     .hidden = 20};

// Every element of every tensor stands in one place of ours, and back.
TEST(LlamaTensor, ThereAndBackChangesNothing) {
  std::set<std::string> names;
  for (const UnitSpec& unit : ModelUnits(kLlamaShape)) {
    for (const ParamSpec& spec : unit.params) {
      std::vector<float> values(spec.Count()), back(spec.Count(), 0);
      InitParam(spec, 3, names.size(), values.data());
      for (const LlamaTensor& tensor : LlamaTensorsOf(spec, kLlamaShape)) {
        EXPECT_TRUE(names.insert(tensor.name()).second) << tensor.name();
        tensor.ToOurs(tensor.ToTheirs(values), back);
      }
      EXPECT_EQ(back, values) << spec.name;
    }
  }
  EXPECT_EQ(names.size(), 1u + 2 * 9 + 2);
  EXPECT_TRUE(names.count("model.embed_tokens.weight") == 1 && names.count("lm_head.weight") == 1 &&
              names.count("model.layers.1.post_attention_layernorm.weight") == 1 &&
              names.count("model.norm.weight") == 1);
}

// Heads 4 and 5 of queries share head 2 of keys and values: rows 16 to 23 of ours.
TEST(LlamaTensor, PutsTheQueriesOfAGroupBeforeItsKeyAndValue) {
  const ParamSpec spec = ModelUnits(kLlamaShape)[2].params[kLlamaQkv];
  ASSERT_EQ(spec.shape, (std::vector<int64_t>{24, 12}));
  const std::vector<LlamaTensor> tensors = LlamaTensorsOf(spec, kLlamaShape);
  ASSERT_EQ(tensors.size(), 3u);
  EXPECT_EQ(tensors[0].name(), "model.layers.1.self_attn.q_proj.weight");
  EXPECT_EQ(tensors[0].shape(), (std::vector<int64_t>{12, 12}));
  EXPECT_EQ(tensors[2].shape(), (std::vector<int64_t>{6, 12}));
  std::vector<float> rows(spec.Count());
  for (size_t i = 0; i < rows.size(); i++) {
    const size_t row = i / 12;
    rows[i] = float(row);
  }
  const auto row_of = [&](size_t tensor, size_t row) {
    return tensors[tensor].ToTheirs(rows)[row * 12];
  };
  EXPECT_EQ(row_of(0, 2 * 4), 16);      // query head 4
  EXPECT_EQ(row_of(0, 2 * 5 + 1), 19);  // query head 5, its second number
  EXPECT_EQ(row_of(1, 2 * 2), 20);      // key head 2
  EXPECT_EQ(row_of(2, 2 * 2 + 1), 23);  // value head 2, its second number
}

}  // namespace
}  // namespace weft::trainer::model_files_test
