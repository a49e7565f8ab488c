/** A request that is kept in a store until its final answer has arrived. It has no credentials. */
export interface PendingRequest {
  /** Who made it (`ClientOptions.owner`): only a client of this owner sends it. */
  readonly owner: string;
  /** The `Idempotency-Key` of every attempt. Two owners may have the same key: these are two requests. */
  readonly key: string;
  readonly method: string;
  /** An absolute URL with `http:` or `https:`, without a fragment. */
  readonly url: string;
  /** Names are in lower case. The key, the number of the attempt and secret headers are not among them. */
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string | Uint8Array<ArrayBuffer> | null;
  /** When the request was kept first, in milliseconds since 1970 (`Date.now()`). */
  readonly createdAt: number;
  /** The option `credentials` of fetch, which says whether browsers send cookies; `null` if the caller did not set it. */
  readonly cookies: RequestCredentials | null;
}

/** The version of the stored form. A record with another one is reported as damaged. */
const FORMAT = 2;

/** Makes one line of JSON of a request. Bytes become base64. */
export function encodeRecord(request: PendingRequest): string {
  const { body } = request;
  return JSON.stringify({
    format: FORMAT,
    ...request,
    body: body === null ? null : typeof body === "string" ? { text: body } : { base64: toBase64(body) },
  });
}

/** Reads what `encodeRecord` made. Throws an `Error` that says what is wrong with any other text. */
export function decodeRecord(text: string): PendingRequest {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    throw new Error("it is not JSON");
  }
  if (!isObject(value)) throw new Error("it is not a JSON object");
  const { format, ...members } = value;
  if (format !== FORMAT)
    throw new Error(`its format is ${JSON.stringify(format)}, and this version of the client reads ${FORMAT}`);
  return checkRecord({ ...members, body: decodeBody(members.body) });
}

/** Returns the value if it is a request that can be sent. Throws an `Error` that names the first wrong member. */
export function checkRecord(value: unknown): PendingRequest {
  if (!isObject(value)) throw new Error("it is not an object");
  const wrong = (member: string, wanted: string) => new Error(`its member ${member} is not ${wanted}`);
  const { owner, key, method, url, headers, body, createdAt, cookies } = value;
  if (!isOwner(owner)) throw wrong("owner", "a text that is not blank");
  if (typeof key !== "string" || key === "") throw wrong("key", "a text");
  if (typeof method !== "string" || method === "") throw wrong("method", "a text");
  if (typeof url !== "string" || !/^https?:\/\//.test(url)) throw wrong("url", "an absolute URL");
  if (!isTextObject(headers)) throw wrong("headers", "an object of texts");
  if (body !== null && typeof body !== "string" && !(body instanceof Uint8Array)) throw wrong("body", "a text, bytes or null");
  if (typeof createdAt !== "number" || !Number.isFinite(createdAt)) throw wrong("createdAt", "a number");
  if (cookies !== null && cookies !== "omit" && cookies !== "same-origin" && cookies !== "include") {
    throw wrong("cookies", "omit, same-origin, include or null");
  }
  return { owner, key, method, url, headers, body: body as string | Uint8Array<ArrayBuffer> | null, createdAt, cookies };
}

/** True if the value can be an owner. There is no owner by default: a request of nobody could be sent by anybody. */
export function isOwner(value: unknown): value is string {
  return typeof value === "string" && value.trim() !== "";
}

/** One text for an owner and a key, from which both can be read (JSON). */
export function nameOf(owner: string, key: string): string {
  return JSON.stringify([owner, key]);
}

/** True if both would be the same request to the API. Headers may differ, for example those of tracing. */
export function isSameRequest(one: PendingRequest, other: PendingRequest): boolean {
  return one.method === other.method && one.url === other.url && isSameBody(one.body, other.body);
}

function isSameBody(one: PendingRequest["body"], other: PendingRequest["body"]): boolean {
  if (one === null || other === null) return one === other;
  if (typeof one === "string" && typeof other === "string") return one === other;
  const bytes = [one, other].map((body) => (typeof body === "string" ? new TextEncoder().encode(body) : body));
  const [left, right] = bytes as [Uint8Array, Uint8Array];
  return left.length === right.length && left.every((byte, at) => byte === right[at]);
}

function decodeBody(body: unknown): unknown {
  if (body === null) return null;
  if (isObject(body) && typeof body.text === "string") return body.text;
  if (isObject(body) && typeof body.base64 === "string") {
    try {
      return Uint8Array.from(atob(body.base64), (character) => character.charCodeAt(0));
    } catch {
      // The error below tells it.
    }
  }
  throw new Error("its member body is neither null, {text} nor {base64}");
}

function toBase64(bytes: Uint8Array): string {
  // One call for all bytes would have too many arguments.
  let text = "";
  for (let at = 0; at < bytes.length; at += 0x8000) text += String.fromCharCode(...bytes.subarray(at, at + 0x8000));
  return btoa(text);
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function isTextObject(value: unknown): value is Record<string, string> {
  return isObject(value) && Object.values(value).every((member) => typeof member === "string");
}
