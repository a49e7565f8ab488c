// got: a request that has an `Idempotency-Key` is sent again until there is an answer.
import got from "got";

// `timeout` of an attempt and `base` of the waits are in milliseconds.
export const client = ({ timeout = 30_000, base = 500 } = {}) =>
  got.extend({
    timeout: { request: timeout }, // of each attempt
    retry: {
      calculateDelay: ({ attemptCount, error, retryAfter = 0 }) => {
        if (attemptCount > 9 || !error.options.headers["idempotency-key"]) return 0; // 0: not again
        const { statusCode = 0, headers = {} } = error.response ?? {}; // below 300 there is no answer, or it was cut off
        const advice = headers["idempotency-retry"];
        const isUnknown = [429, 502, 503, 504].includes(statusCode) || ([409, 425].includes(statusCode) && retryAfter > 0);
        if (statusCode >= 300 && !(advice ? ["same_key", "wait"].includes(advice) : isUnknown)) return 0;
        return 1 + Math.min(60_000, retryAfter) + Math.random() * Math.min(30_000, base * 2 ** attemptCount);
      },
    },
  });
