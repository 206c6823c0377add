#include "api/native/native_api.h"

namespace onggi::api {

namespace {

Tenant tenant_of(const catalog::Tenant& tenant) {
  return {.id = tenant.id, .name = tenant.name, .created = tenant.created};
}

Scope scope_of(catalog::Scope scope) {
  return scope == catalog::Scope::admin ? Scope::admin : Scope::tenant;
}

Token token_of(const catalog::Token& token) {
  return {.id = token.id,
          .tenant = token.tenant,
          .name = token.name,
          .scope = scope_of(token.scope),
          .created = token.created,
          .expires = token.expires};
}

}  // namespace

Result<TenantList> NativeApi::list_tenants(const Call& call) {
  ASSIGN_OR_RETURN(const auto tenants, services_.authority.tenants(call.caller));
  TenantList list;
  for (const catalog::Tenant& tenant : tenants) list.items.push_back(tenant_of(tenant));
  return list;
}

Result<Tenant> NativeApi::create_tenant(const Call& call, const TenantCreate& body) {
  return services_.authority.create_tenant(call.caller, body.name).map(tenant_of);
}

Status NativeApi::delete_tenant(const Call& call, const DeleteTenantParams& params) {
  return services_.authority.remove_tenant(call.caller, params.tenant);
}

Result<TokenList> NativeApi::list_tokens(const Call& call) {
  TokenList list;
  std::vector<std::string> tenants = {call.caller.tenant.to_string()};
  if (call.caller.is_admin()) {
    ASSIGN_OR_RETURN(const auto all, services_.authority.tenants(call.caller));
    tenants.clear();
    for (const catalog::Tenant& tenant : all) tenants.push_back(tenant.id.to_string());
  }
  for (const std::string& tenant : tenants) {
    ASSIGN_OR_RETURN(const auto tokens, services_.authority.tokens(call.caller, tenant));
    for (const catalog::Token& token : tokens) list.items.push_back(token_of(token));
  }
  return list;
}

Result<CreatedToken> NativeApi::create_token(const Call& call, const TokenCreate& body) {
  vfolder::TokenRequest request;
  request.tenant = body.tenant.value_or("");
  request.name = body.name;
  if (body.scope == Scope::admin) request.scope = catalog::Scope::admin;
  if (body.expires_in_seconds) {
    request.expires_in = std::chrono::seconds(*body.expires_in_seconds);
  }
  ASSIGN_OR_RETURN(const vfolder::NewToken made,
                   services_.authority.create_token(call.caller, request));
  return CreatedToken{.id = made.token.id,
                      .tenant = made.token.tenant,
                      .name = made.token.name,
                      .scope = scope_of(made.token.scope),
                      .created = made.token.created,
                      .expires = made.token.expires,
                      .token = made.text};
}

Status NativeApi::delete_token(const Call& call, const DeleteTokenParams& params) {
  return services_.authority.revoke_token(call.caller, params.token_id);
}

}  // namespace onggi::api
