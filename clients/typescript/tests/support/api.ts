import type { ClientOptions } from "../../src/options.js";

/** What the stand-in for fetch was given. */
export interface Sent {
  readonly url: string;
  readonly method: string;
  readonly headers: Headers;
  readonly body: BodyInit | null | undefined;
  readonly init: RequestInit;
}

/** Makes an answer, or fails as fetch does. */
export type Answering = (sent: Sent) => Promise<Response>;

/** An answer of the stand-in. */
export type Step = { readonly status: number; readonly headers?: Record<string, string>; readonly body?: string } | Answering;

/** A stand-in for fetch that gives one answer after the other. The last one is repeated. */
export class FakeApi {
  readonly sent: Sent[] = [];
  readonly #steps: readonly Step[];

  constructor(...steps: Step[]) {
    this.#steps = steps;
  }

  readonly fetch: NonNullable<ClientOptions["fetch"]> = async (input, init = {}) => {
    const sent: Sent = {
      url: String(input),
      method: init.method ?? "GET",
      headers: new Headers(init.headers),
      body: init.body,
      init,
    };
    this.sent.push(sent);
    const step = this.#steps[Math.min(this.sent.length, this.#steps.length) - 1];
    if (!step) throw new Error("the test gives no answer");
    if (typeof step === "function") return step(sent);
    return new Response(step.body ?? null, { status: step.status, headers: step.headers ?? {} });
  };
}

/** No answer: what fetch does when the connection fails. */
export const noConnection: Answering = async () => {
  throw new TypeError("fetch failed", { cause: new Error("connect ECONNREFUSED") });
};

/** An answer that is cut off after its first bytes. */
export const cutOff: Answering = async () => {
  const body = new ReadableStream({
    pull(controller) {
      controller.error(new TypeError("terminated"));
    },
  });
  return new Response(body, { status: 200 });
};

/** An answer that does not come until the attempt is aborted. */
export const hangs: Answering = (sent) =>
  new Promise((_resolve, reject) => {
    sent.init.signal?.addEventListener("abort", () => reject(sent.init.signal?.reason));
  });
