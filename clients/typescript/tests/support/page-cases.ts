// The part of chromium.test.ts that runs in the page.
import { IdempotentClient, IndexedDbStore, type PendingRequest } from "edge-idempotency-client";
import { type Case, equal } from "./case.js";
import { storeCases } from "./store-cases.js";

const ann = { owner: "ann", credentials: () => ({ owner: "ann" }) };

let databases = 0;

const request: PendingRequest = {
  owner: "ann",
  key: "good",
  method: "POST",
  url: "https://api.example.test/",
  headers: {},
  body: "tea",
  createdAt: 1,
  cookies: null,
};

/** Runs the case with this name, with a new database. `base` is the URL of the server. */
export async function runCase(name: string, base: string): Promise<void> {
  databases += 1;
  const database = `test-${databases}-${Date.now()}`;
  const open = () => new IndexedDbStore(database);
  const cases: Case<Environment>[] = [...storeCases, ...pageCases];
  const found = cases.find((one) => one.name === name);
  if (!found) throw new Error(`there is no case ${name}`);
  await found.run({ open, base, database });
}

function settled<T>(asked: IDBRequest<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    asked.onsuccess = () => resolve(asked.result);
    asked.onerror = () => reject(asked.error);
  });
}

async function failure(promise: Promise<unknown>): Promise<string> {
  return promise.then(
    () => "it did not fail",
    (error: Error) => error.name,
  );
}

interface Environment {
  readonly open: () => IndexedDbStore;
  readonly base: string;
  /** The name of the database that `open` opens. */
  readonly database: string;
}

const pageCases: Case<Environment>[] = [
  {
    name: "a damaged record",
    async run({ open, database }) {
      await open().put(request);
      const opened = await settled(indexedDB.open(database, 2));
      await settled(
        opened.transaction("requests", "readwrite").objectStore("requests").put({ owner: "ann", key: "bad", method: 7 }),
      );
      opened.close();
      const { requests, damaged } = await open().list();
      equal(requests, [request]);
      equal(
        damaged.map(({ key }) => key),
        ["bad"],
      );
      equal(damaged[0]?.message.includes("its member method is not a text"), true);
      equal(await failure(open().get("ann", "bad")), "DamagedRecord");
      await open().remove("ann", "bad");
      equal((await open().list()).damaged, []);
    },
  },
  {
    name: "a database that cannot be opened",
    async run({ open, database, base }) {
      const later = await settled(indexedDB.open(database, 3));
      const store = open();
      const client = new IdempotentClient({ ...ann, store });
      equal(await failure(client.fetch(`${base}/run/${database}`, { method: "POST" })), "StoreFailed");
      equal(await (await fetch(`${base}/received/${database}`)).json(), []);
      later.close();
      await settled(indexedDB.deleteDatabase(database));
      // It is opened again.
      await store.put(request);
      equal((await store.list()).requests.length, 1);
    },
  },
  {
    name: "a database of an earlier version, without owners",
    async run({ open, database, base }) {
      const opening = indexedDB.open(database, 1);
      opening.onupgradeneeded = () => opening.result.createObjectStore("requests", { keyPath: "key" });
      const earlier = await settled(opening);
      await settled(
        earlier
          .transaction("requests", "readwrite")
          .objectStore("requests")
          .put({ ...request, url: `${base}/run/x` }),
      );
      earlier.close();
      const client = new IdempotentClient({ ...ann, store: open() });
      const error = await client.fetch(`${base}/run/${database}`, { method: "POST" }).catch(({ message }: Error) => message);
      equal(String(error).includes("is of an earlier version of the client: take another name"), true);
      equal(await failure(client.resumePending()), "Error");
      equal(await (await fetch(`${base}/received/${database}`)).json(), []);
      const again = await settled(indexedDB.open(database));
      equal([again.version, (await settled(again.transaction("requests").objectStore("requests").getAll())).length], [1, 1]);
      again.close();
    },
  },
  {
    name: "a database that is deleted meanwhile",
    async run({ open, database }) {
      const store = open();
      await store.put(request);
      await settled(indexedDB.deleteDatabase(database));
      equal((await store.list()).requests, []);
      await store.put(request);
      equal((await store.list()).requests.length, 1);
    },
  },
  {
    name: "no header of the attempt",
    async run({ open, base, database }) {
      await new IdempotentClient({ ...ann, store: open() }).fetch(`${base}/run/${database}`, { method: "POST" });
      const received = await (await fetch(`${base}/received/${database}`)).json();
      equal(
        received.map(({ attempt }: { attempt: string | null }) => attempt),
        [null],
      );
    },
  },
  {
    name: "a redirect is not followed",
    async run({ open, base, database }) {
      const reply = { status: 307, headers: { Location: "/run/elsewhere" } };
      const url = `${base}/run/${database}?replies=${encodeURIComponent(JSON.stringify([reply]))}`;
      const response = await new IdempotentClient({ ...ann, store: open() }).fetch(url, { method: "POST" });
      equal([response.status, response.type], [0, "opaqueredirect"]);
      equal((await (await fetch(`${base}/received/${database}`)).json()).length, 1);
      equal((await open().list()).requests, []);
    },
  },
];
