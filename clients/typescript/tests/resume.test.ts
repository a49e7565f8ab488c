import assert from "node:assert/strict";
import { test } from "node:test";
import { DamagedRecord, StoreFailed } from "../src/errors.js";
import { IdempotentClient } from "../src/node/index.js";
import type { PendingRequest } from "../src/record.js";
import { MemoryStore } from "../src/store.js";
import { type Answering, FakeApi } from "./support/api.js";
import { FakePlatform } from "./support/platform.js";
import { ANN, ORDERS, OWNER, setUp } from "./support/set-up.js";

const request = (key: string, createdAt = 0): PendingRequest => ({
  owner: OWNER,
  key,
  method: "POST",
  url: ORDERS,
  headers: { "content-type": "application/json" },
  body: "{}",
  createdAt: new FakePlatform().time + createdAt,
  cookies: "include",
});

test("what is under way is not sent twice", async () => {
  const { api, client, order } = setUp([
    async () => {
      assert.deepEqual(await client.resumePending(), []);
      assert.equal((await client.pending()).requests.length, 1);
      return new Response(null, { status: 200 });
    },
  ]);
  assert.equal((await order()).status, 200);
  assert.equal(api.sent.length, 1);
});

test("two resumePending at the same time send each request once", async () => {
  const slowly: Answering = async () => {
    await new Promise((resolve) => setImmediate(resolve));
    return new Response(null, { status: 200 });
  };
  const { api, store, client } = setUp([slowly]);
  for (let at = 0; at < 50; at++) await store.put(request(`k${at}`, at));
  const results = (await Promise.all([client.resumePending(), client.resumePending(), client.resumePending()])).flat();
  assert.equal(results.length, 50);
  assert.equal(new Set(api.sent.map(({ headers }) => headers.get("Idempotency-Key"))).size, 50);
  assert.equal(api.sent.length, 50);
});

test("what is forgotten before its turn is not sent", async () => {
  const { api, store, client } = setUp([
    async () => {
      await client.forget("k7");
      return new Response(null, { status: 200 });
    },
  ]);
  for (let at = 0; at < 8; at++) await store.put(request(`k${at}`, at));
  assert.equal((await client.resumePending()).length, 7);
  assert.equal(api.sent.length, 7);
});

test("the signal ends all of it, and everything stays", async () => {
  const caller = new AbortController();
  const { store, client } = setUp([
    () => {
      queueMicrotask(() => caller.abort());
      return new Promise(() => {});
    },
  ]);
  for (let at = 0; at < 20; at++) await store.put(request(`k${at}`, at));
  const results = await client.resumePending({ signal: caller.signal });
  assert.deepEqual(new Set(results.map(({ error }) => error?.name)), new Set(["AbortError"]));
  assert.equal((await client.pending()).requests.length, 20);
});

test("an error of onResult ends resumePending", async () => {
  const { store, client } = setUp([{ status: 200 }]);
  await store.put(request("a"));
  const onResult = () => {
    throw new Error("the handler failed");
  };
  await assert.rejects(client.resumePending({ onResult }), /the handler failed/);
});

/** A store in memory of which one method fails. */
class FailingStore extends MemoryStore {
  readonly #failing: string;

  constructor(failing: string) {
    super();
    this.#failing = failing;
  }

  #check(method: string): void {
    if (method === this.#failing) throw new Error("the disk is full");
  }

  override async put(value: PendingRequest) {
    this.#check("put");
    return super.put(value);
  }

  override async get(owner: string, key: string) {
    this.#check("get");
    return super.get(owner, key);
  }

  override async list() {
    this.#check("list");
    return super.list();
  }

  override async remove(owner: string, key: string) {
    this.#check("remove");
    return super.remove(owner, key);
  }
}

function failing(method: string) {
  const api = new FakeApi({ status: 200, body: "done" });
  const store = new FailingStore(method);
  const client = new IdempotentClient({ store, ...ANN, fetch: api.fetch }, new FakePlatform());
  return { api, store, client };
}

for (const method of ["put", "get"]) {
  test(`a store whose ${method} fails: nothing is sent`, async () => {
    const { api, client } = failing(method);
    await assert.rejects(client.fetch(ORDERS, { method: "POST" }), (error: Error) => {
      return error instanceof StoreFailed && /so nothing was sent: the disk is full/.test(error.message);
    });
    assert.equal(api.sent.length, 0);
  });
}

test("a record whose put has failed does not stay", async () => {
  const api = new FakeApi({ status: 200 });
  const store = new MemoryStore();
  const put = store.put.bind(store);
  store.put = async (value) => {
    await put(value);
    throw new Error("the disk is full");
  };
  const client = new IdempotentClient({ store, ...ANN, fetch: api.fetch }, new FakePlatform());
  await assert.rejects(client.fetch(ORDERS, { method: "POST" }), (error: Error) => !/may be kept/.test(error.message));
  assert.deepEqual(await client.resumePending(), []);
  store.remove = () => Promise.reject(new Error("the disk is gone"));
  await assert.rejects(client.fetch(ORDERS, { method: "POST" }), /the disk is full\. It may be kept all the same: call forget/);
  assert.equal(api.sent.length, 0);
});

test("another process keeps another request under the key at the same time: this one is not sent", async () => {
  const { api, store, order } = setUp([{ status: 200 }]);
  await store.put({ ...request("mine"), body: "theirs" });
  store.get = async () => undefined;
  await assert.rejects(order({ headers: { "Idempotency-Key": "mine" } }), { name: "KeyReused" });
  assert.equal(api.sent.length, 0);
  assert.equal((await store.list()).requests[0]?.body, "theirs");
});

test("a store whose remove fails: the caller gets the answer, and is told", async () => {
  const { store, client } = failing("remove");
  const response = await client.fetch(ORDERS, { method: "POST" });
  assert.equal(await response.text(), "done");
  assert.match(String(response.idempotency.storeError), /the disk is full/);
  assert.equal((await store.list()).requests.length, 1);
  await assert.rejects(client.forget("k"), /the disk is full/);
});

test("a store that cannot be listed, or not read, is an error of resumePending", async () => {
  await assert.rejects(failing("list").client.resumePending(), /the disk is full/);
  await assert.rejects(failing("list").client.pending(), /the disk is full/);
  const { store, client } = failing("get");
  await store.put(request("a"));
  const [result] = await client.resumePending();
  assert.ok(result?.error instanceof StoreFailed);
});

test("a damaged record is told, and the others are sent", async () => {
  const { store, client } = setUp([{ status: 200 }]);
  await store.put(request("a"));
  const damaged = new DamagedRecord("/store/x.json", null, null, "it is not JSON");
  const list = store.list.bind(store);
  store.list = async () => ({ ...(await list()), damaged: [damaged] });
  const results = await client.resumePending();
  assert.deepEqual(
    results.map(({ request, response, error }) => [request?.key, response?.status, error]),
    [
      [undefined, undefined, damaged],
      ["a", 200, null],
    ],
  );
});
