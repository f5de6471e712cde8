# Writes FILE, a C++ source that says which commit SOURCE is at, where that is a clone; run at each build, and the file is touched only when
# that has changed: cmake -DSOURCE=DIR -DFILE=commit.cc -P commit.cmake
execute_process(COMMAND git -C ${SOURCE} describe --always --dirty --abbrev=12 --exclude=* OUTPUT_VARIABLE commit
                RESULT_VARIABLE failed ERROR_QUIET OUTPUT_STRIP_TRAILING_WHITESPACE)
# A folder of some other clone, into which these sources were unpacked, says nothing about them.
if(failed OR NOT EXISTS ${SOURCE}/.git)
  set(commit "")
endif()
file(CONFIGURE OUTPUT ${FILE} @ONLY CONTENT [[
#include "trainer/commit.h"

namespace weft::trainer {

const char* const kCommit = "@commit@";

}  // namespace weft::trainer
]])
