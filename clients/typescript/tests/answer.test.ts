import assert from "node:assert/strict";
import { test } from "node:test";
import { decide, isProblem, readDetails } from "../src/answer.js";

type Row = [what: string, status: number, headers: Record<string, string>, intent: string, polling?: string];

const RETRY = { "Retry-After": "1" };
const ROWS: Row[] = [
  ["202 under way", 202, { "Idempotency-Status": "processing" }, "poll"],
  ["202 of work that has ended", 202, { "Idempotency-Status": "completed", "Idempotent-Replayed": "true" }, "came-before"],
  ["202 of work that has failed", 202, { "Idempotency-Status": "failed", "Idempotency-Retry": "new_key" }, "came-before"],
  ["202 of work of which nobody knows", 202, { "Idempotency-Status": "accepted" }, "came-before"],
  ["200 with completed", 200, { "Idempotency-Status": "completed" }, "final"],
  ["202 of another meaning", 202, {}, "final"],
  ["202 that is kept", 202, { "Idempotency-Status": "stored" }, "final"],
  ["same_key", 500, { "Idempotency-Retry": "same_key" }, "again"],
  ["wait", 409, { "Idempotency-Retry": "wait" }, "again"],
  ["same_key, although kept", 503, { "Idempotency-Retry": "same_key", "Idempotency-Status": "stored" }, "again"],
  ["new_key", 503, { "Idempotency-Retry": "new_key", ...RETRY }, "final"],
  ["new_request", 401, { "Idempotency-Retry": "new_request" }, "final"],
  ["never", 429, { "Idempotency-Retry": "never" }, "final"],
  ["an unknown advice", 502, { "Idempotency-Retry": "dance" }, "final"],
  ["401", 401, {}, "renew"],
  ["401 that is kept", 401, { "Idempotency-Status": "stored" }, "renew"],
  ["stored", 503, { "Idempotency-Status": "stored" }, "final"],
  ["replayed", 429, { "Idempotency-Status": "replayed" }, "final"],
  ["Idempotent-Replayed", 502, { "Idempotent-Replayed": "true" }, "final"],
  ["a kept 409", 409, { "Idempotency-Status": "stored", ...RETRY }, "final"],
  ["409 with Retry-After", 409, RETRY, "again"],
  ["409", 409, {}, "final"],
  ["425 with Retry-After", 425, RETRY, "again"],
  ["425", 425, {}, "final"],
  ["429", 429, {}, "again"],
  ["500", 500, RETRY, "final"],
  ["502", 502, {}, "again"],
  ["503", 503, {}, "again"],
  ["504", 504, {}, "again"],
  ["a redirect", 307, { Location: "/elsewhere" }, "final"],
  ["200", 200, {}, "final"],
  ["400", 400, RETRY, "final"],
  ["404", 404, {}, "final", "resend"],
  ["404 with an advice", 404, { "Idempotency-Retry": "never" }, "final", "resend"],
  ["404 that is kept", 404, { "Idempotency-Status": "failed", "Idempotent-Replayed": "true" }, "final"],
];

for (const [what, status, headers, intent, polling = intent] of ROWS) {
  test(`answer: ${what}`, () => {
    const answer = { status, headers: new Headers(headers) };
    assert.equal(decide(answer, false), intent);
    assert.equal(decide(answer, true), polling);
  });
}

const DETAILS = { replayed: false, operationId: null, code: null, retry: null, detail: null, storeError: null };

test("details of a refusal", async () => {
  const body = JSON.stringify({ code: "idempotency_key_reused", retry: "new_key", detail: "Take a new key.", status: 422 });
  const response = new Response(body, { status: 422, headers: { "Content-Type": "application/problem+json; charset=utf-8" } });
  assert.equal(isProblem(response), true);
  assert.deepEqual(readDetails(response, "k", 2, body), {
    ...DETAILS,
    key: "k",
    attempts: 2,
    code: "idempotency_key_reused",
    retry: "new_key",
    detail: "Take a new key.",
  });
});

test("details of a problem document that is none", () => {
  for (const body of ["", "null", "[]", "{", '{"code": 7, "retry": {}, "detail": null}']) {
    assert.deepEqual(readDetails(new Response(body), "k", 1, body), { ...DETAILS, key: "k", attempts: 1 });
  }
});

test("details of a replay", () => {
  const headers = { "Idempotency-Status": "replayed", "X-Operation-Id": "inv_1", "Idempotency-Retry": "new_key" };
  const wanted = { ...DETAILS, key: "k", attempts: 1, replayed: true, operationId: "inv_1", retry: "new_key" };
  assert.deepEqual(readDetails(new Response(null, { headers }), "k", 1, null), wanted);
});

test("the body of a success is no problem document", () => {
  assert.equal(isProblem(new Response("{}", { headers: { "Content-Type": "application/problem+json" } })), false);
  assert.equal(isProblem(new Response("{}", { status: 400, headers: { "Content-Type": "application/json" } })), false);
});
