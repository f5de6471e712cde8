"""The C interface as ctypes sees it: structs, constants, and the types of all functions. Made from include/weft by `./dev docs`.

Nothing is loaded here: `Functions` binds a function of a loaded library when it is first asked for.
"""
# fmt: off
from __future__ import annotations

import ctypes
from ctypes import (CFUNCTYPE, Structure, c_char, c_char_p, c_double, c_float, c_int, c_int32, c_int64, c_size_t, c_uint32, c_uint64, c_void_p)
from typing import TYPE_CHECKING, Any, Union

if TYPE_CHECKING:
    # An address, byref() of an object, an array of them, or None for NULL.
    Pointer = Union[int, c_void_p, ctypes.Array[Any], "ctypes._CArgObject", None]

# types.h
WEFT_SUCCESS = 0
WEFT_DEVICE_ERROR = 1
WEFT_SYSTEM_ERROR = 2
WEFT_INTERNAL_ERROR = 3
WEFT_INVALID_ARGUMENT = 4
WEFT_INVALID_USAGE = 5
WEFT_REMOTE_ERROR = 6
WEFT_IN_PROGRESS = 7
WEFT_TIMEOUT = 100
WEFT_MISMATCH = 101
WEFT_PEER_LOST = 102
WEFT_UNREACHABLE = 103
WEFT_ABORTED = 104
WEFT_UNSUPPORTED = 105
WEFT_OUT_OF_MEMORY = 106
WEFT_CORRUPT = 107
WEFT_BAD_STATE = 108
WEFT_NO_QUORUM = 109
WEFT_AUTH_FAILED = 110
WEFT_FORKED = 111
WEFT_INTERRUPTED = 112
WEFT_INT8 = 0
WEFT_UINT8 = 1
WEFT_INT32 = 2
WEFT_UINT32 = 3
WEFT_INT64 = 4
WEFT_UINT64 = 5
WEFT_FLOAT16 = 6
WEFT_FLOAT32 = 7
WEFT_FLOAT64 = 8
WEFT_BFLOAT16 = 9
WEFT_FLOAT8_E4M3 = 10
WEFT_FLOAT8_E5M2 = 11
WEFT_BOOL = 100
WEFT_SUM = 0
WEFT_PROD = 1
WEFT_MAX = 2
WEFT_MIN = 3
WEFT_AVG = 4
WEFT_BIT_AND = 100
WEFT_BIT_OR = 101
WEFT_BIT_XOR = 102
WEFT_MIN_LOC = 103
WEFT_MAX_LOC = 104
WEFT_OP_CUSTOM_FIRST = 1024
WEFT_OP_CUSTOM_LAST = 0x7fffffff
WEFT_DEVICE_HOST = 0
WEFT_DEVICE_CUDA = 1
WEFT_DEVICE_CURRENT = -1
WEFT_NUMERICS_CANONICAL = 0
WEFT_NUMERICS_FAST = 1
WEFT_CALL_WIRE_DTYPE = 1
WEFT_CALL_BACKGROUND = 2
WEFT_CALL_STREAM = 4
WEFT_CALL_STRICT_ALGORITHM = 8


class weft_call_t(Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("timeout_ns", c_int64),
        ("algorithm", c_char_p),
        ("fields", c_uint32),
        ("wire_dtype", c_int),
        ("numerics", c_int),
        ("priority", c_int32),
        ("tag", c_uint64),
        ("stream", c_void_p),
    ]


# store.h
WEFT_UNIQUE_ID_BYTES = 128


class weft_unique_id_t(Structure):
    _fields_ = [
        ("internal", c_char * WEFT_UNIQUE_ID_BYTES),
    ]


class weft_store_callbacks_t(Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("user", c_void_p),
        ("set", CFUNCTYPE(c_int, c_void_p, c_char_p, c_void_p, c_size_t)),
        ("get", CFUNCTYPE(c_int, c_void_p, c_char_p, c_void_p, c_void_p, c_int64)),
        ("add", CFUNCTYPE(c_int, c_void_p, c_char_p, c_int64, c_void_p)),
        ("remove", CFUNCTYPE(c_int, c_void_p, c_char_p)),
        ("release_user", CFUNCTYPE(None, c_void_p)),
    ]


# group.h
class weft_group_config_t(Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("name", c_char_p),
        ("timeout_ns", c_int64),
        ("init_timeout_ns", c_int64),
        ("device_kind", c_int),
        ("device", c_int32),
        ("store", c_void_p),
    ]

WEFT_COLOR_NONE = -1
WEFT_NEW_RANK = -1


class weft_group_stats_t(Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("collectives", c_uint64),
        ("messages", c_uint64),
        ("failures", c_uint64),
        ("in_bytes", c_uint64),
        ("out_bytes", c_uint64),
        ("pending", c_uint64),
        ("wait_ns", c_int64),
        ("shared_bytes", c_uint64),
        ("private_bytes", c_uint64),
        ("node_messages", c_uint64),
        ("node_bytes", c_uint64),
        ("net_messages", c_uint64),
        ("net_bytes", c_uint64),
    ]


# mesh.h
WEFT_MESH_AXES_MAX = 6


class weft_mesh_config_t(Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("axis_count", c_int),
        ("axis_names", c_char_p * WEFT_MESH_AXES_MAX),
        ("axis_sizes", c_int * WEFT_MESH_AXES_MAX),
    ]


# shard_memory.h
WEFT_SHARD_TIER_PARAMS = 0
WEFT_SHARD_TIER_GRADIENTS = 1
WEFT_SHARD_TIER_OPTIMIZER = 2
WEFT_SHARD_TIER_POOL = 3


class weft_shard_allocator_t(Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("allocate", CFUNCTYPE(c_void_p, c_size_t, c_size_t, c_int, c_void_p)),
        ("release", CFUNCTYPE(None, c_void_p, c_size_t, c_int, c_void_p)),
        ("user", c_void_p),
        ("release_user", CFUNCTYPE(None, c_void_p)),
    ]


# shard_offload.h
class weft_shard_offload_t(Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("directory", c_char_p),
        ("buffer_bytes", c_size_t),
        ("params", c_int),
    ]


# shard_policy.h
WEFT_SHARD_NO_SHARD = 0
WEFT_SHARD_ZERO1 = 1
WEFT_SHARD_ZERO2 = 2
WEFT_SHARD_GRAD_OP = 3
WEFT_SHARD_FULL_SHARD = 4
WEFT_SHARD_HYBRID_SHARD = 5
WEFT_SHARD_HPZ = 6
WEFT_SHARD_FRACTION = 7
WEFT_SHARD_CUT_FLAT = 0
WEFT_SHARD_CUT_BLOCK = 1
WEFT_SHARD_CUT_TENSOR = 2
WEFT_SHARD_WIRE_GRADIENTS = 0
WEFT_SHARD_WIRE_BFLOAT16 = 1
WEFT_SHARD_WIRE_FLOAT16 = 2
WEFT_SHARD_PLACE_BY_PRESET = 0
WEFT_SHARD_PLACE_WHOLE = 1
WEFT_SHARD_PLACE_SHARDED = 2
WEFT_SHARD_PLACE_SHARDED_INNER = 3


class weft_shard_policy_t(Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("preset", c_int),
        ("cut", c_int),
        ("cut_rows", c_int64),
        ("float32_gradients", c_int),
        ("wire", c_int),
        ("params", c_int),
        ("between", c_int),
        ("gradients", c_int),
        ("optimizer", c_int),
    ]


# shard.h
WEFT_SHARD_LOCAL_THEN_REDUCE = 0
WEFT_SHARD_REDUCE_EVERY = 1
WEFT_SHARD_INNER_EVERY_OUTER_LAST = 2
WEFT_SHARD_VIEWS_MOVE = 0
WEFT_SHARD_VIEWS_STABLE = 1
WEFT_SHARD_VIEWS_APART = 2
WEFT_SHARD_PREFETCH = 1
WEFT_SHARD_VERIFY_STEPS = 2


class weft_shard_config_t(Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("bucket_bytes", c_size_t),
        ("first_bucket_bytes", c_size_t),
        ("accumulation", c_int),
        ("no_overlap", c_int),
        ("no_average", c_int),
        ("timeout_ns", c_int64),
        ("prefetch", c_int),
        ("microbatches", c_int),
        ("memory_budget_bytes", c_size_t),
        ("uneven", c_int),
        ("allocator", c_void_p),
        ("poison", c_int),
        ("verify_steps", c_int64),
        ("fields", c_uint32),
        ("stable_views", c_int),
        ("offload", c_void_p),
    ]


class weft_shard_settings_t(Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("prefetch", c_int),
        ("fields", c_uint32),
        ("verify_steps", c_int64),
    ]

WEFT_SHARD_PARAM_FROZEN = 1
WEFT_SHARD_PARAM_NO_DECAY = 2
WEFT_SHARD_PARAM_WRITES_GRAD = 4
WEFT_SHARD_PARAM_NOT_COUNTED = 8
WEFT_SHARD_DIMS_MAX = 32


