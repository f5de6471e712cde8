// oneCCL's collectives on host memory behind the driver's table.
//
// oneCCL starts its transport by itself, MPI or libfabric, with the settings that it prefers: a program that had called
// MPI_Init before would take them away. So ranks learn their places from the launcher's variables, and the address of
// rank 0 through a file.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <iterator>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>

#include <oneapi/ccl.hpp>

#include "bench/compare/driver/backend.h"

namespace {

// One communicator per process; made in main, before the driver's loop, and freed after it.
std::unique_ptr<ccl::communicator> communicator;

const char* Refuse(const command*) {
  return nullptr;
}

ccl::event Start(const command& command, const void* in, void* out, size_t count) {
  const ccl::datatype type =
      command.dtype == ELEMENT_FLOAT32 ? ccl::datatype::float32 : ccl::datatype::bfloat16;
  switch (command.op) {
    case OP_ALL_REDUCE:
      return ccl::allreduce(in, out, count, type, ccl::reduction::sum, *communicator);
    case OP_ALL_GATHER:
      return ccl::allgather(in, out, count, type, *communicator);
    case OP_REDUCE_SCATTER:
      return ccl::reduce_scatter(in, out, count, type, ccl::reduction::sum, *communicator);
    case OP_BROADCAST:
      return ccl::broadcast(out, count, type, 0, *communicator);
    case OP_ALL_TO_ALL:
      return ccl::alltoall(in, out, count, type, *communicator);
    case OP_BARRIER:
    case OP_COPY:
    case OP_IDLE:
    case OP_EXCHANGE:
    case OP_ROUND_TRIP:
      break;
  }
  return ccl::barrier(*communicator);
}

const char* Run(const command* command, const void* in, void* out, size_t count) {
  static std::string failure;
  try {
    Start(*command, in, out, count).wait();
    return nullptr;
  } catch (const std::exception& error) {
    failure = error.what();
    return failure.c_str();
  }
}

const char* Barrier() {
  const command barrier = {OP_BARRIER, ELEMENT_FLOAT32, 0, 0, 0, 1, 0, 1, 0, 0};
  return Run(&barrier, nullptr, nullptr, 0);
}

// What the launcher says; throws if it says nothing.
std::string Variable(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr) throw std::runtime_error(std::string(name) + " is not set");
  return value;
}

// Rank 0 writes the address, under another name until it is complete.
void Publish(const std::string& path, const ccl::kvs::address_type& address) {
  std::ofstream(path + ".new", std::ios::binary).write(address.data(), address.size());
  std::rename((path + ".new").c_str(), path.c_str());
}

// The others read it as soon as it is there; the job's start has a deadline in ./dev compare.
ccl::kvs::address_type ReadAddress(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  while (!file.is_open()) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    file.open(path, std::ios::binary);
  }
  const std::string bytes{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  ccl::kvs::address_type address{};
  std::copy_n(bytes.begin(), std::min(bytes.size(), address.size()), address.begin());
  return address;
}

void Connect(int rank, int size) {
  const std::string path = Variable("COMPARE_PIPES") + "/oneccl";
  ccl::shared_ptr_class<ccl::kvs> store;
  if (rank == 0) {
    store = ccl::create_main_kvs();
    Publish(path, store->get_address());
  } else {
    store = ccl::create_kvs(ReadAddress(path));
  }
  communicator = std::make_unique<ccl::communicator>(ccl::create_communicator(size, rank, store));
}

std::string Version() {
  const ccl::library_version version = ccl::get_library_version();
  return "oneCCL " + std::to_string(version.major) + "." + std::to_string(version.minor) + "." +
         std::to_string(version.update);
}

}  // namespace

int main() {
  try {
    ccl::init();
    const std::string version = Version();
    const backend backend = {version.c_str(),
                             std::stoi(Variable("PMI_RANK")),
                             std::stoi(Variable("PMI_SIZE")),
                             Refuse,
                             Run,
                             Barrier,
                             nullptr,
                             nullptr};
    Connect(backend.rank, backend.size);
    const int code = Drive(&backend);
    communicator.reset();
    return code;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "compare driver: %s\n", error.what());
  }
  return 1;
}
