import assert from "node:assert/strict";
import { test } from "node:test";
import { OtherOwner } from "../src/errors.js";
import { KeyValueStore } from "../src/key-value-store.js";
import { IdempotentClient } from "../src/node/index.js";
import type { ClientOptions } from "../src/options.js";
import { FakeApi, type Step } from "./support/api.js";
import { FakePlatform } from "./support/platform.js";
import { ANN, ORDERS, OWNER, setUp } from "./support/set-up.js";

const BOB = "acme/shop/bob";
const WITH_KEY = { headers: { "Idempotency-Key": "mine" } };

/** Ann's client in a program in which Bob logs in as soon as so many requests have been sent. */
function bobLogsInAfter(sent: number, steps: Step[]) {
  const ann = setUp(steps, {
    credentials: ({ url, refused }) => {
      const owner = ann.api.sent.length < sent ? OWNER : BOB;
      return { owner, headers: { Authorization: `${owner} ${refused} ${url}` } };
    },
  });
  return ann;
}

/** The client of another user with the same store. */
function bobsClient(ann: ReturnType<typeof setUp>, options: Partial<ClientOptions> = {}) {
  const credentials = () => ({ owner: BOB });
  return new IdempotentClient({ store: ann.store, owner: BOB, credentials, fetch: ann.api.fetch, ...options }, ann.platform);
}

test("another user's resumePending tells a request, keeps it and does not send it", async () => {
  const ann = setUp([{ status: 503 }, { status: 200 }], { attempts: 1 });
  await assert.rejects(ann.order(), { name: "NoAnswer" });
  const bob = bobsClient(ann);
  const [result, ...rest] = await bob.resumePending();
  assert.ok(result?.error instanceof OtherOwner);
  assert.match(result.error.message, /is of acme\/shop\/ann, and this is acme\/shop\/bob. It stays in the store/);
  assert.deepEqual([result.request?.owner, result.error.owner, rest], [OWNER, OWNER, []]);
  await bob.forget(result.error.key);
  assert.equal(ann.api.sent.length, 1);
  assert.equal((await bob.pending()).requests[0]?.key, result.error.key);
  const [own] = await ann.client.resumePending();
  assert.equal(own?.response?.status, 200);
});

for (const [when, sent, steps] of [
  ["between two attempts", 1, [{ status: 503 }, { status: 200 }]],
  ["when a 401 asks for other credentials", 1, [{ status: 401 }, { status: 200 }]],
  [
    "before the question at Location",
    1,
    [
      { status: 202, headers: { "Idempotency-Status": "processing", Location: "/operations/1" } },
      { status: 404 },
      { status: 200 },
    ],
  ],
  [
    "between two questions at Location",
    2,
    [
      { status: 202, headers: { "Idempotency-Status": "processing", Location: "/operations/1" } },
      { status: 404 },
      { status: 200 },
    ],
  ],
] as const) {
  test(`the user changes ${when}: nothing more is sent, and the request is kept`, async () => {
    const { api, store, order } = bobLogsInAfter(sent, [...steps]);
    await assert.rejects(order(), { name: "OtherOwner", attempts: sent, owner: OWNER, message: /It stays in the store/ });
    assert.equal(api.sent.length, sent);
    for (const { headers } of api.sent) assert.ok(headers.get("Authorization")?.startsWith(OWNER));
    assert.equal((await store.list()).requests.length, 1);
  });
}

test("the user changes before the first attempt: nothing is kept or sent", async () => {
  const { api, store, order } = bobLogsInAfter(0, [{ status: 200 }]);
  await assert.rejects(order(), { name: "OtherOwner", attempts: 0, message: /Nothing was kept or sent/ });
  assert.equal(api.sent.length, 0);
  assert.deepEqual((await store.list()).requests, []);
});

for (const given of [{ Authorization: "Bearer t" }, { owner: "" }, null, undefined]) {
  test(`credentials of nobody (${JSON.stringify(given)}): nothing is sent`, async () => {
    const { api, order } = setUp([], { credentials: (() => given) as unknown as ClientOptions["credentials"] });
    await assert.rejects(order(), { name: "CredentialsFailed", message: /it has to give \{ owner, headers \}/ });
    assert.equal(api.sent.length, 0);
  });
}

test("two users with one key at the same time: neither waits for the other, and each has an answer of its own", async () => {
  const bobsApi = new FakeApi({ status: 200, body: "of Bob" });
  const ann = setUp([
    async () => {
      // Ann's request is under way. Bob's has another body.
      const response = await bobsClient(ann, { fetch: bobsApi.fetch }).fetch(ORDERS, { method: "POST", body: "1", ...WITH_KEY });
      assert.equal(await response.text(), "of Bob");
      assert.deepEqual(
        (await ann.client.pending()).requests.map(({ owner }) => owner),
        [OWNER],
      );
      return new Response("of Ann");
    },
  ]);
  assert.equal(await (await ann.order(WITH_KEY)).text(), "of Ann");
  assert.equal(bobsApi.sent.length, 1);
});

test("forgetOwner removes what is of the owner, and nothing else", async () => {
  const ann = setUp([{ status: 503 }], { attempts: 1 });
  const bob = bobsClient(ann, { attempts: 1 });
  for (const send of [ann.client, bob]) await assert.rejects(send.fetch(ORDERS, { method: "POST" }), { name: "NoAnswer" });
  await ann.client.forgetOwner(OWNER);
  assert.deepEqual(
    (await bob.pending()).requests.map(({ owner }) => owner),
    [BOB],
  );
});

test("a record without an owner is never sent", async () => {
  const text =
    '{"format":2,"key":"k","method":"POST","url":"https://api.example.test/","headers":{},"body":null,"createdAt":0,"cookies":null}';
  for (const name of ["k", '["acme/shop/ann","k"]', '[null,"k"]']) {
    const items = new Map([[`edge-idempotency:${name}`, text]]);
    const store = new KeyValueStore({
      getItem: async (item) => items.get(item) ?? null,
      setItem: async (item, value) => void items.set(item, value),
      removeItem: async (item) => void items.delete(item),
      getAllKeys: async () => [...items.keys()],
    });
    const api = new FakeApi({ status: 200 });
    const client = new IdempotentClient({ store, ...ANN, fetch: api.fetch }, new FakePlatform());
    const [result] = await client.resumePending();
    assert.match(result?.error?.message ?? "", /its member owner is not a text/);
    assert.deepEqual([api.sent.length, items.size], [0, 1]);
  }
});
