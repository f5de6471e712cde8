// What is said when the module is not there or not the right one, and what of its descriptor. Needs no UCX.
#include "comm/transport/ucx/load_ucx.h"

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <sys/eventfd.h>

#include "base/fd.h"
#include "base/seams.h"
#include "base/status.h"
#include "base/wait.h"
#include "comm/transport/ucx/rdma_devices.h"
#include "comm/transport/ucx/ucx_inbox.h"
#include "comm/transport/ucx/ucx_port.h"
#include "comm/transport/ucx/ucx_transport.h"
#include "tests/comm/node/directory_store.h"

namespace weft::test {
namespace {

std::string RefusalOf(const std::string& file) {
  const auto module = LoadUcxModuleFrom(file);
  if (module.ok()) return "it was loaded";
  EXPECT_EQ(weft::ResultOf(module.status()), WEFT_UNSUPPORTED);
  return std::string(module.status().message());
}

TEST(LoadUcx, AModuleThatIsMissingIsNamed) {
  const std::string said = RefusalOf("/proc/none/libweft_ucx.so");
  EXPECT_NE(
      said.find("UCX cannot be used: the module /proc/none/libweft_ucx.so could not be loaded"),
      std::string::npos)
      << said;
  EXPECT_NE(said.find("No such file"), std::string::npos) << said;
}

TEST(LoadUcx, AModuleOfAnotherVersionIsRefused) {
  const std::string said = RefusalOf(WEFT_TEST_OTHER_VERSION);
  EXPECT_NE(said.find("is of another build of weft: its version is 4711, and 1 is needed"),
            std::string::npos)
      << said;
}

TEST(LoadUcx, AnotherLibraryIsRefused) {
  const std::string said = RefusalOf(WEFT_TEST_NO_MODULE);
  EXPECT_NE(said.find("is no module of weft's"), std::string::npos) << said;
}

// --- Adapters ------------------------------------------------------------------------------------

void Write(const std::filesystem::path& path, const std::string& text) {
  std::filesystem::create_directories(path.parent_path());
  std::ofstream(path) << text << '\n';
}

TEST(RdmaDevices, OneThatIsUpAndMayBeUsedCounts) {
  const TemporaryDirectory directory;
  const std::filesystem::path root = directory.path();
  EXPECT_FALSE(HasRdmaDevice(root.string()));
  Write(root / "sys/class/infiniband/mlx5_0/ports/1/state", "1: DOWN");
  Write(root / "dev/infiniband/rdma_cm", "");
  EXPECT_FALSE(HasRdmaDevice(root.string()));
  Write(root / "sys/class/infiniband/mlx5_1/ports/2/state", "4: ACTIVE");
  EXPECT_FALSE(HasRdmaDevice(root.string())) << "there is no way to it";
  Write(root / "dev/infiniband/uverbs1", "");
  EXPECT_TRUE(HasRdmaDevice(root.string()));
}

// --- What a peer has said ------------------------------------------------------------------------

std::string ReadAll(UcxInbox& inbox) {
  std::string all;
  while (!inbox.empty()) {
    char a[2];
    char b[3];
    const iovec pieces[] = {{a, sizeof(a)}, {b, sizeof(b)}};
    const size_t got = inbox.Read(pieces);
    all.append(a, std::min(got, sizeof(a)));
    if (got > sizeof(a)) all.append(b, got - sizeof(a));
  }
  return all;
}

TEST(UcxInbox, PutsInOrderWhatComesInAny) {
  UcxInbox inbox;
  inbox.Take(2, "cccc");
  inbox.End(4);
  EXPECT_TRUE(inbox.empty());
  inbox.Take(0, "a");
  EXPECT_EQ(ReadAll(inbox), "a");
  inbox.Take(1, "bb");
  EXPECT_FALSE(inbox.ended());
  inbox.Take(3, "ddddd");
  EXPECT_EQ(ReadAll(inbox), "bbccccddddd");
  EXPECT_TRUE(inbox.ended());
  EXPECT_FALSE(inbox.broken());
}

TEST(UcxInbox, WhatComesTwiceOrWithoutEndBreaksIt) {
  UcxInbox again;
  again.Take(0, "a");
  again.Take(0, "a");
  EXPECT_TRUE(again.broken());
  UcxInbox early;
  early.Take(5, "a");
  early.Take(5, "a");
  EXPECT_TRUE(early.broken());
  UcxInbox much;
  const std::string mebibyte(1 << 20, 'x');
  for (uint64_t number = 1; number < 40; ++number)
    much.Take(number, mebibyte);
  EXPECT_TRUE(much.broken());
}

// --- A descriptor that never rests ---------------------------------------------------------------

// UCX as far as a rank without peers sees it.
struct Idle {
  UniqueFd readable{eventfd(1, EFD_CLOEXEC)};
  UcxAnswer armed = UcxAnswer::kDone;
};

Idle& TheIdle() {
  static Idle idle;
  return idle;
}

UcxWorker* AWorker() {
  return reinterpret_cast<UcxWorker*>(&TheIdle());
}

UcxModule IdleModule() {
  UcxModule module = {};
  module.table = {kUcxModuleVersion, sizeof(module)};
  module.library = "no UCX";
  module.open = [](const UcxOpening*, UcxReason*) {
    return AWorker();
  };
  module.close = [](UcxWorker*) {
  };
  module.address = [](const UcxWorker*, size_t* bytes) -> const void* {
    *bytes = 4;
    return "here";
  };
  module.event_descriptor = [](const UcxWorker*) {
    return TheIdle().readable.get();
  };
  module.arm = [](UcxWorker*) {
    return TheIdle().armed;
  };
  module.progress = [](UcxWorker*) {
    return uint32_t{0};
  };
  module.ending = [](const UcxWorker*) {
    return uint32_t{0};
  };
  return module;
}

TEST(UcxTransport, ADescriptorThatNeverRestsKeepsNobodyAwake) {
  const UcxModule module = IdleModule();
  for (const UcxAnswer armed : {UcxAnswer::kDone, UcxAnswer::kUnderWay}) {
    TheIdle().armed = armed;
    auto port = UcxPort::OpenWith(module, {}).value();
    auto transport =
        UcxTransport::Make(SystemSeams(), std::move(port), {.self = 0, .addresses = {"", ""}})
            .value();
    constexpr int64_t kNapNs = 1'000'000;
    constexpr int64_t kNaps = 100;
    int sleeps = 0;
    const int64_t until_ns = MonotonicNs() + kNaps * kNapNs;
    while (MonotonicNs() < until_ns) {
      transport->Advance();
      std::vector<PollItem> items;
      transport->AppendPollItems(&items);
      ASSERT_TRUE(SystemSeams().net->Poll(items, MonotonicNs() + kNapNs).ok());
      ++sleeps;
    }
    EXPECT_LE(sleeps, kNaps + 50) << "each nap that is cut short costs a turn";
  }
}

TEST(UcxPort, AnAddressThatIsTooLongIsRefused) {
  UcxModule module = IdleModule();
  module.address = [](const UcxWorker*, size_t* bytes) -> const void* {
    *bytes = 5000;
    static const std::string text(5000, 'a');
    return text.data();
  };
  const auto port = UcxPort::OpenWith(module, {});
  ASSERT_FALSE(port.ok());
  EXPECT_EQ(weft::ResultOf(port.status()), WEFT_UNSUPPORTED);
  EXPECT_NE(std::string(port.status().message()).find("has 5000 bytes, at most 1024"),
            std::string::npos)
      << port.status();
}

TEST(UcxPort, WhyUcxCannotBeOpenedIsSaid) {
  UcxModule module = IdleModule();
  module.open = [](const UcxOpening* /*opening*/, UcxReason* why) -> UcxWorker* {
    const std::string text = "no such device";
    text.copy(why->text, sizeof(why->text) - 1);
    return nullptr;
  };
  const auto port = UcxPort::OpenWith(module, {.transports = "ib"});
  ASSERT_FALSE(port.ok());
  EXPECT_EQ(std::string(port.status().message()), "no UCX cannot be used over ib: no such device");
}

}  // namespace
}  // namespace weft::test
