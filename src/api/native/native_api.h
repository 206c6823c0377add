#pragma once

#include <chrono>
#include <functional>
#include <string>

#include <generated/api/handlers.h>

#include "active/task_service.h"
#include "backend/backend.h"
#include "base/clock.h"
#include "base/result.h"
#include "catalog/catalog.h"
#include "http/message.h"
#include "metrics/metrics.h"
#include "vfolder/archives.h"
#include "vfolder/authority.h"
#include "vfolder/files.h"
#include "vfolder/transfer_tokens.h"
#include "vfolder/uploads.h"
#include "vfolder/vfolders.h"
#include "vfolder/volumes.h"

namespace onggi::api {

// What the handlers work with; all of it outlives them.
struct Services {
  catalog::Catalog& catalog;
  vfolder::Authority& authority;
  vfolder::Volumes& volumes;
  vfolder::VFolders& vfolders;
  vfolder::Files& files;
  vfolder::Uploads& uploads;
  vfolder::Archives& archives;
  const vfolder::TransferTokens& transfer_tokens;
  active::TaskService* tasks;  // null: this node runs none
  metrics::Registry& metrics;
  Clock& clock;
};

struct NativeApiOptions {
  std::string node_name;
  std::string node_tier;
  std::string version;
  std::uint32_t trusted_uid = 0;  // over the Unix socket, besides root
  std::chrono::seconds transfer_expires_in{600};
  std::size_t commands_bytes_max = std::size_t{64} << 20;  // of one request that sends commands
};

// The handlers of api/openapi.yaml: one file a resource, each only translating between HTTP and the
// services. Thread-safe.
class NativeApi final : public Handlers {
 public:
  NativeApi(const Services& services, NativeApiOptions options)
      : services_(services), options_(std::move(options)) {}

  Result<vfolder::Principal> authorize(const http::Request& request, Access access) override;

  // health.cc
  Result<Health> get_health(const Call& call) override;
  Result<Health> get_readiness(const Call& call) override;
  Result<http::Response> get_metrics(const Call& call) override;
  Result<Version> get_version(const Call& call) override;
  Result<Node> get_node(const Call& call) override;

  // tenants.cc
  Result<TenantList> list_tenants(const Call& call) override;
  Result<Tenant> create_tenant(const Call& call, const TenantCreate& body) override;
  Status delete_tenant(const Call& call, const DeleteTenantParams& params) override;
  Result<TokenList> list_tokens(const Call& call) override;
  Result<CreatedToken> create_token(const Call& call, const TokenCreate& body) override;
  Status delete_token(const Call& call, const DeleteTokenParams& params) override;

  // volumes.cc
  Result<VolumeList> list_volumes(const Call& call) override;
  Result<Volume> create_volume(const Call& call, const VolumeCreate& body) override;
  Result<Volume> get_volume(const Call& call, const GetVolumeParams& params) override;
  Status delete_volume(const Call& call, const DeleteVolumeParams& params) override;

  // vfolders.cc
  Result<VFolderPage> list_vfolders(const Call& call, const ListVfoldersParams& params) override;
  Result<VFolder> create_vfolder(const Call& call, const VFolderCreate& body) override;
  Result<VFolder> get_vfolder(const Call& call, const GetVfolderParams& params) override;
  Result<VFolder> rename_vfolder(const Call& call, const RenameVfolderParams& params,
                                 const VFolderRename& body) override;
  Status delete_vfolder(const Call& call, const DeleteVfolderParams& params) override;
  Result<Usage> get_vfolder_usage(const Call& call, const GetVfolderUsageParams& params) override;
  Result<ShareList> list_shares(const Call& call, const ListSharesParams& params) override;
  Result<Share> put_share(const Call& call, const PutShareParams& params,
                          const ShareGrant& body) override;
  Status delete_share(const Call& call, const DeleteShareParams& params) override;

  // files.cc
  Result<http::Response> get_file(const Call& call, const GetFileParams& params) override;
  Result<http::Response> head_file(const Call& call, const HeadFileParams& params) override;
  Result<http::Intake> put_file(const Call& call, const PutFileParams& params) override;
  Status delete_file(const Call& call, const DeleteFileParams& params) override;
  Result<http::Response> get_archive(const Call& call, const GetArchiveParams& params) override;
  Result<http::Intake> put_archive(const Call& call, const PutArchiveParams& params) override;

  // entries.cc
  Result<EntryPage> list_entries(const Call& call, const ListEntriesParams& params) override;
  Result<Entry> stat_entry(const Call& call, const StatEntryParams& params) override;
  Result<Entry> create_directory(const Call& call, const CreateDirectoryParams& params) override;
  Result<Entry> move_entry(const Call& call, const MoveEntryParams& params,
                           const Move& body) override;

  // uploads.cc
  Result<http::Response> get_upload_options(const Call& call,
                                            const GetUploadOptionsParams& params) override;
  Result<http::Intake> create_upload(const Call& call, const CreateUploadParams& params) override;
  Result<http::Response> head_upload(const Call& call, const HeadUploadParams& params) override;
  Result<http::Intake> append_upload(const Call& call, const AppendUploadParams& params) override;
  Result<http::Response> delete_upload(const Call& call, const DeleteUploadParams& params) override;

  // transfers.cc
  Result<TransferToken> create_transfer_token(const Call& call,
                                              const CreateTransferTokenParams& params,
                                              const TransferTokenCreate& body) override;
  Result<http::Response> download_transfer(const Call& call,
                                           const DownloadTransferParams& params) override;
  Result<http::Response> head_download_transfer(const Call& call,
                                                const HeadDownloadTransferParams& params) override;
  Result<http::Intake> upload_transfer(const Call& call,
                                       const UploadTransferParams& params) override;
  Result<http::Response> head_upload_transfer(const Call& call,
                                              const HeadUploadTransferParams& params) override;
  Result<http::Intake> append_upload_transfer(const Call& call,
                                              const AppendUploadTransferParams& params) override;

  // tasks.cc
  Result<TaskList> list_tasks(const Call& call) override;
  Result<http::Intake> create_task(const Call& call) override;
  Status delete_task(const Call& call, const DeleteTaskParams& params) override;
  Result<http::Intake> send_commands(const Call& call, const SendCommandsParams& params) override;

 private:
  // files.cc: both for tokens of either kind.
  Result<http::Response> read_file(const Call& call, const vfolder::Principal& reader,
                                   const Uuid& vfolder, const backend::RelPath& path);
  Result<http::Intake> write_file(const Call& call, const vfolder::Principal& writer,
                                  const Uuid& vfolder, const backend::RelPath& path, bool durable);
  // uploads.cc
  Result<http::Intake> append(const Call& call, const vfolder::Principal& writer,
                              const Uuid& upload);
  // transfers.cc: the session of a transfer token, made when first asked for.
  Result<vfolder::UploadStatus> session_of(const vfolder::TransferGrant& grant);
  // tasks.cc
  Result<active::TaskService*> task_service() const;

  const Services services_;
  const NativeApiOptions options_;
};

// A name in a vfolder as JSON has it.
Entry entry_of(std::string path, const backend::FileInfo& info);

}  // namespace onggi::api
