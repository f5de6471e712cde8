// Making groups as the C interface does it, in two steps: what is wrong with the arguments alone is found before anything is done that
// other ranks wait for.
//
// Thread-safety: any thread.
#pragma once

#include <memory>
#include <string_view>

#include "weft/group.h"
#include "weft/store.h"

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "comm/group/process_group.h"

namespace weft {

// Of weft_group_create_from_id. `group`: where the handle is to be put.
absl::Status CheckFromId(std::string_view call, const weft_unique_id_t* id, int size, int rank,
                         const weft_group_config_t* config, const weft_group_t* group,
                         GroupOptions* options);
absl::StatusOr<weft_group_t> MakeFromId(std::string_view call, const weft_unique_id_t& id, int size,
                                        int rank, const GroupOptions& options);

// Of weft_group_split. NULL for a rank of no part.
absl::Status CheckSplit(std::string_view call, weft_group_t parent, int color,
                        const weft_group_config_t* config, const weft_group_t* group,
                        GroupOptions* options);
absl::StatusOr<weft_group_t> MakeSplit(ProcessGroup& parent, int color, int key,
                                       const GroupOptions& options);

}  // namespace weft
