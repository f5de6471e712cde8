#include "weft/device.h"

#include <string>

#include "base/status.h"
#include "base/text.h"
#include "bindings/c/guard.h"
#include "bindings/c/struct_size.h"
#include "comm/device/driver/device.h"

namespace weft {
namespace {

absl::Status CheckCuda(const char* call, weft_device_kind_t kind) {
  if (kind == WEFT_DEVICE_CUDA) return absl::OkStatus();
  return InvalidArgument(call, StrCat("kind is ", static_cast<int>(kind), "; devices are of kind ",
                                      static_cast<int>(WEFT_DEVICE_CUDA), ", CUDA"));
}

// As nvidia-smi writes it: GPU-8a3f..., with hyphens after 4, 6, 8 and 10 bytes.
std::string UuidText(const cuda::Uuid& uuid) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text = "GPU-";
  for (size_t i = 0; i < sizeof(uuid.bytes); ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    const auto byte = static_cast<unsigned char>(uuid.bytes[i]);
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

absl::StatusOr<weft_device_info_t> InfoOf(int32_t device) {
  WEFT_ASSIGN_OR_RETURN(const Driver* const driver, OpenDriver());
  WEFT_ASSIGN_OR_RETURN(const DeviceFacts facts, ReadDeviceFacts(device));
  weft_device_info_t info = {};
  CopyText(info.name, facts.name);
  CopyText(info.bus_id, facts.bus_id);
  CopyText(info.uuid, UuidText(facts.uuid));
  info.total_bytes = facts.total_bytes;
  info.device = facts.ordinal;
  info.compute_major = facts.compute_major;
  info.compute_minor = facts.compute_minor;
  info.multiprocessors = facts.multiprocessors;
  info.driver_version = driver->version;
  info.flags = (facts.virtual_memory ? WEFT_DEVICE_VIRTUAL_MEMORY : 0u) |
               (facts.posix_descriptors ? WEFT_DEVICE_POSIX_DESCRIPTORS : 0u);
  return info;
}

}  // namespace
}  // namespace weft

weft_result_t weft_device_count(weft_device_kind_t kind, int32_t* count) {
  return weft::Guarded([&]() -> absl::Status {
    constexpr const char* kCall = "weft_device_count";
    WEFT_RETURN_IF_ERROR(weft::CheckCuda(kCall, kind));
    if (count == nullptr) return weft::InvalidArgument(kCall, "count is NULL");
    const absl::StatusOr<int32_t> found = weft::CountDevices();
    if (!found.ok()) return weft::Annotate(found.status(), "weft_device_count: ");
    *count = *found;
    return absl::OkStatus();
  });
}

weft_result_t weft_device_info(weft_device_kind_t kind, int32_t device, weft_device_info_t* info) {
  return weft::Guarded([&]() -> absl::Status {
    constexpr const char* kCall = "weft_device_info";
    WEFT_RETURN_IF_ERROR(weft::CheckCuda(kCall, kind));
    if (info == nullptr) return weft::InvalidArgument(kCall, "info is NULL");
    WEFT_RETURN_IF_ERROR(weft::CheckAnswer(kCall, info));
    const absl::StatusOr<weft_device_info_t> found = weft::InfoOf(device);
    if (!found.ok()) return weft::Annotate(found.status(), "weft_device_info: ");
    weft::WriteAnswer(*found, info);
    return absl::OkStatus();
  });
}