class weft_shard_param_config_t(Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("name", c_char_p),
        ("shape", c_void_p),
        ("ndim", c_int),
        ("dtype", c_int),
        ("flags", c_uint32),
    ]


class weft_shard_view_t(Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("data", c_void_p),
        ("grad", c_void_p),
        ("count", c_size_t),
        ("dtype", c_int),
        ("grad_dtype", c_int),
        ("grad_unset", c_int),
    ]


class weft_shard_part_t(Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("data", c_void_p),
        ("grad", c_void_p),
        ("begin", c_size_t),
        ("count", c_size_t),
        ("dtype", c_int),
        ("grad_dtype", c_int),
    ]

WEFT_SHARD_EVERY_RANK = -1


class weft_shard_load_t(Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("values", c_void_p),
        ("root", c_int),
        ("stream", c_void_p),
    ]


class weft_shard_read_t(Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("values", c_void_p),
        ("root", c_int),
        ("stream", c_void_p),
    ]


# checkpoint.h
WEFT_CHECKPOINT_WARN = 0
WEFT_CHECKPOINT_REFUSE = 1


class weft_checkpoint_config_t(Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("directory", c_char_p),
        ("keep_last", c_int64),
        ("keep_every", c_int64),
        ("timeout_ns", c_int64),
        ("config", c_char_p),
        ("not_loaded", c_int),
    ]


class weft_checkpoint_tensor_t(Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("name", c_char_p),
        ("shape", c_void_p),
        ("ndim", c_int),
        ("dtype", c_int),
        ("begin", c_size_t),
        ("count", c_size_t),
        ("data", c_void_p),
    ]

WEFT_CHECKPOINT_PER_RANK = 1


class weft_checkpoint_value_t(Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("name", c_char_p),
        ("flags", c_uint32),
        ("save", CFUNCTYPE(c_int, c_void_p, c_void_p, c_void_p)),
        ("load", CFUNCTYPE(c_int, c_void_p, c_void_p, c_size_t)),
        ("user", c_void_p),
    ]


class weft_checkpoint_save_config_t(Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("step", c_int64),
        ("background", c_int),
        ("in_place", c_int),
    ]

WEFT_CHECKPOINT_VALUES_ONLY = 1
WEFT_CHECKPOINT_STEP = 2
WEFT_CHECKPOINT_WHOLE = 4
WEFT_CHECKPOINT_PARTIAL = 8
WEFT_CHECKPOINT_CONVERT = 16


class weft_checkpoint_load_config_t(Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("flags", c_uint32),
        ("step", c_int64),
        ("source", c_char_p),
        ("names", c_void_p),
        ("saved_names", c_void_p),
        ("name_count", c_size_t),
    ]


class weft_checkpoint_loaded_t(Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("found", c_int),
        ("ranks", c_int),
        ("step", c_int64),
        ("path", c_char_p),
        ("unused", c_void_p),
        ("unused_count", c_size_t),
        ("kept", c_void_p),
        ("kept_count", c_size_t),
    ]


# checkpoint_files.h
class weft_checkpoint_copied_t(Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("step", c_int64),
        ("tensor_count", c_size_t),
        ("value_bytes", c_size_t),
        ("file_count", c_size_t),
        ("checkpoint", c_char_p),
    ]


class weft_checkpoint_export_config_t(Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("source", c_char_p),
        ("target", c_char_p),
        ("shard_bytes", c_size_t),
        ("floats_as", c_int),
        ("names", c_void_p),
        ("file_names", c_void_p),
        ("name_count", c_size_t),
    ]


class weft_checkpoint_import_config_t(Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("source", c_char_p),
        ("directory", c_char_p),
        ("step", c_int64),
    ]


# completion_queue.h
class weft_completion_queue_config_t(Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("idle_timeout_ns", c_int64),
    ]


class weft_completion_t(Structure):
    _fields_ = [
        ("token", c_uint64),
        ("result", c_int),
        ("reserved", c_int32),
        ("message", c_char_p),
    ]


# device.h
WEFT_DEVICE_VIRTUAL_MEMORY = 1
WEFT_DEVICE_POSIX_DESCRIPTORS = 2


class weft_device_info_t(Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("name", c_char * 128),
        ("bus_id", c_char * 32),
        ("uuid", c_char * 48),
        ("total_bytes", c_uint64),
        ("device", c_int32),
        ("compute_major", c_int32),
        ("compute_minor", c_int32),
        ("multiprocessors", c_int32),
        ("driver_version", c_int32),
        ("flags", c_uint32),
    ]


# dlpack.h
WEFT_TENSOR_DIMS_MAX = 32


class weft_tensor_t(Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("data", c_void_p),
        ("shape", c_void_p),
        ("ndim", c_int),
        ("dtype", c_int),
        ("read_only", c_int),
    ]


# error.h
class weft_error_info_t(Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("result", c_int),
        ("rank", c_int32),
        ("pid", c_int32),
        ("signal", c_int32),
        ("exit_code", c_int32),
        ("sequence", c_int64),
        ("host", c_char * 64),
        ("group", c_char * 64),
        ("operation", c_char * 32),
        ("world_rank", c_int32),
        ("unit", c_char * 64),
        ("param", c_char * 64),
        ("device", c_int32),
        ("device_code", c_int32),
    ]


# explain.h
class weft_explain_query_t(Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("operation", c_char_p),
        ("count", c_size_t),
        ("dtype", c_int),
        ("op", c_int),
        ("symmetric", c_int),
        ("algorithm", c_char_p),
        ("fields", c_uint32),
    ]


# interrupt.h
weft_interrupt_check_t = CFUNCTYPE(c_int, c_void_p)

# iov.h
WEFT_IOV_PARTS_MAX = 65536


class weft_iov_t(Structure):
    _fields_ = [
        ("in", c_void_p),
        ("out", c_void_p),
        ("count", c_size_t),
    ]


# log.h
WEFT_LOG_ERROR = 0
WEFT_LOG_WARN = 1
WEFT_LOG_INFO = 2
WEFT_LOG_DEBUG = 3
weft_log_callback_t = CFUNCTYPE(None, c_int, c_char_p, c_void_p)

# mem.h
WEFT_MEM_PINNED = 1


class weft_mem_config_t(Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("bytes", c_size_t),
        ("flags", c_uint32),
        ("device_kind", c_int),
        ("device", c_int32),
        ("stream", c_void_p),
    ]

WEFT_MEM_PRIVATE = 0
WEFT_MEM_SYMMETRIC = 1
WEFT_MEM_REGISTERED = 2
WEFT_MEM_SHARED = 3


class weft_mem_info_t(Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("kind", c_int),
        ("device_kind", c_int),
        ("device", c_int32),
        ("references", c_int32),
        ("base", c_void_p),
        ("bytes", c_size_t),
        ("flags", c_uint32),
    ]


class weft_allocator_t(Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("allocate", CFUNCTYPE(c_void_p, c_size_t, c_size_t, c_void_p)),
        ("release", CFUNCTYPE(None, c_void_p, c_size_t, c_void_p)),
        ("user", c_void_p),
    ]


# op.h
weft_user_op_t = CFUNCTYPE(None, c_void_p, c_void_p, c_void_p, c_size_t, c_int, c_void_p)
WEFT_USER_ELEMENT_BYTES_MAX = 8192


class weft_user_op_config_t(Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("function", weft_user_op_t),
        ("user", c_void_p),
        ("name", c_char_p),
        ("release_user", CFUNCTYPE(None, c_void_p)),
        ("element_count", c_size_t),
    ]


# options.h
class weft_option_info_t(Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("environment", c_char_p),
        ("type", c_char_p),
        ("default_value", c_char_p),
        ("meaning", c_char_p),
    ]


# point_to_point.h
WEFT_ANY_SOURCE = -1
WEFT_ANY_TAG = 0xffffffffffffffff
WEFT_EAGER_BYTES = 4096


class weft_message_info_t(Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("source", c_int),
        ("dtype", c_int),
        ("tag", c_uint64),
        ("count", c_size_t),
    ]


# shard_checks.h
class weft_shard_rank_report_t(Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("element_count", c_uint64),
        ("param_bytes", c_uint64),
        ("grad_bytes", c_uint64),
        ("optimizer_bytes", c_uint64),
        ("pool_bytes", c_uint64),
        ("step_count", c_int64),
        ("busy_ns", c_int64),
        ("gather_waited_ns", c_int64),
        ("reduce_waited_ns", c_int64),
    ]


class weft_shard_report_t(Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("rank_count", c_int),
        ("largest_rank", c_int),
        ("smallest_rank", c_int),
        ("slowest_rank", c_int),
        ("largest_element_count", c_uint64),
        ("smallest_element_count", c_uint64),
        ("slowest_busy_ns", c_int64),
        ("median_busy_ns", c_int64),
    ]


