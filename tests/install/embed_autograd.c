/* An autograd of its own, trained by weft: embed_autograd [PRESET [LEARNING_RATE]] */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weft/weft.h>

enum { WIDTH = 32, BATCH = 32, NODES = 6 };

typedef struct node { /* reads the output of the node before it, adds to that one's gradient */
  void (*forward)(struct node* node), (*backward)(struct node* node);
  int in, out;            /* numbers per sample */
  const char* names[3];   /* of unit, weight and bias */
  weft_shard_unit_t unit; /* NULL: nothing to learn */
  weft_shard_param_t weight, bias;
  float y[BATCH * WIDTH], dy[BATCH * WIDTH];
} node_t;

static void check(weft_result_t result) {
  if (result) exit(fprintf(stderr, "%s\n", weft_last_error()) > 0);
}

static weft_shard_view_t view(weft_shard_param_t param) {
  weft_shard_view_t found = {.struct_size = sizeof found};
  check(weft_shard_param_view(param, &found));
  return found;
}

static void linear_forward(node_t* node) {
  const float *x = node[-1].y, *w = view(node->weight).data, *b = view(node->bias).data;
  for (int i = 0; i < BATCH * node->out; ++i) {
    const int first = i / node->out * node->in, o = i % node->out;
    node->y[i] = b[o];
    for (int k = 0; k < node->in; ++k)
      node->y[i] += w[o * node->in + k] * x[first + k];
  }
}

static void linear_backward(node_t* node) {
  const float *x = node[-1].y, *w = view(node->weight).data;
  float *dx = node[-1].dy, *dw = view(node->weight).grad, *db = view(node->bias).grad;
  for (int i = 0; i < BATCH * node->out; ++i) {
    const int first = i / node->out * node->in, o = i % node->out;
    db[o] += node->dy[i];
    for (int k = 0; k < node->in; ++k) {
      dw[o * node->in + k] += node->dy[i] * x[first + k];
      dx[first + k] += node->dy[i] * w[o * node->in + k];
    }
  }
  check(weft_shard_grad_ready(node->weight, NULL, NULL));
  check(weft_shard_grad_ready(node->bias, NULL, NULL));
}

static void relu_forward(node_t* node) {
  for (int i = 0; i < BATCH * node->out; ++i)
    node->y[i] = fmaxf(node[-1].y[i], 0);
}

static void relu_backward(node_t* node) {
  for (int i = 0; i < BATCH * node->out; ++i)
    node[-1].dy[i] += node->y[i] > 0 ? node->dy[i] : 0;
}

static node_t tape[NODES] = {
    {.out = 2},
    {linear_forward, linear_backward, 2, WIDTH, .names = {"layer1", "w1", "b1"}},
    {relu_forward, relu_backward, WIDTH, .out = WIDTH},
    {linear_forward, linear_backward, WIDTH, WIDTH, .names = {"layer2", "w2", "b2"}},
    {relu_forward, relu_backward, WIDTH, .out = WIDTH},
    {linear_forward, linear_backward, WIDTH, 1, .names = {"layer3", "w3", "b3"}}};

static float uniform(uint64_t* seed) { /* in [-1, 1) */
  *seed = *seed * 6364136223846793005u + 1442695040888963407u;
  return (float)(*seed >> 40) / 8388608.0f - 1.0f;
}

