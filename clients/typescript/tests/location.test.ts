import assert from "node:assert/strict";
import { test } from "node:test";
import { sameOrigin } from "../src/request.js";
import type { Step } from "./support/api.js";
import { noConnection } from "./support/api.js";
import { OWNER, setUp } from "./support/set-up.js";

const processing = (location?: string): Step => ({
  status: 202,
  headers: { "Idempotency-Status": "processing", "Retry-After": "1", ...(location ? { Location: location } : {}) },
});

test("under way: the client asks at Location, with credentials and without key and body", async () => {
  const { api, platform, order } = setUp(
    [processing("/operations/7"), noConnection, processing(), { status: 503 }, { status: 200, body: "done" }],
    { credentials: () => ({ owner: OWNER, headers: { Authorization: "Bearer t" } }) },
  );
  const conditions = { "If-Match": '"1"', "If-None-Match": "*", Range: "bytes=0-1" };
  const response = await order({ headers: { "Content-Type": "application/json", ...conditions, "X-Tenant": "acme" } });
  assert.equal(await response.text(), "done");
  assert.equal(response.idempotency.attempts, 5);
  assert.equal(platform.waits[0], 1000);
  for (const sent of api.sent.slice(1)) {
    assert.equal(sent.url, "https://api.example.test/operations/7");
    assert.equal(sent.method, "GET");
    assert.equal(sent.body, undefined);
    assert.equal(sent.init.cache, "no-store");
    assert.deepEqual(Object.fromEntries(sent.headers), { authorization: "Bearer t", "x-tenant": "acme" });
  }
});

test("a request that came before is asked for at Location", async () => {
  const told = (location: string): Step => ({ status: 202, headers: { "Idempotency-Status": "completed", Location: location } });
  for (const [location, sent] of [
    ["/operations/7", 2],
    ["https://evil.test/7", 1],
  ] as const) {
    const { api, order } = setUp([told(location), { status: 200, body: "done" }]);
    assert.equal((await order()).status, sent === 2 ? 200 : 202);
    assert.equal(api.sent.length, sent);
  }
});

test("a question may come later than the expiry", async () => {
  const { platform, order } = setUp([processing("/a"), { status: 200 }], { expiresAfter: 500 });
  assert.equal((await order()).status, 200);
  assert.deepEqual(platform.waits, [1000]);
});

test("while it asks, another origin is not asked", async () => {
  const { api, order } = setUp([processing("/a"), processing("/b"), processing("https://evil.test/c"), { status: 200 }]);
  await order();
  assert.deepEqual(
    api.sent.map((sent) => sent.url.replace("https://api.example.test", "")),
    ["/orders", "/a", "/b", "/b"],
  );
});

test("the origin is scheme, host and port", () => {
  const own = "https://api.example.test:443/orders?x=1";
  for (const [location, wanted] of [
    ["/a", "https://api.example.test/a"],
    ["b", "https://api.example.test/deep/b"],
    ["https://API.example.test/a", "https://api.example.test/a"],
    ["https://api.example.test:8443/a", null],
    ["https://user@api.example.test/a", null],
    ["https://user:password@api.example.test/a", null],
    ["https://example.test/a", null],
    ["javascript:alert(1)", null],
    ["\\\\evil.test/a", null],
    ["http://[", null],
    ["", "https://api.example.test/deep/"],
    [null, null],
  ] as const) {
    assert.equal(sameOrigin(location, "https://api.example.test/deep/", own), wanted, String(location));
  }
});