# shard_global.h
class weft_shard_global_t(Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("name", c_char_p),
        ("shape", c_void_p),
        ("ndim", c_int),
        ("offset", c_size_t),
    ]


# shard_info.h
class weft_shard_param_info_t(Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("name", c_char_p),
        ("unit", c_void_p),
        ("unit_name", c_char_p),
        ("tied_to", c_void_p),
        ("count", c_size_t),
        ("shape", c_int64 * WEFT_SHARD_DIMS_MAX),
        ("ndim", c_int),
        ("dtype", c_int),
        ("flags", c_uint32),
        ("index", c_int),
        ("group", c_int),
    ]


class weft_shard_unit_info_t(Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("name", c_char_p),
        ("index", c_size_t),
        ("param_count", c_size_t),
        ("preset", c_int),
        ("params", c_int),
        ("between", c_int),
        ("gradients", c_int),
        ("optimizer", c_int),
        ("cut", c_int),
        ("cut_rows", c_int64),
        ("float32_gradients", c_int),
        ("wire", c_int),
        ("sealed", c_int),
        ("unsharded", c_int),
        ("unsharded_bytes", c_size_t),
    ]


# shard_step.h
WEFT_SHARD_TRAIN = 0
WEFT_SHARD_EVAL = 1


class weft_shard_step_t(Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("mode", c_int),
        ("tag", c_uint64),
        ("stream", c_void_p),
    ]


class weft_shard_microbatch_t(Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("index", c_int),
        ("last", c_int),
        ("stream", c_void_p),
    ]


class weft_shard_unshard_t(Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("destination", c_void_p),
        ("bytes", c_size_t),
        ("stream", c_void_p),
    ]


class weft_shard_step_result_t(Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("comm_ns", c_int64),
        ("comm_exposed_ns", c_int64),
        ("reduced_bytes", c_uint64),
        ("order_changed", c_int),
        ("replayed", c_int),
        ("gather_exposed_ns", c_int64),
        ("gathered_bytes", c_uint64),
        ("pool_bytes", c_uint64),
        ("active_ranks", c_int),
    ]

WEFT_OPTIMIZER_ADAMW = 0
WEFT_OPTIMIZER_SGD = 1
WEFT_OPTIMIZER_LION = 2
WEFT_OPTIMIZER_LAMB = 3
WEFT_OPTIMIZER_LARS = 4
WEFT_OPTIMIZER_OWN = 5
WEFT_OPTIMIZER_MUON = 6
weft_matmul_t = CFUNCTYPE(None, c_void_p, c_void_p, c_void_p, c_size_t, c_size_t, c_size_t, c_void_p)
WEFT_NONFINITE_WARN = 0
WEFT_NONFINITE_SKIP = 1
WEFT_NONFINITE_FAIL = 2
WEFT_OPTIMIZER_BETA1 = 1
WEFT_OPTIMIZER_BETA2 = 2
WEFT_OPTIMIZER_EPSILON = 4
WEFT_OPTIMIZER_MOMENTUM = 8
WEFT_OPTIMIZER_TRUST = 16


class weft_optimizer_config_t(Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("kind", c_int),
        ("beta1", c_double),
        ("beta2", c_double),
        ("epsilon", c_double),
        ("weight_decay", c_double),
        ("momentum", c_double),
        ("trust", c_double),
        ("nesterov", c_int),
        ("loss_scale", c_double),
        ("dynamic_loss_scale", c_int),
        ("loss_scale_growth_steps", c_int64),
        ("loss_scale_hysteresis", c_int64),
        ("threads", c_int),
        ("nonfinite_steps", c_int64),
        ("nonfinite", c_int),
        ("fields", c_uint32),
        ("product", weft_matmul_t),
        ("product_user", c_void_p),
        ("release_user", CFUNCTYPE(None, c_void_p)),
    ]

WEFT_SHARD_NORM_WORDS = 69


class weft_shard_norm_t(Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("norm", c_double),
        ("nonfinite", c_int64),
        ("loss_scale", c_double),
        ("squares", c_int64 * WEFT_SHARD_NORM_WORDS),
    ]


class weft_shard_update_t(Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("learning_rate", c_double),
        ("norm_max", c_double),
        ("norm", c_void_p),
        ("gradient_factor", c_double),
        ("stream", c_void_p),
        ("requests", c_uint64),
    ]


class weft_shard_update_result_t(Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("grad_norm", c_double),
        ("loss_scale", c_double),
        ("nonfinite", c_int64),
        ("update_count", c_int64),
        ("skipped", c_int),
        ("requests", c_uint64),
    ]


# shard_param_groups.h
WEFT_SHARD_PARAM_GROUPS_MAX = 256
WEFT_OPTIMIZER_KIND = 32
WEFT_OPTIMIZER_LEARNING_RATE_FACTOR = 64
WEFT_OPTIMIZER_WEIGHT_DECAY_FACTOR = 128
WEFT_OPTIMIZER_NESTEROV = 256


class weft_shard_param_group_t(Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("kind", c_int),
        ("learning_rate_factor", c_double),
        ("weight_decay_factor", c_double),
        ("beta1", c_double),
        ("beta2", c_double),
        ("epsilon", c_double),
        ("momentum", c_double),
        ("trust", c_double),
        ("nesterov", c_int),
        ("fields", c_uint32),
    ]


# shard_plan.h
class weft_shard_plan_t(Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("unit_count", c_size_t),
        ("param_count", c_size_t),
        ("bucket_count", c_size_t),
        ("element_count", c_uint64),
        ("param_bytes", c_uint64),
        ("grad_bytes", c_uint64),
        ("padding_bytes", c_uint64),
        ("traffic_bytes", c_uint64),
        ("optimizer_bytes", c_uint64),
        ("pool_bytes", c_uint64),
        ("gather_bytes", c_uint64),
        ("largest_unit_bytes", c_uint64),
        ("prefetch", c_int),
        ("resting_bytes", c_uint64),
        ("peak_bytes", c_uint64),
        ("sent_bytes", c_uint64),
        ("sent_inner_bytes", c_uint64),
        ("moving_pool_bytes", c_uint64),
        ("checkpoint_bytes", c_uint64),
        ("offload_bytes", c_uint64),
        ("offload_read_bytes", c_uint64),
        ("offload_written_bytes", c_uint64),
        ("checkpoint_value_bytes", c_uint64),
    ]


class weft_shard_run_t(Structure):
    _fields_ = [
        ("unit", c_void_p),
        ("backward", c_int),
    ]


# shard_state.h
WEFT_SHARD_STATE_VALUE = 0
WEFT_SHARD_STATE_MAIN = 1
WEFT_SHARD_STATE_MOMENT1 = 2
WEFT_SHARD_STATE_MOMENT2 = 3
WEFT_SHARD_STATE_KINDS = 4
WEFT_SHARD_STATE_VALUES = 1
WEFT_SHARD_STATE_MAINS = 2
WEFT_SHARD_STATE_MOMENTS = 12
WEFT_SHARD_STATE_ALL = 15


class weft_shard_state_part_t(Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("data", c_void_p),
        ("begin", c_size_t),
        ("count", c_size_t),
        ("write_begin", c_size_t),
        ("write_count", c_size_t),
        ("dtype", c_int),
        ("replica", c_int),
        ("replicas", c_int),
        ("offloaded", c_int),
    ]


class weft_shard_state_scalars_t(Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("steps_begun", c_int64),
        ("train_steps_begun", c_int64),
        ("update_count", c_int64),
        ("loss_scale", c_double),
        ("loss_scale_good_steps", c_int64),
        ("loss_scale_overflows_left", c_int64),
        ("nonfinite_steps", c_int64),
    ]


# shard_units.h
class weft_shard_grouping_t(Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("by_prefix", c_char_p),
        ("min_bytes", c_size_t),
    ]


# version.h
WEFT_VERSION_MAJOR = 0
WEFT_VERSION_MINOR = 1
WEFT_VERSION_PATCH = 0
WEFT_VERSION_STRING = "0.1.0"

# work.h
weft_work_callback_t = CFUNCTYPE(None, c_int, c_void_p)

# xla.h
WEFT_XLA_NOBODY = -2
weft_xla_interrupted_t = CFUNCTYPE(None)

