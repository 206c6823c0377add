#pragma once

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include <gtest/gtest.h>

#include "backend/memory/memory_backend.h"
#include "backend/posix/posix_backend.h"
#include "backend/registry.h"
#include "catalog/sqlite/sqlite_catalog.h"
#include "vfolder/archives.h"
#include "vfolder/authority.h"
#include "vfolder/files.h"
#include "vfolder/recovery.h"
#include "vfolder/temp_folder.h"
#include "vfolder/uploads.h"
#include "vfolder/vfolders.h"
#include "vfolder/volumes.h"

namespace onggi::vfolder {

struct TestNodeOptions {
  std::string backend = "posix";
  UploadsOptions uploads;
  ArchivesOptions archives;
  std::string volume_path;  // "<data>/volume" unless given
};

// For tests: all services over the real catalog and a real backend below `data`, wired as the
// daemon does it, with one volume "local". Two tenants: the default one, and "other".
class TestNode {
 public:
  TestNode(const std::filesystem::path& data, Clock& clock, TestNodeOptions options = {})
      : catalog_(catalog::open_sqlite_catalog({.path = (data / "catalog.db").string()}).value()),
        registry_(make_registry(clock)),
        volumes(*catalog_, registry_, clock, volumes_options(data, options)),
        vfolders(*catalog_, volumes, clock),
        authority(*catalog_, clock, metrics),
        files(vfolders, metrics),
        uploads(*catalog_, vfolders, clock, metrics, options.uploads),
        archives(vfolders, metrics, options.archives),
        recovery(*catalog_, volumes, vfolders, uploads, clock, metrics) {
    EXPECT_TRUE(authority.bootstrap(data));
    EXPECT_TRUE(volumes.open_all());
    admin = authority.local_admin().value();
    static_cast<void>(authority.create_tenant(admin, "other"));  // may be there from before
    const auto tenants = authority.tenants(admin).value();
    for (const auto& tenant : tenants) {
      if (tenant.name == "other") other.tenant = tenant.id;
    }
    me = {.tenant = admin.tenant, .scope = catalog::Scope::tenant, .token_id = "me"};
    other.token_id = "other";
  }

  catalog::Catalog& catalog() { return *catalog_; }

  Uuid make(const std::string& name) {
    const auto made = vfolders.create(me, {.volume = "local", .name = name, .quota_scope = {}});
    EXPECT_TRUE(made) << made.error().message();
    return made ? made->vfolder.id : Uuid();
  }

  Result<Written> put(const Principal& caller, const Uuid& vfolder, std::string_view path,
                      std::string_view content, WriteOptions options = {}) {
    ASSIGN_OR_RETURN(const auto parsed, backend::RelPath::parse(path));
    ASSIGN_OR_RETURN(const auto session, files.write(caller, vfolder, parsed, options));
    RETURN_IF_ERROR(pour(*session, content));
    return session->finish();
  }

  Result<std::string> read(const Principal& caller, const Uuid& vfolder, std::string_view path) {
    ASSIGN_OR_RETURN(const auto parsed, backend::RelPath::parse(path));
    ASSIGN_OR_RETURN(const auto file, files.open(caller, vfolder, parsed));
    std::string content(file.handle->info().size_bytes, '\0');
    ASSIGN_OR_RETURN(const auto count,
                     file.handle->read(0, std::as_writable_bytes(std::span(content))));
    content.resize(count);
    return content;
  }

  // Feeds `content` to anything of a sink's shape.
  template <typename Sink>
  static Status pour(Sink& sink, std::string_view content) {
    while (!content.empty()) {
      const auto space = sink.buffer();
      const std::size_t count = std::min(space.size(), content.size());
      std::memcpy(space.data(), content.data(), count);
      RETURN_IF_ERROR(sink.commit(count));
      content.remove_prefix(count);
    }
    return {};
  }

 private:
  static backend::Registry make_registry(Clock& clock) {
    backend::Registry registry;
    registry.add("memory", [&clock](const backend::BackendSpec& spec) {
      return backend::open_memory_backend(spec, clock);
    });
    registry.add("posix", backend::open_posix_backend);
    return registry;
  }

  static VolumesOptions volumes_options(const std::filesystem::path& data,
                                        const TestNodeOptions& options) {
    backend::BackendSpec spec{.backend = options.backend, .options = {}};
    if (options.backend == "posix") {
      const auto path = options.volume_path.empty() ? data / "volume"
                                                    : std::filesystem::path(options.volume_path);
      std::filesystem::create_directories(path);
      spec.options["path"] = path.string();
    }
    return {.configured = {{.name = "local", .spec = std::move(spec)}}, .wrap = {}};
  }

  std::unique_ptr<catalog::Catalog> catalog_;
  backend::Registry registry_;

 public:
  metrics::Registry metrics;
  Volumes volumes;
  VFolders vfolders;
  Authority authority;
  Files files;
  Uploads uploads;
  Archives archives;
  Recovery recovery;
  Principal admin;
  Principal me;     // the default tenant, without an admin's rights
  Principal other;  // a stranger
};

inline backend::RelPath rel(std::string_view path) {
  return backend::RelPath::parse(path).value();
}

// The code of a failure; internal when there was none.
template <typename T>
ErrorCode code_of(const T& result) {
  return result ? ErrorCode::internal : result.error().code();
}

// The services behave alike over every backend.
class NodeTest : public testing::TestWithParam<std::string> {
 protected:
  NodeTest() : node_(folder_.path(), clock_, {.backend = GetParam()}) {}

  TempFolder folder_;
  SystemClock clock_;
  TestNode node_;
};

}  // namespace onggi::vfolder
