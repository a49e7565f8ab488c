# The gateway's token reads secrets and nothing else. A mount of KV version 2 has its secrets below data/.
path "webhooks/data/*" {
  capabilities = ["read"]
}
