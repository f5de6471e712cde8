/* Two ranks that exchange messages by UCX, and nothing else: what a collective between two nodes is measured against. EXCHANGE sends
 * and receives at once; ROUND_TRIP is there and back, of which ucx_perftest tells the half.
 *
 * Each writes the address of its worker into the folder of the pipes (COMPARE_PIPES), where the other one finds it. RANK says who it
 * is. Whoever waits calls ucp_worker_progress over and over, as ucx_perftest does. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <ucp/api/ucp.h>

#include "bench/compare/driver/backend.h"

enum { kWaitS = 30, kAddressBytesMax = 65536 };

static ucp_worker_h worker;
static ucp_ep_h peer;
static int rank;
static ucp_tag_t next_tag;

static const char* Sentence(ucs_status_t status) {
  return status == UCS_OK ? NULL : ucs_status_string(status);
}

static const char* Refuse(const struct command* command) {
  if (command->op == OP_EXCHANGE || command->op == OP_ROUND_TRIP) return NULL;
  return "messages alone are measured here";
}

/* What a call of UCX has returned: a failure, nothing as it has ended, or a request to wait for. */
static const char* Await(void* request) {
  if (request == NULL) return NULL;
  if (UCS_PTR_IS_ERR(request)) return Sentence(UCS_PTR_STATUS(request));
  ucs_status_t status = UCS_INPROGRESS;
  while ((status = ucp_request_check_status(request)) == UCS_INPROGRESS)
    ucp_worker_progress(worker);
  ucp_request_free(request);
  return Sentence(status);
}

static void* BeginSend(const void* memory, size_t bytes, ucp_tag_t tag) {
  const ucp_request_param_t param = {0};
  return ucp_tag_send_nbx(peer, memory, bytes, tag, &param);
}

static void* BeginReceive(void* memory, size_t bytes, ucp_tag_t tag) {
  const ucp_request_param_t param = {0};
  return ucp_tag_recv_nbx(worker, memory, bytes, tag, ~(ucp_tag_t)0, &param);
}

static const char* Exchange(const void* in, void* out, size_t bytes) {
  const ucp_tag_t tag = next_tag++;
  void* const receive = BeginReceive(out, bytes, tag);
  void* const send = BeginSend(in, bytes, tag);
  const char* const sent = Await(send);
  const char* const received = Await(receive);
  return sent != NULL ? sent : received;
}

static const char* RoundTrip(const void* in, void* out, size_t bytes) {
  const ucp_tag_t tag = next_tag++;
  if (rank == 0) {
    void* const answer = BeginReceive(out, bytes, tag);
    const char* const sent = Await(BeginSend(in, bytes, tag));
    const char* const received = Await(answer);
    return sent != NULL ? sent : received;
  }
  const char* const received = Await(BeginReceive(out, bytes, tag));
  return received != NULL ? received : Await(BeginSend(in, bytes, tag));
}

static const char* Run(const struct command* command, const void* in, void* out, size_t count) {
  const size_t bytes = count * ElementSize(command->dtype);
  return command->op == OP_EXCHANGE ? Exchange(in, out, bytes) : RoundTrip(in, out, bytes);
}

static const char* Barrier(void) {
  const char mine = 0;
  char others = 0;
  return Exchange(&mine, &others, 1);
}

/* Appears whole or not at all. */
static int WriteAddress(const char* folder, const void* address, size_t bytes) {
  char draft[4096];
  char path[4096];
  snprintf(draft, sizeof(draft), "%s/ucx-draft.%d", folder, rank);
  snprintf(path, sizeof(path), "%s/ucx.%d", folder, rank);
  FILE* const file = fopen(draft, "w");
  if (file == NULL) return 0;
  const int written = fwrite(address, 1, bytes, file) == bytes;
  return fclose(file) == 0 && written && rename(draft, path) == 0;
}

/* The other one's; NULL if it does not come. The process's to keep. */
static const void* ReadAddress(const char* folder) {
  static char address[kAddressBytesMax];
  char path[4096];
  snprintf(path, sizeof(path), "%s/ucx.%d", folder, 1 - rank);
  const struct timespec nap = {.tv_nsec = 10 * 1000 * 1000};
  for (int attempt = 0; attempt < kWaitS * 100; ++attempt) {
    FILE* const file = fopen(path, "r");
    if (file != NULL) {
      const size_t bytes = fread(address, 1, sizeof(address), file);
      fclose(file);
      return bytes > 0 ? address : NULL;
    }
    nanosleep(&nap, NULL);
  }
  return NULL;
}

static const char* Connect(const char* folder) {
  ucp_context_h context = NULL;
  const ucp_params_t params = {.field_mask = UCP_PARAM_FIELD_FEATURES, .features = UCP_FEATURE_TAG};
  ucs_status_t status = ucp_init(&params, NULL, &context);
  if (status != UCS_OK) return Sentence(status);
  const ucp_worker_params_t one_thread = {.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
                                          .thread_mode = UCS_THREAD_MODE_SINGLE};
  status = ucp_worker_create(context, &one_thread, &worker);
  if (status != UCS_OK) return Sentence(status);
  ucp_address_t* address = NULL;
  size_t bytes = 0;
  status = ucp_worker_get_address(worker, &address, &bytes);
  if (status != UCS_OK) return Sentence(status);
  if (!WriteAddress(folder, address, bytes)) return "the address cannot be written";
  ucp_worker_release_address(worker, address);
  const void* const others = ReadAddress(folder);
  if (others == NULL) return "the other rank's address does not come";
  const ucp_ep_params_t other = {.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS,
                                 .address = others};
  return Sentence(ucp_ep_create(worker, &other, &peer));
}

int main(void) {
  const char* const folder = getenv("COMPARE_PIPES");
  const char* const number = getenv("RANK");
  if (folder == NULL || number == NULL) {
    fprintf(stderr, "ucx driver: ./dev compare --nodes starts this program\n");
    return 1;
  }
  rank = (int)strtol(number, NULL, 10);
  const char* const failure = Connect(folder);
  if (failure != NULL) {
    fprintf(stderr, "ucx driver: %s\n", failure);
    return 1;
  }
  struct backend backend = {.version = ucp_get_version_string(),
                            .rank = rank,
                            .size = 2,
                            .refuse = Refuse,
                            .run = Run,
                            .barrier = Barrier};
  const int code = Drive(&backend);
  (void)Barrier(); /* what the other one waits for is on its way */
  return code;
}
