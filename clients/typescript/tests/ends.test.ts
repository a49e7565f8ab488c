import assert from "node:assert/strict";
import { test } from "node:test";
import { Aborted, Expired } from "../src/errors.js";
import type { Answering } from "./support/api.js";
import { ORDERS, setUp } from "./support/set-up.js";

const DAY = 24 * 60 * 60 * 1000;

async function keptKeys({ store }: Pick<ReturnType<typeof setUp>, "store">) {
  return (await store.list()).requests.map((request) => request.key);
}

test("abort ends an attempt whose fetch does not look at its signal", async () => {
  const caller = new AbortController();
  const deaf: Answering = () => {
    queueMicrotask(() => caller.abort());
    return new Promise(() => {});
  };
  await assert.rejects(setUp([deaf]).order({ signal: caller.signal }), Aborted);
});

test("abort ends a function credentials that does not end", async () => {
  const caller = new AbortController();
  const credentials = () => {
    queueMicrotask(() => caller.abort());
    return new Promise<{ owner: string }>(() => {});
  };
  await assert.rejects(setUp([], { credentials }).order({ signal: caller.signal }), Aborted);
});

test("what is aborted before it begins is neither kept nor sent", async () => {
  const started = setUp([{ status: 200 }]);
  await assert.rejects(started.order({ signal: AbortSignal.abort() }), {
    name: "AbortError",
    message: /Nothing was kept or sent/,
  });
  await assert.rejects(started.client.fetch(new Request(ORDERS, { method: "POST", signal: AbortSignal.abort() })), Aborted);
  assert.equal(started.api.sent.length, 0);
  assert.deepEqual(await keptKeys(started), []);
});

test("abort after the answer changes nothing", async () => {
  const caller = new AbortController();
  const response = await setUp([{ status: 200, body: "done" }]).order({ signal: caller.signal });
  caller.abort();
  assert.equal(await response.text(), "done");
});

for (const [what, change] of [
  ["too old", DAY],
  ["of the future, because the clock was set", -6 * 60 * 1000],
] as const) {
  test(`a kept request that is ${what} is not sent, and stays`, async () => {
    const started = setUp([{ status: 503 }], { attempts: 1 });
    await assert.rejects(started.order(), { name: "NoAnswer" });
    started.platform.time += change;
    const [resumed] = await started.client.resumePending();
    assert.ok(resumed?.error instanceof Expired);
    assert.match(resumed.error.message, /was kept at 2026-11-24T00:00:00.000Z, more than 82800000 ms ago/);
    assert.equal(started.api.sent.length, 1);
    const key = resumed.error.key;
    assert.deepEqual(await keptKeys(started), [key]);
    await started.client.forget(key);
    assert.deepEqual(await keptKeys(started), []);
  });
}

test("a call with a key that was kept too long ago is not sent either", async () => {
  const started = setUp([{ status: 503 }], { attempts: 1 });
  const again = () => started.order({ headers: { "Idempotency-Key": "mine" } });
  await assert.rejects(again(), { name: "NoAnswer" });
  started.platform.time += DAY;
  await assert.rejects(again(), Expired);
  assert.equal(started.api.sent.length, 1);
});

test("a request that gets too old between attempts is not sent again", async () => {
  const started = setUp([{ status: 503 }], { expiresAfter: 2000, base: 0 });
  started.platform.onWait = () => {
    started.platform.time += 1500;
    return false;
  };
  await assert.rejects(started.order(), Expired);
  assert.equal(started.api.sent.length, 2);
});
