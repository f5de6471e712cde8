// What the signals that ask weftrun to end come to. Who stops a job may well send several at once: systemd signals all processes of a
// unit, GNU timeout its child and then its process group, a scheduler all processes of a step. So all that come within
// kOneRequestNs of a request's first signal are that request, however many; one that comes later is another request.
//
//   switch (stop.Note(SIGTERM, MonotonicNs())) ...
//   if (stop.count() > 1) ...                            // somebody does not want to wait
//
// Thread-safety: one thread.
#pragma once

#include <cstdint>
#include <set>

namespace weft {

class StopRequests {
 public:
  // Long enough for the signals of one stop to arrive on a busy machine; short for who presses Ctrl-C again.
  static constexpr int64_t kOneRequestNs = 2'000'000'000;

  enum class Kind {
    kNew,     // a request
    kAlso,    // the one before, by a signal that has not come in it
    kRepeat,  // the one before, by a signal that has
  };

  Kind Note(int signal, int64_t now_ns);

  // Requests so far.
  int count() const { return count_; }

  // The first one of the last request; 0: nobody has asked.
  int signal() const { return signal_; }

 private:
  int count_ = 0;
  int signal_ = 0;
  int64_t began_ns_ = 0;
  std::set<int> signals_;  // of the last request
};

}  // namespace weft
