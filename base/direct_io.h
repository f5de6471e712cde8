// Whether transfers of an open file pass by the page cache.
//
// Thread-safety: one thread at a time for each open file.
#pragma once

namespace weft {

// O_DIRECT from the next transfer on, or not; transfers must then be aligned as the file system wants it. False, with errno, where the file
// system refuses; some take it and refuse transfers.
bool SetDirect(int fd, bool direct);

}  // namespace weft
