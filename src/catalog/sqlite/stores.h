#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "catalog/catalog.h"
#include "catalog/sqlite/database.h"

// The catalog's interfaces over one Database, which outlives them.
namespace onggi::catalog {

class SqliteTenants final : public Tenants {
 public:
  explicit SqliteTenants(Database& database) : database_(database) {}
  Status insert(const Tenant& tenant) override;
  Result<Tenant> get(const Uuid& id) override;
  Result<Tenant> find(std::string_view name) override;
  Result<std::vector<Tenant>> list() override;
  Status remove(const Uuid& id) override;

 private:
  Database& database_;
};

class SqliteTokens final : public Tokens {
 public:
  explicit SqliteTokens(Database& database) : database_(database) {}
  Status insert(const Token& token) override;
  Result<Token> get(std::string_view id) override;
  Result<std::vector<Token>> list(const Uuid& tenant) override;
  Status remove(std::string_view id) override;

 private:
  Database& database_;
};

class SqliteVolumes final : public Volumes {
 public:
  explicit SqliteVolumes(Database& database) : database_(database) {}
  Status insert(const Volume& volume) override;
  Result<std::vector<Volume>> list() override;
  Status remove(std::string_view name) override;

 private:
  Database& database_;
};

class SqliteVFolders final : public VFolders {
 public:
  explicit SqliteVFolders(Database& database) : database_(database) {}
  Status insert(const VFolder& vfolder) override;
  Result<VFolderAccess> get(const Uuid& id, const Uuid& tenant) override;
  Result<VFolder> find(const Uuid& id) override;
  Result<std::vector<VFolderAccess>> list(const VFolderQuery& query) override;
  Status rename(const Uuid& id, std::string_view name) override;
  Status set_state(const Uuid& id, VFolderState state) override;
  Status remove(const Uuid& id) override;
  Result<std::vector<VFolder>> in_state(VFolderState state, const Uuid& after,
                                        std::size_t limit) override;

 private:
  Database& database_;
};

class SqliteShares final : public Shares {
 public:
  explicit SqliteShares(Database& database) : database_(database) {}
  Status put(const Share& share) override;
  Status remove(const Uuid& vfolder, const Uuid& tenant) override;
  Result<std::vector<Share>> list(const Uuid& vfolder) override;

 private:
  Database& database_;
};

class SqliteUploads final : public Uploads {
 public:
  explicit SqliteUploads(Database& database) : database_(database) {}
  Status insert(const Upload& upload) override;
  Result<Upload> get(const Uuid& id) override;
  Result<std::vector<Upload>> list(const Uuid& vfolder) override;
  Result<std::size_t> count(const Uuid& vfolder) override;
  Result<std::vector<Upload>> expired(UnixTime now, std::size_t limit) override;
  Status complete(const Uuid& id, std::string_view etag, UnixTime expires) override;
  Status extend(const Uuid& id, UnixTime expires) override;
  Status remove(const Uuid& id) override;

 private:
  Database& database_;
};

class SqliteSettings final : public Settings {
 public:
  explicit SqliteSettings(Database& database) : database_(database) {}
  Result<std::string> get(std::string_view name) override;
  Result<std::string> put_if_absent(std::string_view name, std::string_view value) override;

 private:
  Database& database_;
};

}  // namespace onggi::catalog
