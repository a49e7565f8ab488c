// axios with axios-retry: a request that has an `Idempotency-Key` is sent again until there is an answer.
import axios from "axios";
import axiosRetry from "axios-retry";

// `timeout` of an attempt and `base` of the waits are in milliseconds.
export function client({ timeout = 30_000, base = 500 } = {}) {
  const api = axios.create({ timeout });
  axiosRetry(api, {
    retries: 9,
    shouldResetTimeout: true, // `timeout` is for each attempt
    retryDelay: (count, error) => Math.min(60_000, axiosRetry.exponentialDelay(count, error, base)), // at least Retry-After
    retryCondition: ({ config, response }) => {
      if (!config?.headers?.has("Idempotency-Key")) return false;
      if (!response || response.status < 300) return true; // no answer, or it was cut off
      const { "idempotency-retry": advice, "retry-after": after } = response.headers;
      if (advice) return advice === "same_key" || advice === "wait";
      return [429, 502, 503, 504].includes(response.status) || ([409, 425].includes(response.status) && after !== undefined);
    },
  });
  return api;
}
