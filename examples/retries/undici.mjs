// undici's RetryAgent, for its `request`: every POST is sent again, so give every POST an `Idempotency-Key`.
import { Agent, RetryAgent } from "undici";

// `timeout` of an attempt and `base` of the waits are in milliseconds.
export const dispatcher = ({ timeout = 30_000, base = 500 } = {}) =>
  new RetryAgent(new Agent({ headersTimeout: timeout, bodyTimeout: timeout }), {
    methods: ["POST"],
    maxRetries: 9,
    minTimeout: base,
    statusCodes: [409, 425, 429, 500, 502, 503, 504],
    errorCodes: ["ECONNRESET", "ECONNREFUSED", "EPIPE", "ENOTFOUND", "UND_ERR_SOCKET", "UND_ERR_HEADERS_TIMEOUT", "UND_ERR_BODY_TIMEOUT"],
    throwOnError: false, // the caller gets the last answer, also if it is an error
  });
