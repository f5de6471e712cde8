// Calls about the process, memory, log, options, errors, with one wrong argument each.
#include <algorithm>
#include <cstdlib>

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/bindings/bad_input.h"

namespace weft::test {
namespace {

std::vector<BadCall> BadMemoryCalls() {
  return {
      {"weft_set_interrupt", "every_minus_1", WEFT_INVALID_ARGUMENT, "every_ns is negative",
       [](Bench&) {
         return weft_set_interrupt(nullptr, nullptr, -1);
       }},
      {"weft_mem_alloc", "memory_NULL", WEFT_INVALID_ARGUMENT, "memory is NULL",
       [](Bench&) {
         return weft_mem_alloc(64, 0, nullptr);
       }},
      {"weft_mem_alloc", "bytes_0", WEFT_INVALID_ARGUMENT, "bytes is 0",
       [](Bench& b) {
         return weft_mem_alloc(0, 0, &b.out.memory);
       }},
      {"weft_mem_alloc", "bytes_SIZE_MAX", WEFT_OUT_OF_MEMORY, "18446744073709551615",
       [](Bench& b) {
         return weft_mem_alloc(SIZE_MAX, 0, &b.out.memory);
       }},
      {"weft_mem_alloc", "bytes_PTRDIFF_MAX", WEFT_OUT_OF_MEMORY, "allocating",
       [](Bench& b) {
         return weft_mem_alloc(PTRDIFF_MAX, 0, &b.out.memory);
       }},
      {"weft_mem_alloc", "flags", WEFT_INVALID_ARGUMENT, "flags is 1",
       [](Bench& b) {
         return weft_mem_alloc(64, 1, &b.out.memory);
       }},
      {"weft_mem_alloc_on", "config_NULL", WEFT_INVALID_ARGUMENT, "config is NULL",
       [](Bench& b) {
         return weft_mem_alloc_on(nullptr, &b.out.memory);
       }},
      {"weft_mem_alloc_on", "memory_NULL", WEFT_INVALID_ARGUMENT, "memory is NULL",
       [](Bench&) {
         const weft_mem_config_t config = {.struct_size = sizeof(config), .bytes = 64};
         return weft_mem_alloc_on(&config, nullptr);
       }},
      {"weft_mem_alloc_on", "bytes_0", WEFT_INVALID_ARGUMENT, "bytes is 0",
       [](Bench& b) {
         const weft_mem_config_t config = {.struct_size = sizeof(config)};
         return weft_mem_alloc_on(&config, &b.out.memory);
       }},
      {"weft_mem_alloc_on", "flags", WEFT_INVALID_ARGUMENT, "flags is 2, not 0 or 1",
       [](Bench& b) {
         const weft_mem_config_t config = {.struct_size = sizeof(config), .bytes = 64, .flags = 2};
         return weft_mem_alloc_on(&config, &b.out.memory);
       }},
      {"weft_mem_alloc_on", "device_kind", WEFT_INVALID_ARGUMENT, "device_kind is 7",
       [](Bench& b) {
         const weft_mem_config_t config = {.struct_size = sizeof(config),
                                           .bytes = 64,
                                           .device_kind = Unknown<weft_device_kind_t>(7)};
         return weft_mem_alloc_on(&config, &b.out.memory);
       }},
      {"weft_mem_alloc_on", "pinned_on_a_device", WEFT_INVALID_ARGUMENT, "flags is 1, not 0",
       [](Bench& b) {
         const weft_mem_config_t config = {.struct_size = sizeof(config),
                                           .bytes = 64,
                                           .flags = WEFT_MEM_PINNED,
                                           .device_kind = WEFT_DEVICE_CUDA};
         return weft_mem_alloc_on(&config, &b.out.memory);
       }},
      {"weft_mem_alloc_on", "no_bytes_on_a_device", WEFT_INVALID_ARGUMENT, "bytes is 0",
       [](Bench& b) {
         const weft_mem_config_t config = {.struct_size = sizeof(config),
                                           .device_kind = WEFT_DEVICE_CUDA};
         return weft_mem_alloc_on(&config, &b.out.memory);
       }},
      {"weft_mem_alloc_on", "device_1_of_the_host", WEFT_UNSUPPORTED, "device 1",
       [](Bench& b) {
         const weft_mem_config_t config = {.struct_size = sizeof(config), .bytes = 64, .device = 1};
         return weft_mem_alloc_on(&config, &b.out.memory);
       }},
      {"weft_mem_alloc_on", "a_stream", WEFT_UNSUPPORTED, "a stream was passed",
       [](Bench& b) {
         const weft_mem_config_t config = {
             .struct_size = sizeof(config), .bytes = 64, .stream = &b};
         return weft_mem_alloc_on(&config, &b.out.memory);
       }},
      {"weft_mem_alloc_copy", "from_NULL", WEFT_INVALID_ARGUMENT, "from is NULL",
       [](Bench& b) {
         return weft_mem_alloc_copy(nullptr, 64, &b.out.memory);
       }},
      {"weft_mem_alloc_copy", "view_NULL", WEFT_INVALID_ARGUMENT, "view is NULL",
       [](Bench& b) {
         return weft_mem_alloc_copy(b.out.data, 64, nullptr);
       }},
      {"weft_mem_alloc_copy", "bytes_0", WEFT_INVALID_ARGUMENT, "bytes is 0",
       [](Bench& b) {
         return weft_mem_alloc_copy(b.out.data, 0, &b.out.memory);
       }},
      {"weft_mem_alloc_copy", "bytes_SIZE_MAX", WEFT_OUT_OF_MEMORY, "allocating",
       [](Bench& b) {
         return weft_mem_alloc_copy(b.out.data, SIZE_MAX, &b.out.memory);
       }},
      {"weft_mem_alloc_shared", "group_NULL", WEFT_INVALID_ARGUMENT, "group is NULL",
       [](Bench& b) {
         return weft_mem_alloc_shared(nullptr, 64, &b.out.memory);
       }},
      {"weft_mem_alloc_shared", "a_group_that_is_none", WEFT_INVALID_ARGUMENT, "not a group",
       [](Bench& b) {
         return weft_mem_alloc_shared(b.Garbage<weft_group_t>(), 64, &b.out.memory);
       }},
      {"weft_mem_alloc_shared", "memory_NULL", WEFT_INVALID_ARGUMENT, "memory is NULL",
       [](Bench& b) {
         return weft_mem_alloc_shared(b.solo, 64, nullptr);
       }},
      {"weft_mem_alloc_shared", "bytes_0", WEFT_INVALID_ARGUMENT, "bytes is 0",
       [](Bench& b) {
         return weft_mem_alloc_shared(b.pair[0], 0, &b.out.memory);
       }},
      {"weft_mem_alloc_shared", "bytes_SIZE_MAX", WEFT_OUT_OF_MEMORY, "allocating",
       [](Bench& b) {
         return weft_mem_alloc_shared(b.solo, SIZE_MAX, &b.out.memory);
       }},
      {"weft_mem_free_shared", "group_NULL", WEFT_INVALID_ARGUMENT, "group is NULL",
       [](Bench& b) {
         return weft_mem_free_shared(nullptr, b.out.data);
       }},
      {"weft_mem_free_shared", "memory_NULL", WEFT_INVALID_ARGUMENT, "memory is NULL",
       [](Bench& b) {
         return weft_mem_free_shared(b.solo, nullptr);
       }},
      {"weft_mem_free_shared", "a_pointer_to_the_stack", WEFT_INVALID_ARGUMENT, "no shared block",
       [](Bench& b) {
         int foreign = 0;
         return weft_mem_free_shared(b.solo, &foreign);
       }},
      {"weft_mem_free_shared", "a_block_of_the_ranks_own", WEFT_INVALID_ARGUMENT, "no shared block",
       [](Bench& b) {
         void* block = nullptr;
         EXPECT_EQ(weft_mem_alloc(64, 0, &block), WEFT_SUCCESS) << weft_last_error();
         const weft_result_t result = weft_mem_free_shared(b.solo, block);
         EXPECT_EQ(weft_mem_free(block), WEFT_SUCCESS);
         return result;
       }},
      {"weft_mem_retain", "pointer_NULL", WEFT_INVALID_ARGUMENT, "pointer is NULL",
       [](Bench& b) {
         return weft_mem_retain(nullptr, &b.out.memory);
       }},
      {"weft_mem_retain", "a_pointer_to_the_stack", WEFT_INVALID_ARGUMENT, "no block",
       [](Bench& b) {
         int foreign = 0;
         return weft_mem_retain(&foreign, &b.out.memory);
       }},
      {"weft_mem_retain", "a_freed_block", WEFT_INVALID_ARGUMENT, "no block",
       [](Bench& b) {
         void* block = nullptr;
         EXPECT_EQ(weft_mem_alloc(64, 0, &block), WEFT_SUCCESS) << weft_last_error();
         EXPECT_EQ(weft_mem_free(block), WEFT_SUCCESS);
         return weft_mem_retain(block, &b.out.memory);
       }},
      {"weft_mem_retain", "a_shared_block", WEFT_UNSUPPORTED, "shared with other ranks",
       [](Bench& b) {
         void* block = nullptr;
         EXPECT_EQ(weft_mem_alloc_shared(b.solo, 64, &block), WEFT_SUCCESS) << weft_last_error();
         const weft_result_t result = weft_mem_retain(block, &b.out.memory);
         EXPECT_EQ(weft_mem_free_shared(b.solo, block), WEFT_SUCCESS);
         return result;
       }},
      {"weft_mem_query", "pointer_NULL", WEFT_INVALID_ARGUMENT, "pointer is NULL",
       [](Bench&) {
         weft_mem_info_t info = {};
         info.struct_size = sizeof(info);
         return weft_mem_query(nullptr, &info);
       }},
      {"weft_mem_query", "info_NULL", WEFT_INVALID_ARGUMENT, "info is NULL",
       [](Bench&) {
         int local = 0;
         return weft_mem_query(&local, nullptr);
       }},
      {"weft_mem_query", "struct_size_0", WEFT_INVALID_ARGUMENT, "struct_size is 0",
       [](Bench&) {
         int local = 0;
         weft_mem_info_t info = {};
         return weft_mem_query(&local, &info);
       }},
      {"weft_mem_free_on", "memory_of_the_host", WEFT_UNSUPPORTED, "not pinned",
       [](Bench&) {
         void* block = nullptr;
         EXPECT_EQ(weft_mem_alloc(64, 0, &block), WEFT_SUCCESS) << weft_last_error();
         const weft_result_t result = weft_mem_free_on(block, nullptr);
         EXPECT_EQ(weft_mem_free(block), WEFT_SUCCESS);
         return result;
       }},
      {"weft_mem_free_on", "a_pointer_to_the_stack", WEFT_INVALID_ARGUMENT, "not a block",
       [](Bench&) {
         int foreign = 0;
         return weft_mem_free_on(&foreign, nullptr);
       }},
      {"weft_mem_free", "a_shared_block", WEFT_INVALID_ARGUMENT, "weft_mem_free_shared",
       [](Bench& b) {
         void* block = nullptr;
         EXPECT_EQ(weft_mem_alloc_shared(b.solo, 64, &block), WEFT_SUCCESS) << weft_last_error();
         const weft_result_t result = weft_mem_free(block);
         EXPECT_EQ(weft_mem_free_shared(b.solo, block), WEFT_SUCCESS);
         return result;
       }},
      {"weft_mem_free", "a_pointer_from_malloc", WEFT_INVALID_ARGUMENT, "not a block",
       [](Bench&) {
         const std::vector<char> foreign(4096);
         return weft_mem_free(const_cast<char*>(foreign.data()));
       }},
      {"weft_mem_free", "a_pointer_to_the_stack", WEFT_INVALID_ARGUMENT, "not a block",
       [](Bench&) {
         int foreign = 0;
         return weft_mem_free(&foreign);
       }},
      {"weft_mem_free", "a_number", WEFT_INVALID_ARGUMENT, "not a block",
       [](Bench&) {
         return weft_mem_free(reinterpret_cast<void*>(uintptr_t{1}));
       }},
      {"weft_mem_free", "the_middle_of_a_block", WEFT_INVALID_ARGUMENT, "not a block",
       [](Bench&) {
         void* block = nullptr;
         EXPECT_EQ(weft_mem_alloc(8192, 0, &block), WEFT_SUCCESS) << weft_last_error();
         const weft_result_t result = weft_mem_free(static_cast<char*>(block) + 4096);
         EXPECT_EQ(weft_mem_free(block), WEFT_SUCCESS);
         return result;
       }},
      {"weft_mem_free", "a_freed_block", WEFT_INVALID_ARGUMENT, "not a block",
       [](Bench&) {
         void* block = nullptr;
         EXPECT_EQ(weft_mem_alloc(64, 0, &block), WEFT_SUCCESS) << weft_last_error();
         EXPECT_EQ(weft_mem_free(block), WEFT_SUCCESS);
         return weft_mem_free(block);
       }},
  };
}

// Two pages of the caller's own, for calls that must leave them alone.
struct TwoPages {
  TwoPages() {
    data = static_cast<char*>(std::aligned_alloc(page, 2 * page));
    std::memset(data, 0x3c, 2 * page);
  }

