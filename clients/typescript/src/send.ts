import { decide, type IdempotentResponse, isProblem, readDetails } from "./answer.js";
import { Aborted, CredentialsFailed, Expired, NoAnswer } from "./errors.js";
import type { Settings } from "./options.js";
import type { Platform } from "./platform.js";
import type { PendingRequest } from "./record.js";
import { sameOrigin } from "./request.js";
import { jitter, retryAfter } from "./schedule.js";
import { CallerAborted, pause, within } from "./within.js";

/** A kept request, and what belongs to it in this process only. */
export interface Sending {
  readonly request: PendingRequest;
  /** The caller's headers that are not kept. */
  readonly secrets: Readonly<Record<string, string>>;
  /** Further options of fetch. */
  readonly init: RequestInit;
  readonly signal: AbortSignal | undefined;
}

/** A whole answer. `text` is its body if it is a problem document. */
interface Answer {
  readonly response: Response;
  readonly text: string | null;
}

/**
 * Sends the request until there is a final answer, which has arrived whole when the promise resolves. Rejects with `NoAnswer`, `Expired`,
 * `Aborted` or `CredentialsFailed`. It does not touch the store.
 */
export async function sendUntilAnswered(sending: Sending, settings: Settings, platform: Platform): Promise<IdempotentResponse> {
  const { request, signal } = sending;
  const { key } = request;
  const credentials = new Credentials(settings);
  const began = platform.monotonic();
  let attempts = 0;
  let waits = 0;
  let renewed = false;
  // Where the API says that the result can be asked for.
  let poll: string | null = null;

  const usedUp = (wait: number): string | null => {
    if (attempts >= settings.attempts) return `it was sent ${attempts} times`;
    return platform.monotonic() + wait - began > settings.budget ? `the budget of ${settings.budget} ms is used up` : null;
  };
  const abortable = async <T>(work: Promise<T>): Promise<T> => {
    try {
      return await work;
    } catch (error) {
      if (error instanceof CallerAborted) throw new Aborted(key, attempts, error.reason, true);
      if (error instanceof CredentialsError) throw new CredentialsFailed(key, attempts, error.cause);
      throw error;
    }
  };

  for (;;) {
    if (signal?.aborted) throw new Aborted(key, attempts, signal.reason, true);
    // A clock that was set by more than this makes a request of unknown age.
    if (Math.abs(platform.now() - request.createdAt) > settings.expiresAfter) {
      throw new Expired(key, attempts, request.createdAt, settings.expiresAfter);
    }
    attempts += 1;
    let answer: Answer | null = null;
    let failure: unknown;
    const attempt = within(settings.attemptTimeout, signal, platform, async (ended) => {
      const headers = await credentials.next(poll ?? request.url);
      const [target, init]: [string, RequestInit] =
        poll === null ? [request.url, intent(sending, headers, attempts, settings)] : [poll, question(sending, headers)];
      return readWhole(await settings.fetch(target, { ...init, redirect: "manual", signal: ended }));
    });
    try {
      answer = await abortable(attempt);
    } catch (error) {
      if (error instanceof Aborted || error instanceof CredentialsFailed) throw error;
      failure = error;
    }

    if (answer !== null) {
      const { response, text } = answer;
      const decision = decide(response, poll !== null);
      if (decision === "renew" && !renewed && usedUp(0) === null) {
        renewed = true;
        const target = poll ?? request.url;
        if (await abortable(within(settings.attemptTimeout, signal, platform, () => credentials.renew(target)))) continue;
      }
      if (decision === "final" || decision === "renew") {
        return Object.assign(response, { idempotency: readDetails(response, key, attempts, text) });
      }
      if (decision === "poll") poll = sameOrigin(response.headers.get("location"), poll ?? request.url, request.url) ?? poll;
      if (decision === "resend") poll = null;
    }

    const asked = retryAfter(answer?.response.headers.get("retry-after") ?? null, settings.maxRetryAfter, platform.now());
    const wait = asked + jitter(settings.base, settings.cap, waits, platform.random());
    const why = usedUp(wait);
    if (why !== null) throw new NoAnswer(key, attempts, why, answer?.response.status ?? null, failure);
    waits += 1;
    await abortable(pause(wait, signal, platform));
  }
}

/** The options of fetch for the request itself. */
function intent(sending: Sending, credentials: Headers, attempt: number, settings: Settings): RequestInit {
  const { request } = sending;
  const headers = merged(request.headers, sending.secrets, credentials);
  headers.set("idempotency-key", request.key);
  if (settings.attemptHeader) headers.set("x-retry-attempt", String(attempt));
  return { ...sending.init, method: request.method, headers, body: request.body };
}

/** The options of fetch for a question at `Location`: without the body and the headers that describe it. */
function question(sending: Sending, credentials: Headers): RequestInit {
  const headers = merged(sending.request.headers, sending.secrets, credentials);
  for (const name of [...Object.keys(sending.request.headers)]) if (name.startsWith("content-")) headers.delete(name);
  return { ...sending.init, method: "GET", headers, cache: "no-store" };
}

function merged(
  kept: Readonly<Record<string, string>>,
  secrets: Readonly<Record<string, string>>,
  credentials: Headers,
): Headers {
  const headers = new Headers({ ...kept, ...secrets });
  credentials.forEach((value, name) => {
    headers.set(name, value);
  });
  return headers;
}

/** Reads the answer to its end, so that one which is cut off is no answer. The response can still be read by the caller. */
async function readWhole(response: Response): Promise<Answer> {
  const copy = response.clone();
  // Not `arrayBuffer`, which older versions of React Native do not have.
  if (!isProblem(response)) {
    await copy.blob();
    return { response, text: null };
  }
  return { response, text: await copy.text() };
}

/** The function `credentials` of the options has failed. */
class CredentialsError extends Error {}

/** Asks for credentials before each attempt, and compares them after a 401. */
class Credentials {
  readonly #settings: Settings;
  #used: Headers | undefined;
  #renewed: Headers | undefined;

  constructor(settings: Settings) {
    this.#settings = settings;
  }

  /** The credentials of the next attempt. */
  async next(url: string): Promise<Headers> {
    this.#used = this.#renewed ?? (await this.#ask(url, false));
    this.#renewed = undefined;
    return this.#used;
  }

  /** After a 401: true if there are other credentials than before, which `next` then gives. */
  async renew(url: string): Promise<boolean> {
    const found = await this.#ask(url, true);
    const isOther = JSON.stringify(sorted(found)) !== JSON.stringify(this.#used && sorted(this.#used));
    this.#renewed = isOther ? found : undefined;
    return isOther;
  }

  async #ask(url: string, refused: boolean): Promise<Headers> {
    try {
      return new Headers(await this.#settings.credentials({ url, refused }));
    } catch (error) {
      throw new CredentialsError("credentials", { cause: error });
    }
  }
}

function sorted(headers: Headers): [string, string][] {
  const found: [string, string][] = [];
  headers.forEach((value, name) => {
    found.push([name, value]);
  });
  return found.sort(([one], [other]) => (one < other ? -1 : 1));
}