# All structs, by the names that weft_struct_size() knows.
STRUCTS: dict[str, type[Structure]] = {
    "weft_allocator_t": weft_allocator_t,
    "weft_call_t": weft_call_t,
    "weft_checkpoint_config_t": weft_checkpoint_config_t,
    "weft_checkpoint_copied_t": weft_checkpoint_copied_t,
    "weft_checkpoint_export_config_t": weft_checkpoint_export_config_t,
    "weft_checkpoint_import_config_t": weft_checkpoint_import_config_t,
    "weft_checkpoint_load_config_t": weft_checkpoint_load_config_t,
    "weft_checkpoint_loaded_t": weft_checkpoint_loaded_t,
    "weft_checkpoint_save_config_t": weft_checkpoint_save_config_t,
    "weft_checkpoint_tensor_t": weft_checkpoint_tensor_t,
    "weft_checkpoint_value_t": weft_checkpoint_value_t,
    "weft_completion_queue_config_t": weft_completion_queue_config_t,
    "weft_completion_t": weft_completion_t,
    "weft_device_info_t": weft_device_info_t,
    "weft_error_info_t": weft_error_info_t,
    "weft_explain_query_t": weft_explain_query_t,
    "weft_group_config_t": weft_group_config_t,
    "weft_group_stats_t": weft_group_stats_t,
    "weft_iov_t": weft_iov_t,
    "weft_mem_config_t": weft_mem_config_t,
    "weft_mem_info_t": weft_mem_info_t,
    "weft_mesh_config_t": weft_mesh_config_t,
    "weft_message_info_t": weft_message_info_t,
    "weft_optimizer_config_t": weft_optimizer_config_t,
    "weft_option_info_t": weft_option_info_t,
    "weft_shard_allocator_t": weft_shard_allocator_t,
    "weft_shard_config_t": weft_shard_config_t,
    "weft_shard_global_t": weft_shard_global_t,
    "weft_shard_grouping_t": weft_shard_grouping_t,
    "weft_shard_load_t": weft_shard_load_t,
    "weft_shard_microbatch_t": weft_shard_microbatch_t,
    "weft_shard_norm_t": weft_shard_norm_t,
    "weft_shard_offload_t": weft_shard_offload_t,
    "weft_shard_param_config_t": weft_shard_param_config_t,
    "weft_shard_param_group_t": weft_shard_param_group_t,
    "weft_shard_param_info_t": weft_shard_param_info_t,
    "weft_shard_part_t": weft_shard_part_t,
    "weft_shard_plan_t": weft_shard_plan_t,
    "weft_shard_policy_t": weft_shard_policy_t,
    "weft_shard_rank_report_t": weft_shard_rank_report_t,
    "weft_shard_read_t": weft_shard_read_t,
    "weft_shard_report_t": weft_shard_report_t,
    "weft_shard_run_t": weft_shard_run_t,
    "weft_shard_settings_t": weft_shard_settings_t,
    "weft_shard_state_part_t": weft_shard_state_part_t,
    "weft_shard_state_scalars_t": weft_shard_state_scalars_t,
    "weft_shard_step_result_t": weft_shard_step_result_t,
    "weft_shard_step_t": weft_shard_step_t,
    "weft_shard_unit_info_t": weft_shard_unit_info_t,
    "weft_shard_unshard_t": weft_shard_unshard_t,
    "weft_shard_update_result_t": weft_shard_update_result_t,
    "weft_shard_update_t": weft_shard_update_t,
    "weft_shard_view_t": weft_shard_view_t,
    "weft_store_callbacks_t": weft_store_callbacks_t,
    "weft_tensor_t": weft_tensor_t,
    "weft_unique_id_t": weft_unique_id_t,
    "weft_user_op_config_t": weft_user_op_config_t,
}

