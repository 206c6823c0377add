#include "io/group_sync.h"

#include <atomic>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "base/file_descriptor.h"

namespace onggi::io {
namespace {

TEST(GroupSyncTest, ServesManyCallersOfOneDirectory) {
  std::string directory = "/var/tmp/onggi-sync-XXXXXX";
  ASSERT_NE(::mkdtemp(directory.data()), nullptr);
  const FileDescriptor fd(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  GroupSync group;
  std::atomic<int> done = 0;
  std::vector<std::thread> threads;
  threads.reserve(8);
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] {
      for (int k = 0; k < 20; ++k) {
        if (group.sync(fd.get())) ++done;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(done, 160);
  ::rmdir(directory.c_str());
}

TEST(GroupSyncTest, SaysWhatCannotBeSynced) {
  GroupSync group;
  EXPECT_FALSE(group.sync(-1));
  int pipe_ends[2];
  ASSERT_EQ(::pipe2(pipe_ends, O_CLOEXEC), 0);
  const FileDescriptor reader(pipe_ends[0]);
  const FileDescriptor writer(pipe_ends[1]);
  EXPECT_EQ(group.sync(reader.get()).error().code(), ErrorCode::invalid_argument);
  EXPECT_EQ(group.sync(reader.get()).error().code(), ErrorCode::invalid_argument)
      << "an error is not remembered for others";
}

}  // namespace
}  // namespace onggi::io
