// The calls of checkpoint_files.h with one wrong argument each.
#include <string>

#include "tests/bindings/bad_input.h"

namespace weft::test {
namespace {

constexpr char kExport[] = "weft_checkpoint_export";
constexpr char kImport[] = "weft_checkpoint_import";

weft_checkpoint_export_config_t ExportConfig() {
  weft_checkpoint_export_config_t config = {};
  config.struct_size = sizeof(config);
  config.source = "nowhere";
  config.target = "model.safetensors";
  return config;
}

weft_checkpoint_import_config_t ImportConfig() {
  weft_checkpoint_import_config_t config = {};
  config.struct_size = sizeof(config);
  config.source = "nowhere.safetensors";
  config.directory = "nowhere";
  return config;
}

template <typename Config>
void AddSizeFaults(const char* function, const char* config_null, Config (*make)(),
                   weft_result_t (*call)(const Config*, weft_checkpoint_copied_t*),
                   std::vector<BadCall>* calls) {
  AddConfigFaults<Config>(function, calls,
                          [call](Bench&, const Config* config) { return call(config, nullptr); });
  calls->push_back({function, "config_NULL", WEFT_INVALID_ARGUMENT, config_null, [call](Bench&) {
                      return call(nullptr, nullptr);
                    }});
  for (const size_t struct_size : {size_t{0}, size_t{1}, size_t{40}, SIZE_MAX}) {
    calls->push_back({function, "answer_struct_size_" + std::to_string(struct_size),
                      WEFT_INVALID_ARGUMENT, "struct_size", [=](Bench&) {
                        return WithAnswer<weft_checkpoint_copied_t>(
                            struct_size, [=](weft_checkpoint_copied_t* copied) {
                              const Config config = make();
                              return call(&config, copied);
                            });
                      }});
  }
}

void AddExportFaults(std::vector<BadCall>* calls) {
  AddSizeFaults(kExport, "what is exported, and where to", ExportConfig, weft_checkpoint_export,
                calls);
  const auto add = [calls](const char* fault, const char* needle,
                           void (*change)(weft_checkpoint_export_config_t*)) {
    calls->push_back({kExport, fault, WEFT_INVALID_ARGUMENT, needle, [change](Bench&) {
                        weft_checkpoint_export_config_t config = ExportConfig();
                        change(&config);
                        return weft_checkpoint_export(&config, nullptr);
                      }});
  };
  static constexpr const char* kNames[] = {"a", nullptr, "a"};
  add("source_NULL", "source is NULL", [](auto* config) { config->source = nullptr; });
  add("source_empty", "source is NULL or empty", [](auto* config) { config->source = ""; });
  add("target_NULL", "target is NULL", [](auto* config) { config->target = nullptr; });
  add("target_empty", "target is NULL or empty", [](auto* config) { config->target = ""; });
  add("a_source_without_checkpoints", "there is no checkpoint in nowhere", [](auto*) {});
  add("floats_as_integers", "floats_as is 2", [](auto* config) { config->floats_as = WEFT_INT32; });
  add("floats_as_no_type", "floats_as is 12",
      [](auto* config) { config->floats_as = static_cast<weft_dtype_t>(12); });
  add("names_NULL", "names or file_names is NULL", [](auto* config) {
    config->file_names = kNames;
    config->name_count = 1;
  });
  add("file_names_NULL", "names or file_names is NULL", [](auto* config) {
    config->names = kNames;
    config->name_count = 1;
  });
  add("a_name_NULL", "names[1] is NULL", [](auto* config) {
    config->names = config->file_names = kNames;
    config->name_count = 2;
  });
  add("a_name_twice", "names has a twice", [](auto* config) {
    static constexpr const char* kTwice[] = {"a", "a"};
    config->names = kTwice;
    config->file_names = kNames;
    config->name_count = 2;
  });
}

void AddImportFaults(std::vector<BadCall>* calls) {
  AddSizeFaults(kImport, "what is imported, and where to", ImportConfig, weft_checkpoint_import,
                calls);
  const auto add = [calls](const char* fault, weft_result_t result, const char* needle,
                           void (*change)(weft_checkpoint_import_config_t*)) {
    calls->push_back({kImport, fault, result, needle, [change](Bench&) {
                        weft_checkpoint_import_config_t config = ImportConfig();
                        change(&config);
                        return weft_checkpoint_import(&config, nullptr);
                      }});
  };
  add("source_NULL", WEFT_INVALID_ARGUMENT, "source is NULL",
      [](auto* config) { config->source = nullptr; });
  add("source_empty", WEFT_INVALID_ARGUMENT, "source is NULL or empty",
      [](auto* config) { config->source = ""; });
  add("directory_NULL", WEFT_INVALID_ARGUMENT, "directory is NULL",
      [](auto* config) { config->directory = nullptr; });
  add("directory_empty", WEFT_INVALID_ARGUMENT, "directory is NULL or empty",
      [](auto* config) { config->directory = ""; });
  add("step_below_0", WEFT_INVALID_ARGUMENT, "step is -1", [](auto* config) { config->step = -1; });
  add("step_above_2_53", WEFT_INVALID_ARGUMENT, "step is 9007199254740993",
      [](auto* config) { config->step = (int64_t{1} << 53) + 1; });
  add("a_source_that_is_not_there", WEFT_SYSTEM_ERROR, "nowhere.safetensors", [](auto*) {});
  add("a_source_that_is_no_file", WEFT_SYSTEM_ERROR, "/dev/null",
      [](auto* config) { config->source = "/dev/null"; });
}

}  // namespace

std::vector<BadCall> BadCheckpointFilesCalls() {
  std::vector<BadCall> calls;
  AddExportFaults(&calls);
  AddImportFaults(&calls);
  return calls;
}

}  // namespace weft::test
