import { isBrowser } from "./platform.js";
import { isOwner } from "./record.js";
import type { Store } from "./store.js";

/** What the function `credentials` is told. */
export interface CredentialsRequest {
  /** Where the credentials are sent. Give them to your own API only. */
  readonly url: string;
  /** True if the API has answered 401 to what the function gave last: renew the token. */
  readonly refused: boolean;
}

/** What the function `credentials` gives. */
export interface Credentials {
  /** Whose credentials these are, read together with them. If that is not the client's owner, nothing is sent. */
  readonly owner: string;
  /** The headers with credentials, for example `{ Authorization: "Bearer …" }`; none where the browser sends cookies. They are never kept. */
  readonly headers?: HeadersInit;
}

/** Options of an `IdempotentClient`. All times are in milliseconds, from 0 to 1,000,000,000. */
export interface ClientOptions {
  /** Keeps requests until they are answered. There is no default: what is right depends on the platform, and on what the request is worth. */
  readonly store: Store;
  /**
   * Who makes the requests of this client: all by which the API tells its callers apart, such as tenant, project and subject. It is kept with
   * each request, and the client sends requests of this owner only.
   */
  readonly owner: string;
  /** Gives the credentials of who is logged in now, and says who that is. It is asked before each attempt. */
  readonly credentials: (request: CredentialsRequest) => Credentials | Promise<Credentials>;
  /** Headers that are not kept, besides `Authorization`, `Cookie` and `Proxy-Authorization`. Default: none. */
  readonly secretHeaders?: readonly string[];
  /** The methods whose requests get a key. Default: `POST` and `PATCH`. Others get one only from the caller. */
  readonly methods?: readonly string[];
  /** The most requests for one intent, polls included. Default: 10. */
  readonly attempts?: number;
  /** The bound of the random wait before the first retry; it doubles with each retry. Default: 500. */
  readonly base?: number;
  /** The highest bound of the random wait. Default: 30,000. */
  readonly cap?: number;
  /** No attempt begins later than this after the first one. Default: 600,000 (10 minutes). */
  readonly budget?: number;
  /** The time of an attempt, from its start to the last byte of the answer. Default: 30,000. */
  readonly attemptTimeout?: number;
  /** A longer `Retry-After` is taken for this. Default: 60,000. */
  readonly maxRetryAfter?: number;
  /** A request that was kept longer ago is not sent. Default: 82,800,000 (23 hours), for an API that keeps results for 24 hours. */
  readonly expiresAfter?: number;
  /** Sends the number of the attempt in `X-Retry-Attempt`. Default: true, and in browsers false, because CORS has to allow the header. */
  readonly attemptHeader?: boolean;
  /** Sends one request. Default: `globalThis.fetch`. */
  readonly fetch?: typeof globalThis.fetch;
}

/** The options with their defaults. */
export interface Settings extends Required<ClientOptions> {
  /** Names in lower case. */
  readonly secretHeaders: readonly string[];
  /** Names in upper case. */
  readonly methods: readonly string[];
}

/** The longest time of an option, about 11 days. Timers of JavaScript end at 24 days. */
const LONGEST = 1_000_000_000;

const TIMES = ["base", "cap", "budget", "attemptTimeout", "maxRetryAfter", "expiresAfter"] as const;

/** Checks the options, and adds the defaults. Throws a `TypeError` that names the option and says what it takes. */
export function readOptions(options: ClientOptions): Settings {
  const defaults = {
    secretHeaders: [],
    methods: ["POST", "PATCH"],
    attempts: 10,
    base: 500,
    cap: 30_000,
    budget: 600_000,
    attemptTimeout: 30_000,
    maxRetryAfter: 60_000,
    expiresAfter: 82_800_000,
    attemptHeader: !isBrowser(),
    // Looked up at each call, because tools for tracing and for tests replace it later.
    fetch: ((input, init) => globalThis.fetch(input, init)) as typeof globalThis.fetch,
  };
  const names = ["store", "owner", "credentials", ...Object.keys(defaults)];
  const given = Object.entries(options ?? {}).filter(([, value]) => value !== undefined);
  for (const [name] of given)
    check(names.includes(name), `${name} is no option of IdempotentClient; the options are ${names.join(", ")}`);
  const settings: Settings = { ...defaults, ...(Object.fromEntries(given) as unknown as ClientOptions) };

  for (const method of ["put", "get", "list", "remove"] as const) {
    check(
      typeof settings.store?.[method] === "function",
      `the option store has to be a Store, such as new MemoryStore(): it has no ${method}`,
    );
  }
  check(isOwner(settings.owner), "the option owner has to be a text that is not blank: who makes the requests of this client");
  for (const name of ["credentials", "fetch"] as const) {
    check(typeof settings[name] === "function", `the option ${name} has to be a function`);
  }
  for (const name of TIMES) {
    const value: unknown = settings[name];
    const wanted = `a number of milliseconds from 0 to ${LONGEST}`;
    check(
      typeof value === "number" && value >= 0 && value <= LONGEST,
      `the option ${name} has to be ${wanted}, and is ${String(value)}`,
    );
  }
  for (const name of ["secretHeaders", "methods"] as const) {
    const value: unknown = settings[name];
    const texts = Array.isArray(value) && value.every((member) => typeof member === "string");
    check(texts, `the option ${name} has to be an array of texts`);
  }
  const { attempts, attemptHeader } = settings;
  check(
    Number.isInteger(attempts) && attempts >= 1,
    `the option attempts has to be a whole number from 1, and is ${String(attempts)}`,
  );
  check(typeof attemptHeader === "boolean", "the option attemptHeader has to be true or false");

  const secretHeaders = ["authorization", "cookie", "proxy-authorization", ...settings.secretHeaders];
  return {
    ...settings,
    secretHeaders: secretHeaders.map((name) => name.toLowerCase()),
    methods: settings.methods.map((method) => method.toUpperCase()),
  };
}

function check(right: boolean, otherwise: string): void {
  if (!right) throw new TypeError(otherwise);
}
