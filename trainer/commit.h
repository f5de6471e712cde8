// The commit of the source that the program was built from, with "-dirty" if that was changed; "" if it was no clone. Written at each build by
// cmake/commit.cmake, and part of the program alone, so that a commit links nothing else anew.
#ifndef WEFT_TRAINER_COMMIT_H_
#define WEFT_TRAINER_COMMIT_H_

namespace weft::trainer {

extern const char* const kCommit;

}  // namespace weft::trainer

#endif  // WEFT_TRAINER_COMMIT_H_
