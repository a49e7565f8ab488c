import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import promises, { mkdtemp, readdir, readFile, rm, stat, utimes, writeFile } from "node:fs/promises";
import { syncBuiltinESMExports } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { promisify } from "node:util";
import { DamagedRecord } from "../src/errors.js";
import { IndexedDbStore } from "../src/indexed-db-store.js";
import { type KeyValueStorage, KeyValueStore } from "../src/key-value-store.js";
import { FileStore } from "../src/node/file-store.js";
import type { PendingRequest } from "../src/record.js";
import { MemoryStore, type Store } from "../src/store.js";
import { storeCases } from "./support/store-cases.js";

/** The interface of AsyncStorage, in memory. */
class FakeAsyncStorage implements KeyValueStorage {
  readonly items = new Map<string, string>();

  async getItem(name: string) {
    return this.items.get(name) ?? null;
  }

  async setItem(name: string, value: string) {
    this.items.set(name, value);
  }

  async removeItem(name: string) {
    this.items.delete(name);
  }

  async getAllKeys() {
    return [...this.items.keys()];
  }
}

async function inFolder(run: (folder: string) => Promise<void>): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), "edge-idempotency-"));
  try {
    await run(folder);
  } finally {
    await rm(folder, { recursive: true });
  }
}

for (const { name, run } of storeCases) {
  test(`MemoryStore: ${name}`, () => {
    const store = new MemoryStore();
    return run({ open: () => store });
  });
  test(`KeyValueStore: ${name}`, () => {
    const storage = new FakeAsyncStorage();
    storage.items.set("of the app", "{}");
    return run({ open: () => new KeyValueStore(storage) });
  });
  test(`FileStore: ${name}`, () => inFolder((folder) => run({ open: () => new FileStore(join(folder, "new", "store")) })));
}

const request: PendingRequest = {
  owner: "ann",
  key: "good",
  method: "POST",
  url: "https://api.example.test/orders",
  headers: {},
  body: "tea",
  createdAt: 1,
  cookies: null,
};

const WRONG_RECORDS = [
  [
    '{"format":2,"owner":"ann","key":"","method":"POST","url":"http://x","headers":{},"createdAt":1,"cookies":null,"body":null}',
    /its member key is/,
  ],
  ["", /it is not JSON/],
  ['{"format":2,"owner":"ann","key":"bad","meth', /it is not JSON/],
  ["7", /it is not a JSON object/],
  ['{"format":1,"key":"bad"}', /its format is 1, and this version of the client reads 2/],
  ['{"format":2,"owner":"ann","key":"bad","body":null}', /its member method is not a text/],
  ['{"format":2,"owner":"ann","key":"bad","body":{"base64":"?"}}', /its member body is neither/],
  [
    '{"format":2,"owner":"ann","key":"bad","method":"POST","url":"/x","headers":{},"createdAt":1,"cookies":null,"body":null}',
    /its member url/,
  ],
  [
    '{"format":2,"owner":"ann","key":"bad","method":"POST","url":"http://x","headers":{"a":1},"createdAt":1,"cookies":null,"body":null}',
    /headers/,
  ],
  [
    '{"format":2,"owner":"ann","key":"bad","method":"POST","url":"http://x","headers":{},"createdAt":"1","cookies":null,"body":null}',
    /createdAt/,
  ],
  [
    '{"format":2,"owner":"ann","key":"bad","method":"POST","url":"http://x","headers":{},"createdAt":1,"cookies":"all","body":null}',
    /cookies/,
  ],
  [
    '{"format":2,"owner":"ann","key":"other","method":"POST","url":"http://x","headers":{},"createdAt":1,"cookies":null,"body":null}',
    /the key other of ann/,
  ],
  [
    '{"format":2,"key":"bad","method":"POST","url":"http://x","headers":{},"createdAt":1,"cookies":null,"body":null}',
    /its member owner/,
  ],
  [
    '{"format":2,"owner":" ","key":"bad","method":"POST","url":"http://x","headers":{},"createdAt":1,"cookies":null,"body":null}',
    /its member owner/,
  ],
  [
    '{"format":2,"owner":"bob","key":"bad","method":"POST","url":"http://x","headers":{},"createdAt":1,"cookies":null,"body":null}',
    /the key bad of bob/,
  ],
] as const;

/** A damaged record is told and stays, the other one can be read, and `remove` removes the damaged one by its key. */
async function checkDamaged(store: Store, message: RegExp, key: string | null): Promise<void> {
  for (let time = 0; time < 2; time++) {
    const { requests, damaged } = await store.list();
    assert.deepEqual(requests, [request]);
    assert.equal(damaged.length, 1);
    assert.ok(damaged[0] instanceof DamagedRecord);
    assert.match(damaged[0].message, message);
    assert.equal(damaged[0].key, key);
  }
  await assert.rejects(store.get("ann", "bad"), DamagedRecord);
  await store.remove("ann", "bad");
  assert.deepEqual((await store.list()).damaged, []);
}

for (const [text, message] of WRONG_RECORDS) {
  test(`a damaged record hides no other and stays: ${text.slice(0, 60)} ${message.source}`, async () => {
    const storage = new FakeAsyncStorage();
    const keyValue = new KeyValueStore(storage);
    await keyValue.put(request);
    storage.items.set('edge-idempotency:["ann","bad"]', text);
    await checkDamaged(keyValue, message, "bad");

    await inFolder(async (folder) => {
      const store = new FileStore(folder);
      await store.put({ ...request, key: "bad" });
      const [name] = await readdir(folder);
      await writeFile(join(folder, name as string), text);
      await store.put(request);
      await checkDamaged(store, message, null);
    });
  });
}

