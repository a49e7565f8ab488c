import type { PendingRequest } from "../../src/record.js";
import type { Store } from "../../src/store.js";
import { type Case, equal } from "./case.js";

const request = (key: string, rest: Partial<PendingRequest> = {}): PendingRequest => ({
  owner: "ann",
  key,
  method: "POST",
  url: "https://api.example.test/orders?x=%20",
  headers: { "content-type": "application/json" },
  body: '{"item":"tea"}',
  createdAt: 1_763_900_000_000,
  cookies: null,
  ...rest,
});

/** What every store has to do. `open` opens the same, at first empty, store each time. */
export const storeCases: Case<{ open: () => Store }>[] = [
  {
    name: "what is kept comes back, also to another object",
    async run({ open }) {
      const bytes = Uint8Array.from({ length: 100_000 }, (_, at) => at % 256);
      const all = [
        request("8e03978e-40d5-43e8-bc93-6894a57f9324"),
        request("bytes", { body: bytes, cookies: "include" }),
        request("no-body", { body: null, headers: {} }),
        request("empty", { body: "" }),
        request("text", { body: "ä\u0000\ud800 \u2028 🍵" }),
        request("a/b:../*?\"<>|'", { method: "PATCH" }),
        request("~".repeat(255)),
      ];
      for (const one of all) await open().put(one);
      for (const one of all) equal(await open().get("ann", one.key), one);
      const listed = (await open().list()).requests;
      equal(listed.map(({ key }) => key).sort(), all.map(({ key }) => key).sort());
      equal((await open().list()).damaged, []);
    },
  },
  {
    name: "keys differ in upper and lower case",
    async run({ open }) {
      await open().put(request("a", { body: "small" }));
      await open().put(request("A", { body: "large" }));
      equal((await open().get("ann", "a"))?.body, "small");
      await open().remove("ann", "A");
      equal((await open().list()).requests.length, 1);
    },
  },
  {
    name: "one key of several owners: a request each",
    async run({ open }) {
      const owners = ["ann", "Ann", "bob", 'ann","k', "a/b:../ä 🍵", "x".repeat(500)];
      for (const owner of owners) equal((await open().put(request("k", { owner, body: owner }))).body, owner);
      for (const owner of owners) equal((await open().get(owner, "k"))?.body, owner);
      await open().remove("ann", "k");
      equal(await open().get("ann", "k"), undefined);
      equal((await open().list()).requests.map(({ owner }) => owner).sort(), owners.slice(1).sort());
    },
  },
  {
    name: "the first one under a key stays, and remove needs no record",
    async run({ open }) {
      const store = open();
      await store.remove("ann", "a");
      equal(await store.get("ann", "a"), undefined);
      equal((await store.put(request("a", { body: "first" }))).body, "first");
      equal((await open().put(request("a", { body: "other" }))).body, "first");
      equal((await store.get("ann", "a"))?.body, "first");
      await store.remove("ann", "a");
      await store.remove("ann", "a");
      equal(await store.list(), { requests: [], damaged: [] });
    },
  },
  {
    name: "the oldest is listed first",
    async run({ open }) {
      for (const [key, createdAt] of [
        ["b", 2],
        ["c", 3],
        ["a", 1],
      ] as const) {
        await open().put(request(key, { createdAt }));
      }
      equal(
        (await open().list()).requests.map(({ key }) => key),
        ["a", "b", "c"],
      );
    },
  },
  {
    name: "a thousand at a time",
    async run({ open }) {
      const store = open();
      const keys = Array.from({ length: 1000 }, (_, at) => `k${at}`);
      await Promise.all(keys.map((key) => store.put(request(key))));
      equal((await store.list()).requests.length, 1000);
      await Promise.all(keys.map((key) => store.remove("ann", key)));
      equal((await store.list()).requests.length, 0);
    },
  },
];
