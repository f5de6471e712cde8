// Which bytes of texts validate, so that both sides have text of all kinds and no byte is on both.
//
//   std::vector<uint64_t> last = BytesToValidate({{"a.txt", 1000000}, {"b.txt", 300}}, 0.1);
//
// Of a large text (above 64 KiB, or above that part of all) the last part validates. A small one
// validates or trains as a whole, in the order of hashes of the names, until they have their part:
// which one depends on all names and sizes, and not on where the files lie or in what order they
// come.
//
// Thread-safety: a pure function.
#ifndef WEFT_TRAINER_DATA_HELD_OUT_H_
#define WEFT_TRAINER_DATA_HELD_OUT_H_

#include <cstdint>
#include <string>
#include <vector>

namespace weft::trainer {

struct SizedText {
  std::string name;
  uint64_t bytes = 0;
};

// How many of each text's last bytes validate. `part` is 0 to less than 1; above 0 some bytes do,
// unless they are less than one.
std::vector<uint64_t> BytesToValidate(const std::vector<SizedText>& texts, double part);

}  // namespace weft::trainer

#endif  // WEFT_TRAINER_DATA_HELD_OUT_H_