test("FileStore: a record that is not UTF-8 is damaged", () =>
  inFolder(async (folder) => {
    const store = new FileStore(folder);
    await store.put({ ...request, key: "bad", body: "tea" });
    const path = join(folder, (await readdir(folder))[0] as string);
    await writeFile(path, Buffer.from((await readFile(path, "latin1")).replace("tea", "t\xffa"), "latin1"));
    await store.put(request);
    await checkDamaged(store, /not valid/, null);
  }));

test("FileStore: files and the folder are for this user only", () =>
  inFolder(async (parent) => {
    const folder = join(parent, "store");
    await new FileStore(folder).put(request);
    assert.equal((await stat(folder)).mode & 0o777, 0o700);
    const [name] = await readdir(folder);
    assert.equal((await stat(join(folder, name as string))).mode & 0o777, 0o600);
  }));

test("FileStore: a put that fails leaves nothing", () =>
  inFolder(async (folder) => {
    const file = join(folder, "file");
    await writeFile(file, "");
    await assert.rejects(new FileStore(file).put(request), /EEXIST|ENOTDIR/);
    const store = new FileStore(folder);
    const loop = { ...request, headers: {} as Record<string, string> };
    Object.assign(loop.headers, { loop: loop });
    await assert.rejects(store.put(loop), TypeError);
    assert.deepEqual(await readdir(folder), ["file"]);
  }));

/** Runs with another `open` of node:fs/promises in all modules. */
async function withOpen(
  other: (path: string) => ReturnType<typeof promises.open> | undefined,
  run: () => Promise<void>,
): Promise<void> {
  const { open } = promises;
  promises.open = (path, ...rest) => other(String(path)) ?? open(path, ...rest);
  syncBuiltinESMExports();
  try {
    await run();
  } finally {
    promises.open = open;
    syncBuiltinESMExports();
  }
}

test("FileStore: a folder that cannot be opened or synced: the record does not stay", () =>
  inFolder(async (folder) => {
    const store = new FileStore(folder);
    const failed = (error: string) => async () => {
      throw new Error(error);
    };
    for (const error of ["EMFILE", "EIO"]) {
      const fails = (path: string) => {
        if (path !== folder) return undefined;
        if (error === "EMFILE") return failed(error)();
        return Promise.resolve({ sync: failed(error), close: async () => {} }) as unknown as ReturnType<typeof promises.open>;
      };
      await withOpen(fails, () => assert.rejects(store.put(request), new RegExp(error)));
      assert.deepEqual(await readdir(folder), [], error);
    }
  }));

test("FileStore: the folder is synced after a removal, too", () =>
  inFolder(async (folder) => {
    const store = new FileStore(folder);
    await store.put(request);
    const opened: string[] = [];
    await withOpen(
      (path) => void opened.push(path),
      () => store.remove(request.owner, request.key),
    );
    assert.deepEqual(opened, process.platform === "win32" ? [] : [folder]);
  }));

test("IndexedDbStore: a database that cannot be opened at once is opened again", async () => {
  let opened = 0;
  const open = () => {
    opened += 1;
    throw new Error("storage is blocked");
  };
  Object.assign(globalThis, { indexedDB: { open } });
  try {
    const store = new IndexedDbStore();
    for (let time = 0; time < 2; time++) await assert.rejects(store.put(request), /storage is blocked/);
    assert.equal(opened, 2);
  } finally {
    Reflect.deleteProperty(globalThis, "indexedDB");
  }
});

test("FileStore: temporary files of other processes stay, unless they are old", () =>
  inFolder(async (folder) => {
    await writeFile(join(folder, "fresh.tmp"), "{");
    await writeFile(join(folder, "old.tmp"), "{");
    await utimes(join(folder, "old.tmp"), 1, 1);
    assert.deepEqual(await new FileStore(folder).list(), { requests: [], damaged: [] });
    assert.deepEqual(await readdir(folder), ["fresh.tmp"]);
  }));

test("FileStore: two processes write and remove in one folder", () =>
  inFolder(async (folder) => {
    const program = `
      import { FileStore } from ${JSON.stringify(new URL("../src/node/file-store.js", import.meta.url).href)};
      const [folder, name] = process.argv.slice(1);
      const store = new FileStore(folder);
      const request = { owner: "ann", method: "POST", url: "http://x", headers: {}, body: name.repeat(10000), createdAt: 1, cookies: null };
      for (let at = 0; at < 100; at++) {
        await store.put({ ...request, key: "shared" });
        await store.put({ ...request, key: name + at });
        if (at % 2) await store.remove("ann", name + at);
        const { damaged } = await store.list();
        if (damaged.length > 0) throw damaged[0];
      }`;
    const start = (name: string) => promisify(execFile)(process.execPath, ["--input-type=module", "-e", program, folder, name]);
    await Promise.all([start("x"), start("y")]);
    const { requests, damaged } = await new FileStore(folder).list();
    assert.deepEqual(damaged, []);
    assert.equal(requests.length, 101);
  }));

test("KeyValueStore: an empty prefix is an error", () => {
  assert.throws(() => new KeyValueStore(new FakeAsyncStorage(), ""), /the prefix of a KeyValueStore is empty/);
});
