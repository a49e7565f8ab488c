// Stripe's SDK for Node.js. The API's policy has `retry_headers` and `error_member`.
import Stripe from "stripe";

// `timeout` of an attempt is in milliseconds.
export const client = (token, { protocol = "https", host, port = 443, timeout = 30_000 }) =>
  new Stripe(token, { protocol, host, port, timeout, maxNetworkRetries: 9 });
