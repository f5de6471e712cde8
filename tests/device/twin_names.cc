// Prints the names of all twins and of their kernels' images, for cuda_kernels_test.py.
#include <cstdio>

#include "tests/device/twins.h"

int main() {
  for (const std::string& name : weft::test::TwinNames())
    std::printf("%s %s\n", name.c_str(), weft::test::ImageOfKernel(name).c_str());
}
