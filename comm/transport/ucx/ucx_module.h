// What libweft has of UCX: a table of functions in a library of its own, libweft_ucx.so, which is opened when it is wanted. So libweft
// needs no UCX, neither where it is compiled nor where it runs.
//
//   const UcxModule& ucx = ...;                                    // LoadUcxModule
//   UcxWorker* worker = ucx.open(&opening, &why);                  // its address is told to others
//   UcxPeer* peer = ucx.connect(worker, address, bytes, 3, &why);
//   ucx.say(peer, pieces, 2);                                      // small things; heard() there
//   ucx.send_part(peer, tag, memory, bytes, &part);                // large ones, from memory into memory
//   while (ucx.progress(worker) > 0) ...
//
// The table is all that both sides must agree on: plain types, and a number that is raised with every change of it. No function waits.
//
// Thread-safety: of a worker and what is made with it, one thread at a time. Workers know nothing of each other.
#pragma once

#include <cstddef>
#include <cstdint>

#include <sys/uio.h>

#include "base/module_table.h"

namespace weft {

inline constexpr uint32_t kUcxModuleVersion = 1;

struct UcxWorker;
struct UcxPeer;
struct UcxPart;

// What went wrong, for people.
struct UcxReason {
  char text[256];
};

// Called from within progress() alone; they call nothing of the table.
struct UcxEvents {
  void* owner = nullptr;
  // Something was said to this worker; the bytes are there during the call.
  void (*heard)(void* owner, const void* bytes, size_t count) = nullptr;
  // Nothing reaches the peer of that number any more. Once.
  void (*lost)(void* owner, uint64_t number, const char* why) = nullptr;
};

struct UcxOpening {
  UcxEvents events;
  const char* transports = nullptr;  // in UCX's grammar; nullptr: as the environment says
};

enum class UcxAnswer : int32_t {
  kDone = 0,
  kUnderWay = 1,  // say: nothing was taken, there is no room; arm: there is something to do
  kFailed = 2,
};

struct UcxModule {
  ModuleTable table;    // kUcxModuleVersion of its build
  const char* library;  // "UCX 1.13.1"

  // nullptr: it failed.
  UcxWorker* (*open)(const UcxOpening* opening, UcxReason* why);
  // Ends all that there still is of it. Memory of parts is not touched any more.
  void (*close)(UcxWorker* worker);
  const void* (*address)(const UcxWorker* worker, size_t* bytes);
  // Readable when there may be something to do, if it was armed since.
  int (*event_descriptor)(const UcxWorker* worker);
  UcxAnswer (*arm)(UcxWorker* worker);
  // How much was done; 0: nothing is left to do now.
  uint32_t (*progress)(UcxWorker* worker);

  // The peer of that address, by a number of the caller's. nullptr: it failed.
  UcxPeer* (*connect)(UcxWorker* worker, const void* address, size_t bytes, uint64_t number,
                      UcxReason* why);
  // Begins to end the connection: with `flush` after all that was said and sent has gone, else at once, and then its parts end as
  // kFailed. The peer is not named any more. How many are still ending says ending().
  void (*disconnect)(UcxPeer* peer, bool flush);
  uint32_t (*ending)(const UcxWorker* worker);

  // Copies the pieces, all of them: at most kUcxSaidBytesMax. They arrive as one, in any order with others.
  UcxAnswer (*say)(UcxPeer* peer, const iovec* pieces, size_t count);
  // How many of these have not left yet; kUcxUnsaidMax: there is no room for more.
  uint32_t (*unsaid)(const UcxPeer* peer);

  // The memory is the worker's while it is kUnderWay: then ask by `*part`, which is gone with another answer. A tag is unique in the job.
  UcxAnswer (*send_part)(UcxPeer* peer, uint64_t tag, const void* memory, size_t bytes,
                         UcxPart** part);
  // Without memory what comes is thrown away.
  UcxAnswer (*receive_part)(UcxWorker* worker, uint64_t tag, void* memory, size_t bytes,
                            UcxPart** part);
  UcxAnswer (*ask)(UcxPart* part);
  // Of a receive: it ends as kFailed soon if nothing has come of it, else as it would have.
  void (*cancel)(UcxPart* part);
};

inline constexpr size_t kUcxSaidBytesMax = 16 << 10;
inline constexpr uint32_t kUcxUnsaidMax = 64;

}  // namespace weft
