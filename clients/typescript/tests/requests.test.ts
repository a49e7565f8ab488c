import assert from "node:assert/strict";
import { webcrypto } from "node:crypto";
import { test } from "node:test";
import { KeyReused } from "../src/errors.js";
import { newKey } from "../src/key.js";
import { ORDERS, setUp } from "./support/set-up.js";

const bytes = (text: string) => new TextEncoder().encode(text);
const form = new FormData();
form.set("item", "tea");

for (const [what, body, wanted, type] of [
  ["a text", "tea", "tea", null],
  ["no body", null, null, null],
  ["bytes", bytes("tea"), bytes("tea"), null],
  ["a part of a buffer", bytes("a tea").subarray(2), bytes("tea"), null],
  ["an ArrayBuffer", bytes("tea").buffer, bytes("tea"), null],
  ["a blob", new Blob(["tea"], { type: "text/x-tea" }), bytes("tea"), "text/x-tea"],
  ["a form", form, null, /^multipart\/form-data; boundary=/],
  ["parameters", new URLSearchParams({ item: "tea" }), "item=tea", "application/x-www-form-urlencoded;charset=UTF-8"],
  ["a stream", new Blob(["tea"]).stream(), bytes("tea"), null],
] as const) {
  test(`the body is ${what}: each attempt has the same bytes`, async () => {
    const { api, order } = setUp([{ status: 503 }, { status: 200 }]);
    await order({ body, ...(what === "a stream" ? { duplex: "half" } : {}) } as RequestInit);
    const [first, second] = api.sent;
    if (what !== "a form") assert.deepEqual(first?.body, wanted);
    assert.equal(second?.body, first?.body);
    const sentType = first?.headers.get("Content-Type") ?? null;
    if (type instanceof RegExp) assert.match(sentType ?? "", type);
    else assert.equal(sentType, type);
    assert.equal(second?.headers.get("Content-Type"), sentType);
  });
}

test("a change of the caller's bytes does not change the request", async () => {
  const body = bytes("tea");
  const { api, order } = setUp([{ status: 200 }]);
  const answered = order({ body });
  body.fill(0);
  await answered;
  assert.deepEqual(api.sent[0]?.body, bytes("tea"));
});

test("a Request is read whole", async () => {
  const { api, client } = setUp([{ status: 503 }, { status: 200 }]);
  const request = new Request(ORDERS, {
    method: "POST",
    body: "tea",
    headers: { "Idempotency-Key": "mine", "X-Tenant": "acme" },
  });
  const response = await client.fetch(request);
  assert.equal(response.idempotency.key, "mine");
  assert.deepEqual(api.sent[1]?.body, bytes("tea"));
  assert.equal(api.sent[1]?.headers.get("X-Tenant"), "acme");
  assert.equal(api.sent[1]?.url, ORDERS);
  await assert.rejects(client.fetch(request), /the body of the Request was read already/);
});

test("the fragment of the URL is not kept", async () => {
  const { api, client } = setUp([{ status: 200 }]);
  await client.fetch(new URL(`${ORDERS}#top`), { method: "POST" });
  assert.equal(api.sent[0]?.url, ORDERS);
});

for (const [what, url, init, message] of [
  ["a relative URL", "/orders", {}, /\/orders is not an absolute URL/],
  ["another scheme", "ftp://api.example.test/", {}, /is no URL of HTTP/],
  ["a password in the URL", "https://bob:pw@api.example.test/", {}, /give them by the option credentials/],
  ["an empty key", ORDERS, { headers: { "Idempotency-Key": "" } }, /the header Idempotency-Key is empty/],
  ["a malformed header", ORDERS, { headers: { "X-Y": "a\nb" } }, /X-Y|header value/i],
  ["a method that fetch refuses", ORDERS, { method: "TRACE", headers: { "Idempotency-Key": "k" } }, /TRACE/],
  ["a body with GET", ORDERS, { method: "GET", body: "x", headers: { "Idempotency-Key": "k" } }, /GET/],
  ["no-cors", ORDERS, { mode: "no-cors" }, /no-cors/],
  ["an object as body", ORDERS, { body: { item: "tea" } }, /JSON\.stringify/],
] as const) {
  test(`${what} is an error before anything is kept or sent`, async () => {
    const { api, store, client } = setUp([{ status: 200 }]);
    const init_ = { method: "POST", ...init } as unknown as RequestInit;
    await assert.rejects(client.fetch(url, init_), (error: Error) => error instanceof TypeError && message.test(error.message));
    assert.equal(api.sent.length, 0);
    assert.deepEqual((await store.list()).requests, []);
  });
}

test("a body that fails is an error before anything is kept or sent", async () => {
  const { api, store, order } = setUp([{ status: 200 }]);
  const body = new ReadableStream({ pull: (controller) => controller.error(new Error("the disk is gone")) });
  await assert.rejects(order({ body, duplex: "half" } as RequestInit), /the body cannot be read into memory/);
  assert.equal(api.sent.length, 0);
  assert.deepEqual((await store.list()).requests, []);
});

test("the key of the caller goes with another request: it is refused while the first one is kept", async () => {
  const { api, client, order } = setUp([{ status: 503 }, { status: 200 }], { attempts: 1 });
  const headers = { "Idempotency-Key": "mine" };
  await assert.rejects(order({ headers }), { name: "NoAnswer" });
  await assert.rejects(order({ headers, body: "other" }), KeyReused);
  await assert.rejects(order({ headers, method: "PATCH" }), KeyReused);
  await assert.rejects(client.fetch(`${ORDERS}/7`, { method: "POST", body: '{"item":"tea"}', headers }), KeyReused);
  assert.equal(api.sent.length, 1);
  // The same bytes, given in another form.
  assert.equal((await order({ headers, body: bytes('{"item":"tea"}') })).status, 200);
});

test("two calls with one key: the second one waits for the first", async () => {
  let underWay = 0;
  const { api, order } = setUp([
    async () => {
      underWay += 1;
      assert.equal(underWay, 1);
      await new Promise((resolve) => setImmediate(resolve));
      underWay -= 1;
      return new Response("done", { status: 200 });
    },
  ]);
  const headers = { "Idempotency-Key": "mine" };
  const answers = await Promise.all([order({ headers }), order({ headers }), order({ headers })]);
  assert.equal(api.sent.length, 3);
  assert.deepEqual(await Promise.all(answers.map((answer) => answer.text())), ["done", "done", "done"]);
});

test("a key is a UUID v4 without randomUUID, too", () => {
  const keys = Array.from({ length: 200 }, () =>
    newKey({ getRandomValues: (array) => (webcrypto as Crypto).getRandomValues(array) }),
  );
  for (const key of keys) assert.match(key, /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
  assert.equal(new Set(keys).size, keys.length);
});

test("without random numbers there is a clear error", () => {
  assert.throws(() => newKey({}), /In React Native import react-native-get-random-values before the client/);
});
