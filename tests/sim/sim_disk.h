// What a disk holds, what of it is there to stay, and every state in which a loss of power may leave it.
//
//   DiskNode root = ...;
//   ForEachCrashState(root, 10'000, seed, [&](std::shared_ptr<DiskNode> left, const std::string& what) { ... });
//
// The promises are base/files.h's. A directory keeps the changes of its names that were made since its last sync: after a
// loss of power any of them have happened and others have not, whatever their order. A change is whole: a rename that has
// happened has taken the old name away. A file keeps what was written since its last sync: any part of it may be there,
// with zeros or other bytes in the place of the rest, and any length between.
//
// Thread-safety: none.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace weft::test {

struct DiskNode;

using DiskNames = std::map<std::string, std::shared_ptr<DiskNode>>;

// A name that a directory got, made or moved there, or lost.
struct NameChange {
  std::string name;
  bool made = false;  // else removed
  std::shared_ptr<DiskNode> node;
  bool synced = false;
  bool forsaken = false;  // a sync of it failed: no later one is believed
  bool second = false;    // of one made: the names that the node had before stay

  // What it makes of a directory's names. But for a second one, a node has one name: the one it had before is gone.
  void ApplyTo(DiskNames* names) const;
};

struct DiskNode {
  bool is_directory = false;

  // Of a file.
  std::string bytes;
  size_t bytes_synced = 0;         // from the beginning: files are only appended to
  std::vector<size_t> write_ends;  // of the writes behind them

  // Of a directory: as it is seen, and what it is made of: names that are there to stay, and changes of them in order.
  DiskNames names;
  DiskNames names_synced;
  std::vector<NameChange> changes;

  void ChangeName(const std::string& name, bool made, std::shared_ptr<DiskNode> node);
  void AddSecondName(const std::string& name, std::shared_ptr<DiskNode> node);
  void SyncNames();
  void ForsakeNames();
};

// All below `root`, as another disk.
std::shared_ptr<DiskNode> CopyDisk(const DiskNode& root);

// Calls `look` with each state that a loss of power may leave, each once, with a word on what was kept: all of them if
// they are `states_max` or fewer, but for parts of what was written, of which the ends and the holes are tried and
// one of random blocks. Else first nothing unsynced, everything, each thing alone and each alone missing, and then others
// by the seed, until `states_max` were made. Returns how many were looked at.
size_t ForEachCrashState(
    const DiskNode& root, size_t states_max, uint64_t seed,
    const std::function<void(std::shared_ptr<DiskNode> left, const std::string& what)>& look);

}  // namespace weft::test
