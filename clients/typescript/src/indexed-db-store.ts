import { DamagedRecord } from "./errors.js";
import { checkRecord, type PendingRequest } from "./record.js";
import { collect, inOrder, type Store, type StoreContents } from "./store.js";

const REQUESTS = "requests";

/**
 * Keeps requests in IndexedDB, for browsers. All pages and workers of one origin share them. A request is written with `durability: "strict"`:
 * the browser has given it to the disk before it is sent.
 */
export class IndexedDbStore implements Store {
  readonly #name: string;
  #database: Promise<IDBDatabase> | undefined;

  /** `name` is the name of the database, which is made if it is missing. */
  constructor(name = "edge-idempotency") {
    this.#name = name;
  }

  async put(request: PendingRequest): Promise<PendingRequest> {
    const record: unknown = await this.#run("readwrite", (requests) => {
      const asked = requests.get([request.owner, request.key]);
      // In the same transaction, so that of two pages only one keeps a request under the key.
      asked.onsuccess = () => {
        if (asked.result === undefined) requests.put(request);
      };
      return asked;
    });
    return record === undefined ? request : this.#check(request.owner, request.key, record);
  }

  async get(owner: string, key: string): Promise<PendingRequest | undefined> {
    const record: unknown = await this.#run("readonly", (requests) => requests.get([owner, key]));
    return record === undefined ? undefined : this.#check(owner, key, record);
  }

  #check(owner: string, key: string, record: unknown): PendingRequest {
    try {
      return checkRecord(record);
    } catch (error) {
      throw new DamagedRecord(this.#location(owner, key), owner, key, (error as Error).message);
    }
  }

  async list(): Promise<StoreContents> {
    const contents: StoreContents = { requests: [], damaged: [] };
    const records: { owner: string; key: string }[] = await this.#run("readonly", (requests) => requests.getAll());
    for (const record of records) {
      const { owner, key } = record;
      collect(contents, this.#location(owner, key), owner, key, () => checkRecord(record));
    }
    return inOrder(contents);
  }

  async remove(owner: string, key: string): Promise<void> {
    await this.#run("readwrite", (requests) => requests.delete([owner, key]));
  }

  #location(owner: string, key: string): string {
    return `${key} of ${owner} in the IndexedDB ${this.#name}`;
  }

  /** Runs one transaction, and resolves with the result of the request that `ask` returns when the transaction is complete. */
  async #run<T>(mode: IDBTransactionMode, ask: (requests: IDBObjectStore) => IDBRequest<T>): Promise<T> {
    const database = await this.#open();
    return new Promise((resolve, reject) => {
      const transaction = database.transaction(REQUESTS, mode, { durability: "strict" });
      const request = ask(transaction.objectStore(REQUESTS));
      transaction.oncomplete = () => resolve(request.result);
      transaction.onabort = () => reject(transaction.error ?? new Error("IndexedDB ended the transaction"));
    });
  }

  #open(): Promise<IDBDatabase> {
    if (this.#database) return this.#database;
    const opening = openDatabase(this.#name, () => {
      this.#database = undefined;
    });
    this.#database = opening;
    // `indexedDB.open` may also throw at once, so this is not done by `openDatabase`.
    opening.catch(() => {
      this.#database = undefined;
    });
    return opening;
  }
}

/** Opens the database. `closed` is called when it is no longer open: the next use opens it again. */
function openDatabase(name: string, closed: () => void): Promise<IDBDatabase> {
  return new Promise((resolve, reject) => {
    const opening = indexedDB.open(name, 2);
    opening.onupgradeneeded = ({ oldVersion }) => {
      if (oldVersion === 0) opening.result.createObjectStore(REQUESTS, { keyPath: ["owner", "key"] });
      else {
        // Its requests have no owner. They stay there, and are not sent.
        reject(new Error(`the IndexedDB ${name} is of an earlier version of the client: take another name, or delete it`));
        opening.transaction?.abort();
      }
    };
    opening.onerror = () => reject(opening.error ?? new Error(`the IndexedDB ${name} cannot be opened`));
    opening.onsuccess = () => {
      const database = opening.result;
      database.onclose = closed;
      // Another page wants to delete the database, or a later version of the client to change it.
      database.onversionchange = () => {
        database.close();
        closed();
      };
      resolve(database);
    };
  });
}
