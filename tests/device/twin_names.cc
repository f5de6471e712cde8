// Prints the names of all twins, for cuda_kernels_test.py: they are those of the kernels.
#include <cstdio>

#include "tests/device/twins.h"

int main() {
  for (const std::string& name : weft::test::TwinNames())
    std::printf("%s\n", name.c_str());
}
