#include "trainer/configuration/keys_page.h"

#include <span>

#include <fmt/core.h>

#include "trainer/configuration/keys.h"
#include "trainer/option_table.h"

namespace weft::trainer {
namespace {

constexpr char kIntroduction[] =
    R"(# Configuration files of weft_train

Made by `weft_train config --keys` from the tables in trainer/configuration/ and trainer/option_table.cc.

    weftrun -n 2 weft_train --config ds.json                                  # DeepSpeed's file, as it is
    weftrun -n 2 weft_train --config ds.json --zero_optimization.stage 3      # one of its keys
    weft_train config --config ds.json --ranks 2                              # what it comes to; nothing is trained

`--config` takes one file, JSON or YAML, with DeepSpeed's keys, with Accelerate's and FSDP's, or with the options
of `weft_train` by their names. A run prints two lists before it begins: the keys that are in force, with the
options that they are here, and those that change nothing, each with the reason. A key that nobody knows is an
error with the nearest name, and so is a value of another type: `"stage": "3"` is text.

- What is given more than once: an option of the command line beats a key of the command line, which beats the
  file. In a file the options of `weft_train` beat the keys of others, and a scheduler's rate an optimizer's.
- `"auto"` leaves a key to the program, `null` is as if it were not there.
- The batch: `train_batch_size` = `train_micro_batch_size_per_gpu` x `gradient_accumulation_steps` x ranks. Any
  two give the third, and one gives the others their least. All three must fit; the error names the nearest
  numbers that do. Without a size of micro-batches the batch need not divide: each micro-batch of each rank
  gets as many sequences as the others, or one less.
- `config.json` of a run is such a file: a run with `--config runs/NAME/config.json` has the same options.
- An Accelerate file may name DeepSpeed's in `deepspeed_config.deepspeed_config_file`; it is read, too.
)";

// A cell of a table.
std::string Cell(std::string text) {
  for (size_t at = 0; (at = text.find('|', at)) != std::string::npos; at += 2)
    text.insert(at, "\\");
  return text;
}

std::string OptionRows() {
  std::string out = "\n## Options of weft_train\n| key | default | meaning |\n|---|---|---|\n";
  ProgramConfig config;
  ChooseDefaults(config);
  for (const ResolvedOption& option : ResolvedOptions(config)) {
    if (option.key == "config") continue;
    out += fmt::format("| `{}` | {} | {} |\n", option.key,
                       option.preset.empty() ? "-" : Cell(option.preset), Cell(option.meaning));
  }
  return out;
}

std::string KeyRows(const char* heading, std::span<const ConfigKey> keys) {
  std::string out =
      fmt::format("\n## {}\n| key | takes | option | here |\n|---|---|---|---|\n", heading);
  for (const ConfigKey& key : keys) {
    const bool option = key.role == ConfigKey::Role::kOption || key.role == ConfigKey::Role::kOwn;
    const bool always = key.role == ConfigKey::Role::kAlways;
    out += fmt::format("| `{}` | {} | {} | {}{} |\n", key.name, NameOf(key.takes),
                       option && *key.detail ? fmt::format("`{}`", key.detail) : "-",
                       always ? fmt::format("always {}: ", key.detail) : "", Cell(key.meaning));
  }
  return out;
}

}  // namespace

std::string ConfigKeysPage() {
  return kIntroduction + OptionRows() + KeyRows("DeepSpeed", DeepSpeedKeys()) +
         KeyRows("DeepSpeed: zero_optimization", DeepSpeedZeroKeys()) +
         KeyRows("Accelerate and FSDP", AccelerateKeys());
}

}  // namespace weft::trainer
