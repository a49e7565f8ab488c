import assert from "node:assert/strict";
import { test } from "node:test";
import { IdempotentClient } from "../src/node/index.js";
import { type ClientOptions, readOptions } from "../src/options.js";
import { MemoryStore } from "../src/store.js";

const store = new MemoryStore();

test("the defaults are those of clients/README.md", () => {
  const {
    credentials: _c,
    fetch: _f,
    store: _s,
    ...rest
  } = readOptions({ store, attempts: undefined } as unknown as ClientOptions);
  assert.deepEqual(rest, {
    secretHeaders: ["authorization", "cookie", "proxy-authorization"],
    methods: ["POST", "PATCH"],
    attempts: 10,
    base: 500,
    cap: 30_000,
    budget: 10 * 60 * 1000,
    attemptTimeout: 30_000,
    maxRetryAfter: 60_000,
    expiresAfter: 23 * 60 * 60 * 1000,
    attemptHeader: true,
  });
});

for (const [options, message] of [
  [undefined, /the option store has to be a Store/],
  [{}, /the option store has to be a Store/],
  [{ store: { put() {}, get() {}, list() {} } }, /it has no remove/],
  [{ store, max_retry_after: 5 }, /max_retry_after is no option of IdempotentClient; the options are store, credentials, /],
  [{ store, budget: -1 }, /the option budget has to be a number of milliseconds from 0 to 1000000000, and is -1/],
  [{ store, base: "500" }, /the option base has to be a number/],
  [{ store, cap: Number.NaN }, /the option cap has to be a number/],
  [{ store, attemptTimeout: Infinity }, /the option attemptTimeout has to be a number/],
  [{ store, maxRetryAfter: 1e10 }, /the option maxRetryAfter has to be a number/],
  [{ store, expiresAfter: null }, /the option expiresAfter has to be a number/],
  [{ store, attempts: 0 }, /the option attempts has to be a whole number from 1, and is 0/],
  [{ store, attempts: 1.5 }, /the option attempts has to be a whole number/],
  [{ store, methods: "POST" }, /the option methods has to be an array of texts/],
  [{ store, secretHeaders: [1] }, /the option secretHeaders has to be an array of texts/],
  [{ store, credentials: "token" }, /the option credentials has to be a function/],
  [{ store, fetch: {} }, /the option fetch has to be a function/],
  [{ store, attemptHeader: 1 }, /the option attemptHeader has to be true or false/],
] as const) {
  test(`wrong options: ${message.source}`, () => {
    assert.throws(
      () => new IdempotentClient(options as unknown as ClientOptions),
      (error: Error) => {
        return error instanceof TypeError && message.test(error.message);
      },
    );
  });
}
