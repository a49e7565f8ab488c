import {
  Aborted,
  Expired,
  IdempotencyError,
  IdempotentClient,
  type IdempotentResponse,
  NoAnswer,
  OtherOwner,
  type Store,
} from "edge-idempotency-client";

/** The settings of a driver (clients/DRIVER.md). */
export interface Settings {
  readonly store: string;
  /** Whose token it is. */
  readonly owner: string;
  readonly token: string;
  readonly base_ms: number;
  readonly cap_ms: number;
  readonly attempts: number;
  readonly attempt_timeout_ms: number;
  readonly budget_ms: number;
  readonly max_retry_after_ms: number;
  /** The most intents that are under way at a time; the others wait. */
  readonly concurrency: number;
  readonly resume: boolean;
}

interface Intent {
  readonly id: string;
  readonly method: string;
  readonly url: string;
  readonly body: string;
  readonly abort_after_ms: number | null;
}

/** Sends intents by the client, and tells what it told. It runs in Node.js and in a page. */
export class Driver {
  readonly #client: IdempotentClient;
  readonly #tell: (line: string) => void | Promise<void>;
  #free: number;
  readonly #waiting: (() => void)[] = [];

  constructor(settings: Settings, store: Store, tell: (line: string) => void | Promise<void>) {
    this.#tell = tell;
    this.#free = settings.concurrency;
    this.#client = new IdempotentClient({
      store,
      owner: settings.owner,
      credentials: () => ({ owner: settings.owner, headers: { Authorization: `Bearer ${settings.token}` } }),
      base: settings.base_ms,
      cap: settings.cap_ms,
      attempts: settings.attempts,
      attemptTimeout: settings.attempt_timeout_ms,
      budget: settings.budget_ms,
      maxRetryAfter: settings.max_retry_after_ms,
    });
  }

  /** Sends what is kept. */
  async resume(): Promise<void> {
    await this.#client.resumePending({
      onResult: ({ request, response, error }) =>
        response ? this.#answer(null, response) : this.#failed(null, request?.key ?? error.key, error),
    });
  }

  /** Sends one line's intent. */
  async send(line: string): Promise<void> {
    const { id, method, url, body, abort_after_ms }: Intent = JSON.parse(line);
    while (this.#free === 0) await new Promise<void>((resolve) => this.#waiting.push(resolve));
    this.#free -= 1;
    const caller = new AbortController();
    const timer = abort_after_ms === null ? undefined : setTimeout(() => caller.abort(), abort_after_ms);
    try {
      const headers = { "Content-Type": "application/json" };
      await this.#answer(id, await this.#client.fetch(url, { method, headers, body, signal: caller.signal }));
    } catch (error) {
      await this.#failed(id, error instanceof IdempotencyError ? error.key : null, error);
    } finally {
      clearTimeout(timer);
      this.#free += 1;
      this.#waiting.shift()?.();
    }
  }

  async #answer(id: string | null, response: IdempotentResponse): Promise<void> {
    const { key, replayed, attempts, operationId: operation_id, code, retry } = response.idempotency;
    const body = await response.text();
    await this.#write({ event: "answer", id, key, status: response.status, body, replayed, attempts, operation_id, code, retry });
  }

  async #failed(id: string | null, key: string | null, error: unknown): Promise<void> {
    const kinds = [
      ["no_answer", NoAnswer],
      ["expired", Expired],
      ["aborted", Aborted],
      ["other_owner", OtherOwner],
    ] as const;
    const kind = kinds.find(([, type]) => error instanceof type)?.[0] ?? "other";
    const attempts = error instanceof IdempotencyError ? error.attempts : 0;
    await this.#write({ event: "failed", id, key, error: kind, attempts, message: String(error) });
  }

  async #write(message: object): Promise<void> {
    await this.#tell(JSON.stringify(message));
  }
}
