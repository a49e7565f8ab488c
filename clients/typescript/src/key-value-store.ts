import { DamagedRecord } from "./errors.js";
import { decodeRecord, encodeRecord, type PendingRequest } from "./record.js";
import { collect, inOrder, type Store, type StoreContents } from "./store.js";

/** A durable map of texts, such as React Native's AsyncStorage. */
export interface KeyValueStorage {
  getItem(name: string): Promise<string | null>;
  setItem(name: string, value: string): Promise<void>;
  removeItem(name: string): Promise<void>;
  getAllKeys(): Promise<readonly string[]>;
}

/** Keeps each request under a name of its own in a storage such as React Native's AsyncStorage, as JSON. It is as durable as the storage. */
export class KeyValueStore implements Store {
  readonly #storage: KeyValueStorage;
  readonly #prefix: string;

  /** `prefix` begins the name of each item; nothing else in the storage may begin with it. */
  constructor(storage: KeyValueStorage, prefix = "edge-idempotency:") {
    if (prefix === "")
      throw new TypeError("the prefix of a KeyValueStore is empty: give it one that nothing else in the storage has");
    this.#storage = storage;
    this.#prefix = prefix;
  }

  async put(request: PendingRequest): Promise<PendingRequest> {
    const kept = await this.get(request.key);
    if (kept === undefined) await this.#storage.setItem(this.#prefix + request.key, encodeRecord(request));
    return kept ?? request;
  }

  async get(key: string): Promise<PendingRequest | undefined> {
    const name = this.#prefix + key;
    const text = await this.#storage.getItem(name);
    if (text === null) return undefined;
    try {
      return this.#read(key, text);
    } catch (error) {
      throw new DamagedRecord(name, key, (error as Error).message);
    }
  }

  async list(): Promise<StoreContents> {
    const contents: StoreContents = { requests: [], damaged: [] };
    for (const name of await this.#storage.getAllKeys()) {
      if (!name.startsWith(this.#prefix)) continue;
      const text = await this.#storage.getItem(name);
      // `null`: it was removed in the meantime.
      const key = name.slice(this.#prefix.length);
      if (text !== null) collect(contents, name, key, () => this.#read(key, text));
    }
    return inOrder(contents);
  }

  async remove(key: string): Promise<void> {
    await this.#storage.removeItem(this.#prefix + key);
  }

  #read(key: string, text: string): PendingRequest {
    const request = decodeRecord(text);
    if (request.key !== key) throw new Error(`it is the record of the key ${request.key}`);
    return request;
  }
}
