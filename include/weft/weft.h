/* All of weft's C interface. */
#ifndef WEFT_WEFT_H_
#define WEFT_WEFT_H_

#include "weft/batch.h"
#include "weft/collective.h"
#include "weft/error.h"
#include "weft/explain.h"
#include "weft/group.h"
#include "weft/iov.h"
#include "weft/log.h"
#include "weft/mem.h"
#include "weft/op.h"
#include "weft/options.h"
#include "weft/point_to_point.h"
#include "weft/shard.h"
#include "weft/shard_checks.h"
#include "weft/shard_memory.h"
#include "weft/shard_plan.h"
#include "weft/shard_policy.h"
#include "weft/shard_step.h"
#include "weft/shard_units.h"
#include "weft/store.h"
#include "weft/types.h"
#include "weft/vector.h"
#include "weft/version.h"
#include "weft/work.h"

#endif /* WEFT_WEFT_H_ */
