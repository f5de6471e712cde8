// weft_train export: a run's model as a folder of transformers, which loads it as GPT2LMHeadModel
// or LlamaForCausalLM, or as llm.c's file of weights.
//
//   weft_train export --from runs/a --out gpt2-mine
//   weft_train export --from runs/a --out mine.bin --format llm.c --dtype bf16
//
// Needs no ranks. Thread-safety: pure but for files.
#ifndef WEFT_TRAINER_MODEL_FILES_EXPORT_H_
#define WEFT_TRAINER_MODEL_FILES_EXPORT_H_

#include <string>

namespace weft::trainer {

struct ExportConfig {
  std::string from;  // a run's directory, that of its checkpoints, or of one
  std::string out;   // the folder to be made; of llm.c the file
  bool llmc = false;
  bool bf16 = false;  // of llm.c; else float32
};

// The text of --help, or "". Throws BadInput.
std::string ParseExportOptions(int argc, char** argv, ExportConfig& config);

// What is printed. Throws BadInput, NotWritten and RunFailure.
std::string RunExport(const ExportConfig& config);

}  // namespace weft::trainer

#endif  // WEFT_TRAINER_MODEL_FILES_EXPORT_H_
