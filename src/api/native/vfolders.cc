#include "api/native/native_api.h"

namespace onggi::api {

namespace {

Permission permission_of(catalog::Permission permission) {
  switch (permission) {
    case catalog::Permission::owner:
      return Permission::owner;
    case catalog::Permission::read_write:
      return Permission::read_write;
    case catalog::Permission::read_only:
      return Permission::read_only;
  }
  return Permission::read_only;
}

VFolder vfolder_of(const catalog::VFolderAccess& access) {
  return {.id = access.vfolder.id,
          .volume = access.vfolder.volume,
          .name = access.vfolder.name,
          .quota_scope = access.vfolder.quota_scope,
          .tenant = access.vfolder.tenant,
          .permission = permission_of(access.permission),
          .created = access.vfolder.created};
}

Share share_of(const catalog::Share& share) {
  return {.tenant = share.tenant,
          .permission = permission_of(share.permission),
          .created = share.created};
}

}  // namespace

Result<VFolderPage> NativeApi::list_vfolders(const Call& call, const ListVfoldersParams& params) {
  ASSIGN_OR_RETURN(const vfolder::VFolderPage found,
                   services_.vfolders.list(call.caller, {.volume = params.volume,
                                                         .name = params.name,
                                                         .cursor = params.cursor.value_or(""),
                                                         .limit = params.limit}));
  VFolderPage page;
  for (const catalog::VFolderAccess& access : found.items) page.items.push_back(vfolder_of(access));
  if (!found.next_cursor.empty()) page.next_cursor = found.next_cursor;
  return page;
}

Result<VFolder> NativeApi::create_vfolder(const Call& call, const VFolderCreate& body) {
  return services_.vfolders
      .create(call.caller,
              {.volume = body.volume, .name = body.name, .quota_scope = body.quota_scope})
      .map(vfolder_of);
}

Result<VFolder> NativeApi::get_vfolder(const Call& call, const GetVfolderParams& params) {
  return services_.vfolders.get(call.caller, params.vfolder).map(vfolder_of);
}

Result<VFolder> NativeApi::rename_vfolder(const Call& call, const RenameVfolderParams& params,
                                          const VFolderRename& body) {
  return services_.vfolders.rename(call.caller, params.vfolder, body.name).map(vfolder_of);
}

Status NativeApi::delete_vfolder(const Call& call, const DeleteVfolderParams& params) {
  return services_.vfolders.remove(call.caller, params.vfolder);
}

Result<Usage> NativeApi::get_vfolder_usage(const Call& call, const GetVfolderUsageParams& params) {
  ASSIGN_OR_RETURN(const backend::Usage usage,
                   services_.vfolders.usage(call.caller, params.vfolder));
  return Usage{.size_bytes = usage.size_bytes,
               .allocated_bytes = usage.allocated_bytes,
               .files = usage.files,
               .directories = usage.directories,
               .symlinks = usage.symlinks};
}

Result<ShareList> NativeApi::list_shares(const Call& call, const ListSharesParams& params) {
  ASSIGN_OR_RETURN(const auto shares, services_.vfolders.shares(call.caller, params.vfolder));
  ShareList list;
  for (const catalog::Share& share : shares) list.items.push_back(share_of(share));
  return list;
}

Result<Share> NativeApi::put_share(const Call& call, const PutShareParams& params,
                                   const ShareGrant& body) {
  if (body.permission == Permission::owner) {
    return fail(ErrorCode::invalid_argument,
                "\"/permission\" must be read_write or read_only: a vfolder has one owner");
  }
  const auto permission = body.permission == Permission::read_write
                              ? catalog::Permission::read_write
                              : catalog::Permission::read_only;
  return services_.vfolders.share(call.caller, params.vfolder, params.tenant, permission)
      .map(share_of);
}

Status NativeApi::delete_share(const Call& call, const DeleteShareParams& params) {
  return services_.vfolders.unshare(call.caller, params.vfolder, params.tenant);
}

}  // namespace onggi::api
