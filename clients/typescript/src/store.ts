import { DamagedRecord } from "./errors.js";
import { nameOf, type PendingRequest } from "./record.js";

/** What a store holds. */
export interface StoreContents {
  /** The requests in the order in which they were kept. */
  readonly requests: PendingRequest[];
  /** The records that cannot be read. */
  readonly damaged: DamagedRecord[];
}

/**
 * Keeps requests until their final answers have arrived, each under its owner and its key. Every method may reject with any error; the client
 * then tells the caller. Methods are called for different keys at the same time, and for one key one after the other.
 */
export interface Store {
  /**
   * Keeps the request, unless its owner has one with its key already, and resolves with the one that is kept. That one is durable then, as far as the
   * medium allows. Rejects if the request cannot be kept, or the record that is there is damaged; the client then removes what was written.
   */
  put(request: PendingRequest): Promise<PendingRequest>;
  /** The owner's request under this key, or `undefined`. Rejects with `DamagedRecord` if the record cannot be read. */
  get(owner: string, key: string): Promise<PendingRequest | undefined>;
  /** Everything that is kept, of all owners. One damaged record does not hide the others. */
  list(): Promise<StoreContents>;
  /** Removes the owner's request under this key, also if its record is damaged. It is no error if there is none. */
  remove(owner: string, key: string): Promise<void>;
}

/** Keeps requests in memory. They are gone when the process or the page ends: for tests, and where no request has to outlive it. */
export class MemoryStore implements Store {
  readonly #requests = new Map<string, PendingRequest>();

  async put(request: PendingRequest): Promise<PendingRequest> {
    const name = nameOf(request.owner, request.key);
    const kept = this.#requests.get(name) ?? request;
    this.#requests.set(name, kept);
    return kept;
  }

  async get(owner: string, key: string): Promise<PendingRequest | undefined> {
    return this.#requests.get(nameOf(owner, key));
  }

  async list(): Promise<StoreContents> {
    return inOrder({ requests: [...this.#requests.values()], damaged: [] });
  }

  async remove(owner: string, key: string): Promise<void> {
    this.#requests.delete(nameOf(owner, key));
  }
}

/** Sorts the requests by the time at which they were kept. */
export function inOrder(contents: StoreContents): StoreContents {
  contents.requests.sort((one, other) => one.createdAt - other.createdAt);
  return contents;
}

/** Calls `read` for one record, and adds what it gives, or its error, to the contents. */
export function collect(
  contents: StoreContents,
  location: string,
  owner: string | null,
  key: string | null,
  read: () => PendingRequest,
) {
  try {
    contents.requests.push(read());
  } catch (error) {
    contents.damaged.push(new DamagedRecord(location, owner, key, (error as Error).message));
  }
}
