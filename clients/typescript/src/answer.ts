/** What the client tells of an answer. */
export interface AnswerDetails {
  /** The `Idempotency-Key` of the request; `null` if it had none, because of its method. */
  readonly key: string | null;
  /** How many requests were sent, polls included. */
  readonly attempts: number;
  /** True if this is the kept result of an earlier request with the key. */
  readonly replayed: boolean;
  /** `X-Operation-Id`, to be quoted to support. */
  readonly operationId: string | null;
  /** Of a refusal: `code` of its problem document. */
  readonly code: string | null;
  /** Of a refusal: what to do (`new_key`, `new_request`, `never` …), from its problem document or `Idempotency-Retry`. */
  readonly retry: string | null;
  /** Of a refusal: `detail` of its problem document, a sentence for people. */
  readonly detail: string | null;
  /** The answer is final, but the store could not remove the request for this reason: `resumePending()` will send it again, and get a replay. */
  readonly storeError: unknown;
}

/** A `Response` whose member `idempotency` tells what the client knows beside it. Clones of it do not have the member. */
export interface IdempotentResponse extends Response {
  readonly idempotency: AnswerDetails;
}

/**
 * What the client does after an answer: `final` gives it to the caller, `again` repeats the last request (the intent's, or the question at
 * `Location`), `poll` asks at `Location`, `came-before` does so if it has the same origin and else is `final`, `resend` leaves `Location`
 * and sends the intent's request, `renew` asks for other credentials.
 */
export type Decision = "final" | "again" | "poll" | "came-before" | "resend" | "renew";

/** What the answer means: the table of clients/README.md, from top to bottom. `polling` is true for an answer at `Location`. */
export function decide(response: Pick<Response, "status" | "headers">, polling: boolean): Decision {
  const { status, headers } = response;
  const advice = header(headers, "idempotency-retry");
  const kept = isReplayed(headers) || header(headers, "idempotency-status") === "stored";
  // A kept result may be a 404, too.
  if (polling && status === 404 && !kept) return "resend";
  const state = header(headers, "idempotency-status");
  if (status === 202 && state === "processing") return "poll";
  if (status === 202 && state !== null && ["completed", "failed", "accepted"].includes(state)) return "came-before";
  if (advice === "same_key" || advice === "wait") return "again";
  if (advice !== null) return "final";
  if (status === 401) return "renew";
  if (kept) return "final";
  if (status === 409 || status === 425) return headers.has("retry-after") ? "again" : "final";
  return [429, 502, 503, 504].includes(status) ? "again" : "final";
}

/** The details of a final answer. `text` is its body if it is a problem document. */
export function readDetails(response: Response, key: string | null, attempts: number, text: string | null): AnswerDetails {
  const problem = readProblem(text);
  return {
    key,
    attempts,
    replayed: isReplayed(response.headers),
    operationId: response.headers.get("x-operation-id"),
    code: problem.code,
    retry: problem.retry ?? header(response.headers, "idempotency-retry"),
    detail: problem.detail,
    storeError: null,
  };
}

/** True if the body is a problem document (RFC 9457). */
export function isProblem(response: Response): boolean {
  const type = response.headers.get("content-type") ?? "";
  return response.status >= 400 && /^application\/problem\+json\s*(;|$)/i.test(type);
}

function isReplayed(headers: Headers): boolean {
  return header(headers, "idempotency-status") === "replayed" || header(headers, "idempotent-replayed") === "true";
}

function header(headers: Headers, name: string): string | null {
  return headers.get(name)?.trim().toLowerCase() ?? null;
}

function readProblem(text: string | null): Pick<AnswerDetails, "code" | "retry" | "detail"> {
  let problem: Record<string, unknown> | null = null;
  try {
    problem = JSON.parse(text ?? "null");
  } catch {
    // The caller still has the body.
  }
  const member = (name: string) => (typeof problem?.[name] === "string" ? problem[name] : null);
  return { code: member("code"), retry: member("retry"), detail: member("detail") };
}
