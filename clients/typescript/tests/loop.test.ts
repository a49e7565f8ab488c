import assert from "node:assert/strict";
import { test } from "node:test";
import { NoAnswer } from "../src/errors.js";
import { type Answering, cutOff, hangs, noConnection, type Step } from "./support/api.js";
import { ORDERS, OWNER, setUp } from "./support/set-up.js";

test("a request is sent again with the same key and body, until there is an answer", async () => {
  const { api, store, order } = setUp([noConnection, { status: 503 }, cutOff, { status: 201, body: "done" }]);
  const response = await order({ headers: { "Content-Type": "application/json" } });
  assert.equal(response.status, 201);
  assert.equal(await response.text(), "done");
  assert.equal(response.idempotency.attempts, 4);
  assert.equal(api.sent.length, 4);
  const key = response.idempotency.key;
  assert.match(key ?? "", /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
  api.sent.forEach((sent, at) => {
    assert.equal(sent.headers.get("Idempotency-Key"), key);
    assert.equal(sent.headers.get("Content-Type"), "application/json");
    assert.equal(sent.headers.get("X-Retry-Attempt"), String(at + 1));
    assert.equal(sent.body, '{"item":"tea"}');
    assert.equal(sent.init.redirect, "manual");
  });
  assert.deepEqual((await store.list()).requests, []);
});

test("the wait is that of Retry-After and a random one, whose bound doubles", async () => {
  const after = (value: string): Step => ({ status: 503, headers: { "Retry-After": value } });
  const { platform, order } = setUp([after("2"), after("nonsense"), noConnection, after("100"), after("-3"), { status: 200 }]);
  platform.chance = 0.5;
  await order();
  assert.deepEqual(platform.waits, [2000 + 250, 500, 1000, 60_000 + 2000, 4000]);
});

test("Retry-After is a date of the clock's time", async () => {
  const { platform, order } = setUp([
    { status: 503, headers: { "Retry-After": "Tue, 24 Nov 2026 00:00:09 GMT" } },
    { status: 503, headers: { "Retry-After": "Tue, 24 Nov 2026 00:00:10 GMT" } },
    { status: 200 },
  ]);
  await order();
  assert.deepEqual(platform.waits, [9000, 1000]);
});

test("after the last attempt there is an error with the key, and the request stays", async () => {
  const { api, platform, store, order } = setUp([{ status: 503 }, noConnection], { attempts: 3 });
  const error = await order().catch((reason: unknown) => reason);
  assert.ok(error instanceof NoAnswer);
  assert.equal(error.name, "NoAnswer");
  assert.equal(error.attempts, 3);
  assert.equal(error.lastStatus, null);
  assert.match(error.message, /it was sent 3 times, and the last attempt had fetch failed: connect ECONNREFUSED/);
  assert.equal(api.sent.length, 3);
  assert.equal(platform.waits.length, 2);
  assert.deepEqual(
    (await store.list()).requests.map((request) => request.key),
    [error.key],
  );
});

test("a wait that does not fit into the budget ends it at once", async () => {
  const { api, platform, order } = setUp([{ status: 503, headers: { "Retry-After": "10" } }], { budget: 25_000, base: 0 });
  await assert.rejects(order(), /the budget of 25000 ms is used up/);
  assert.deepEqual(platform.waits, [10_000, 10_000]);
  assert.equal(api.sent.length, 3);
});

test("the time of the attempts counts for the budget", async () => {
  const slow: Answering = async () => {
    platform.advance(9000);
    return new Response(null, { status: 503 });
  };
  const { api, platform, order } = setUp([slow], { budget: 25_000, base: 0 });
  await assert.rejects(order(), NoAnswer);
  assert.equal(api.sent.length, 3);
});

test("an attempt that takes too long is ended and repeated", async () => {
  const tooLong: Answering = (sent) => {
    queueMicrotask(() => platform.expire());
    return hangs(sent);
  };
  const { api, platform, order } = setUp([tooLong, { status: 200 }]);
  assert.equal((await order()).idempotency.attempts, 2);
  assert.match(String(api.sent[0]?.init.signal?.reason), /no whole answer within 30000 ms/);
  assert.equal(platform.timeouts, 0);
});

test("a redirect is an answer", async () => {
  const { api, order } = setUp([{ status: 307, headers: { Location: "https://elsewhere.example.test/" } }]);
  assert.equal((await order({ redirect: "follow" })).status, 307);
  assert.equal(api.sent.length, 1);
});

test("a request without a key is sent once as it is, without credentials, and is not kept", async () => {
  const { api, store, client } = setUp([{ status: 503 }], {
    credentials: () => ({ owner: OWNER, headers: { Authorization: "Bearer t" } }),
  });
  const response = await client.fetch(ORDERS, { headers: { Accept: "text/plain" } });
  assert.equal(response.status, 503);
  assert.equal(response.idempotency.key, null);
  assert.equal(api.sent.length, 1);
  assert.equal(api.sent[0]?.headers.has("Authorization"), false);
  assert.equal(api.sent[0]?.headers.get("Accept"), "text/plain");
  assert.equal(api.sent[0]?.headers.has("Idempotency-Key"), false);
  assert.deepEqual((await store.list()).requests, []);
});

test("other methods get a key by the option, or from the caller", async () => {
  const { client } = setUp([{ status: 200 }], { methods: ["put"] });
  assert.notEqual((await client.fetch(ORDERS, { method: "put" })).idempotency.key, null);
  assert.equal((await client.fetch(ORDERS, { method: "POST" })).idempotency.key, null);
  const given = await client.fetch(ORDERS, { method: "DELETE", headers: { "Idempotency-Key": "mine" } });
  assert.equal(given.idempotency.key, "mine");
});

test("the number of the attempt is not sent if the caller does not want it", async () => {
  const { api, order } = setUp([{ status: 200 }], { attemptHeader: false });
  await order();
  assert.equal(api.sent[0]?.headers.has("X-Retry-Attempt"), false);
});

test("fetch can be used without its object", async () => {
  const { fetch } = setUp([{ status: 200 }]).client;
  assert.equal((await fetch(ORDERS, { method: "PATCH" })).status, 200);
});

test("a thousand intents at a time", async () => {
  const { store, order } = setUp([noConnection, { status: 503 }, { status: 200 }]);
  const answers = await Promise.all(Array.from({ length: 1000 }, () => order()));
  assert.equal(new Set(answers.map((answer) => answer.idempotency.key)).size, 1000);
  assert.deepEqual((await store.list()).requests, []);
});