# Result and arguments of every function.
FUNCTIONS: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "weft_all_gather": (c_int, (c_void_p, c_void_p, c_size_t, c_int, c_void_p, c_void_p, c_void_p)),
    "weft_all_gather_iov": (c_int, (c_void_p, c_size_t, c_int, c_void_p, c_void_p, c_void_p)),
    "weft_all_gather_v": (c_int, (c_void_p, c_void_p, c_void_p, c_void_p, c_int, c_void_p, c_void_p, c_void_p)),
    "weft_all_reduce": (c_int, (c_void_p, c_void_p, c_size_t, c_int, c_int, c_void_p, c_void_p, c_void_p)),
    "weft_all_reduce_iov": (c_int, (c_void_p, c_size_t, c_int, c_int, c_void_p, c_void_p, c_void_p)),
    "weft_all_to_all": (c_int, (c_void_p, c_void_p, c_size_t, c_int, c_void_p, c_void_p, c_void_p)),
    "weft_all_to_all_v": (c_int, (c_void_p, c_void_p, c_void_p, c_void_p, c_void_p, c_void_p, c_int, c_void_p, c_void_p, c_void_p)),
    "weft_barrier": (c_int, (c_void_p, c_void_p, c_void_p)),
    "weft_batch_begin": (c_int, ()),
    "weft_batch_cancel": (c_int, ()),
    "weft_batch_end": (c_int, ()),
    "weft_batch_group_create_from_id": (c_int, (c_void_p, c_int, c_int, c_void_p, c_void_p)),
    "weft_batch_group_split": (c_int, (c_void_p, c_int, c_int, c_void_p, c_void_p)),
    "weft_broadcast": (c_int, (c_void_p, c_void_p, c_size_t, c_int, c_int, c_void_p, c_void_p, c_void_p)),
    "weft_callback_failed": (c_int, (c_int, c_char_p)),
    "weft_checkpoint_add_context": (c_int, (c_void_p, c_char_p, c_void_p)),
    "weft_checkpoint_add_tensor": (c_int, (c_void_p, c_void_p)),
    "weft_checkpoint_add_value": (c_int, (c_void_p, c_void_p)),
    "weft_checkpoint_create": (c_int, (c_void_p, c_void_p, c_void_p)),
    "weft_checkpoint_destroy": (c_int, (c_void_p,)),
    "weft_checkpoint_export": (c_int, (c_void_p, c_void_p)),
    "weft_checkpoint_import": (c_int, (c_void_p, c_void_p)),
    "weft_checkpoint_load": (c_int, (c_void_p, c_void_p, c_void_p)),
    "weft_checkpoint_save": (c_int, (c_void_p, c_void_p)),
    "weft_checkpoint_test": (c_int, (c_void_p, c_void_p)),
    "weft_checkpoint_value_read": (c_int, (c_void_p, c_char_p, c_int, c_void_p, c_void_p)),
    "weft_checkpoint_wait": (c_int, (c_void_p, c_int64)),
    "weft_completion_queue_add": (c_int, (c_void_p, c_void_p, c_uint64)),
    "weft_completion_queue_create": (c_int, (c_void_p, c_void_p)),
    "weft_completion_queue_destroy": (c_int, (c_void_p,)),
    "weft_completion_queue_fd": (c_int, (c_void_p, c_void_p)),
    "weft_completion_queue_pending": (c_int, (c_void_p, c_void_p)),
    "weft_completion_queue_poll": (c_int, (c_void_p, c_void_p, c_size_t, c_void_p)),
    "weft_completion_queue_wait": (c_int, (c_void_p, c_int64, c_void_p, c_size_t, c_void_p)),
    "weft_completion_queue_wake": (c_int, (c_void_p,)),
    "weft_device_count": (c_int, (c_int, c_void_p)),
    "weft_device_info": (c_int, (c_int, c_int32, c_void_p)),
    "weft_dtype_name": (c_char_p, (c_int,)),
    "weft_dtype_size": (c_size_t, (c_int,)),
    "weft_explain": (c_int, (c_void_p, c_void_p, c_void_p, c_size_t, c_void_p)),
    "weft_exscan": (c_int, (c_void_p, c_void_p, c_size_t, c_int, c_int, c_void_p, c_void_p, c_void_p)),
    "weft_gather": (c_int, (c_void_p, c_void_p, c_size_t, c_int, c_int, c_void_p, c_void_p, c_void_p)),
    "weft_gather_v": (c_int, (c_void_p, c_size_t, c_void_p, c_void_p, c_void_p, c_int, c_int, c_void_p, c_void_p, c_void_p)),
    "weft_group_abort": (c_int, (c_void_p, c_char_p)),
    "weft_group_create_from_env": (c_int, (c_void_p, c_void_p)),
    "weft_group_create_from_id": (c_int, (c_void_p, c_int, c_int, c_void_p, c_void_p)),
    "weft_group_create_from_ranks": (c_int, (c_void_p, c_void_p, c_int, c_void_p, c_void_p)),
    "weft_group_create_from_store": (c_int, (c_void_p, c_int, c_int, c_void_p, c_void_p)),
    "weft_group_create_local": (c_int, (c_int, c_void_p, c_void_p)),
    "weft_group_destroy": (c_int, (c_void_p,)),
    "weft_group_epoch": (c_int, (c_void_p, c_void_p)),
    "weft_group_error": (c_int, (c_void_p,)),
    "weft_group_join": (c_int, (c_void_p, c_void_p, c_void_p)),
    "weft_group_name": (c_int, (c_void_p, c_void_p)),
    "weft_group_newcomers": (c_int, (c_void_p, c_void_p, c_void_p)),
    "weft_group_rank": (c_int, (c_void_p, c_void_p)),
    "weft_group_reconfigure": (c_int, (c_void_p, c_void_p, c_int, c_void_p)),
    "weft_group_refuse": (c_int, (c_void_p, c_char_p, c_char_p)),
    "weft_group_sequence": (c_int, (c_void_p, c_void_p)),
    "weft_group_set_timeout": (c_int, (c_void_p, c_int64)),
    "weft_group_size": (c_int, (c_void_p, c_void_p)),
    "weft_group_split": (c_int, (c_void_p, c_int, c_int, c_void_p, c_void_p)),
    "weft_group_stats": (c_int, (c_void_p, c_void_p)),
    "weft_iprobe": (c_int, (c_int, c_uint64, c_void_p, c_void_p, c_void_p)),
    "weft_last_error": (c_char_p, ()),
    "weft_last_error_info": (c_int, (c_void_p,)),
    "weft_log_set_callback": (c_int, (weft_log_callback_t, c_void_p)),
    "weft_log_set_level": (c_int, (c_int,)),
    "weft_mem_alloc": (c_int, (c_size_t, c_uint32, c_void_p)),
    "weft_mem_alloc_copy": (c_int, (c_void_p, c_size_t, c_void_p)),
    "weft_mem_alloc_on": (c_int, (c_void_p, c_void_p)),
    "weft_mem_alloc_shared": (c_int, (c_void_p, c_size_t, c_void_p)),
    "weft_mem_deregister": (c_int, (c_void_p,)),
    "weft_mem_dlpack": (c_int, (c_void_p, c_void_p)),
    "weft_mem_free": (c_int, (c_void_p,)),
    "weft_mem_free_on": (c_int, (c_void_p, c_void_p)),
    "weft_mem_free_shared": (c_int, (c_void_p, c_void_p)),
    "weft_mem_query": (c_int, (c_void_p, c_void_p)),
    "weft_mem_register": (c_int, (c_void_p, c_size_t, c_uint32)),
    "weft_mem_register_fd": (c_int, (c_void_p, c_size_t, c_int, c_uint64, c_uint32)),
    "weft_mem_retain": (c_int, (c_void_p, c_void_p)),
    "weft_mesh_axis_group": (c_int, (c_void_p, c_int, c_void_p)),
    "weft_mesh_create": (c_int, (c_void_p, c_void_p, c_void_p)),
    "weft_mesh_create_dry": (c_int, (c_void_p, c_int, c_void_p)),
    "weft_mesh_destroy": (c_int, (c_void_p,)),
    "weft_mesh_group": (c_int, (c_void_p, c_void_p, c_int, c_void_p)),
    "weft_op_create_premul_sum": (c_int, (c_void_p, c_int, c_void_p)),
    "weft_op_create_user": (c_int, (c_void_p, c_void_p)),
    "weft_op_destroy": (c_int, (c_int,)),
    "weft_op_name": (c_char_p, (c_int,)),
    "weft_option_at": (c_int, (c_size_t, c_void_p)),
    "weft_option_count": (c_size_t, ()),
    "weft_probe": (c_int, (c_int, c_uint64, c_void_p, c_void_p, c_void_p, c_void_p)),
    "weft_progress": (c_int, (c_void_p,)),
    "weft_progress_fd": (c_int, (c_void_p,)),
    "weft_recv": (c_int, (c_void_p, c_size_t, c_int, c_int, c_uint64, c_void_p, c_void_p, c_void_p, c_void_p)),
    "weft_recv_info": (c_int, (c_void_p, c_size_t, c_int, c_int, c_uint64, c_void_p, c_void_p, c_void_p, c_void_p)),
    "weft_reduce": (c_int, (c_void_p, c_void_p, c_size_t, c_int, c_int, c_int, c_void_p, c_void_p, c_void_p)),
    "weft_reduce_scatter": (c_int, (c_void_p, c_void_p, c_size_t, c_int, c_int, c_void_p, c_void_p, c_void_p)),
    "weft_reduce_scatter_iov": (c_int, (c_void_p, c_size_t, c_int, c_int, c_void_p, c_void_p, c_void_p)),
    "weft_reduce_scatter_v": (c_int, (c_void_p, c_void_p, c_void_p, c_void_p, c_int, c_int, c_void_p, c_void_p, c_void_p)),
    "weft_result_name": (c_char_p, (c_int,)),
    "weft_scan": (c_int, (c_void_p, c_void_p, c_size_t, c_int, c_int, c_void_p, c_void_p, c_void_p)),
    "weft_scatter": (c_int, (c_void_p, c_void_p, c_size_t, c_int, c_int, c_void_p, c_void_p, c_void_p)),
    "weft_scatter_v": (c_int, (c_void_p, c_void_p, c_void_p, c_void_p, c_size_t, c_int, c_int, c_void_p, c_void_p, c_void_p)),
    "weft_send": (c_int, (c_void_p, c_size_t, c_int, c_int, c_uint64, c_void_p, c_void_p, c_void_p)),
    "weft_sendrecv": (c_int, (c_void_p, c_size_t, c_int, c_uint64, c_void_p, c_size_t, c_int, c_uint64, c_int, c_void_p, c_void_p, c_void_p, c_void_p)),
    "weft_set_allocator": (c_int, (c_void_p,)),
    "weft_set_interrupt": (c_int, (weft_interrupt_check_t, c_void_p, c_int64)),
    "weft_shard_abort_step": (c_int, (c_void_p, c_char_p)),
    "weft_shard_add_units": (c_int, (c_void_p, c_void_p, c_size_t, c_void_p, c_void_p, c_void_p, c_void_p, c_void_p)),
    "weft_shard_check_samples": (c_int, (c_void_p, c_void_p, c_size_t)),
    "weft_shard_context_broadcast": (c_int, (c_void_p, c_int)),
    "weft_shard_context_create": (c_int, (c_void_p, c_void_p, c_void_p)),
    "weft_shard_context_destroy": (c_int, (c_void_p,)),
    "weft_shard_context_finalize": (c_int, (c_void_p, c_void_p)),
    "weft_shard_context_optimizer": (c_int, (c_void_p, c_void_p)),
    "weft_shard_context_param_by_name": (c_int, (c_void_p, c_char_p, c_void_p)),
    "weft_shard_context_plan": (c_int, (c_void_p, c_void_p)),
    "weft_shard_context_report": (c_int, (c_void_p, c_void_p, c_void_p, c_int)),
    "weft_shard_context_set": (c_int, (c_void_p, c_void_p)),
    "weft_shard_context_unit_at": (c_int, (c_void_p, c_size_t, c_void_p)),
    "weft_shard_context_unit_by_name": (c_int, (c_void_p, c_char_p, c_void_p)),
    "weft_shard_context_unit_count": (c_int, (c_void_p, c_void_p)),
    "weft_shard_context_verify": (c_int, (c_void_p,)),
    "weft_shard_drop_gradients": (c_int, (c_void_p, c_void_p)),
    "weft_shard_finish": (c_int, (c_void_p, c_void_p, c_void_p)),
    "weft_shard_grad_ready": (c_int, (c_void_p, c_void_p, c_void_p)),
    "weft_shard_gradient_norm": (c_int, (c_void_p, c_void_p, c_void_p)),
    "weft_shard_hint_order": (c_int, (c_void_p, c_void_p, c_size_t)),
    "weft_shard_hint_runs": (c_int, (c_void_p, c_void_p, c_size_t)),
    "weft_shard_join": (c_int, (c_void_p, c_void_p, c_void_p)),
    "weft_shard_loss_scale": (c_int, (c_void_p, c_void_p)),
    "weft_shard_microbatch_begin": (c_int, (c_void_p, c_void_p)),
    "weft_shard_microbatch_end": (c_int, (c_void_p, c_void_p)),
    "weft_shard_norm_add": (c_int, (c_void_p, c_void_p)),
    "weft_shard_norm_sum": (c_int, (c_void_p, c_void_p, c_void_p)),
    "weft_shard_optimizer_step": (c_int, (c_void_p, c_void_p, c_void_p)),
    "weft_shard_param_global": (c_int, (c_void_p, c_void_p)),
    "weft_shard_param_group_add": (c_int, (c_void_p, c_void_p, c_void_p)),
    "weft_shard_param_group_get": (c_int, (c_void_p, c_int, c_void_p)),
    "weft_shard_param_group_set": (c_int, (c_void_p, c_int, c_void_p)),
    "weft_shard_param_info": (c_int, (c_void_p, c_void_p)),
    "weft_shard_param_interval": (c_int, (c_void_p, c_int, c_void_p, c_void_p)),
    "weft_shard_param_load": (c_int, (c_void_p, c_void_p)),
    "weft_shard_param_part": (c_int, (c_void_p, c_void_p)),
    "weft_shard_param_read": (c_int, (c_void_p, c_void_p)),
    "weft_shard_param_set_group": (c_int, (c_void_p, c_int)),
    "weft_shard_param_view": (c_int, (c_void_p, c_void_p)),
    "weft_shard_params_updated": (c_int, (c_void_p, c_void_p)),
    "weft_shard_post_backward": (c_int, (c_void_p, c_void_p)),
    "weft_shard_post_forward": (c_int, (c_void_p, c_void_p)),
    "weft_shard_pre_backward": (c_int, (c_void_p, c_void_p)),
    "weft_shard_pre_forward": (c_int, (c_void_p, c_void_p)),
    "weft_shard_preset_by_name": (c_int, (c_char_p, c_void_p)),
    "weft_shard_preset_name": (c_char_p, (c_int,)),
    "weft_shard_reduce_wait": (c_int, (c_void_p, c_void_p)),
    "weft_shard_reshard": (c_int, (c_void_p, c_void_p)),
    "weft_shard_state_part": (c_int, (c_void_p, c_int, c_void_p)),
    "weft_shard_state_read": (c_int, (c_void_p, c_int, c_size_t, c_size_t, c_void_p)),
    "weft_shard_state_scalars_get": (c_int, (c_void_p, c_void_p)),
    "weft_shard_state_scalars_set": (c_int, (c_void_p, c_void_p)),
    "weft_shard_state_write": (c_int, (c_void_p, c_int, c_size_t, c_size_t, c_void_p)),
    "weft_shard_state_written": (c_int, (c_void_p, c_uint32, c_void_p)),
    "weft_shard_step_begin": (c_int, (c_void_p, c_void_p)),
    "weft_shard_step_end": (c_int, (c_void_p,)),
    "weft_shard_unit_add_param": (c_int, (c_void_p, c_void_p, c_void_p)),
    "weft_shard_unit_begin": (c_int, (c_void_p, c_char_p, c_void_p, c_void_p)),
    "weft_shard_unit_info": (c_int, (c_void_p, c_void_p)),
    "weft_shard_unit_param_at": (c_int, (c_void_p, c_size_t, c_void_p)),
    "weft_shard_unit_seal": (c_int, (c_void_p,)),
    "weft_shard_unit_tie_param": (c_int, (c_void_p, c_char_p, c_void_p, c_void_p)),
    "weft_shard_unit_within": (c_int, (c_void_p, c_void_p)),
    "weft_shard_unshard_start": (c_int, (c_void_p, c_void_p)),
    "weft_shard_unshard_wait": (c_int, (c_void_p, c_void_p)),
    "weft_store_create_callbacks": (c_int, (c_void_p, c_void_p)),
    "weft_store_destroy": (c_int, (c_void_p,)),
    "weft_struct_size": (c_size_t, (c_char_p,)),
    "weft_unique_id_create": (c_int, (c_void_p,)),
    "weft_version": (c_int, ()),
    "weft_work_error": (c_int, (c_void_p,)),
    "weft_work_error_info": (c_int, (c_void_p, c_void_p)),
    "weft_work_error_message": (c_int, (c_void_p, c_void_p)),
    "weft_work_free": (c_int, (c_void_p,)),
    "weft_work_on_complete": (c_int, (c_void_p, weft_work_callback_t, c_void_p)),
    "weft_work_stream_wait": (c_int, (c_void_p, c_void_p)),
    "weft_work_test": (c_int, (c_void_p, c_void_p)),
    "weft_work_wait": (c_int, (c_void_p, c_int64)),
    "weft_xla_all_gather": (c_void_p, (c_void_p,)),
    "weft_xla_all_reduce": (c_void_p, (c_void_p,)),
    "weft_xla_all_to_all": (c_void_p, (c_void_p,)),
    "weft_xla_barrier": (c_void_p, (c_void_p,)),
    "weft_xla_broadcast": (c_void_p, (c_void_p,)),
    "weft_xla_gather": (c_void_p, (c_void_p,)),
    "weft_xla_group_number": (c_int, (c_void_p, c_void_p)),
    "weft_xla_recv": (c_void_p, (c_void_p,)),
    "weft_xla_reduce": (c_void_p, (c_void_p,)),
    "weft_xla_reduce_scatter": (c_void_p, (c_void_p,)),
    "weft_xla_scatter": (c_void_p, (c_void_p,)),
    "weft_xla_send": (c_void_p, (c_void_p,)),
    "weft_xla_sendrecv": (c_void_p, (c_void_p,)),
    "weft_xla_set_interrupted": (None, (weft_xla_interrupted_t,)),
}


