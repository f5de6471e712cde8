// Objects are taken from the largest to the smallest; `innermost` has for each CPU the smallest one so far that contains it. All
// CPUs of an object must have the same one, which is its parent. So the time is that of looking at each object's CPUs once.
#include "topology/topology_tree.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "base/status.h"
#include "base/text.h"

namespace weft {
namespace {

constexpr int kMachineIndex = -1;

struct PlacedObject {
  ObjectKind kind;
  const TopologyObject* object;
  int parent = kMachineIndex;
};

std::string Describe(const PlacedObject& placed) {
  return StrCat(ObjectKindName(placed.kind), " ", placed.object->number, " (CPUs ",
                placed.object->cpus.ToList().substr(0, 64), ")");
}

std::vector<PlacedObject> LargestFirst(const Topology& topology) {
  std::vector<std::pair<int, PlacedObject>> counted;
  for (const ObjectKind kind : kObjectKinds) {
    for (const TopologyObject& object : topology.ObjectsOf(kind)) {
      if (!object.cpus.empty()) counted.push_back({-object.cpus.count(), {kind, &object}});
    }
  }
  // Stable: kinds come in their order.
  std::stable_sort(counted.begin(), counted.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<PlacedObject> objects;
  objects.reserve(counted.size());
  for (const auto& [count, object] : counted)
    objects.push_back(object);
  return objects;
}

absl::Status FindParents(std::vector<PlacedObject>* objects) {
  std::vector<int> innermost(kCpusMax, kMachineIndex);
  const auto overlap = [&](const PlacedObject& a, const PlacedObject& b) {
    return MakeError(WEFT_CORRUPT, StrCat("the topology has ", Describe(a), " and ", Describe(b),
                                          ", which overlap; one must lie in the other, and two of "
                                          "one kind must be apart"));
  };
  for (size_t i = 0; i < objects->size(); ++i) {
    PlacedObject& placed = (*objects)[i];
    const std::vector<int> cpus = placed.object->cpus.Members();
    placed.parent = innermost[static_cast<size_t>(cpus.front())];
    for (const int cpu : cpus) {
      int& outer = innermost[static_cast<size_t>(cpu)];
      if (outer != placed.parent) {
        const int other = outer == kMachineIndex ? placed.parent : outer;
        return overlap((*objects)[static_cast<size_t>(other)], placed);
      }
      outer = static_cast<int>(i);
    }
    for (int outer = placed.parent; outer != kMachineIndex;) {
      const PlacedObject& ancestor = (*objects)[static_cast<size_t>(outer)];
      if (ancestor.kind == placed.kind) return overlap(ancestor, placed);
      outer = ancestor.parent;
    }
  }
  return absl::OkStatus();
}

// Packages and NUMA nodes among themselves by number, everything else by its first CPU.
bool ComesBefore(const TopologyTree& a, const TopologyTree& b) {
  const bool numbered = a.kind == b.kind && a.kind <= ObjectKind::kNumaNode;
  if (numbered) return a.object->number < b.object->number;
  return a.object->cpus.first() < b.object->cpus.first();
}

// Whether ComesBefore is an order: brothers of several kinds go by their first CPU alone.
void SortChildren(TopologyTree* tree) {
  const bool one_kind =
      std::all_of(tree->children.begin(), tree->children.end(),
                  [&](const auto& child) { return child.kind == tree->children.front().kind; });
  std::sort(tree->children.begin(), tree->children.end(), [&](const auto& a, const auto& b) {
    return one_kind ? ComesBefore(a, b) : a.object->cpus.first() < b.object->cpus.first();
  });
}

// Where the children of an object stand; those of the machine come first.
size_t ChildrenIndex(int index) {
  return static_cast<size_t>(int64_t{index} - kMachineIndex);
}

TopologyTree Assemble(const std::vector<PlacedObject>& objects,
                      const std::vector<std::vector<int>>& children, int index) {
  TopologyTree tree;
  if (index != kMachineIndex) {
    tree.kind = objects[static_cast<size_t>(index)].kind;
    tree.object = objects[static_cast<size_t>(index)].object;
  }
  for (const int child : children[ChildrenIndex(index)])
    tree.children.push_back(Assemble(objects, children, child));
  SortChildren(&tree);
  return tree;
}

}  // namespace

absl::StatusOr<TopologyTree> BuildTopologyTree(const Topology& topology) {
  std::vector<PlacedObject> objects = LargestFirst(topology);
  WEFT_RETURN_IF_ERROR(FindParents(&objects));
  std::vector<std::vector<int>> children(objects.size() + 1);
  for (size_t i = 0; i < objects.size(); ++i)
    children[ChildrenIndex(objects[i].parent)].push_back(static_cast<int>(i));
  return Assemble(objects, children, kMachineIndex);
}

}  // namespace weft
