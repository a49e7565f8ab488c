import { type IdempotentResponse, readDetails } from "./answer.js";
import { Aborted, DamagedRecord, IdempotencyError, KeyReused, OtherOwner, StoreFailed } from "./errors.js";
import { newKey } from "./key.js";
import { type ClientOptions, readOptions, type Settings } from "./options.js";
import { type Platform, systemPlatform } from "./platform.js";
import { isSameRequest, type PendingRequest } from "./record.js";
import { type Call, headersOf, methodOf, readCall, signalOf } from "./request.js";
import { type Sending, sendUntilAnswered } from "./send.js";
import type { StoreContents } from "./store.js";
import { CallerAborted, unlessAborted } from "./within.js";

/** What became of one kept request. `request` is `null` if its record cannot be read. */
export type ResumedRequest =
  | { readonly request: PendingRequest; readonly response: IdempotentResponse; readonly error: null }
  | { readonly request: PendingRequest; readonly response: null; readonly error: IdempotencyError }
  | { readonly request: null; readonly response: null; readonly error: DamagedRecord };

/** How many requests `resumePending` sends at a time: as many as browsers open connections to one origin over HTTP/1.1. */
const RESUMED_AT_A_TIME = 6;

/** Sends requests of one owner with an `Idempotency-Key`, and repeats them until there is a final answer. */
export class IdempotentClient {
  readonly #settings: Settings;
  readonly #platform: Platform;
  /** The keys of the requests that are under way here, each with a promise that resolves when it no longer is. */
  readonly #underWay = new Map<string, Promise<void>>();

  /** Throws a `TypeError` that names the option which is wrong. */
  constructor(options: ClientOptions);
  /** @internal Tests bring clocks and a random source of their own. */
  constructor(options: ClientOptions, platform: Platform);
  constructor(options: ClientOptions, platform: Platform = systemPlatform) {
    this.#settings = readOptions(options);
    this.#platform = platform;
  }

  /**
   * Takes what `fetch` takes, and resolves with the final answer, whatever its status. `response.idempotency` tells the rest. The key is that of
   * the header `Idempotency-Key`, or else a new one. A redirect is never followed. If a request with the same key is under way here, this one
   * waits for its end.
   *
   * A request whose method is not among `methods`, and which has no key, is sent once by the platform's fetch, without `credentials`.
   *
   * Rejects with an `IdempotencyError` (`NoAnswer`, `Expired`, `Aborted`, `StoreFailed`, `CredentialsFailed`, `OtherOwner`, `KeyReused`), and with a
   * `TypeError` if the request cannot be sent as it is. The method may be used without the object.
   */
  readonly fetch = async (input: RequestInfo | URL, init: RequestInit = {}): Promise<IdempotentResponse> => {
    const { methods } = this.#settings;
    const given = headersOf(input, init).get("idempotency-key");
    if (given === "") throw new TypeError("the header Idempotency-Key is empty: give a key, or leave it out");
    if (given === null && !methods.includes(methodOf(input, init))) return this.#fetchOnce(input, init);
    const key = given ?? newKey();
    const signal = signalOf(input, init);
    try {
      const call = await unlessAborted(readCall(input, init), signal);
      return await this.#alone(key, signal, () => this.#sendNew(key, call));
    } catch (error) {
      throw error instanceof CallerAborted ? new Aborted(key, 0, error.reason, false) : error;
    }
  };

  /**
   * Sends each request of this owner that is kept and not under way here, a few at a time, and resolves when each has its answer or error. `onResult` gets
   * each result as soon as it is there. A request of another owner is not sent, and stays: its error is `OtherOwner`. `signal` ends the waits and attempts.
   *
   * Rejects with the store's error if it cannot be read, and with an error that `onResult` throws; requests that are under way then go on.
   */
  async resumePending(
    options: { signal?: AbortSignal; onResult?: (result: ResumedRequest) => void | Promise<void> } = {},
  ): Promise<ResumedRequest[]> {
    const { requests, damaged } = await this.#settings.store.list();
    const results: ResumedRequest[] = [];
    const tell = async (result: ResumedRequest) => {
      results.push(result);
      await options.onResult?.(result);
    };
    for (const error of damaged) await tell({ request: null, response: null, error });
    const waiting = requests.values();
    const worker = async () => {
      for (const request of waiting) {
        const result = await this.#resume(request, options.signal);
        if (result) await tell(result);
      }
    };
    await Promise.all(Array.from({ length: RESUMED_AT_A_TIME }, worker));
    return results;
  }

  /** What the store holds, of all owners: requests without a final answer, those that are under way included. Rejects with the store's error. */
  async pending(): Promise<StoreContents> {
    return this.#settings.store.list();
  }

