// What the program is asked from outside: SIGTERM, SIGINT and SIGHUP to end after the step under way, SIGUSR1 to save and go on. Who stops
// a job may well send it several signals: systemd to all processes of a unit, a scheduler to all of a step, while weftrun passes on its own.
// So all that come within kOneStopNs of the first to end are one request, and so is whatever weftrun passes on, however late: it has a
// signal of its own for ranks that are to end at once. Any other one that comes later ends the process at once, with kExitNotWritten.
//
//   CatchStopSignals();                          // first thing in main
//   uint64_t mine = TakeRequests();              // each step; kRequestSave is taken, the others stay
//   ... requests of all ranks, the same on each ...
//   if (StopCode(requests) != 0) ...             // 143, 130 or 129: what the program exits with
//
// One rank that is asked is enough: requests travel with the step, so all ranks stop after the same one.
//
// Thread-safety: any thread.
#ifndef WEFT_TRAINER_STOP_SIGNALS_H_
#define WEFT_TRAINER_STOP_SIGNALS_H_

#include <cstdint>

namespace weft::trainer {

constexpr uint64_t kRequestSave = 1;
constexpr uint64_t kRequestTerminate = 2;  // SIGTERM
constexpr uint64_t kRequestInterrupt = 4;  // SIGINT
constexpr uint64_t kRequestHangUp = 8;     // SIGHUP

constexpr int64_t kOneStopNs = 2'000'000'000;
constexpr int64_t kWaitAfterStopNs = 5'000'000'000;  // for other ranks

// Of the whole process, for good. Before any other thread is started, as threads inherit what they block. A signal that is
// ignored (nohup, a script's background job) stays ignored.
void CatchStopSignals();

uint64_t TakeRequests();
// The same, but nothing is taken.
uint64_t PendingRequests();

// Somebody has asked to end, kWaitAfterStopNs ago or longer. For weft_set_interrupt: who waits for others that have not come by then waits
// in vain.
int AskedLongAgo(void* unused);

// 128 + the number of the signal, of several that of SIGTERM, then SIGINT; 0: nobody has asked to end.
int StopCode(uint64_t requests);

}  // namespace weft::trainer

#endif  // WEFT_TRAINER_STOP_SIGNALS_H_
