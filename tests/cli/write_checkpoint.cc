// Writes a checkpoint of a made-up model, as so many ranks would:
//
//   write_checkpoint DIR RANKS STEP RUN
#include <cstdio>
#include <cstdlib>
#include <string>

#include "base/files.h"
#include "tests/shard/checkpoint/made_up_state.h"

int main(int argc, char** argv) {
  if (argc != 5) return 2;
  const weft::test::MadeUpModel model(1);
  weft::test::MadeUpRanks ranks(model, std::atoi(argv[2]));
  const absl::Status saved = ranks.Save(
      weft::SystemFiles(), argv[1],
      {.step = std::atoll(argv[3]),
       .run = std::atoll(argv[4]),
       .config = "{}\n",
       .values = {{.name = "rng", .bytes = "0123456789"},
                  {.name = weft::test::kMadeUpValue, .bytes = weft::test::MadeUpValue(-1)}}});
  if (!saved.ok()) std::fprintf(stderr, "%s\n", std::string(saved.message()).c_str());
  return saved.ok() ? 0 : 1;
}
