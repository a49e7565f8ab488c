import { decide, type IdempotentResponse, isProblem, readDetails } from "./answer.js";
import { Aborted, CredentialsFailed, Expired, NoAnswer, OtherOwner } from "./errors.js";
import type { Settings } from "./options.js";
import type { Platform } from "./platform.js";
import { isOwner, type PendingRequest } from "./record.js";
import { sameOrigin } from "./request.js";
import { jitter, retryAfter } from "./schedule.js";
import { CallerAborted, pause, TimedOut, within } from "./within.js";

/** A request that was kept further in the future is of unknown age, because a clock was set. In milliseconds. */
const CLOCK_STEP = 5 * 60_000;

/** A request, and what belongs to it in this process only. */
export interface Sending {
  readonly request: PendingRequest;
  /** Keeps the request, and resolves with the one that is kept. It is called before the first attempt. `null` if the request is kept already. */
  readonly keep: (() => Promise<PendingRequest>) | null;
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
 * `Aborted`, `CredentialsFailed` or `OtherOwner`, and with the error of `keep`. Else it does not touch the store.
 */
export async function sendUntilAnswered(sending: Sending, settings: Settings, platform: Platform): Promise<IdempotentResponse> {
  const { signal } = sending;
  const { owner, key } = sending.request;
  const credentials = new Asked(settings);
  let request = sending.request;
  let kept = sending.keep === null;
  let began = platform.monotonic();
  let attempts = 0;
  let waits = 0;
  let renewed = false;
  // Where the API says that the result can be asked for.
  let poll: string | null = null;
  let answer: Answer | null = null;
  let failure: unknown;

  const usedUp = (wait: number): string | null => {
    if (attempts >= settings.attempts) return `it was sent ${attempts} times`;
    return platform.monotonic() + wait - began > settings.budget ? `the budget of ${settings.budget} ms is used up` : null;
  };
  const abortable = async <T>(work: Promise<T>): Promise<T> => {
    try {
      return await work;
    } catch (error) {
      if (error instanceof CallerAborted) throw new Aborted(key, attempts, error.reason, kept);
      throw error;
    }
  };
  const withTimeLimit = async <T>(ask: () => Promise<T>): Promise<T> => {
    try {
      return await abortable(within(settings.attemptTimeout, signal, platform, ask));
    } catch (error) {
      if (error instanceof NotTheOwner) throw new OtherOwner(key, attempts, owner, error.message, kept);
      if (error instanceof CredentialsError) throw new CredentialsFailed(key, attempts, error.cause, kept);
      if (!(error instanceof TimedOut)) throw error;
      const cause = new Error(`it took longer than ${settings.attemptTimeout} ms`);
      throw new CredentialsFailed(key, attempts, cause, kept);
    }
  };
  const noAnswer = (why: string) => new NoAnswer(key, attempts, why, answer?.response.status ?? null, failure);
  const refuseToGoOn = () => {
    if (signal?.aborted) throw new Aborted(key, attempts, signal.reason, kept);
    const age = platform.now() - request.createdAt;
    // A question at `Location` runs nothing, so it may come late.
    if (poll === null && kept && (age > settings.expiresAfter || age < -CLOCK_STEP)) {
      throw new Expired(key, attempts, request.createdAt, settings.expiresAfter);
    }
  };

  for (;;) {
    refuseToGoOn();
    const headers = await withTimeLimit(() => credentials.next(poll ?? request.url));
    if (sending.keep !== null && !kept) {
      request = await sending.keep();
      kept = true;
    }
    // Credentials and the store may have taken their time.
    refuseToGoOn();
    if (attempts === 0) began = platform.monotonic();
    const late = usedUp(0);
    if (late !== null) throw noAnswer(late);
    attempts += 1;
    answer = null;
    failure = undefined;
    const attempt = within(settings.attemptTimeout, signal, platform, async (ended) => {
      const [target, init]: [string, RequestInit] =
        poll === null
          ? [request.url, intent(request, sending, headers, attempts, settings)]
          : [poll, question(request, sending, headers)];
      return readWhole(await settings.fetch(target, { ...init, redirect: "manual", signal: ended }));
    });
    try {
      answer = await abortable(attempt);
    } catch (error) {
      if (error instanceof Aborted) throw error;
      failure = error;
    }

    if (answer !== null) {
      const { response, text } = answer;
      const told = decide(response, poll !== null);
      const location = sameOrigin(response.headers.get("location"), poll ?? request.url, request.url);
      const decision = told !== "came-before" ? told : location === null ? "final" : "poll";
      if (decision === "renew" && !renewed) {
        renewed = true;
        const target = poll ?? request.url;
        if (await withTimeLimit(() => credentials.renew(target))) {
          const why = usedUp(0);
          if (why !== null) throw noAnswer(why);
          continue;
        }
      }
      if (decision === "final" || decision === "renew") {
        return Object.assign(response, { idempotency: readDetails(response, key, attempts, text) });
      }
      if (decision === "poll") poll = location ?? poll;
      if (decision === "resend") poll = null;
    }

    const asked = retryAfter(answer?.response.headers.get("retry-after") ?? null, settings.maxRetryAfter, platform.now());
    const wait = asked + jitter(settings.base, settings.cap, waits, platform.random());
    const why = usedUp(wait);
    if (why !== null) throw noAnswer(why);
    waits += 1;
    await abortable(pause(wait, signal, platform));
  }
}

/** The options of fetch for the request itself. */
function intent(
  request: PendingRequest,
  sending: Sending,
  credentials: Headers,
  attempt: number,
  settings: Settings,
): RequestInit {
  const headers = merged(request.headers, sending.secrets, credentials);
  headers.set("idempotency-key", request.key);
  if (settings.attemptHeader) headers.set("x-retry-attempt", String(attempt));
  return { ...sending.init, method: request.method, headers, body: request.body };
}

/** The options of fetch for a question at `Location`: without the body, and without the headers that are about the request itself. */
function question(request: PendingRequest, sending: Sending, credentials: Headers): RequestInit {
  const headers = merged(request.headers, sending.secrets, credentials);
  for (const name of [...Object.keys(request.headers), "idempotency-key"]) {
    if (/^(content-.*|if-.*|range|expect|idempotency-key)$/.test(name)) headers.delete(name);
  }
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

/** The credentials are of somebody else, whom the message names. */
class NotTheOwner extends Error {}

/** Asks for credentials before each attempt, and compares them after a 401. */
class Asked {
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
      const { owner, headers } = (await this.#settings.credentials({ url, refused })) ?? {};
      if (!isOwner(owner)) throw new TypeError("it has to give { owner, headers }, and its owner is not a text or is blank");
      if (owner !== this.#settings.owner) throw new NotTheOwner(owner);
      return new Headers(headers);
    } catch (error) {
      throw error instanceof NotTheOwner ? error : new CredentialsError("credentials", { cause: error });
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
