#include <utility>

#include "api/native/native_api.h"

namespace onggi::api {

namespace {

EntryKind kind_of(backend::FileKind kind) {
  switch (kind) {
    case backend::FileKind::file:
      return EntryKind::file;
    case backend::FileKind::directory:
      return EntryKind::directory;
    case backend::FileKind::symlink:
      return EntryKind::symlink;
    case backend::FileKind::other:
      return EntryKind::other;
  }
  return EntryKind::other;
}

}  // namespace

Entry entry_of(std::string path, const backend::FileInfo& info) {
  return {.path = std::move(path),
          .kind = kind_of(info.kind),
          .size_bytes = info.size_bytes,
          .modified = info.modified,
          .mode = info.mode,
          .etag = info.etag};
}

Result<EntryPage> NativeApi::list_entries(const Call& call, const ListEntriesParams& params) {
  ASSIGN_OR_RETURN(const backend::RelPath path, backend::RelPath::parse(params.path));
  const vfolder::ListRequest request{
      .recursive = params.recursive, .cursor = params.cursor.value_or(""), .limit = params.limit};
  ASSIGN_OR_RETURN(vfolder::EntryPage found,
                   services_.files.list(call.caller, params.vfolder, path, request));
  EntryPage page;
  page.items.reserve(found.items.size());
  for (backend::Entry& entry : found.items) {
    page.items.push_back(entry_of(std::move(entry.path), entry.info));
  }
  if (!found.next_cursor.empty()) page.next_cursor = std::move(found.next_cursor);
  return page;
}

Result<Entry> NativeApi::stat_entry(const Call& call, const StatEntryParams& params) {
  ASSIGN_OR_RETURN(const backend::RelPath path, backend::RelPath::parse(params.path));
  ASSIGN_OR_RETURN(const backend::FileInfo info,
                   services_.files.stat(call.caller, params.vfolder, path));
  return entry_of(path.text(), info);
}

Result<Entry> NativeApi::create_directory(const Call& call, const CreateDirectoryParams& params) {
  ASSIGN_OR_RETURN(const backend::RelPath path, backend::RelPath::parse(params.path));
  Result<backend::FileInfo> info =
      services_.files.make_directory(call.caller, params.vfolder, path, params.parents);
  if (!info && params.parents && info.error().code() == ErrorCode::already_exists) {
    // As mkdir -p: what is there already will do, if it is a directory.
    const Result<backend::FileInfo> there = services_.files.stat(call.caller, params.vfolder, path);
    if (there && there->kind == backend::FileKind::directory) info = there;
  }
  if (!info) return tl::unexpected(std::move(info).error());
  return entry_of(path.text(), *info);
}

Result<Entry> NativeApi::move_entry(const Call& call, const MoveEntryParams& params,
                                    const Move& body) {
  ASSIGN_OR_RETURN(const backend::RelPath from, backend::RelPath::parse(body.from));
  ASSIGN_OR_RETURN(const backend::RelPath to, backend::RelPath::parse(body.to));
  ASSIGN_OR_RETURN(
      const backend::FileInfo info,
      services_.files.move(call.caller, params.vfolder, from, to, {.replace = body.replace}));
  return entry_of(to.text(), info);
}

}  // namespace onggi::api
