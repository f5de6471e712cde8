// A reduction by a function, made in one line.
#pragma once

#include "weft/op.h"

namespace weft {

inline weft_result_t CreateUserOp(weft_user_op_t function, void* user, const char* name,
                                  weft_op_t* op, size_t element_count = 0) {
  const weft_user_op_config_t config = {.struct_size = sizeof(config),
                                        .function = function,
                                        .user = user,
                                        .name = name,
                                        .element_count = element_count};
  return weft_op_create_user(&config, op);
}

}  // namespace weft
