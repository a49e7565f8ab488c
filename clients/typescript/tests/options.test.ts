import assert from "node:assert/strict";
import { test } from "node:test";
import { IdempotentClient } from "../src/node/index.js";
import { type ClientOptions, readOptions } from "../src/options.js";
import { MemoryStore } from "../src/store.js";
import { ANN } from "./support/set-up.js";

const store = new MemoryStore();
const required = { store, ...ANN };

test("the defaults are those of clients/README.md", () => {
  const {
    credentials: _c,
    fetch: _f,
    store: _s,
    owner: _o,
    ...rest
  } = readOptions({ ...required, attempts: undefined } as unknown as ClientOptions);
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
  [{ ...required, owner: undefined }, /the option owner has to be a text that is not blank: who makes the requests/],
  [{ ...required, owner: " " }, /the option owner has to be a text/],
  [{ ...required, credentials: undefined }, /the option credentials has to be a function/],
  [
    { ...required, max_retry_after: 5 },
    /max_retry_after is no option of IdempotentClient; the options are store, owner, credentials, /,
  ],
  [{ ...required, budget: -1 }, /the option budget has to be a number of milliseconds from 0 to 1000000000, and is -1/],
  [{ ...required, base: "500" }, /the option base has to be a number/],
  [{ ...required, cap: Number.NaN }, /the option cap has to be a number/],
  [{ ...required, attemptTimeout: Infinity }, /the option attemptTimeout has to be a number/],
  [{ ...required, maxRetryAfter: 1e10 }, /the option maxRetryAfter has to be a number/],
  [{ ...required, expiresAfter: null }, /the option expiresAfter has to be a number/],
  [{ ...required, attempts: 0 }, /the option attempts has to be a whole number from 1, and is 0/],
  [{ ...required, attempts: 1.5 }, /the option attempts has to be a whole number/],
  [{ ...required, methods: "POST" }, /the option methods has to be an array of texts/],
  [{ ...required, secretHeaders: [1] }, /the option secretHeaders has to be an array of texts/],
  [{ ...required, credentials: "token" }, /the option credentials has to be a function/],
  [{ ...required, fetch: {} }, /the option fetch has to be a function/],
  [{ ...required, attemptHeader: 1 }, /the option attemptHeader has to be true or false/],
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
