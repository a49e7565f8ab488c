-- What the filter does to a keyed request and its answer: route, key, identity, what the backend must not see, what it
-- is told, its path, and the answer's headers. Headers are removed by their names, which is much faster in Lua than
-- looking at every line: other spellings and unforeseen names pass, as they do not in the filter.
local routes = {
  ["POST /api/v1/conversations/send-message"] = {key = true, path = "/restate/call/Conversations/sendMessage"},
  ["POST /api/v1/refunds"] = {key = true, path = "/restate/call/Refunds/create"},
  ["POST /api/v1/notifications/devices"] = {path = "/restate/call/Notifications/register"},
}
local stripped = {
  "authorization", "cookie", "proxy-authorization", "x-api-key", "origin", "access-control-request-method",
  "access-control-request-headers", "x-http-method-override", "x-restate-id",
}
local hidden = {"x-restate-id", "x-restate-error-source", "access-control-allow-origin", "access-control-allow-credentials"}

local function refuse(handle, status, code)
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
  local claims = handle:streamInfo():dynamicMetadata():get("envoy.filters.http.jwt_authn")
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
    handle:streamInfo():dynamicMetadata():set("edge", "keyed", true)
  else
    headers:remove("idempotency-key")
  end
  headers:replace(":path", route.path)
  headers:replace("x-tenant-id", tenant)
  headers:replace("x-project-id", project)
  headers:replace("x-subject", subject)
  headers:replace("x-edge-idempotency", "1")
end

function envoy_on_response(handle)
  local headers = handle:headers()
  local operation = headers:get("x-restate-id")
  local replayed = headers:get("idempotency-expires")
  for _, name in ipairs(hidden) do
    headers:remove(name)
  end
  if operation then
    headers:replace("x-operation-id", operation)
    local edge = handle:streamInfo():dynamicMetadata():get("edge")
    if edge and edge.keyed then
      if replayed then
        headers:replace("idempotent-replayed", "true")
      end
      headers:replace("idempotency-status", replayed and "replayed" or "stored")
    end
  end
end
