-- The key's grammar, and a prefix of who calls: what the filter does with a policy that rewrites the key and nothing else.
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
  local key = headers:get("idempotency-key")
  if key == nil then
    return refuse(handle, "400", "idempotency_key_required")
  end
  if headers:getNumValues("idempotency-key") > 1 or #key > 255 or not key:find("^[%w._~-]+$") or key:sub(1, 2) == "t-" then
    return refuse(handle, "400", "idempotency_key_invalid")
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
  headers:replace("idempotency-key", "t-" .. tenant .. ":" .. project .. ":" .. subject .. ":" .. key)
end
