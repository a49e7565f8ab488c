-- As whole.lua, and with a record of the exchange in dynamic metadata, under the names of the filter's record: an access log shows it
-- with %DYNAMIC_METADATA(edge_idempotency)%. Envoy's Lua has no hash, so the record lacks the key's digest. The members are set one by
-- one: one table would be metadata one level deeper, and takes as long.
local routes = {
  ["POST /api/v1/conversations/send-message"] = {key = true, path = "/restate/call/Conversations/sendMessage", endpoint = "conversations.send-message"},
  ["POST /api/v1/refunds"] = {key = true, path = "/restate/call/Refunds/create", endpoint = "refunds.create"},
  ["POST /api/v1/notifications/devices"] = {path = "/restate/call/Notifications/register", endpoint = "notifications.register"},
}
local stripped = {
  "authorization", "cookie", "proxy-authorization", "x-api-key", "origin", "access-control-request-method",
  "access-control-request-headers", "x-http-method-override", "x-restate-id",
}
local hidden = {"x-restate-id", "x-restate-error-source", "access-control-allow-origin", "access-control-allow-credentials"}

local function refuse(handle, status, code)
  local metadata = handle:streamInfo():dynamicMetadata()
  metadata:set("edge_idempotency", "idempotency_outcome", "rejected")
  metadata:set("edge_idempotency", "idempotency_code", code)
  metadata:set("edge", "refused", true)
  handle:respond({[":status"] = status, ["content-type"] = "application/problem+json"},
    '{"title":"Refused","status":' .. status .. ',"code":"' .. code .. '"}')
end

local function segment(value)
  return type(value) == "string" and #value <= 63 and value:find("^[%w.~-][%w._~-]*$") and value ~= "." and value ~= ".."
end

local function escape(byte)
  return string.format("%%%02X", byte:byte())
end

function envoy_on_request(handle)
  local headers = handle:headers()
  local path = headers:get(":path")
  local query = path:find("?", 1, true)
  if query then
    path = path:sub(1, query - 1)
  end
  local route = routes[headers:get(":method") .. " " .. path]
  if route == nil then
    return refuse(handle, "404", "not_found")
  end
  for _, name in ipairs(stripped) do
    headers:remove(name)
  end
  local metadata = handle:streamInfo():dynamicMetadata()
  local claims = metadata:get("envoy.filters.http.jwt_authn")
  claims = claims and claims.jwt
  if claims == nil then
    return refuse(handle, "401", "identity_missing")
  end
  local tenant, project, subject = claims.tenant_id, claims.project_id, claims.sub
  if not segment(tenant) or not segment(project) or type(subject) ~= "string" or subject == "" or subject:find("%c") then
    return refuse(handle, "403", "identity_invalid")
  end
  subject = "user:" .. subject:gsub("[^%w._~-]", escape)
  if route.key then
    local key = headers:get("idempotency-key")
    if key == nil then
      return refuse(handle, "400", "idempotency_key_required")
    end
    if headers:getNumValues("idempotency-key") > 1 or #key > 255 or not key:find("^[%w._~-]+$") or key:sub(1, 2) == "t-" then
      return refuse(handle, "400", "idempotency_key_invalid")
    end
    headers:replace("idempotency-key", "t-" .. tenant .. ":" .. project .. ":" .. subject .. ":" .. key)
    metadata:set("edge", "keyed", true)
    metadata:set("edge_idempotency", "idempotency_source", "header")
  else
    headers:remove("idempotency-key")
  end
  headers:replace(":path", route.path)
  headers:replace("x-tenant-id", tenant)
  headers:replace("x-project-id", project)
  headers:replace("x-subject", subject)
  headers:replace("x-edge-idempotency", "1")
  metadata:set("edge_idempotency", "idempotency_case", route.key and "A" or "C")
  metadata:set("edge_idempotency", "idempotency_policy", route.key and "REQUIRED_A" or "HANDLER_INTERNAL_C")
  metadata:set("edge_idempotency", "endpoint", route.endpoint)
  metadata:set("edge_idempotency", "original_path", path)
  metadata:set("edge_idempotency", "tenant", tenant)
  metadata:set("edge_idempotency", "project", project)
end

function envoy_on_response(handle)
  local headers = handle:headers()
  local operation = headers:get("x-restate-id")
  local replayed = headers:get("idempotency-expires")
  for _, name in ipairs(hidden) do
    headers:remove(name)
  end
  local metadata = handle:streamInfo():dynamicMetadata()
  local edge = metadata:get("edge")
  if edge and edge.refused then
    return
  end
  local outcome = "forwarded"
  if operation then
    headers:replace("x-operation-id", operation)
    metadata:set("edge_idempotency", "restate_invocation_id", operation)
    if edge and edge.keyed then
      if replayed then
        headers:replace("idempotent-replayed", "true")
      end
      outcome = replayed and "replayed" or "stored"
      headers:replace("idempotency-status", outcome)
      metadata:set("edge_idempotency", "restate_cache_hit", replayed ~= nil)
    end
  end
  metadata:set("edge_idempotency", "idempotency_outcome", outcome)
end
