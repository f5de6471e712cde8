/* Memory that ends where a page ends, with one behind it that nobody may touch: a struct put there shows
 * who reads or writes more of it than it has.
 *
 *   weft_thing_t* thing = AtPageEnd(sizeof *thing);
 *
 * Zeroed. Never freed: a test has a few dozen. */
#ifndef WEFT_TESTS_BINDINGS_PAGE_END_H_
#define WEFT_TESTS_BINDINGS_PAGE_END_H_

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

static inline void* AtPageEnd(size_t bytes) {
  const size_t page = (size_t)sysconf(_SC_PAGESIZE);
  char* const pages =
      (char*)mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if ((void*)pages == MAP_FAILED || bytes > page || mprotect(pages + page, page, PROT_NONE) != 0) {
    perror("page_end");
    abort();
  }
  return pages + page - bytes;
}

#endif /* WEFT_TESTS_BINDINGS_PAGE_END_H_ */
