/* Devices: how many there are, and what is known of them.
 *
 *   int32_t count = 0;
 *   if (weft_device_count(WEFT_DEVICE_CUDA, &count) != WEFT_SUCCESS) ...   // weft_last_error() says what is missing
 *   weft_device_info_t info = {.struct_size = sizeof info};
 *   weft_device_info(WEFT_DEVICE_CUDA, 0, &info);
 *
 * Devices are numbered as CUDA numbers them in this process: 0 is the first one, and CUDA_VISIBLE_DEVICES hides and
 * reorders them. weft links nothing of CUDA's. It opens the driver, libcuda.so.1 (WEFT_CUDA_LIBRARY), when a device is wanted
 * first: by the functions here, and by weft_mem_alloc_on (mem.h). A process that has opened it must not use devices in
 * children that it forks; there these calls are FORKED.
 *
 * What weft does with devices as yet: memory (mem.h, dlpack.h). Groups of device memory are UNSUPPORTED.
 */
#ifndef WEFT_DEVICE_H_
#define WEFT_DEVICE_H_

#include "weft/types.h"

WEFT_BEGIN_DECLS

/* How many devices of a kind the process may use. Makes no context. Errors: INVALID_ARGUMENT (count is NULL, not
 * WEFT_DEVICE_CUDA), UNSUPPORTED (no driver, or it finds no device; the sentence says what was looked for and where), DEVICE_ERROR,
 * FORKED. Any thread. */
WEFT_EXPORT weft_result_t weft_device_count(weft_device_kind_t kind, int32_t* count);

/* Bits of weft_device_info_t::flags. */
#define WEFT_DEVICE_VIRTUAL_MEMORY 1u    /* memory is mapped (cuMemMap) */
#define WEFT_DEVICE_POSIX_DESCRIPTORS 2u /* and has descriptors, by which other processes map it */

/* One device. */
typedef struct weft_device_info {
  size_t struct_size;    /* set by the caller: sizeof(weft_device_info_t) */
  char name[128];        /* "NVIDIA H100 80GB HBM3" */
  char bus_id[32];       /* "0000:19:00.0" */
  char uuid[48];         /* "GPU-" and 32 digits, as nvidia-smi -L has it */
  uint64_t total_bytes;  /* of its memory */
  int32_t device;        /* its ordinal, also where WEFT_DEVICE_CURRENT was asked for */
  int32_t compute_major; /* 9 of compute capability 9.0 */
  int32_t compute_minor;
  int32_t multiprocessors;
  int32_t driver_version; /* 13000: the driver is that of CUDA 13.0 */
  uint32_t flags;         /* WEFT_DEVICE_* */
} weft_device_info_t;

/* What is known of a device, or of the thread's current one (WEFT_DEVICE_CURRENT). Makes no context. Errors:
 * INVALID_ARGUMENT (no such device, no current one), and those of weft_device_count. Any thread. */
WEFT_EXPORT weft_result_t weft_device_info(weft_device_kind_t kind, int32_t device,
                                           weft_device_info_t* info);

WEFT_END_DECLS

#endif /* WEFT_DEVICE_H_ */
