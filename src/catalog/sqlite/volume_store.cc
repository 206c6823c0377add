#include <utility>

#include "catalog/sqlite/stores.h"

namespace onggi::catalog {

Status SqliteVolumes::insert(const Volume& volume) {
  const auto writer = database_.writer();
  ASSIGN_OR_RETURN(auto transaction, Transaction::begin(*writer));
  {
    ASSIGN_OR_RETURN(auto statement, writer->prepare("INSERT INTO volumes (name, backend, created) "
                                                     "VALUES (?, ?, ?)"));
    auto status = statement.bind(volume.name, volume.backend, volume.created).run();
    if (!status && status.error().code() == ErrorCode::already_exists) {
      return fail(ErrorCode::already_exists, "a volume of this name exists");
    }
    RETURN_IF_ERROR(status);
  }
  for (const auto& [key, value] : volume.options) {
    ASSIGN_OR_RETURN(auto statement,
                     writer->prepare("INSERT INTO volume_options (volume, key, value) "
                                     "VALUES (?, ?, ?)"));
    RETURN_IF_ERROR(statement.bind(volume.name, key, value).run());
  }
  return transaction.commit();
}

Result<std::vector<Volume>> SqliteVolumes::list() {
  const auto reader = database_.reader();
  ASSIGN_OR_RETURN(auto statement,
                   reader->prepare("SELECT v.name, v.backend, v.created, o.key, o.value "
                                   "FROM volumes v LEFT JOIN volume_options o ON o.volume = v.name "
                                   "ORDER BY v.name, o.key"));
  std::vector<Volume> volumes;
  while (true) {
    ASSIGN_OR_RETURN(const bool more, statement.step());
    if (!more) return volumes;
    std::string name = statement.text(0);
    if (volumes.empty() || volumes.back().name != name) {
      volumes.push_back({.name = std::move(name),
                         .backend = statement.text(1),
                         .options = {},
                         .created = statement.time(2)});
    }
    if (!statement.is_null(3)) volumes.back().options[statement.text(3)] = statement.text(4);
  }
}

Status SqliteVolumes::remove(std::string_view name) {
  const auto writer = database_.writer();
  ASSIGN_OR_RETURN(auto transaction, Transaction::begin(*writer));
  {
    ASSIGN_OR_RETURN(auto used, writer->prepare("SELECT 1 FROM vfolders WHERE volume = ? LIMIT 1"));
    ASSIGN_OR_RETURN(const bool any, used.bind(name).step());
    if (any)
      return fail(ErrorCode::conflict, "vfolders still lie on the volume: delete them first");
  }
  {
    ASSIGN_OR_RETURN(auto statement, writer->prepare("DELETE FROM volumes WHERE name = ?"));
    RETURN_IF_ERROR(statement.bind(name).run_on_one("volume"));
  }
  return transaction.commit();
}

Result<std::string> SqliteSettings::get(std::string_view name) {
  const auto reader = database_.reader();
  ASSIGN_OR_RETURN(auto statement, reader->prepare("SELECT value FROM settings WHERE name = ?"));
  ASSIGN_OR_RETURN(const bool found, statement.bind(name).step());
  if (!found) return fail(ErrorCode::not_found, "no such setting");
  return statement.text(0);
}

Result<std::string> SqliteSettings::put_if_absent(std::string_view name, std::string_view value) {
  const auto writer = database_.writer();
  ASSIGN_OR_RETURN(auto insert, writer->prepare("INSERT INTO settings (name, value) VALUES (?, ?) "
                                                "ON CONFLICT (name) DO NOTHING"));
  RETURN_IF_ERROR(insert.bind(name, Blob{value}).run());
  ASSIGN_OR_RETURN(auto select, writer->prepare("SELECT value FROM settings WHERE name = ?"));
  ASSIGN_OR_RETURN(const bool found, select.bind(name).step());
  if (!found) return fail(ErrorCode::internal, "catalog: a setting vanished");
  return select.text(0);
}

}  // namespace onggi::catalog
