// weft_train export: a run's model as a folder of transformers, which loads it as GPT2LMHeadModel.
//
//   weft_train export --from runs/a --out gpt2-mine
//
// Needs no ranks. Thread-safety: pure but for files.
#ifndef WEFT_TRAINER_MODEL_FILES_EXPORT_H_
#define WEFT_TRAINER_MODEL_FILES_EXPORT_H_

#include <string>

namespace weft::trainer {

struct ExportConfig {
  std::string from;  // a run's directory, that of its checkpoints, or of one
  std::string out;   // the folder to be made
};

// The text of --help, or "". Throws BadInput.
std::string ParseExportOptions(int argc, char** argv, ExportConfig& config);

// What is printed. Throws BadInput, NotWritten and RunFailure.
std::string RunExport(const ExportConfig& config);

}  // namespace weft::trainer

#endif  // WEFT_TRAINER_MODEL_FILES_EXPORT_H_
