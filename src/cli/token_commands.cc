#include <charconv>
#include <memory>

#include <CLI/CLI.hpp>
#include <boost/json.hpp>
#include <fmt/format.h>

#include "base/encoding.h"
#include "cli/exit_codes.h"
#include "cli/session.h"

namespace onggi::cli {

namespace json = boost::json;

namespace {

struct TokenOptions {
  std::string name;
  std::string tenant;
  std::string expires;
  bool admin = false;
};

// "30d", "12h", "45m", "90s" or plain seconds.
Result<std::uint64_t> parse_seconds(std::string_view text) {
  std::uint64_t value = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), value);
  const std::string_view unit = text.substr(static_cast<std::size_t>(parsed.ptr - text.data()));
  constexpr std::string_view kUnits = "smhd";
  constexpr std::array<std::uint64_t, 4> kSeconds{1, 60, 3600, 86'400};
  const std::size_t at = unit.empty() ? 0 : kUnits.find(unit.front());
  if (parsed.ec != std::errc() || value == 0 || unit.size() > 1 || at == std::string_view::npos) {
    return fail(ErrorCode::invalid_argument,
                fmt::format("'{}' is not a duration; write 90s, 45m, 12h or 30d", text));
  }
  return value * kSeconds[at];
}

Result<int> create(Session& session, const TokenOptions& options) {
  json::object body{{"name", options.name}, {"scope", options.admin ? "admin" : "tenant"}};
  if (!options.tenant.empty()) body["tenant"] = options.tenant;
  if (!options.expires.empty()) {
    ASSIGN_OR_RETURN(body["expires_in_seconds"], parse_seconds(options.expires));
  }
  ASSIGN_OR_RETURN(client::Client* const client, session.client());
  ASSIGN_OR_RETURN(const json::value token, client->call("POST", "/v1/tokens", body));
  if (!session.json && session.out().is_terminal) {
    session.print_text(
        fmt::format("{}\n\nThis is shown once. Use it as ONGGI_TOKEN or in a "
                    "profile; `onggi token revoke {}` ends it.",
                    text_of(token, "token"), text_of(token, "id")));
  } else {
    session.print(token, text_of(token, "token"));
  }
  return kExitOk;
}

Result<int> list(Session& session) {
  ASSIGN_OR_RETURN(client::Client* const client, session.client());
  ASSIGN_OR_RETURN(const json::value answer, client->call("GET", "/v1/tokens"));
  Table table({{"ID"}, {"NAME"}, {"SCOPE"}, {"TENANT"}, {"CREATED"}, {"EXPIRES"}});
  if (const json::array* items = member(answer, "items").if_array(); items != nullptr) {
    for (const json::value& token : *items) {
      const std::string expires = text_of(token, "expires");
      table.add({text_of(token, "id"), text_of(token, "name"), text_of(token, "scope"),
                 text_of(token, "tenant"), text_of(token, "created"),
                 expires.empty() ? "never" : expires});
    }
  }
  session.print(answer, table.text(session.out()));
  return kExitOk;
}

Result<int> revoke(Session& session, const std::string& id) {
  ASSIGN_OR_RETURN(client::Client* const client, session.client());
  RETURN_IF_ERROR(client->call("DELETE", "/v1/tokens/" + percent_encode(id)));
  session.print({{"revoked", id}}, fmt::format("Token {} no longer works.", id));
  return kExitOk;
}

Result<int> create_tenant(Session& session, const std::string& name) {
  ASSIGN_OR_RETURN(client::Client* const client, session.client());
  ASSIGN_OR_RETURN(const json::value tenant, client->call("POST", "/v1/tenants", {{"name", name}}));
  session.print(tenant, fmt::format("Made tenant {} ({})", name, text_of(tenant, "id")));
  return kExitOk;
}

Result<int> list_tenants(Session& session) {
  ASSIGN_OR_RETURN(client::Client* const client, session.client());
  ASSIGN_OR_RETURN(const json::value answer, client->call("GET", "/v1/tenants"));
  Table table({{"TENANT"}, {"ID"}, {"CREATED"}});
  if (const json::array* items = member(answer, "items").if_array(); items != nullptr) {
    for (const json::value& tenant : *items) {
      table.add({text_of(tenant, "name"), text_of(tenant, "id"), text_of(tenant, "created")});
    }
  }
  session.print(answer, table.text(session.out()));
  return kExitOk;
}

Result<int> delete_tenant(Session& session, const std::string& name) {
  ASSIGN_OR_RETURN(client::Client* const client, session.client());
  RETURN_IF_ERROR(client->call("DELETE", "/v1/tenants/" + percent_encode(name)));
  session.print({{"deleted", name}}, fmt::format("Tenant {} is gone.", name));
  return kExitOk;
}

}  // namespace

void add_token_commands(CLI::App& app, Session& session) {
  CLI::App* group = app.add_subcommand("token", "API tokens");
  group->require_subcommand(1);
  // Lives as long as the commands that fill and read it.
  const auto options = std::make_shared<TokenOptions>();

  CLI::App* creation = group->add_subcommand("create", "Make a token; it is shown once");
  creation->add_option("name", options->name, "What to call it")->required();
  creation->add_option("--tenant", options->tenant, "Whose it is; yours unless told (admin only)");
  creation->add_option("--expires", options->expires, "After how long it ends: 12h, 30d; never");
  creation->add_flag("--admin", options->admin, "May do everything (admin only)");
  session.on(creation, [options](Session& s) { return create(s, *options); });

  session.on(group->add_subcommand("list", "All tokens, without their secrets"), list);

  CLI::App* revocation = group->add_subcommand("revoke", "End a token at once");
  revocation->add_option("id", options->name, "Its id, 16 hexadecimal digits")->required();
  session.on(revocation, [options](Session& s) { return revoke(s, options->name); });
}

void add_tenant_commands(CLI::App& app, Session& session) {
  CLI::App* group = app.add_subcommand("tenant", "Whose data it is (for administrators)");
  group->require_subcommand(1);
  // Lives as long as the commands that fill and read it.
  const auto name = std::make_shared<std::string>();

  CLI::App* creation = group->add_subcommand("create", "Make a tenant");
  creation->add_option("name", *name)->required();
  session.on(creation, [name](Session& s) { return create_tenant(s, *name); });

  session.on(group->add_subcommand("list", "All tenants"), list_tenants);

  CLI::App* deletion = group->add_subcommand("delete", "Remove a tenant that owns no vfolder");
  deletion->add_option("tenant", *name, "Its id or name")->required();
  session.on(deletion, [name](Session& s) { return delete_tenant(s, *name); });
}

}  // namespace onggi::cli