  TwoPages(const TwoPages&) = delete;
  TwoPages& operator=(const TwoPages&) = delete;

  ~TwoPages() {
    EXPECT_TRUE(std::all_of(data, data + 2 * page, [](char c) { return c == 0x3c; }));
    std::free(data);
  }

  const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  char* data;
};

BadCall Register(const char* fault, const char* needle,
                 const std::function<weft_result_t(const TwoPages&)>& call) {
  return {"weft_mem_register", fault, WEFT_INVALID_ARGUMENT, needle, [call](Bench&) {
            const TwoPages pages;
            return call(pages);
          }};
}

// `call` gets two pages that are mapped from the file behind the descriptor.
BadCall RegisterFile(const char* fault, weft_result_t result, const char* needle,
                     const std::function<weft_result_t(char*, int)>& call) {
  return {"weft_mem_register_fd", fault, result, needle, [call](Bench&) {
            const int fd = memfd_create("two-pages", MFD_CLOEXEC);
            EXPECT_EQ(ftruncate(fd, 8192), 0);
            void* const data = mmap(nullptr, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
            const weft_result_t got = call(static_cast<char*>(data), fd);
            munmap(data, 8192);
            close(fd);
            return got;
          }};
}

std::vector<BadCall> BadRegistrations() {
  return {
      Register("memory_NULL", "memory is NULL",
               [](const TwoPages& p) { return weft_mem_register(nullptr, p.page, 0); }),
      Register("bytes_0", "bytes is 0",
               [](const TwoPages& p) { return weft_mem_register(p.data, 0, 0); }),
      Register("flags", "flags is 1",
               [](const TwoPages& p) { return weft_mem_register(p.data, p.page, 1); }),
      Register("an_address_inside_a_page", "page size",
               [](const TwoPages& p) { return weft_mem_register(p.data + 64, p.page, 0); }),
      Register("half_a_page", "page size",
               [](const TwoPages& p) { return weft_mem_register(p.data, p.page / 2, 0); }),
      Register("bytes_SIZE_MAX", "page size",
               [](const TwoPages& p) { return weft_mem_register(p.data, SIZE_MAX, 0); }),
      Register("bytes_to_the_end_of_memory", "address space",
               [](const TwoPages& p) {
                 return weft_mem_register(p.data, SIZE_MAX / p.page * p.page, 0);
               }),
      Register("a_number", "not mapped",
               [](const TwoPages& p) {
                 return weft_mem_register(reinterpret_cast<void*>(p.page), p.page, 0);
               }),
      Register("a_block_of_the_heap", "own heap",
               [](const TwoPages& p) {
                 void* block = nullptr;
                 EXPECT_EQ(weft_mem_alloc(p.page, 0, &block), WEFT_SUCCESS) << weft_last_error();
                 const weft_result_t result = weft_mem_register(block, p.page, 0);
                 EXPECT_EQ(weft_mem_free(block), WEFT_SUCCESS);
                 return result;
               }),
      Register("a_range_registered_already", "registered already",
               [](const TwoPages& p) {
                 EXPECT_EQ(weft_mem_register(p.data + p.page, p.page, 0), WEFT_SUCCESS);
                 const weft_result_t result = weft_mem_register(p.data, 2 * p.page, 0);
                 EXPECT_EQ(weft_mem_deregister(p.data + p.page), WEFT_SUCCESS);
                 return result;
               }),
      RegisterFile("memory_NULL", WEFT_INVALID_ARGUMENT, "memory is NULL",
                   [](char*, int fd) { return weft_mem_register_fd(nullptr, 4096, fd, 0, 0); }),
      RegisterFile("bytes_0", WEFT_INVALID_ARGUMENT, "bytes is 0",
                   [](char* data, int fd) { return weft_mem_register_fd(data, 0, fd, 0, 0); }),
      RegisterFile(
          "bytes_SIZE_MAX", WEFT_INVALID_ARGUMENT, "there are 1 to",
          [](char* data, int fd) { return weft_mem_register_fd(data, SIZE_MAX, fd, 0, 0); }),
      RegisterFile(
          "offset_UINT64_MAX", WEFT_INVALID_ARGUMENT, "from byte 0 to",
          [](char* data, int fd) { return weft_mem_register_fd(data, 4096, fd, UINT64_MAX, 0); }),
      RegisterFile("flags", WEFT_INVALID_ARGUMENT, "flags is 1",
                   [](char* data, int fd) { return weft_mem_register_fd(data, 4096, fd, 0, 1); }),
      RegisterFile("a_descriptor_that_is_none", WEFT_INVALID_ARGUMENT, "is no descriptor",
                   [](char* data, int) { return weft_mem_register_fd(data, 4096, -1, 0, 0); }),
      RegisterFile("a_descriptor_of_a_device", WEFT_UNSUPPORTED, "it is not of memory",
                   [](char* data, int) {
                     const int device = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
                     const weft_result_t result = weft_mem_register_fd(data, 4096, device, 0, 0);
                     close(device);
                     return result;
                   }),
      RegisterFile(
          "beyond_the_file_s_end", WEFT_INVALID_ARGUMENT, "fewer than",
          [](char* data, int fd) { return weft_mem_register_fd(data, 8192, fd, 4096, 0); }),
      RegisterFile("another_byte_of_the_file", WEFT_INVALID_ARGUMENT, "as was said",
                   [](char* data, int fd) { return weft_mem_register_fd(data, 64, fd, 64, 0); }),
      {"weft_mem_deregister", "memory_NULL", WEFT_INVALID_ARGUMENT, "memory is NULL",
       [](Bench&) {
         return weft_mem_deregister(nullptr);
       }},
      {"weft_mem_deregister", "memory_never_registered", WEFT_INVALID_ARGUMENT, "no registration",
       [](Bench&) {
         const TwoPages pages;
         return weft_mem_deregister(pages.data);
       }},
      {"weft_mem_deregister", "the_middle_of_a_registration", WEFT_INVALID_ARGUMENT,
       "no registration",
       [](Bench&) {
         const TwoPages pages;
         EXPECT_EQ(weft_mem_register(pages.data, 2 * pages.page, 0), WEFT_SUCCESS);
         const weft_result_t result = weft_mem_deregister(pages.data + pages.page);
         EXPECT_EQ(weft_mem_deregister(pages.data), WEFT_SUCCESS);
         return result;
       }},
      {"weft_mem_deregister", "memory_that_an_operation_uses", WEFT_BAD_STATE, "an operation",
       [](Bench& b) {
         const TwoPages pages;
         EXPECT_EQ(weft_mem_register(pages.data, pages.page, 0), WEFT_SUCCESS);
         weft_work_t work = nullptr;
         EXPECT_EQ(
             weft_broadcast(pages.data, pages.data, 64, WEFT_UINT8, 0, b.pair[0], nullptr, &work),
             WEFT_SUCCESS);
         const weft_result_t result = weft_mem_deregister(pages.data);
         char other[64];
         EXPECT_EQ(weft_broadcast(nullptr, other, 64, WEFT_UINT8, 0, b.pair[1], nullptr, nullptr),
                   WEFT_SUCCESS);
         EXPECT_EQ(weft_work_wait(work, 0), WEFT_SUCCESS);
         EXPECT_EQ(weft_work_free(work), WEFT_SUCCESS);
         EXPECT_EQ(weft_mem_deregister(pages.data), WEFT_SUCCESS) << weft_last_error();
         return result;
       }},
  };
}

weft_allocator_t AnAllocator() {
  weft_allocator_t allocator = {};
  allocator.struct_size = sizeof(allocator);
  allocator.allocate = [](size_t bytes, size_t, void*) {
    return std::malloc(bytes);
  };
  allocator.release = [](void* memory, size_t, void*) {
    std::free(memory);
  };
  return allocator;
}

void AddAllocatorFaults(std::vector<BadCall>* calls) {
  calls->push_back({"weft_set_allocator", "allocate_NULL", WEFT_INVALID_ARGUMENT,
                    "allocate or release is NULL", [](Bench&) {
                      weft_allocator_t allocator = AnAllocator();
                      allocator.allocate = nullptr;
                      return weft_set_allocator(&allocator);
                    }});
  calls->push_back({"weft_set_allocator", "release_NULL", WEFT_INVALID_ARGUMENT,
                    "allocate or release is NULL", [](Bench&) {
                      weft_allocator_t allocator = AnAllocator();
                      allocator.release = nullptr;
                      return weft_set_allocator(&allocator);
                    }});
  calls->push_back(
      {"weft_set_allocator", "a_group_made_already", WEFT_BAD_STATE, "first group", [](Bench&) {
         const weft_allocator_t allocator = AnAllocator();
         return weft_set_allocator(&allocator);
       }});
  calls->push_back({"weft_set_allocator", "NULL_and_a_group_made_already", WEFT_BAD_STATE,
                    "first group", [](Bench&) {
                      return weft_set_allocator(nullptr);
                    }});
  AddConfigFaults<weft_allocator_t>(
      "weft_set_allocator", calls,
      [](Bench&, const weft_allocator_t* allocator) { return weft_set_allocator(allocator); });
}

BadCall Level(const char* fault, int level) {
  return {"weft_log_set_level", fault, WEFT_INVALID_ARGUMENT,
          std::to_string(level) + " is not a log level", [level](Bench&) {
            return weft_log_set_level(Unknown<weft_log_level_t>(level));
          }};
}

BadCall OptionSize(const char* fault, size_t struct_size) {
  return {"weft_option_at", fault, WEFT_INVALID_ARGUMENT,
          "struct_size is " + std::to_string(struct_size), [struct_size](Bench&) {
            return WithAnswer<weft_option_info_t>(
                struct_size, [](weft_option_info_t* info) { return weft_option_at(0, info); });
          }};
}

BadCall ErrorSize(const char* fault, size_t struct_size) {
  return {"weft_last_error_info", fault, WEFT_INVALID_ARGUMENT,
          "struct_size is " + std::to_string(struct_size), [struct_size](Bench&) {
            return WithAnswer<weft_error_info_t>(struct_size, weft_last_error_info);
          }};
}

BadCall OptionIndex(const char* fault, size_t index) {
  return {"weft_option_at", fault, WEFT_INVALID_ARGUMENT, "is not below", [index](Bench&) {
            return WithAnswer<weft_option_info_t>(
                sizeof(weft_option_info_t),
                [index](weft_option_info_t* info) { return weft_option_at(index, info); });
          }};
}

}  // namespace

std::vector<BadCall> BadProcessCalls() {
  std::vector<BadCall> calls = BadMemoryCalls();
  for (const BadCall& call : BadRegistrations())
    calls.push_back(call);
  AddAllocatorFaults(&calls);
  calls.push_back(Level("level_99", 99));
  calls.push_back(Level("level_4", 4));
  calls.push_back(Level("level_minus_1", -1));
  calls.push_back(
      {"weft_option_at", "info_NULL", WEFT_INVALID_ARGUMENT, "info is NULL", [](Bench&) {
         return weft_option_at(0, nullptr);
       }});
  calls.push_back(OptionIndex("index_of_the_end", weft_option_count()));
  calls.push_back(OptionIndex("index_SIZE_MAX", SIZE_MAX));
  calls.push_back(OptionSize("struct_size_0", 0));
  calls.push_back(OptionSize("struct_size_1", 1));
  calls.push_back(OptionSize("struct_size_4", 4));
  calls.push_back(OptionSize("struct_size_without_end", SIZE_MAX));
  AddConfigFaults<weft_mem_config_t>("weft_mem_alloc_on", &calls,
                                     [](Bench& b, const weft_mem_config_t* config) {
                                       return weft_mem_alloc_on(config, &b.out.memory);
                                     });
  calls.push_back(
      {"weft_last_error_info", "info_NULL", WEFT_INVALID_ARGUMENT, "info is NULL", [](Bench&) {
         return weft_last_error_info(nullptr);
       }});
  calls.push_back(ErrorSize("struct_size_0", 0));
  calls.push_back(ErrorSize("struct_size_1", 1));
  calls.push_back(ErrorSize("struct_size_4", 4));
  calls.push_back(ErrorSize("struct_size_without_end", SIZE_MAX));
  return calls;
}

}  // namespace weft::test
