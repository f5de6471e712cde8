// What PyTorch made of the trainer's model: the files of tests/trainer/golden, whose README.md describes them.
//
//   const Golden golden = ReadGolden("bytes");
//   const std::vector<float> start = golden.Initial(param);          // params count from 0, in the order of ModelUnits
//   const GoldenBatch batch = golden.Batch(step);
//
// Thread-safety: a value.
#ifndef WEFT_TESTS_TRAINER_GOLDEN_FILE_H_
#define WEFT_TESTS_TRAINER_GOLDEN_FILE_H_

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "trainer/config.h"
#include "trainer/random.h"
#include "trainer/tokenizer/token.h"

namespace weft::trainer {

struct GoldenBatch {
  std::vector<Token> inputs, targets;  // [batch, seq]
};

struct Golden {
  struct Param {
    std::string name;
    std::vector<int64_t> shape;
    double mean = 0;
    std::vector<float> grad;   // of the first step, before clipping
    std::vector<float> after;  // the value after the last step

    // What torch has; rows of the token table that the trainer has beyond that are 0 here.
    size_t Count() const {
      size_t count = 1;
      for (const int64_t n : shape)
        count *= size_t(n);
      return count;
    }
  };

  TrainConfig config;  // with its global batch
  std::vector<Param> params;
  std::vector<double> rates, losses, norms;  // by step

  // mean + k / 2^25 with a random k in [-2^23, 2^23).
  std::vector<float> Initial(size_t param) const {
    std::vector<float> values(params[param].grad.size());
    for (size_t i = 0; i < params[param].Count(); i++) {
      const auto k = int64_t(Mix(Mix(param) + i) >> 40) - (int64_t{1} << 23);
      values[i] = float(params[param].mean + double(k) * 0x1p-25);
    }
    return values;
  }

  // Windows of seq + 1 random tokens.
  GoldenBatch Batch(size_t step) const {
    constexpr uint64_t kFirstKey = 1000;
    const size_t seq = config.model.seq;
    GoldenBatch batch;
    for (size_t b = 0; b < config.global_batch; b++) {
      for (size_t t = 0; t <= seq; t++) {
        const uint64_t bits = Mix(Mix(kFirstKey + step) + b * (seq + 1) + t);
        const auto token = Token(bits % config.model.vocabulary);
        if (t < seq) batch.inputs.push_back(token);
        if (t > 0) batch.targets.push_back(token);
      }
    }
    return batch;
  }
};

// Of `name`.json and .f32 in the folder that TRAINER_GOLDEN names.
inline Golden ReadGolden(const std::string& name) {
  const char* folder = std::getenv("TRAINER_GOLDEN");
  if (folder == nullptr) throw std::runtime_error("set TRAINER_GOLDEN to tests/trainer/golden");
  const std::string path = std::string(folder) + "/" + name;
  std::ifstream text(path + ".json");
  const nlohmann::json about = nlohmann::json::parse(text);
  Golden golden;
  const auto& model = about["model"];
  golden.config.model = {model["vocabulary"], model["seq"], model["width"], model["layers"],
                         model["heads"]};
  golden.config.global_batch = model["batch"];
  golden.config.grad_clip = about["clip"];
  golden.config.beta1 = about["adamw"]["beta1"];
  golden.config.beta2 = about["adamw"]["beta2"];
  golden.config.epsilon = about["adamw"]["epsilon"];
  golden.config.weight_decay = about["adamw"]["weight_decay"];
  golden.rates = about["rates"].get<std::vector<double>>();
  golden.losses = about["losses"].get<std::vector<double>>();
  golden.norms = about["norms"].get<std::vector<double>>();
  std::ifstream numbers(path + ".f32", std::ios::binary);
  const auto take = [&](size_t count) {
    std::vector<float> values(count);
    numbers.read(reinterpret_cast<char*>(values.data()), std::streamsize(count * sizeof values[0]));
    if (!numbers) throw std::runtime_error(path + ".f32: too short");
    return values;
  };
  for (const auto& param : about["params"]) {
    golden.params.push_back({param["name"], param["shape"], param["mean"], {}, {}});
    golden.params.back().grad = take(golden.params.back().Count());
  }
  for (Golden::Param& param : golden.params)
    param.after = take(param.Count());
  for (std::vector<float>* values : {&golden.params[0].grad, &golden.params[0].after})
    values->resize(golden.config.model.padded_vocabulary() * golden.config.model.width);
  return golden;
}

}  // namespace weft::trainer

#endif  // WEFT_TESTS_TRAINER_GOLDEN_FILE_H_
