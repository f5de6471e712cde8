// The one thread of a process that finishes operations nobody waits for.
//
// Started when the first operation is queued anywhere, asleep while no group has queued operations,
// ended when the last group has been closed. With WEFT_PROGRESS=caller there is none.
// Thread-safety: all functions, any thread; with no group word held.
#pragma once

#include <memory>

namespace weft {

class NodeGroup;

// A group exists: keeps the thread's place until RemoveProgressUser.
void AddProgressUser();
// Ends the thread when it was the last one. Not from the progress thread itself.
void RemoveProgressUser();
// `group` has queued operations.
void RequestProgress(std::shared_ptr<NodeGroup> group);

}  // namespace weft
