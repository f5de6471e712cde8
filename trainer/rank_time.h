// How long how many ranks have been at a run since it was started, as ranks are lost and join: what
// it costs.
//
//   RankTime time(4, RankTime::Clock::now());
//   time.Change(3, RankTime::Clock::now());                      // one was lost
//   const double hours = time.RankSeconds(RankTime::Clock::now()) / 3600;
//
// Thread-safety: a value. It has times of this machine's clock; another machine gets it as
// TimeSent.
#ifndef WEFT_TRAINER_RANK_TIME_H_
#define WEFT_TRAINER_RANK_TIME_H_

#include <chrono>
#include <cstddef>

namespace weft::trainer {

class RankTime {
 public:
  using Clock = std::chrono::steady_clock;

  // Up to the moment of sending; bytes as they are.
  struct TimeSent {
    size_t ranks = 0;
    double seconds = 0;
    double rank_seconds = 0;
    bool changed = false;
  };

  RankTime() = default;

  RankTime(size_t ranks, Clock::time_point start) : ranks_(ranks), start_(start), since_(start) {}

  RankTime(const TimeSent& sent, Clock::time_point now)
      : ranks_(sent.ranks),
        start_(now - std::chrono::duration_cast<Clock::duration>(
                         std::chrono::duration<double>(sent.seconds))),
        since_(now),
        earlier_(sent.rank_seconds),
        changed_(sent.changed) {}

  // From now on there are other ranks, maybe as many.
  void Change(size_t ranks, Clock::time_point now) {
    earlier_ = RankSeconds(now);
    since_ = now;
    ranks_ = ranks;
    changed_ = true;
  }

  // Since the run was started.
  double Seconds(Clock::time_point now) const { return Between(start_, now); }

  // The sum of the ranks'.
  double RankSeconds(Clock::time_point now) const {
    return earlier_ + double(ranks_) * Between(since_, now);
  }

  bool changed() const { return changed_; }

  TimeSent Sent(Clock::time_point now) const {
    return {ranks_, Seconds(now), RankSeconds(now), changed_};
  }

 private:
  static double Between(Clock::time_point first, Clock::time_point last) {
    return std::chrono::duration<double>(last - first).count();
  }

  size_t ranks_ = 0;
  Clock::time_point start_, since_;  // of the run; of these ranks
  double earlier_ = 0;               // seconds of ranks up to since_
  bool changed_ = false;
};

}  // namespace weft::trainer

#endif  // WEFT_TRAINER_RANK_TIME_H_
