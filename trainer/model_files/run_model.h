// The model of a run of weft_train, as its folder says.
//
//   const RunModel run = ReadRunModel("runs/a", "--from");       // or of one of its checkpoints
//   ModelUnits(run.model) ...
//
// Thread-safety: pure but for reading files.
#ifndef WEFT_TRAINER_MODEL_FILES_RUN_MODEL_H_
#define WEFT_TRAINER_MODEL_FILES_RUN_MODEL_H_

#include <string>
#include <vector>

#include "trainer/model_units.h"
#include "trainer/number_type.h"

namespace weft::trainer {

struct RunModel {
  ModelConfig model;
  NumberType param_type = NumberType::kFloat32;
  std::vector<std::string> data;  // as --data had it
  bool bytes = false;             // its tokens are bytes of text
};

// Of a run's directory, that of its checkpoints, or of one: by the nearest config.json of
// weft_train, there or above. Throws BadInput, which begins with `option` and the path.
RunModel ReadRunModel(const std::string& path, const std::string& option);

// Whether there is such a config.json.
bool IsOfRun(const std::string& path);

}  // namespace weft::trainer

#endif  // WEFT_TRAINER_MODEL_FILES_RUN_MODEL_H_
