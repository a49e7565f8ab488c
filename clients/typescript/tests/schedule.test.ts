import assert from "node:assert/strict";
import { test } from "node:test";
import { jitter, parseHttpDate, retryAfter } from "../src/schedule.js";

const NOW = Date.UTC(2026, 10, 24, 10, 0, 0);

for (const [value, wanted] of [
  ["0", 0],
  ["5", 5000],
  [" 5 ", 5000],
  ["007", 7000],
  ["61", 60_000],
  ["99999999999999999999999999", 60_000],
  ["9".repeat(400), 60_000],
  ["Tue, 24 Nov 2026 10:00:07 GMT", 7000],
  ["Tuesday, 24-Nov-26 10:00:07 GMT", 7000],
  ["Tue Nov 24 10:00:07 2026", 7000],
  ["Tue, 24 Nov 2026 09:59:59 GMT", 0],
  ["Tue, 24 Nov 2099 10:00:00 GMT", 60_000],
  ["-5", 0],
  ["+5", 0],
  ["1.5", 0],
  ["5, 10", 0],
  ["0x10", 0],
  ["soon", 0],
  ["2026-11-24T10:00:07Z", 0],
  ["Tue, 24 Foo 2026 10:00:07 GMT", 0],
  ["Tue, 24 Nov 2026 25:00:07 GMT", 0],
  ["", 0],
  [null, 0],
] as const) {
  test(`Retry-After: ${String(value).slice(0, 40)}`, () => {
    assert.equal(retryAfter(value, 60_000, NOW), wanted);
  });
}

test("a year with two digits is at most 50 years in the future", () => {
  assert.equal(parseHttpDate("Sunday, 06-Nov-94 08:49:37 GMT", NOW), Date.UTC(1994, 10, 6, 8, 49, 37));
  assert.equal(parseHttpDate("Sunday, 06-Nov-75 08:49:37 GMT", NOW), Date.UTC(2075, 10, 6, 8, 49, 37));
});

test("a day with one digit in the form of asctime", () => {
  assert.equal(parseHttpDate("Sun Nov  6 08:49:37 1994", NOW), Date.UTC(1994, 10, 6, 8, 49, 37));
});

test("the random wait is from 0 to the bound, which doubles up to the cap", () => {
  const bounds = [0, 1, 2, 3, 6, 7, 60, 2000].map((retry) => jitter(500, 30_000, retry, 1));
  assert.deepEqual(bounds, [500, 1000, 2000, 4000, 30_000, 30_000, 30_000, 30_000]);
  assert.equal(jitter(500, 30_000, 5, 0), 0);
  assert.equal(jitter(500, 30_000, 1, 0.25), 250);
});

test("no random wait without a base", () => {
  assert.equal(jitter(0, 30_000, 5000, 0.5), 0);
});
