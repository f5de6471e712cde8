#include "shard/offload/load_uring.h"

#include "base/module.h"

namespace weft {
namespace {

constexpr ModuleName kUringModule = {"io_uring", "libweft_uring.so", "weft_uring_module",
                                     kUringModuleVersion, sizeof(UringModule)};

absl::StatusOr<const UringModule*> AsUring(const absl::StatusOr<const ModuleTable*>& table) {
  if (!table.ok()) return table.status();
  return reinterpret_cast<const UringModule*>(*table);
}

}  // namespace

absl::StatusOr<const UringModule*> LoadUringModule() {
  return AsUring(OpenModule(kUringModule));
}

absl::StatusOr<const UringModule*> LoadUringModuleFrom(const std::string& file) {
  return AsUring(OpenModuleFrom(kUringModule, file));
}

}  // namespace weft
