import assert from "node:assert/strict";
import { test } from "node:test";
import { CredentialsFailed } from "../src/errors.js";
import type { Credentials, CredentialsRequest } from "../src/options.js";
import { ORDERS, OWNER, setUp } from "./support/set-up.js";

/** Gives one token after the other, and then the last one. */
function tokens(...values: string[]) {
  const asked: CredentialsRequest[] = [];
  const credentials = (request: CredentialsRequest) => {
    asked.push(request);
    return { owner: OWNER, headers: { Authorization: `Bearer ${values[Math.min(asked.length, values.length) - 1]}` } };
  };
  return { asked, credentials };
}

const sentTokens = (sent: { headers: Headers }[]) =>
  sent.map(({ headers }) => headers.get("Authorization")?.replace("Bearer ", ""));

test("after a 401 other credentials are sent at once, with the same key", async () => {
  const { asked, credentials } = tokens("old", "new");
  const { api, platform, order } = setUp([{ status: 401 }, { status: 200 }], { credentials });
  const response = await order();
  assert.equal(response.status, 200);
  assert.deepEqual(sentTokens(api.sent), ["old", "new"]);
  assert.deepEqual(platform.waits, []);
  assert.deepEqual(
    asked.map(({ refused }) => refused),
    [false, true],
  );
  assert.equal(api.sent[1]?.headers.get("Idempotency-Key"), api.sent[0]?.headers.get("Idempotency-Key"));
});

test("a 401 to the last attempt is no answer if there are other credentials, and the request stays", async () => {
  const { api, store, order } = setUp([{ status: 401 }], { credentials: tokens("a", "b").credentials, attempts: 1 });
  await assert.rejects(order(), { name: "NoAnswer", lastStatus: 401, attempts: 1 });
  assert.equal(api.sent.length, 1);
  assert.equal((await store.list()).requests.length, 1);

  const same = setUp([{ status: 401 }], { credentials: tokens("a").credentials, attempts: 1 });
  assert.equal((await same.order()).status, 401);
});

test("credentials that fail before the first attempt: nothing is kept, and no attempt is counted", async () => {
  const credentials = () => Promise.reject(new Error("the session has ended"));
  const { api, store, order } = setUp([], { credentials });
  await assert.rejects(order(), {
    name: "CredentialsFailed",
    attempts: 0,
    message: /the session has ended. Nothing was kept or sent/,
  });
  assert.equal(api.sent.length, 0);
  assert.deepEqual((await store.list()).requests, []);
});

test("credentials that take too long fail, and the results of other requests are not lost", async () => {
  const { platform, store, client } = setUp(
    [async ({ headers }) => new Response(null, { status: headers.get("Idempotency-Key") === "good" ? 200 : 401 })],
    {
      credentials: ({ refused }) => {
        if (!refused) return { owner: OWNER };
        setImmediate(() => platform.expire());
        return new Promise<Credentials>(() => {});
      },
    },
  );
  const request = {
    owner: OWNER,
    method: "POST",
    url: ORDERS,
    headers: {},
    body: null,
    createdAt: platform.now(),
    cookies: null,
  };
  for (const key of ["bad", "good"]) await store.put({ ...request, key });
  const results = await client.resumePending();
  const byKey = new Map(results.map((result) => [result.request?.key, result]));
  assert.equal(byKey.get("good")?.response?.status, 200);
  assert.ok(byKey.get("bad")?.error instanceof CredentialsFailed);
  assert.match(byKey.get("bad")?.error?.message ?? "", /it took longer than 30000 ms/);
  assert.deepEqual(
    (await store.list()).requests.map(({ key }) => key),
    ["bad"],
  );
});

test("a request that expires while credentials are asked is not sent", async () => {
  const { api, platform, store, client } = setUp([{ status: 200 }], {
    credentials: () => {
      platform.advance(24 * 3_600_000);
      return { owner: OWNER };
    },
  });
  await store.put({
    owner: OWNER,
    key: "a",
    method: "POST",
    url: ORDERS,
    headers: {},
    body: null,
    createdAt: platform.now(),
    cookies: null,
  });
  const [result] = await client.resumePending();
  assert.equal(result?.error?.name, "Expired");
  assert.equal(api.sent.length, 0);
});

test("credentials that fail end the request, which stays", async () => {
  const { api, store, order } = setUp([{ status: 503 }], {
    credentials: async () => {
      if (api.sent.length === 1) throw new Error("the session has ended");
      return { owner: OWNER };
    },
  });
  const error = await order().catch((reason: unknown) => reason);
  assert.ok(error instanceof CredentialsFailed);
  assert.match(error.message, /the session has ended/);
  assert.equal(api.sent.length, 1);
  assert.equal((await store.list()).requests[0]?.key, error.key);
});

test("secrets are sent with each attempt, and never kept", async () => {
  const { api, store, client, order } = setUp([{ status: 503 }], {
    attempts: 2,
    secretHeaders: ["X-Api-Key"],
    credentials: () => ({ owner: OWNER, headers: { "X-Session": "secret" } }),
  });
  const secret = { Authorization: "secret", Cookie: "secret", "Proxy-Authorization": "secret", "x-api-key": "secret" };
  await assert.rejects(order({ headers: { ...secret, "X-Tenant": "acme" } }), { name: "NoAnswer" });
  for (const sent of api.sent) {
    for (const name of [...Object.keys(secret), "X-Session"]) assert.equal(sent.headers.get(name), "secret", name);
  }
  const { requests } = await store.list();
  assert.deepEqual(requests[0]?.headers, { "x-tenant": "acme" });
  assert.doesNotMatch(JSON.stringify(requests), /secret/);

  await client.resumePending();
  assert.equal(api.sent[2]?.headers.get("X-Session"), "secret");
  assert.equal(api.sent[2]?.headers.has("X-Api-Key"), false);
});
