#include "catalog/sqlite/sqlite_catalog.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

#include <gtest/gtest.h>
#include <sqlite3.h>
#include <sys/stat.h>

#include "catalog/conformance/scenarios.h"

namespace onggi::catalog {
namespace {

class TempFolder {
 public:
  TempFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "onggi-catalog-XXXXXX").string();
    if (::mkdtemp(name.data()) != nullptr) path_ = name;
  }

  ~TempFolder() { std::filesystem::remove_all(path_); }

  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;
  TempFolder(TempFolder&&) = delete;
  TempFolder& operator=(TempFolder&&) = delete;

  std::string file(const std::string& name) const { return (path_ / name).string(); }

 private:
  std::filesystem::path path_;
};

using Handle = std::unique_ptr<sqlite3, int (*)(sqlite3*)>;

Handle open_raw(const std::string& path) {
  sqlite3* db = nullptr;
  EXPECT_EQ(sqlite3_open(path.c_str(), &db), SQLITE_OK);
  return {db, sqlite3_close};
}

void execute(const Handle& db, const char* sql) {
  EXPECT_EQ(sqlite3_exec(db.get(), sql, nullptr, nullptr, nullptr), SQLITE_OK)
      << sqlite3_errmsg(db.get());
}

class SqliteConformanceTest : public testing::TestWithParam<Scenario> {};

TEST_P(SqliteConformanceTest, Conforms) {
  const TempFolder folder;
  auto catalog = open_sqlite_catalog({.path = folder.file("catalog.db")});
  ASSERT_TRUE(catalog) << catalog.error().message();
  GetParam().run(**catalog);
}

INSTANTIATE_TEST_SUITE_P(Sqlite, SqliteConformanceTest, testing::ValuesIn(scenarios()),
                         [](const auto& scenario) { return scenario.param.name; });

TEST(SqliteCatalogTest, KeepsWhatItWasToldAfterReopening) {
  const TempFolder folder;
  const SqliteOptions options{.path = folder.file("catalog.db")};
  {
    auto catalog = open_sqlite_catalog(options).value();
    ASSERT_TRUE(catalog->tenants().insert({Uuid::random(), "red", UnixTime()}));
  }
  auto catalog = open_sqlite_catalog(options).value();
  EXPECT_TRUE(catalog->tenants().find("red"));
}

TEST(SqliteCatalogTest, IsUnreadableToOthers) {
  const TempFolder folder;
  auto catalog = open_sqlite_catalog({.path = folder.file("catalog.db")}).value();
  for (const char* name : {"catalog.db", "catalog.db-wal"}) {
    struct stat info{};
    ASSERT_EQ(::stat(folder.file(name).c_str(), &info), 0) << name;
    EXPECT_EQ(info.st_mode & 0777U, 0600U) << name;
  }
}

TEST(SqliteCatalogTest, RefusesANewerSchemaAndSaysUpgrade) {
  const TempFolder folder;
  const std::string path = folder.file("catalog.db");
  ASSERT_TRUE(open_sqlite_catalog({.path = path}));
  execute(open_raw(path), "PRAGMA user_version = 99");
  const auto catalog = open_sqlite_catalog({.path = path});
  ASSERT_FALSE(catalog);
  EXPECT_EQ(catalog.error().code(), ErrorCode::unsupported);
  EXPECT_NE(catalog.error().message().find("upgrade onggid"), std::string::npos)
      << catalog.error().message();
}

TEST(SqliteCatalogTest, RefusesADatabaseOfSomebodyElse) {
  const TempFolder folder;
  const std::string path = folder.file("music.db");
  execute(open_raw(path), "CREATE TABLE songs (name TEXT)");
  const auto catalog = open_sqlite_catalog({.path = path});
  ASSERT_FALSE(catalog);
  EXPECT_NE(catalog.error().message().find("another path"), std::string::npos)
      << catalog.error().message();
}

TEST(SqliteCatalogTest, RefusesWhatIsNoDatabase) {
  const TempFolder folder;
  const std::string path = folder.file("catalog.db");
  std::ofstream(path) << std::string(8192, 'x');
  const auto catalog = open_sqlite_catalog({.path = path});
  ASSERT_FALSE(catalog);
  EXPECT_EQ(catalog.error().code(), ErrorCode::corruption);
  EXPECT_NE(catalog.error().message().find("restore a backup"), std::string::npos)
      << catalog.error().message();
}

TEST(SqliteCatalogTest, RefusesADamagedDatabase) {
  const TempFolder folder;
  const std::string path = folder.file("catalog.db");
  {
    auto catalog = open_sqlite_catalog({.path = path}).value();
    for (int i = 0; i < 500; ++i) {
      ASSERT_TRUE(
          catalog->settings().put_if_absent("s" + std::to_string(i), std::string(100, 'v')));
    }
  }
  {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    const auto size = std::filesystem::file_size(path);
    file.seekp(static_cast<std::streamoff>(size / 2));
    file << std::string(size / 4, '\xa5');
  }
  const auto catalog = open_sqlite_catalog({.path = path});
  ASSERT_FALSE(catalog);
  EXPECT_EQ(catalog.error().code(), ErrorCode::corruption) << catalog.error().message();
}

TEST(SqliteCatalogTest, SaysWhoToStopWhenLocked) {
  const TempFolder folder;
  const std::string path = folder.file("catalog.db");
  const Handle other = open_raw(path);
  execute(other, "BEGIN EXCLUSIVE; CREATE TABLE t (x)");
  const auto catalog = open_sqlite_catalog({.path = path, .busy = std::chrono::milliseconds(1)});
  ASSERT_FALSE(catalog);
  EXPECT_EQ(catalog.error().code(), ErrorCode::unavailable) << catalog.error().message();
  EXPECT_NE(catalog.error().message().find("stop the other onggid"), std::string::npos);
}

TEST(SqliteCatalogTest, NamesTheFolderThatIsMissing) {
  const TempFolder folder;
  const auto catalog = open_sqlite_catalog({.path = folder.file("missing/catalog.db")});
  ASSERT_FALSE(catalog);
  EXPECT_NE(catalog.error().message().find("missing/catalog.db"), std::string::npos);
}

TEST(SqliteCatalogTest, TwoProcessesMayShareAFile) {
  const TempFolder folder;
  const SqliteOptions options{.path = folder.file("catalog.db")};
  auto first = open_sqlite_catalog(options).value();
  auto second = open_sqlite_catalog(options).value();
  ASSERT_TRUE(first->tenants().insert({Uuid::random(), "red", UnixTime()}));
  EXPECT_TRUE(second->tenants().find("red"));
  EXPECT_FALSE(second->tenants().insert({Uuid::random(), "red", UnixTime()}));
}

}  // namespace
}  // namespace onggi::catalog
