// Groups for whose messages single copy pays at every size, and what they read.
//
//   const bool kCheap = MakeSingleCopyCheap();   // before anything of weft is used
//   SingleCopyCalls& calls = SingleCopyCalls::Get();
//   calls.Reset();
//   ... EXPECT_EQ(calls.bytes, ...);
//
// A model of a machine on which process_vm_readv costs next to nothing is put where this process
// looks for its model, so the code under test is the shipped code. Calls of it go through the
// linker's --wrap; those that only read a heap's id, as groups do when they are made, are not
// counted. Thread-safety: members are atomic; `before` and Reset() only while no group is under
// way.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>

namespace weft::test {

struct SingleCopyCalls {
  std::atomic<int> calls{0};
  std::atomic<uint64_t> bytes{0};        // read, the ids included
  std::atomic<int> fail_from{-1};        // the number of the call from which on all fail; -1: none
  std::atomic<bool> forbidden{false};    // all fail, those that are not counted too
  std::function<void(int call)> before;  // runs before each, with its number

  static SingleCopyCalls& Get();

  void Reset() {
    calls = 0;
    bytes = 0;
    fail_from = -1;
    forbidden = false;
    before = nullptr;
  }
};

// Bytes that are read for a private message of `bytes`: with each slice an id.
size_t BytesReadFor(size_t bytes);

// True if it worked.
bool MakeSingleCopyCheap();

}  // namespace weft::test
