-- The least there is: the key's grammar, and a prefix that is the same for everybody.
local function refuse(handle, code)
  handle:respond({[":status"] = "400", ["content-type"] = "application/problem+json"},
    '{"title":"Bad request","status":400,"code":"' .. code .. '"}')
end

function envoy_on_request(handle)
  local headers = handle:headers()
  local key = headers:get("idempotency-key")
  if key == nil then
    return refuse(handle, "idempotency_key_required")
  end
  if #key > 255 or not key:find("^[%w._~-]+$") or key:sub(1, 2) == "t-" then
    return refuse(handle, "idempotency_key_invalid")
  end
  headers:replace("idempotency-key", "t-acme:health-prod:user:alice:" .. key)
end