  /**
   * Removes this owner's request with this key from the store, so that nobody sends it again. It does not end one that is under way: abort that first.
   * Rejects with the store's error.
   */
  async forget(key: string): Promise<void> {
    await this.#settings.store.remove(this.#settings.owner, key);
  }

  /**
   * Removes all requests of an owner from the store, for the log-out: nobody sends them again. End those that are under way before. Rejects with
   * the store's error.
   */
  async forgetOwner(owner: string): Promise<void> {
    const { store } = this.#settings;
    const { requests, damaged } = await store.list();
    for (const one of [...requests, ...damaged]) {
      if (one.owner === owner && one.key !== null) await store.remove(owner, one.key);
    }
  }

  async #fetchOnce(input: RequestInfo | URL, init: RequestInit): Promise<IdempotentResponse> {
    // `fetch` may follow a redirect with it, so no credentials are added.
    const response = await this.#settings.fetch(input, init);
    return Object.assign(response, { idempotency: readDetails(response, null, 1, null) });
  }

  async #sendNew(key: string, call: Call): Promise<IdempotentResponse> {
    const { store, owner } = this.#settings;
    const [headers, secrets] = this.#withoutSecrets(call.headers);
    const { method, url, body } = call;
    const request: PendingRequest = {
      owner,
      key,
      method,
      url,
      headers,
      body,
      createdAt: this.#platform.now(),
      cookies: call.init.credentials ?? null,
    };
    const kept = await store.get(owner, key).catch((error: unknown) => {
      throw new StoreFailed(key, error);
    });
    if (kept && !isSameRequest(kept, request)) throw new KeyReused(key);
    const keep = kept ? null : () => this.#keep(request);
    // What is kept goes on as it was kept, and expires by the time of its first attempt.
    return this.#send({ request: kept ?? request, keep, secrets, init: call.init, signal: call.signal });
  }

  /** Keeps a request that was not kept before, and resolves with what the store holds under its key. */
  async #keep(request: PendingRequest): Promise<PendingRequest> {
    const { store } = this.#settings;
    const { owner, key } = request;
    let kept: PendingRequest;
    try {
      kept = await store.put(request);
    } catch (error) {
      // The caller will send it with a new key, so this record must not be sent later.
      const removed = () => false;
      const mayBeKept = !(error instanceof DamagedRecord) && (await store.remove(owner, key).then(removed, () => true));
      throw new StoreFailed(key, error, mayBeKept);
    }
    if (!isSameRequest(kept, request)) throw new KeyReused(key);
    return kept;
  }

  async #resume(listed: PendingRequest, signal: AbortSignal | undefined): Promise<ResumedRequest | undefined> {
    const { owner, key } = listed;
    if (owner !== this.#settings.owner) {
      return { request: listed, response: null, error: new OtherOwner(key, 0, owner, this.#settings.owner, true) };
    }
    if (this.#underWay.has(key)) return undefined;
    return this.#alone(key, signal, async () => {
      let request = listed;
      try {
        const kept = await this.#settings.store.get(owner, key).catch((error: unknown) => {
          throw new StoreFailed(key, error);
        });
        // It was answered or forgotten since the store was listed.
        if (!kept) return undefined;
        request = kept;
        const init = kept.cookies === null ? {} : { credentials: kept.cookies };
        return { request, response: await this.#send({ request, keep: null, secrets: {}, init, signal }), error: null };
      } catch (error) {
        if (error instanceof IdempotencyError) return { request, response: null, error };
        throw error;
      }
    });
  }

  /** Sends a kept request, and removes it from the store when its final answer is there. */
  async #send(sending: Sending): Promise<IdempotentResponse> {
    const response = await sendUntilAnswered(sending, this.#settings, this.#platform);
    try {
      await this.#settings.store.remove(sending.request.owner, sending.request.key);
    } catch (error) {
      return Object.assign(response, { idempotency: { ...response.idempotency, storeError: error } });
    }
    return response;
  }

  /** Runs the work when no other request with this key is under way here. */
  async #alone<T>(key: string, signal: AbortSignal | undefined, work: () => Promise<T>): Promise<T> {
    for (let other = this.#underWay.get(key); other; other = this.#underWay.get(key)) await unlessAborted(other, signal);
    let done = () => {};
    this.#underWay.set(
      key,
      new Promise((resolve) => {
        done = resolve;
      }),
    );
    try {
      return await work();
    } finally {
      this.#underWay.delete(key);
      done();
    }
  }

  /** The headers that are kept, and those that are not. */
  #withoutSecrets(all: Headers): [Record<string, string>, Record<string, string>] {
    const kept: Record<string, string> = {};
    const secrets: Record<string, string> = {};
    all.forEach((value, name) => {
      if (name === "idempotency-key" || name === "x-retry-attempt") return;
      (this.#settings.secretHeaders.includes(name) ? secrets : kept)[name] = value;
    });
    return [kept, secrets];
  }
}