static float step(weft_shard_context_t model, uint64_t* seed, double rate) { /* 0: eval */
  node_t *const last = tape + NODES - 1, *node;
  weft_shard_step_t kind = {sizeof kind, .mode = rate > 0 ? WEFT_SHARD_TRAIN : WEFT_SHARD_EVAL};
  check(weft_shard_step_begin(model, &kind));
  check(weft_shard_microbatch_begin(model, NULL)); /* the only one */
  for (int i = 0; i < BATCH * tape->out; ++i)
    tape->y[i] = uniform(seed);
  for (node = tape + 1; node <= last; ++node) {
    if (node->unit) check(weft_shard_pre_forward(node->unit, NULL));
    node->forward(node);
    if (node->unit) check(weft_shard_post_forward(node->unit, NULL));
    memset(node[-1].dy, 0, sizeof node->dy);
  }
  float loss = 0;
  for (int i = 0; i < BATCH; ++i) {
    const float error = last->y[i] - tape->y[2 * i] * tape->y[2 * i + 1];
    loss += error * error / BATCH;
    last->dy[i] = 2 * error / BATCH;
  }
  if (!isfinite(loss)) check(weft_shard_abort_step(model, "the loss is not finite"));
  for (node = last; rate > 0 && node > tape; --node) {
    if (node->unit) check(weft_shard_pre_backward(node->unit, NULL));
    node->backward(node);
    if (node->unit) check(weft_shard_post_backward(node->unit, NULL));
  }
  check(weft_shard_microbatch_end(model, NULL));
  check(weft_shard_finish(model, NULL, NULL));
  const weft_shard_update_t update = {sizeof update, rate, .norm_max = 1};
  if (rate > 0) check(weft_shard_optimizer_step(model, &update, NULL));
  check(weft_shard_step_end(model));
  return loss;
}

int main(int argc, char** argv) {
  weft_shard_policy_t policy = {.struct_size = sizeof policy, .preset = WEFT_SHARD_FULL_SHARD};
  if (argc > 1) policy.preset = (weft_shard_preset_t)atoi(argv[1]);
  weft_group_t group;
  weft_mesh_t mesh;
  weft_shard_context_t model;
  int rank;
  check(weft_group_create_from_env(NULL, &group));
  check(weft_group_rank(group, &rank));
  check(weft_mesh_create(group, NULL, &mesh));
  check(weft_shard_context_create(mesh, NULL, &model));
  check(weft_shard_context_optimizer(model, NULL));
  for (node_t* n = tape + 1; n < tape + NODES; n += 2) {
    const int64_t shape[] = {n->out, n->in};
    const weft_shard_param_config_t w = {sizeof w, n->names[1], shape, 2, .dtype = WEFT_FLOAT32};
    const weft_shard_param_config_t b = {sizeof b, n->names[2], shape, 1, .dtype = WEFT_FLOAT32};
    check(weft_shard_unit_begin(model, n->names[0], &policy, &n->unit));
    check(weft_shard_unit_add_param(n->unit, &w, &n->weight));
    check(weft_shard_unit_add_param(n->unit, &b, &n->bias));
    check(weft_shard_unit_seal(n->unit));
  }
  weft_shard_plan_t plan = {.struct_size = sizeof plan};
  check(weft_shard_context_finalize(model, &plan));
  printf("params: %d bytes, pool: %d\n", (int)plan.param_bytes, (int)plan.pool_bytes);
  float values[WIDTH * WIDTH];
  uint64_t initial = 1, held_out = 2, seed = 3 + (uint64_t)rank;
  for (node_t* node = tape + 1; node < tape + NODES; node += 2) {
    for (int i = 0; i < node->out * node->in; ++i)
      values[i] = uniform(&initial) / sqrtf((float)node->in);
    const weft_shard_load_t load = {sizeof load, values, .root = WEFT_SHARD_EVERY_RANK};
    check(weft_shard_param_load(node->weight, &load));
  }
  for (int i = 0; i < 500; ++i)
    step(model, &seed, argc > 2 ? atof(argv[2]) : 0.01);
  uint32_t digest = 0, bits[WIDTH * WIDTH];
  for (node_t* node = tape + 1; node < tape + NODES; node += 2) {
    const weft_shard_read_t read = {sizeof read, bits, .root = WEFT_SHARD_EVERY_RANK};
    check(weft_shard_param_read(node->weight, &read));
    for (int i = 0; i < node->out * node->in; ++i)
      digest = (digest ^ bits[i]) * 16777619u;
  }
  printf("loss %.9g, digest %08x\n", step(model, &held_out, 0), digest);
  return weft_shard_context_destroy(model) || weft_mesh_destroy(mesh) || weft_group_destroy(group);
}
