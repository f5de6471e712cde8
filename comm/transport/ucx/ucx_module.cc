// The module: what of UCX the table names, and nothing of weft. Compiled into libweft_ucx.so alone.
//
// Endpoints have error handling (UCP_ERR_HANDLING_MODE_PEER): without it UCX ends the process when a peer dies. Memory of a part is
// touched in progress() only, or by an adapter that reads and writes on behalf of a connection of this worker's, so it is not touched any
// more once its request has ended; ending a connection ends all requests of it.
#include "comm/transport/ucx/ucx_module.h"

#include <cstdio>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include <ucm/api/ucm.h>
#include <ucp/api/ucp.h>

#include "base/standard_fds.h"

namespace weft {

// Freed by the ask() that gets another answer than kUnderWay: UCX has done with it then.
struct UcxPart {
  UcxWorker* worker = nullptr;
  void* request = nullptr;
  UcxAnswer answer = UcxAnswer::kUnderWay;
  size_t bytes = 0;
  bool discards = false;
};

// Room for something that is said: UCX reads it until it has left.
struct UcxSaid {
  UcxPeer* peer = nullptr;
  std::byte data[kUcxSaidBytesMax];
};

struct UcxPeer {
  UcxWorker* worker = nullptr;
  ucp_ep_h endpoint = nullptr;
  uint64_t number = 0;
  uint32_t unsaid = 0;
  bool lost = false;
  bool named = true;  // by the caller
};

struct UcxWorker {
  UcxEvents events;
  ucp_context_h context = nullptr;
  ucp_worker_h worker = nullptr;
  ucp_address_t* address = nullptr;
  size_t address_bytes = 0;
  int descriptor = -1;
  std::vector<std::unique_ptr<UcxPeer>> peers;
  std::vector<std::unique_ptr<UcxSaid>> spare;
  std::vector<void*> endings;  // requests
};

namespace {

constexpr unsigned kSayId = 1;
constexpr unsigned kProgressMax = 16;

void Explain(UcxReason* why, const char* doing, ucs_status_t status) {
  std::snprintf(why->text, sizeof(why->text), "%s: %s", doing, ucs_status_string(status));
}

// A message that was said, in the memory of UCX.
ucs_status_t Hear(void* argument, const void* /*header*/, size_t /*header_bytes*/, void* data,
                  size_t bytes, const ucp_am_recv_param_t* parameters) {
  const auto* const worker = static_cast<const UcxWorker*>(argument);
  // Whoever sends what is not to come in one go is no rank.
  if ((parameters->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) != 0) return UCS_OK;
  worker->events.heard(worker->events.owner, data, bytes);
  return UCS_OK;
}

void Lose(void* argument, ucp_ep_h /*endpoint*/, ucs_status_t status) {
  auto* const peer = static_cast<UcxPeer*>(argument);
  if (peer->lost || !peer->named) return;
  peer->lost = true;
  const UcxEvents& events = peer->worker->events;
  events.lost(events.owner, peer->number, ucs_status_string(status));
}

bool OpenContext(UcxWorker* worker, const char* transports, UcxReason* why) {
  HoldStandardFds();  // it opens sockets and devices from here on
  // Hooks into the program's memory functions are not ours to set.
  ucm_global_opts.enable_events = 0;
  ucp_config_t* config = nullptr;
  ucs_status_t status = ucp_config_read(nullptr, nullptr, &config);
  if (status != UCS_OK) {
    Explain(why, "ucp_config_read", status);
    return false;
  }
  if (transports != nullptr) status = ucp_config_modify(config, "TLS", transports);
  ucp_params_t parameters = {};
  parameters.field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_NAME;
  parameters.features = UCP_FEATURE_TAG | UCP_FEATURE_AM | UCP_FEATURE_WAKEUP;
  parameters.name = "weft";
  if (status == UCS_OK) status = ucp_init(&parameters, config, &worker->context);
  ucp_config_release(config);
  if (status != UCS_OK) Explain(why, "ucp_init", status);
  return status == UCS_OK;
}

bool OpenWorker(UcxWorker* worker, UcxReason* why) {
  ucp_worker_params_t parameters = {};
  parameters.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
  parameters.thread_mode = UCS_THREAD_MODE_SERIALIZED;
  ucs_status_t status = ucp_worker_create(worker->context, &parameters, &worker->worker);
  if (status != UCS_OK) {
    Explain(why, "ucp_worker_create", status);
    return false;
  }
  ucp_am_handler_param_t handler = {};
  handler.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB |
                       UCP_AM_HANDLER_PARAM_FIELD_ARG;
  handler.id = kSayId;
  handler.cb = Hear;
  handler.arg = worker;
  status = ucp_worker_set_am_recv_handler(worker->worker, &handler);
  if (status == UCS_OK) status = ucp_worker_get_efd(worker->worker, &worker->descriptor);
  ucp_worker_attr_t attributes = {};
  attributes.field_mask = UCP_WORKER_ATTR_FIELD_ADDRESS | UCP_WORKER_ATTR_FIELD_ADDRESS_FLAGS;
  attributes.address_flags = UCP_WORKER_ADDRESS_FLAG_NET_ONLY;
  if (status == UCS_OK) status = ucp_worker_query(worker->worker, &attributes);
  if (status != UCS_OK) {
    Explain(why, "asking for the address of a worker", status);
    return false;
  }
  worker->address = attributes.address;
  worker->address_bytes = attributes.address_length;
  return true;
}

uint32_t Progress(UcxWorker* worker) {
  uint32_t done = 0;
  for (unsigned round = 0; round < kProgressMax; ++round) {
    const unsigned now = ucp_worker_progress(worker->worker);
    if (now == 0) break;
    done += now;
  }
  return done;
}

uint32_t Ending(const UcxWorker* worker) {
  return static_cast<uint32_t>(worker->endings.size());
}

// Takes those that have ended out of the list.
void Reap(UcxWorker* worker) {
  std::erase_if(worker->endings, [](void* request) {
    if (ucp_request_check_status(request) == UCS_INPROGRESS) return false;
    ucp_request_free(request);
    return true;
  });
}

uint32_t ProgressAndReap(UcxWorker* worker) {
  const uint32_t done = Progress(worker);
  if (!worker->endings.empty()) Reap(worker);
  return done;
}

void Disconnect(UcxPeer* peer, bool flush) {
  UcxWorker& worker = *peer->worker;
  peer->named = false;
  ucp_request_param_t parameters = {};
  parameters.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
  parameters.flags = flush && !peer->lost ? 0 : UCP_EP_CLOSE_FLAG_FORCE;
  void* const request = ucp_ep_close_nbx(peer->endpoint, &parameters);
  peer->endpoint = nullptr;
  // It stays in the list: what was said may be on its way still.
  if (request != nullptr && !UCS_PTR_IS_ERR(request)) worker.endings.push_back(request);
}

void Close(UcxWorker* worker) {
  for (const auto& peer : worker->peers) {
    if (peer->endpoint != nullptr) Disconnect(peer.get(), /*flush=*/false);
  }
  // Ended by force these need no peer; the worker's end takes what is left.
  constexpr unsigned kRounds = 10'000;
  for (unsigned round = 0; round < kRounds && !worker->endings.empty(); ++round)
    (void)ProgressAndReap(worker);
  for (void* const request : worker->endings)
    ucp_request_free(request);
  if (worker->address != nullptr) ucp_worker_release_address(worker->worker, worker->address);
  if (worker->worker != nullptr) ucp_worker_destroy(worker->worker);
  if (worker->context != nullptr) ucp_cleanup(worker->context);
  delete worker;
}

UcxWorker* Open(const UcxOpening* opening, UcxReason* why) {
  auto* const worker = new UcxWorker();
  worker->events = opening->events;
  if (OpenContext(worker, opening->transports, why) && OpenWorker(worker, why)) return worker;
  Close(worker);
  return nullptr;
}

const void* Address(const UcxWorker* worker, size_t* bytes) {
  *bytes = worker->address_bytes;
  return worker->address;
}

int EventDescriptor(const UcxWorker* worker) {
  return worker->descriptor;
}

UcxAnswer Arm(UcxWorker* worker) {
  switch (ucp_worker_arm(worker->worker)) {
    case UCS_OK:
      return UcxAnswer::kDone;
    case UCS_ERR_BUSY:
      return UcxAnswer::kUnderWay;
    default:
      return UcxAnswer::kFailed;
  }
}

UcxPeer* Connect(UcxWorker* worker, const void* address, size_t /*bytes*/, uint64_t number,
                 UcxReason* why) {
  auto peer = std::make_unique<UcxPeer>();
  peer->worker = worker;
  peer->number = number;
  ucp_ep_params_t parameters = {};
  parameters.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                          UCP_EP_PARAM_FIELD_ERR_HANDLER;
  parameters.address = static_cast<const ucp_address_t*>(address);
  parameters.err_mode = UCP_ERR_HANDLING_MODE_PEER;
  parameters.err_handler.cb = Lose;
  parameters.err_handler.arg = peer.get();
  const ucs_status_t status = ucp_ep_create(worker->worker, &parameters, &peer->endpoint);
  if (status != UCS_OK) {
    Explain(why, "ucp_ep_create", status);
    return nullptr;
  }
  worker->peers.push_back(std::move(peer));
  return worker->peers.back().get();
}

// --- What is said --------------------------------------------------------------------------------

void EndSaying(void* request, ucs_status_t /*status*/, void* argument) {
  std::unique_ptr<UcxSaid> said(static_cast<UcxSaid*>(argument));
  --said->peer->unsaid;
  said->peer->worker->spare.push_back(std::move(said));
  ucp_request_free(request);
}

// What leaves at once, as nearly everything does, is sent from one and the same room.
UcxAnswer Say(UcxPeer* peer, const iovec* pieces, size_t count) {
  if (peer->lost) return UcxAnswer::kFailed;
  if (peer->unsaid >= kUcxUnsaidMax) return UcxAnswer::kUnderWay;
  std::vector<std::unique_ptr<UcxSaid>>& spare = peer->worker->spare;
  if (spare.empty()) spare.push_back(std::make_unique<UcxSaid>());
  UcxSaid* const said = spare.back().get();
  said->peer = peer;
  size_t bytes = 0;
  for (size_t i = 0; i < count; ++i) {
    if (pieces[i].iov_len > sizeof(said->data) - bytes) return UcxAnswer::kFailed;
    std::memcpy(said->data + bytes, pieces[i].iov_base, pieces[i].iov_len);
    bytes += pieces[i].iov_len;
  }
  ucp_request_param_t parameters = {};
  parameters.op_attr_mask =
      UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_FLAGS;
  parameters.flags = UCP_AM_SEND_FLAG_EAGER;
  parameters.cb.send = EndSaying;
  parameters.user_data = said;
  const ucs_status_ptr_t sent =
      ucp_am_send_nbx(peer->endpoint, kSayId, nullptr, 0, said->data, bytes, &parameters);
  if (sent == nullptr) return UcxAnswer::kDone;
  if (UCS_PTR_IS_ERR(sent)) return UcxAnswer::kFailed;
  ++peer->unsaid;
  (void)spare.back().release();  // EndSaying's
  spare.pop_back();
  return UcxAnswer::kDone;
}

uint32_t Unsaid(const UcxPeer* peer) {
  return peer->unsaid;
}

// --- Parts ---------------------------------------------------------------------------------------

UcxAnswer AnswerOf(const UcxPart& part, ucs_status_t status) {
  if (status == UCS_OK) return UcxAnswer::kDone;
  return part.discards && status == UCS_ERR_MESSAGE_TRUNCATED ? UcxAnswer::kDone
                                                              : UcxAnswer::kFailed;
}

void EndSending(void* /*request*/, ucs_status_t status, void* argument) {
  auto* const part = static_cast<UcxPart*>(argument);
  part->answer = AnswerOf(*part, status);
}

void EndReceiving(void* /*request*/, ucs_status_t status, const ucp_tag_recv_info_t* info,
                  void* argument) {
  auto* const part = static_cast<UcxPart*>(argument);
  const bool short_of = status == UCS_OK && !part->discards && info->length != part->bytes;
  part->answer = short_of ? UcxAnswer::kFailed : AnswerOf(*part, status);
}

// What UCX says of a request that was just made: kUnderWay keeps the part.
UcxAnswer Begun(ucs_status_ptr_t request, std::unique_ptr<UcxPart> part, UcxPart** out) {
  if (request == nullptr) return UcxAnswer::kDone;
  if (UCS_PTR_IS_ERR(request)) return AnswerOf(*part, UCS_PTR_STATUS(request));
  part->request = request;
  *out = part.release();
  return UcxAnswer::kUnderWay;
}

UcxAnswer SendPart(UcxPeer* peer, uint64_t tag, const void* memory, size_t bytes, UcxPart** out) {
  if (peer->lost) return UcxAnswer::kFailed;
  auto part = std::make_unique<UcxPart>();
  part->worker = peer->worker;
  ucp_request_param_t parameters = {};
  parameters.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
  parameters.cb.send = EndSending;
  parameters.user_data = part.get();
  const ucs_status_ptr_t request =
      ucp_tag_send_nbx(peer->endpoint, memory, bytes, tag, &parameters);
  return Begun(request, std::move(part), out);
}

UcxAnswer ReceivePart(UcxWorker* worker, uint64_t tag, void* memory, size_t bytes, UcxPart** out) {
  auto part = std::make_unique<UcxPart>();
  part->worker = worker;
  part->bytes = bytes;
  part->discards = memory == nullptr;
  ucp_request_param_t parameters = {};
  // Always by the callback: what is there already is not told otherwise.
  parameters.op_attr_mask =
      UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FLAG_NO_IMM_CMPL;
  parameters.cb.recv = EndReceiving;
  parameters.user_data = part.get();
  const ucs_status_ptr_t request = ucp_tag_recv_nbx(
      worker->worker, memory, memory == nullptr ? 0 : bytes, tag, ~uint64_t{0}, &parameters);
  return Begun(request, std::move(part), out);
}

UcxAnswer Ask(UcxPart* part) {
  const UcxAnswer answer = part->answer;
  if (answer == UcxAnswer::kUnderWay) return answer;
  ucp_request_free(part->request);
  delete part;
  return answer;
}

void Cancel(UcxPart* part) {
  ucp_request_cancel(part->worker->worker, part->request);
}

const char* Library() {
  static char name[32];
  unsigned major = 0;
  unsigned minor = 0;
  unsigned patch = 0;
  ucp_get_version(&major, &minor, &patch);
  std::snprintf(name, sizeof(name), "UCX %u.%u.%u", major, minor, patch);
  return name;
}

}  // namespace
}  // namespace weft

extern "C" __attribute__((visibility("default"))) const weft::UcxModule* weft_ucx_module() {
  static const weft::UcxModule module = {
      .table = {weft::kUcxModuleVersion, sizeof(weft::UcxModule)},
      .library = weft::Library(),
      .open = weft::Open,
      .close = weft::Close,
      .address = weft::Address,
      .event_descriptor = weft::EventDescriptor,
      .arm = weft::Arm,
      .progress = weft::ProgressAndReap,
      .connect = weft::Connect,
      .disconnect = weft::Disconnect,
      .ending = weft::Ending,
      .say = weft::Say,
      .unsaid = weft::Unsaid,
      .send_part = weft::SendPart,
      .receive_part = weft::ReceivePart,
      .ask = weft::Ask,
      .cancel = weft::Cancel,
  };
  return &module;
}
