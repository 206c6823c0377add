#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <string>

#include "base/result.h"
#include "catalog/catalog.h"

namespace onggi::catalog {

struct SqliteOptions {
  std::string path;                      // of the database file; its folder must exist
  std::chrono::milliseconds busy{5000};  // how long to wait for another process's lock
  std::size_t readers = 8;               // connections that read beside the one that writes
};

// Opens the catalog in an SQLite file, making or migrating it when needed. Fails with a sentence
// that names the remedy when the file is no database, damaged (corruption), locked (unavailable)
// or written by a newer onggid (unsupported).
Result<std::unique_ptr<Catalog>> open_sqlite_catalog(const SqliteOptions& options);

}  // namespace onggi::catalog
