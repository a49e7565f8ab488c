import { DamagedRecord } from "./errors.js";
import { decodeRecord, encodeRecord, nameOf, type PendingRequest } from "./record.js";
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
    const { owner, key } = request;
    const kept = await this.get(owner, key);
    if (kept === undefined) await this.#storage.setItem(this.#prefix + nameOf(owner, key), encodeRecord(request));
    return kept ?? request;
  }

  async get(owner: string, key: string): Promise<PendingRequest | undefined> {
    const name = this.#prefix + nameOf(owner, key);
    const text = await this.#storage.getItem(name);
    if (text === null) return undefined;
    try {
      return this.#read(name, text);
    } catch (error) {
      throw new DamagedRecord(name, owner, key, (error as Error).message);
    }
  }

  async list(): Promise<StoreContents> {
    const contents: StoreContents = { requests: [], damaged: [] };
    for (const name of await this.#storage.getAllKeys()) {
      if (!name.startsWith(this.#prefix)) continue;
      const text = await this.#storage.getItem(name);
      // `null`: it was removed in the meantime.
      if (text !== null) collect(contents, name, ...this.#parts(name), () => this.#read(name, text));
    }
    return inOrder(contents);
  }

  async remove(owner: string, key: string): Promise<void> {
    await this.#storage.removeItem(this.#prefix + nameOf(owner, key));
  }

  #read(name: string, text: string): PendingRequest {
    const request = decodeRecord(text);
    const { owner, key } = request;
    if (this.#prefix + nameOf(owner, key) !== name) throw new Error(`it is the record of the key ${key} of ${owner}`);
    return request;
  }

  /** The owner and the key of an item; `null` for a name that this class does not make. */
  #parts(name: string): [owner: string | null, key: string | null] {
    try {
      const [owner, key] = JSON.parse(name.slice(this.#prefix.length));
      if (this.#prefix + nameOf(owner, key) === name) return [owner, key];
    } catch {
      // It is told as damaged below its name.
    }
    return [null, null];
  }
}
