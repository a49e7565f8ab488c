# The gateway's token reads secrets, keeps itself alive, and nothing else. A mount of KV version 2 has its secrets below data/.
path "webhooks/data/*" {
  capabilities = ["read"]
}

# Without the default policy a token may not renew itself, and a periodic one that nobody renews ends.
path "auth/token/renew-self" {
  capabilities = ["update"]
}
