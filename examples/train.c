/* Training with nothing, some or everything sharded, stopped and resumed: a linear model with weft's shard managers.
 *
 * The preset is an argument: ddp, zero1, zero2, shard-grad-op, full-shard. With the same number of ranks all of them print the same
 * loss, to the bit, also after a checkpoint of one was resumed by another. Each rank makes its own samples from step and rank; a
 * program that reads data would do so by the same two numbers.
 *
 *   $ cc -std=c99 train.c -o train $(pkg-config --cflags --libs weft)
 *   $ weftrun -n 2 ./train ddp 40
 *   [0] ddp: steps 0 to 40, loss 0.0417427
 *   $ rm -r checkpoints
 *   $ weftrun -n 2 ./train zero2 25
 *   [0] zero2: steps 0 to 25, loss 0.122862
 *   $ weftrun -n 2 ./train full-shard 40
 *   [0] full-shard: steps 25 to 40, loss 0.0417427
 *   $ weftrun -n 3 ./train zero1 50
 *   [0] zero1: steps 40 to 50, loss 0.0189335
 */
#include <stdio.h>
#include <stdlib.h>

#include <weft/weft.h>

enum { INPUTS = 384, SAMPLES = 64, SAVE_EVERY = 10 };

static weft_shard_context_t model;
static weft_shard_unit_t linear;
static weft_shard_param_t weight;

static void check(weft_result_t result) {
  if (result) exit(fprintf(stderr, "%s\n", weft_last_error()) > 0);
}

static float uniform(uint64_t* seed) { /* in [-1, 1) */
  *seed = *seed * 6364136223846793005u + 1442695040888963407u;
  return (float)(*seed >> 40) / 8388608.0f - 1.0f;
}

/* One unit with one param, of the preset's sharding, updated by AdamW. */
static void make_model(weft_mesh_t mesh, const char* preset) {
  weft_shard_policy_t policy = {.struct_size = sizeof policy};
  check(weft_shard_preset_by_name(preset, &policy.preset));
  const int64_t shape[] = {INPUTS};
  const weft_shard_param_config_t config = {sizeof config, "weight", shape, 1, WEFT_FLOAT32, 0};
  check(weft_shard_context_create(mesh, NULL, &model));
  check(weft_shard_context_optimizer(model, NULL));
  check(weft_shard_unit_begin(model, "linear", &policy, &linear));
  check(weft_shard_unit_add_param(linear, &config, &weight));
  check(weft_shard_unit_seal(linear));
  check(weft_shard_context_finalize(model, NULL)); /* weights are 0 */
}

/* This rank's loss. The model is to learn that weight i is i mod 3 / 10. */
static double step(int64_t number, int rank) {
  uint64_t seed = 1000 * (uint64_t)number + (uint64_t)rank;
  static float x[SAMPLES][INPUTS], error[SAMPLES];
  double loss = 0;
  weft_shard_view_t view = {.struct_size = sizeof view};
  check(weft_shard_step_begin(model, NULL));
  check(weft_shard_microbatch_begin(model, NULL));

  check(weft_shard_pre_forward(linear, NULL)); /* weights are whole from here to post_forward */
  check(weft_shard_param_view(weight, &view));
  for (int s = 0; s < SAMPLES; ++s) {
    error[s] = 0;
    for (int i = 0; i < INPUTS; ++i) {
      x[s][i] = uniform(&seed);
      error[s] += x[s][i] * (((float*)view.data)[i] - (float)(i % 3) / 10);
    }
    loss += error[s] * error[s] / SAMPLES;
  }
  check(weft_shard_post_forward(linear, NULL));

  check(weft_shard_pre_backward(linear, NULL));
  check(weft_shard_param_view(weight, &view));
  for (int s = 0; s < SAMPLES; ++s)
    for (int i = 0; i < INPUTS; ++i)
      ((float*)view.grad)[i] += 2 * error[s] * x[s][i] / SAMPLES;
  check(weft_shard_grad_ready(weight, NULL, NULL)); /* its reduction starts */
  check(weft_shard_post_backward(linear, NULL));

  const weft_shard_update_t update = {.struct_size = sizeof update, .learning_rate = 0.02};
  check(weft_shard_microbatch_end(model, NULL));
  check(weft_shard_finish(model, NULL, NULL));
  check(weft_shard_optimizer_step(model, &update, NULL));
  check(weft_shard_step_end(model));
  return loss;
}

int main(int argc, char** argv) {
  const char* preset = argc > 1 ? argv[1] : "full-shard";
  const int64_t steps = argc > 2 ? atoi(argv[2]) : 40;
  weft_group_t group;
  weft_mesh_t mesh;
  weft_checkpoint_t checkpoint;
  int rank;
  check(weft_group_create_from_env(NULL, &group));
  check(weft_group_rank(group, &rank));
  check(weft_mesh_create(group, NULL, &mesh));
  make_model(mesh, preset);

  const weft_checkpoint_config_t config = {
      .struct_size = sizeof config, .directory = "checkpoints", .keep_last = 2};
  weft_checkpoint_loaded_t loaded = {.struct_size = sizeof loaded};
  check(weft_checkpoint_create(group, &config, &checkpoint));
  check(weft_checkpoint_add_context(checkpoint, NULL, model));
  check(weft_checkpoint_load(checkpoint, NULL, &loaded));
  const int64_t first = loaded.found ? loaded.step : 0;

  double loss = 0;
  for (int64_t done = first; done < steps;) {
    loss = step(done, rank);
    if (++done % SAVE_EVERY == 0 || done == steps) { /* written while training goes on */
      const weft_checkpoint_save_config_t save = {sizeof save, done, .background = 1};
      check(weft_checkpoint_save(checkpoint, &save));
    }
  }
  check(weft_all_reduce(&loss, &loss, 1, WEFT_FLOAT64, WEFT_AVG, group, NULL, NULL));
  check(weft_checkpoint_wait(checkpoint, 0)); /* whether the last one is on the disk */
  if (rank == 0) printf("%s: steps %d to %d, loss %.6g\n", preset, (int)first, (int)steps, loss);

  check(weft_checkpoint_destroy(checkpoint));
  check(weft_shard_context_destroy(model));
  check(weft_mesh_destroy(mesh));
  check(weft_group_destroy(group));
  return 0;
}
