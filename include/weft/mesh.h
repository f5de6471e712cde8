/* Meshes: named axes over the ranks of a group, and the groups of ranks along them.
 *
 *   weft_mesh_config_t config = {sizeof config, 4, {"pp", "dp", "cp", "tp"}, {2, 2, 2, 2}};
 *   weft_mesh_create(world, &config, &mesh);            // 16 ranks; tp varies fastest
 *   const char* const data[] = {"dp", "cp"};
 *   weft_mesh_group(mesh, data, 2, &group);             // the 4 ranks of this one's pp and tp
 *   weft_mesh_create(group, NULL, &data_mesh);          // shard.h: contexts are made on meshes
 *
 * Failures: groups of a mesh fail together. A rank that dies, an abort, a mismatch, a deadline in
 * one of them ends all of them, and the group that the mesh was made on, with that cause: a rank
 * that waits in its dp group may wait for one that was told of the failure in its tp group, and
 * does not come any more. Ranks that wait are told within a second; rank numbers in errors are of
 * the group in which they are told, -1 for a rank that is not in it, and
 * weft_error_info_t::world_rank is the same in all. A mesh that was made on a group of another mesh
 * passes its failures on to that. Operations of a mesh's groups that are under way when it is
 * destroyed have failed.
 *
 * Errors of all: INVALID_ARGUMENT (NULL, wrong struct_size, a value out of range); collective calls
 * also have those of collective.h.
 *
 * Thread rule: any thread; calls that are collective come in the same order on all ranks.
 */
#ifndef WEFT_MESH_H_
#define WEFT_MESH_H_

#include "weft/types.h"

WEFT_BEGIN_DECLS

/* Named axes over the ranks of a group. */
typedef struct weft_mesh* weft_mesh_t;

/* How many axes a mesh may have. */
#define WEFT_MESH_AXES_MAX 6

/* Named axes over the ranks of a group, the last one varying fastest; the product of sizes is the
 * group's size. */
typedef struct weft_mesh_config {
  size_t struct_size;
  int axis_count; /* 1..WEFT_MESH_AXES_MAX; 0: one axis named "data" of the group's size */
  const char* axis_names[WEFT_MESH_AXES_MAX];
  int axis_sizes[WEFT_MESH_AXES_MAX];
} weft_mesh_config_t;

/* `group` is borrowed and must outlive the mesh. Collective if there are several axes: it splits
 * the group. Errors: INVALID_ARGUMENT, and those of weft_group_split. */
WEFT_EXPORT weft_result_t weft_mesh_create(weft_group_t group, const weft_mesh_config_t* config,
                                           weft_mesh_t* mesh);

/* A mesh of ranks that do not exist, seen by rank `rank`, for planning. At least one axis must be
 * given; the product of sizes is the number of ranks, 1,048,576 at most. Contexts can be created on
 * it, declared and planned; weft_mesh_axis_group, weft_mesh_group and the other calls of its
 * contexts return INVALID_USAGE. Not collective. */
WEFT_EXPORT weft_result_t weft_mesh_create_dry(const weft_mesh_config_t* config, int rank,
                                               weft_mesh_t* mesh);

/* The group of this rank along axis `axis`: the ranks whose coordinates on all other axes are the
 * same. With one axis it is the mesh's own group. It belongs to the mesh: do not destroy it, and do
 * not use it after the mesh is destroyed. */
WEFT_EXPORT weft_result_t weft_mesh_axis_group(weft_mesh_t mesh, int axis, weft_group_t* group);

/* The group of this rank along the axes named axes[0..n): the ranks that differ from it in their
 * coordinates on these axes only. They have the order of the mesh, whose later axes vary faster, in
 * whatever order the axes are named: a set of axes is one group. One axis: that of
 * weft_mesh_axis_group; all axes: the mesh's own group. It belongs to the mesh: do not destroy it,
 * and do not use it after the mesh is destroyed.
 *
 * The first call with a set of several axes makes the group, and is collective over the mesh's
 * group, as a split is, so that all ranks of the mesh name the same axes; later calls return what
 * is there, and never wait. A call of another thread waits until the group is made.
 *
 * Errors: INVALID_ARGUMENT (n below 1 or above the number of axes, a name that is NULL, unknown, or
 * there twice), INVALID_USAGE on a dry mesh. On all ranks, which may call again: MISMATCH (a rank
 * names other axes), REMOTE_ERROR (a rank cannot make its group; its own error says why). */
WEFT_EXPORT weft_result_t weft_mesh_group(weft_mesh_t mesh, const char* const axes[], int n,
                                          weft_group_t* group);

/* NULL is fine; INVALID_USAGE while a context uses it. */
WEFT_EXPORT weft_result_t weft_mesh_destroy(weft_mesh_t mesh);

WEFT_END_DECLS

#endif /* WEFT_MESH_H_ */
