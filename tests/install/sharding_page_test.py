"""The step with which docs/sharding.md begins, and its checkpoint, compile and run; the step's memory is what the page says."""
import subprocess

from page_blocks import blocks
from page_test_case import PageTestCase, main

_DEADLINE_S = 60
# What the page leaves to the reader.
_BEFORE = """
#include <stdio.h>
#include <stdlib.h>
#include <weft/weft.h>

static weft_shard_unit_t block[4];
static weft_shard_param_t weight[4];
static const char* const block_names[] = {"block.0", "block.1", "block.2", "block.3"};
static const char* const weight_names[] = {"block.0.w", "block.1.w", "block.2.w", "block.3.w"};

static void check(weft_result_t result) {
  if (result) {
    fprintf(stderr, "%s\\n", weft_last_error());
    exit(1);
  }
}

static weft_shard_view_t view(int i) {
  weft_shard_view_t found = {.struct_size = sizeof found};
  check(weft_shard_param_view(weight[i], &found));
  return found;
}

static void forward(int i) {
  if (*(float*)view(i).data != 0) exit(2);
}

static void backward(int i) {
  *(float*)view(i).grad += 0;
}

/* One state of one param after the other, of 4 MiB each. */
static FILE* file;

static void write_elements(int i, int kind, size_t begin, size_t count, const void* data) {
  fseek(file, (long)(((size_t)(4 * i + kind) << 20) + begin) * 4, SEEK_SET);
  if (fwrite(data, 4, count, file) != count || fflush(file)) exit(3);
}

static void read_elements(int i, int kind, size_t begin, size_t count, void* data) {
  fseek(file, (long)(((size_t)(4 * i + kind) << 20) + begin) * 4, SEEK_SET);
  if (fread(data, 4, count, file) != count) exit(4);
}
"""
_AFTER = """
int main(int count, char** arguments) {
  const char* const path = arguments[count - 1];
  weft_group_t group;
  weft_mesh_t mesh;
  weft_shard_context_t model;
  weft_shard_plan_t plan = {.struct_size = sizeof plan};
  int rank;
  check(weft_group_create_from_env(NULL, &group));
  check(weft_group_rank(group, &rank));
  check(weft_mesh_create(group, NULL, &mesh));
  check(weft_shard_context_create(mesh, NULL, &model));
  declare_model(model);
  check(weft_shard_context_plan(model, &plan));
  if (rank == 0)
    printf("%d %d %d %d %d %d %d\\n", (int)(plan.param_bytes >> 20), (int)(plan.grad_bytes >> 20), (int)(plan.optimizer_bytes >> 20),
           (int)(plan.pool_bytes >> 20), (int)(plan.peak_bytes >> 20), (int)(plan.gather_bytes >> 20), (int)(plan.traffic_bytes >> 20));
  train_step(model);
  train_step(model);

  /* Values that say where they are, into a file; then a context of another kind reads them. */
  weft_shard_state_scalars_t scalars = {.struct_size = sizeof scalars};
  if (rank == 0) file = fopen(path, "w+");
  check(weft_barrier(group, NULL, NULL));
  if (rank > 0) file = fopen(path, "r+");
  if (!file) return 5;
  for (int i = 0; i < 4; ++i) {
    weft_shard_part_t part = {.struct_size = sizeof part};
    check(weft_shard_param_part(weight[i], &part));
    for (size_t k = 0; k < part.count; ++k)
      ((float*)part.data)[k] = (float)(part.begin + k) * (float)(i + 1);
  }
  check(weft_shard_params_updated(model, NULL));
  save_state(model, &scalars);
  check(weft_shard_context_destroy(model));
  check(weft_barrier(group, NULL, NULL));
  check(weft_shard_context_create(mesh, NULL, &model));
  declare_model(model);
  restore_state(model, &scalars);
  train_step(model);
  check(weft_shard_state_scalars_get(model, &scalars));
  float* values = malloc(4 << 20);
  for (int i = 0; i < 4; ++i) {
    const weft_shard_read_t read = {.struct_size = sizeof read, .values = values, .root = WEFT_SHARD_EVERY_RANK};
    check(weft_shard_param_read(weight[i], &read));
    for (int k = 0; k < 1 << 20; ++k)
      if (values[k] != (float)k * (float)(i + 1)) return 6;
  }
  free(values);
  fclose(file);
  if (rank == 0) printf("%d updates\\n", (int)scalars.update_count);
  return weft_shard_context_destroy(model) || weft_mesh_destroy(mesh) || weft_group_destroy(group);
}
"""


class WorkedStep(PageTestCase):
    page_name = "sharding.md"

    def test_it_compiles_and_runs_with_the_memory_that_the_page_says(self):
        on_the_page = blocks(self.page, "c")
        self.assertEqual(3, len(on_the_page))
        program = self.compiled(_BEFORE + "".join(on_the_page) + _AFTER)
        done = subprocess.run([self.build / "bin" / "weftrun", "-n", "4", program, self.folder / "state"], check=False,
                              capture_output=True, text=True, timeout=_DEADLINE_S)
        self.assertEqual(0, done.returncode, done.stdout + done.stderr)
        self.assertEqual("[0] 4 4 8 12 28 28 16\n[0] 3 updates\n", done.stdout)
        text = " ".join(self.page.split())
        for sentence in ("4 MiB of params, 4 MiB of gradients and 8 MiB of optimizer state", "A *pool* of 12 MiB", "gathers 28 MiB",
                         "reduces 16 MiB", "The peak is 28 MiB"):
            self.assertIn(sentence, text)


if __name__ == "__main__":
    main()