class Functions:
    """The functions of a loaded library, bound when first used."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self._library = library

    if TYPE_CHECKING:
        def weft_all_gather(self, in_: Pointer, out: Pointer, count: int, dtype: int, group: Pointer, call: Pointer, work: Pointer, /) -> int: ...
        def weft_all_gather_iov(self, parts: Pointer, part_count: int, dtype: int, group: Pointer, call: Pointer, work: Pointer, /) -> int: ...
        def weft_all_gather_v(self, in_: Pointer, out: Pointer, counts: Pointer, displacements: Pointer, dtype: int, group: Pointer, call: Pointer, work: Pointer, /) -> int: ...
        def weft_all_reduce(self, in_: Pointer, out: Pointer, count: int, dtype: int, op: int, group: Pointer, call: Pointer, work: Pointer, /) -> int: ...
        def weft_all_reduce_iov(self, parts: Pointer, part_count: int, dtype: int, op: int, group: Pointer, call: Pointer, work: Pointer, /) -> int: ...
        def weft_all_to_all(self, in_: Pointer, out: Pointer, count: int, dtype: int, group: Pointer, call: Pointer, work: Pointer, /) -> int: ...
        def weft_all_to_all_v(self, in_: Pointer, in_counts: Pointer, in_displacements: Pointer, out: Pointer, out_counts: Pointer, out_displacements: Pointer, dtype: int, group: Pointer, call: Pointer, work: Pointer, /) -> int: ...
        def weft_barrier(self, group: Pointer, call: Pointer, work: Pointer, /) -> int: ...
        def weft_batch_begin(self) -> int: ...
        def weft_batch_cancel(self) -> int: ...
        def weft_batch_end(self) -> int: ...
        def weft_batch_group_create_from_id(self, id: Pointer, size: int, rank: int, config: Pointer, group: Pointer, /) -> int: ...
        def weft_batch_group_split(self, parent: Pointer, color: int, key: int, config: Pointer, group: Pointer, /) -> int: ...
        def weft_broadcast(self, in_: Pointer, out: Pointer, count: int, dtype: int, root: int, group: Pointer, call: Pointer, work: Pointer, /) -> int: ...
        def weft_callback_failed(self, result: int, sentence: bytes | None, /) -> int: ...
        def weft_checkpoint_add_context(self, checkpoint: Pointer, name: bytes | None, context: Pointer, /) -> int: ...
        def weft_checkpoint_add_tensor(self, checkpoint: Pointer, tensor: Pointer, /) -> int: ...
        def weft_checkpoint_add_value(self, checkpoint: Pointer, value: Pointer, /) -> int: ...
        def weft_checkpoint_create(self, group: Pointer, config: Pointer, checkpoint: Pointer, /) -> int: ...
        def weft_checkpoint_destroy(self, checkpoint: Pointer, /) -> int: ...
        def weft_checkpoint_export(self, config: Pointer, copied: Pointer, /) -> int: ...
        def weft_checkpoint_import(self, config: Pointer, copied: Pointer, /) -> int: ...
        def weft_checkpoint_load(self, checkpoint: Pointer, config: Pointer, loaded: Pointer, /) -> int: ...
        def weft_checkpoint_save(self, checkpoint: Pointer, config: Pointer, /) -> int: ...
        def weft_checkpoint_test(self, checkpoint: Pointer, ended: Pointer, /) -> int: ...
        def weft_checkpoint_value_read(self, checkpoint: Pointer, name: bytes | None, rank: int, bytes: Pointer, count: Pointer, /) -> int: ...
        def weft_checkpoint_wait(self, checkpoint: Pointer, timeout_ns: int, /) -> int: ...
        def weft_completion_queue_add(self, queue: Pointer, work: Pointer, token: int, /) -> int: ...
        def weft_completion_queue_create(self, config: Pointer, queue: Pointer, /) -> int: ...
        def weft_completion_queue_destroy(self, queue: Pointer, /) -> int: ...
        def weft_completion_queue_fd(self, queue: Pointer, fd: Pointer, /) -> int: ...
        def weft_completion_queue_pending(self, queue: Pointer, pending: Pointer, /) -> int: ...
        def weft_completion_queue_poll(self, queue: Pointer, completions: Pointer, capacity: int, count: Pointer, /) -> int: ...
        def weft_completion_queue_wait(self, queue: Pointer, timeout_ns: int, completions: Pointer, capacity: int, count: Pointer, /) -> int: ...
        def weft_completion_queue_wake(self, queue: Pointer, /) -> int: ...
        def weft_device_count(self, kind: int, count: Pointer, /) -> int: ...
        def weft_device_info(self, kind: int, device: int, info: Pointer, /) -> int: ...
        def weft_dtype_name(self, dtype: int, /) -> bytes: ...
        def weft_dtype_size(self, dtype: int, /) -> int: ...
        def weft_explain(self, group: Pointer, query: Pointer, text: Pointer, capacity: int, length: Pointer, /) -> int: ...
        def weft_exscan(self, in_: Pointer, out: Pointer, count: int, dtype: int, op: int, group: Pointer, call: Pointer, work: Pointer, /) -> int: ...
        def weft_gather(self, in_: Pointer, out: Pointer, count: int, dtype: int, root: int, group: Pointer, call: Pointer, work: Pointer, /) -> int: ...
        def weft_gather_v(self, in_: Pointer, count: int, out: Pointer, counts: Pointer, displacements: Pointer, dtype: int, root: int, group: Pointer, call: Pointer, work: Pointer, /) -> int: ...
        def weft_group_abort(self, group: Pointer, reason: bytes | None, /) -> int: ...
        def weft_group_create_from_env(self, config: Pointer, group: Pointer, /) -> int: ...
        def weft_group_create_from_id(self, id: Pointer, size: int, rank: int, config: Pointer, group: Pointer, /) -> int: ...
        def weft_group_create_from_ranks(self, parent: Pointer, ranks: Pointer, count: int, config: Pointer, group: Pointer, /) -> int: ...
        def weft_group_create_from_store(self, store: Pointer, size: int, rank: int, config: Pointer, group: Pointer, /) -> int: ...
        def weft_group_create_local(self, size: int, config: Pointer, groups: Pointer, /) -> int: ...
        def weft_group_destroy(self, group: Pointer, /) -> int: ...
        def weft_group_epoch(self, group: Pointer, epoch: Pointer, /) -> int: ...
        def weft_group_error(self, group: Pointer, /) -> int: ...
        def weft_group_join(self, store: Pointer, config: Pointer, group: Pointer, /) -> int: ...
        def weft_group_name(self, group: Pointer, name: Pointer, /) -> int: ...
        def weft_group_newcomers(self, group: Pointer, store: Pointer, count: Pointer, /) -> int: ...
        def weft_group_rank(self, group: Pointer, rank: Pointer, /) -> int: ...
        def weft_group_reconfigure(self, group: Pointer, members: Pointer, count: int, config: Pointer, /) -> int: ...
        def weft_group_refuse(self, group: Pointer, operation: bytes | None, reason: bytes | None, /) -> int: ...
        def weft_group_sequence(self, group: Pointer, sequence: Pointer, /) -> int: ...
        def weft_group_set_timeout(self, group: Pointer, timeout_ns: int, /) -> int: ...
        def weft_group_size(self, group: Pointer, size: Pointer, /) -> int: ...
        def weft_group_split(self, parent: Pointer, color: int, key: int, config: Pointer, group: Pointer, /) -> int: ...
        def weft_group_stats(self, group: Pointer, stats: Pointer, /) -> int: ...
        def weft_iprobe(self, source: int, tag: int, found: Pointer, info: Pointer, group: Pointer, /) -> int: ...
        def weft_last_error(self) -> bytes: ...
        def weft_last_error_info(self, info: Pointer, /) -> int: ...
        def weft_log_set_callback(self, callback: Any, user: Pointer, /) -> int: ...
        def weft_log_set_level(self, level: int, /) -> int: ...
        def weft_mem_alloc(self, bytes: int, flags: int, memory: Pointer, /) -> int: ...
        def weft_mem_alloc_copy(self, from_: Pointer, bytes: int, view: Pointer, /) -> int: ...
        def weft_mem_alloc_on(self, config: Pointer, memory: Pointer, /) -> int: ...
        def weft_mem_alloc_shared(self, group: Pointer, bytes: int, memory: Pointer, /) -> int: ...
        def weft_mem_deregister(self, memory: Pointer, /) -> int: ...
        def weft_mem_dlpack(self, tensor: Pointer, managed: Pointer, /) -> int: ...
        def weft_mem_free(self, memory: Pointer, /) -> int: ...
        def weft_mem_free_on(self, memory: Pointer, stream: Pointer, /) -> int: ...
        def weft_mem_free_shared(self, group: Pointer, memory: Pointer, /) -> int: ...
        def weft_mem_query(self, pointer: Pointer, info: Pointer, /) -> int: ...
        def weft_mem_register(self, memory: Pointer, bytes: int, flags: int, /) -> int: ...
        def weft_mem_register_fd(self, memory: Pointer, bytes: int, fd: int, offset: int, flags: int, /) -> int: ...
        def weft_mem_retain(self, pointer: Pointer, block: Pointer, /) -> int: ...
        def weft_mesh_axis_group(self, mesh: Pointer, axis: int, group: Pointer, /) -> int: ...
        def weft_mesh_create(self, group: Pointer, config: Pointer, mesh: Pointer, /) -> int: ...
        def weft_mesh_create_dry(self, config: Pointer, rank: int, mesh: Pointer, /) -> int: ...
        def weft_mesh_destroy(self, mesh: Pointer, /) -> int: ...
        def weft_mesh_group(self, mesh: Pointer, axes: Pointer, n: int, group: Pointer, /) -> int: ...
        def weft_op_create_premul_sum(self, factor: Pointer, dtype: int, op: Pointer, /) -> int: ...
        def weft_op_create_user(self, config: Pointer, op: Pointer, /) -> int: ...
        def weft_op_destroy(self, op: int, /) -> int: ...
        def weft_op_name(self, op: int, /) -> bytes: ...
        def weft_option_at(self, index: int, info: Pointer, /) -> int: ...
        def weft_option_count(self) -> int: ...
        def weft_probe(self, source: int, tag: int, info: Pointer, group: Pointer, call: Pointer, work: Pointer, /) -> int: ...
        def weft_progress(self, pending: Pointer, /) -> int: ...
        def weft_progress_fd(self, fd: Pointer, /) -> int: ...
        def weft_recv(self, out: Pointer, count: int, dtype: int, source: int, tag: int, sender: Pointer, group: Pointer, call: Pointer, work: Pointer, /) -> int: ...
        def weft_recv_info(self, out: Pointer, count: int, dtype: int, source: int, tag: int, info: Pointer, group: Pointer, call: Pointer, work: Pointer, /) -> int: ...
        def weft_reduce(self, in_: Pointer, out: Pointer, count: int, dtype: int, op: int, root: int, group: Pointer, call: Pointer, work: Pointer, /) -> int: ...
        def weft_reduce_scatter(self, in_: Pointer, out: Pointer, count: int, dtype: int, op: int, group: Pointer, call: Pointer, work: Pointer, /) -> int: ...
        def weft_reduce_scatter_iov(self, parts: Pointer, part_count: int, dtype: int, op: int, group: Pointer, call: Pointer, work: Pointer, /) -> int: ...
        def weft_reduce_scatter_v(self, in_: Pointer, out: Pointer, counts: Pointer, displacements: Pointer, dtype: int, op: int, group: Pointer, call: Pointer, work: Pointer, /) -> int: ...
        def weft_result_name(self, result: int, /) -> bytes: ...
        def weft_scan(self, in_: Pointer, out: Pointer, count: int, dtype: int, op: int, group: Pointer, call: Pointer, work: Pointer, /) -> int: ...
        def weft_scatter(self, in_: Pointer, out: Pointer, count: int, dtype: int, root: int, group: Pointer, call: Pointer, work: Pointer, /) -> int: ...
        def weft_scatter_v(self, in_: Pointer, counts: Pointer, displacements: Pointer, out: Pointer, count: int, dtype: int, root: int, group: Pointer, call: Pointer, work: Pointer, /) -> int: ...
        def weft_send(self, in_: Pointer, count: int, dtype: int, destination: int, tag: int, group: Pointer, call: Pointer, work: Pointer, /) -> int: ...
        def weft_sendrecv(self, in_: Pointer, in_count: int, destination: int, in_tag: int, out: Pointer, out_count: int, source: int, out_tag: int, dtype: int, sender: Pointer, group: Pointer, call: Pointer, work: Pointer, /) -> int: ...
        def weft_set_allocator(self, allocator: Pointer, /) -> int: ...
        def weft_set_interrupt(self, check: Any, user: Pointer, every_ns: int, /) -> int: ...
        def weft_shard_abort_step(self, context: Pointer, reason: bytes | None, /) -> int: ...
        def weft_shard_add_units(self, context: Pointer, params: Pointer, n: int, grouping: Pointer, policy: Pointer, handles: Pointer, units: Pointer, unit_count: Pointer, /) -> int: ...
        def weft_shard_check_samples(self, context: Pointer, samples: Pointer, bytes: int, /) -> int: ...
        def weft_shard_context_broadcast(self, context: Pointer, root: int, /) -> int: ...
        def weft_shard_context_create(self, mesh: Pointer, config: Pointer, context: Pointer, /) -> int: ...
        def weft_shard_context_destroy(self, context: Pointer, /) -> int: ...
        def weft_shard_context_finalize(self, context: Pointer, plan: Pointer, /) -> int: ...
        def weft_shard_context_optimizer(self, context: Pointer, config: Pointer, /) -> int: ...
        def weft_shard_context_param_by_name(self, context: Pointer, name: bytes | None, param: Pointer, /) -> int: ...
        def weft_shard_context_plan(self, context: Pointer, plan: Pointer, /) -> int: ...
        def weft_shard_context_report(self, context: Pointer, report: Pointer, ranks: Pointer, rank_count: int, /) -> int: ...
        def weft_shard_context_set(self, context: Pointer, settings: Pointer, /) -> int: ...
        def weft_shard_context_unit_at(self, context: Pointer, index: int, unit: Pointer, /) -> int: ...
        def weft_shard_context_unit_by_name(self, context: Pointer, name: bytes | None, unit: Pointer, /) -> int: ...
        def weft_shard_context_unit_count(self, context: Pointer, count: Pointer, /) -> int: ...
        def weft_shard_context_verify(self, context: Pointer, /) -> int: ...
        def weft_shard_drop_gradients(self, context: Pointer, stream: Pointer, /) -> int: ...
        def weft_shard_finish(self, context: Pointer, stream: Pointer, result: Pointer, /) -> int: ...
        def weft_shard_grad_ready(self, param: Pointer, grad: Pointer, stream: Pointer, /) -> int: ...
        def weft_shard_gradient_norm(self, context: Pointer, stream: Pointer, norm: Pointer, /) -> int: ...
        def weft_shard_hint_order(self, context: Pointer, units: Pointer, n: int, /) -> int: ...
        def weft_shard_hint_runs(self, context: Pointer, runs: Pointer, n: int, /) -> int: ...
        def weft_shard_join(self, context: Pointer, stream: Pointer, active_ranks: Pointer, /) -> int: ...
        def weft_shard_loss_scale(self, context: Pointer, scale: Pointer, /) -> int: ...
        def weft_shard_microbatch_begin(self, context: Pointer, microbatch: Pointer, /) -> int: ...
        def weft_shard_microbatch_end(self, context: Pointer, stream: Pointer, /) -> int: ...
        def weft_shard_norm_add(self, norm: Pointer, other: Pointer, /) -> int: ...
        def weft_shard_norm_sum(self, norm: Pointer, group: Pointer, stream: Pointer, /) -> int: ...
        def weft_shard_optimizer_step(self, context: Pointer, update: Pointer, result: Pointer, /) -> int: ...
        def weft_shard_param_global(self, param: Pointer, global_: Pointer, /) -> int: ...
        def weft_shard_param_group_add(self, context: Pointer, numbers: Pointer, group: Pointer, /) -> int: ...
        def weft_shard_param_group_get(self, context: Pointer, group: int, numbers: Pointer, /) -> int: ...
        def weft_shard_param_group_set(self, context: Pointer, group: int, numbers: Pointer, /) -> int: ...
        def weft_shard_param_info(self, param: Pointer, info: Pointer, /) -> int: ...
        def weft_shard_param_interval(self, param: Pointer, rank: int, begin: Pointer, count: Pointer, /) -> int: ...
        def weft_shard_param_load(self, param: Pointer, load: Pointer, /) -> int: ...
        def weft_shard_param_part(self, param: Pointer, part: Pointer, /) -> int: ...
        def weft_shard_param_read(self, param: Pointer, read: Pointer, /) -> int: ...
        def weft_shard_param_set_group(self, param: Pointer, group: int, /) -> int: ...
        def weft_shard_param_view(self, param: Pointer, view: Pointer, /) -> int: ...
        def weft_shard_params_updated(self, context: Pointer, stream: Pointer, /) -> int: ...
        def weft_shard_post_backward(self, unit: Pointer, stream: Pointer, /) -> int: ...
        def weft_shard_post_forward(self, unit: Pointer, stream: Pointer, /) -> int: ...
        def weft_shard_pre_backward(self, unit: Pointer, stream: Pointer, /) -> int: ...
        def weft_shard_pre_forward(self, unit: Pointer, stream: Pointer, /) -> int: ...
        def weft_shard_preset_by_name(self, name: bytes | None, preset: Pointer, /) -> int: ...
        def weft_shard_preset_name(self, preset: int, /) -> bytes: ...
        def weft_shard_reduce_wait(self, unit: Pointer, stream: Pointer, /) -> int: ...
        def weft_shard_reshard(self, unit: Pointer, stream: Pointer, /) -> int: ...
        def weft_shard_state_part(self, param: Pointer, kind: int, part: Pointer, /) -> int: ...
        def weft_shard_state_read(self, param: Pointer, kind: int, begin: int, count: int, to: Pointer, /) -> int: ...
        def weft_shard_state_scalars_get(self, context: Pointer, scalars: Pointer, /) -> int: ...
        def weft_shard_state_scalars_set(self, context: Pointer, scalars: Pointer, /) -> int: ...
        def weft_shard_state_write(self, param: Pointer, kind: int, begin: int, count: int, from_: Pointer, /) -> int: ...
        def weft_shard_state_written(self, context: Pointer, kinds: int, stream: Pointer, /) -> int: ...
        def weft_shard_step_begin(self, context: Pointer, step: Pointer, /) -> int: ...
        def weft_shard_step_end(self, context: Pointer, /) -> int: ...
        def weft_shard_unit_add_param(self, unit: Pointer, config: Pointer, param: Pointer, /) -> int: ...
        def weft_shard_unit_begin(self, context: Pointer, name: bytes | None, policy: Pointer, unit: Pointer, /) -> int: ...
        def weft_shard_unit_info(self, unit: Pointer, info: Pointer, /) -> int: ...
        def weft_shard_unit_param_at(self, unit: Pointer, index: int, param: Pointer, /) -> int: ...
        def weft_shard_unit_seal(self, unit: Pointer, /) -> int: ...
        def weft_shard_unit_tie_param(self, unit: Pointer, name: bytes | None, param: Pointer, tied: Pointer, /) -> int: ...
        def weft_shard_unit_within(self, unit: Pointer, outer: Pointer, /) -> int: ...
        def weft_shard_unshard_start(self, unit: Pointer, options: Pointer, /) -> int: ...
        def weft_shard_unshard_wait(self, unit: Pointer, stream: Pointer, /) -> int: ...
        def weft_store_create_callbacks(self, callbacks: Pointer, store: Pointer, /) -> int: ...
        def weft_store_destroy(self, store: Pointer, /) -> int: ...
        def weft_struct_size(self, name: bytes | None, /) -> int: ...
        def weft_unique_id_create(self, id: Pointer, /) -> int: ...
        def weft_version(self) -> int: ...
        def weft_work_error(self, work: Pointer, /) -> int: ...
        def weft_work_error_info(self, work: Pointer, info: Pointer, /) -> int: ...
        def weft_work_error_message(self, work: Pointer, message: Pointer, /) -> int: ...
        def weft_work_free(self, work: Pointer, /) -> int: ...
        def weft_work_on_complete(self, work: Pointer, callback: Any, user: Pointer, /) -> int: ...
        def weft_work_stream_wait(self, work: Pointer, stream: Pointer, /) -> int: ...
        def weft_work_test(self, work: Pointer, done: Pointer, /) -> int: ...
        def weft_work_wait(self, work: Pointer, timeout_ns: int, /) -> int: ...
        def weft_xla_all_gather(self, frame: Pointer, /) -> Pointer: ...
        def weft_xla_all_reduce(self, frame: Pointer, /) -> Pointer: ...
        def weft_xla_all_to_all(self, frame: Pointer, /) -> Pointer: ...
        def weft_xla_barrier(self, frame: Pointer, /) -> Pointer: ...
        def weft_xla_broadcast(self, frame: Pointer, /) -> Pointer: ...
        def weft_xla_gather(self, frame: Pointer, /) -> Pointer: ...
        def weft_xla_group_number(self, group: Pointer, number: Pointer, /) -> int: ...
        def weft_xla_recv(self, frame: Pointer, /) -> Pointer: ...
        def weft_xla_reduce(self, frame: Pointer, /) -> Pointer: ...
        def weft_xla_reduce_scatter(self, frame: Pointer, /) -> Pointer: ...
        def weft_xla_scatter(self, frame: Pointer, /) -> Pointer: ...
        def weft_xla_send(self, frame: Pointer, /) -> Pointer: ...
        def weft_xla_sendrecv(self, frame: Pointer, /) -> Pointer: ...
        def weft_xla_set_interrupted(self, told: Any, /) -> None: ...
    else:

        def __getattr__(self, name):
            if name not in FUNCTIONS:
                raise AttributeError(name)
            function = getattr(self._library, name)
            function.restype, function.argtypes = FUNCTIONS[name]
            setattr(self, name, function)
            return function
