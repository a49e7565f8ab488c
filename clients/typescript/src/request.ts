/** A call of `fetch` in the form in which it can be sent again and again. */
export interface Call {
  readonly method: string;
  /** Absolute, without a fragment. */
  readonly url: string;
  readonly headers: Headers;
  readonly body: string | Uint8Array<ArrayBuffer> | null;
  /** The other options of fetch. */
  readonly init: RequestInit;
  readonly signal: AbortSignal | undefined;
}

/** The method of a call of `fetch`, in upper case. */
export function methodOf(input: RequestInfo | URL, init: RequestInit): string {
  return (init.method ?? (isRequest(input) ? input.method : "GET")).toUpperCase();
}

/** The headers of a call of `fetch`. Throws a `TypeError` if one is malformed. */
export function headersOf(input: RequestInfo | URL, init: RequestInit): Headers {
  return new Headers(init.headers ?? (isRequest(input) ? input.headers : undefined));
}

/** The signal of a call of `fetch`. */
export function signalOf(input: RequestInfo | URL, init: RequestInit): AbortSignal | undefined {
  return (init.signal === undefined && isRequest(input) ? input.signal : init.signal) ?? undefined;
}

/** Reads a call of `fetch`, with the whole body. Rejects with a `TypeError` that says what is wrong with a call that cannot be sent. */
export async function readCall(input: RequestInfo | URL, init: RequestInit): Promise<Call> {
  const url = absoluteUrl(isRequest(input) ? input.url : String(input));
  const method = methodOf(input, init);
  const headers = headersOf(input, init);
  const options = isRequest(input) ? { ...optionsOf(input), ...init } : { ...init };
  if (options.mode === "no-cors") throw new TypeError('mode: "no-cors" hides the answer from the client; leave it out');
  const body = await readBody(init.body ?? (isRequest(input) ? await bodyOf(input) : null), headers);
  for (const name of ["method", "headers", "body", "signal", "redirect", "duplex"])
    delete (options as Record<string, unknown>)[name];
  // Throws if fetch would refuse the call: without this it would look like a connection that fails. It takes no signal, which would be linked.
  new Request(url, { ...options, method, headers, body });
  return { method, url, headers, body, init: options, signal: signalOf(input, init) };
}

/** `location` as an absolute URL if it has the same origin as the URL `own`, else `null`. It may be relative to the URL `asked`. */
export function sameOrigin(location: string | null, asked: string, own: string): string | null {
  if (location === null) return null;
  try {
    const target = new URL(location, asked);
    return target.origin === new URL(own).origin && target.username === "" && target.password === "" ? target.href : null;
  } catch {
    // It is malformed, or this is a React Native whose URL has no `origin`.
    return null;
  }
}

function isRequest(input: RequestInfo | URL): input is Request {
  return typeof input === "object" && "headers" in input;
}

function absoluteUrl(text: string): string {
  let url = text;
  // React Native's own URL changes absolute URLs, so they are left alone.
  if (!/^https?:\/\//.test(url)) {
    const page = (globalThis as { location?: { href?: string } }).location?.href;
    try {
      url = new URL(text, page).href;
    } catch {
      throw new TypeError(`${text} is not an absolute URL`);
    }
    if (!/^https?:\/\//.test(url)) throw new TypeError(`${text} is no URL of HTTP`);
  }
  if (/^https?:\/\/[^/?#]*@/.test(url))
    throw new TypeError("the URL has a user name or password: give them by the option credentials");
  return url.replace(/#.*$/s, "");
}

async function readBody(body: BodyInit | null, headers: Headers): Promise<string | Uint8Array<ArrayBuffer> | null> {
  if (body === null || typeof body === "string") return body;
  if (body instanceof URLSearchParams) {
    addType(headers, "application/x-www-form-urlencoded;charset=UTF-8");
    return body.toString();
  }
  if (body instanceof ArrayBuffer) return new Uint8Array(body.slice(0));
  if (ArrayBuffer.isView(body)) return Uint8Array.from(new Uint8Array(body.buffer, body.byteOffset, body.byteLength));
  const plain = Object.getPrototypeOf(body);
  if (plain === Object.prototype || Array.isArray(body)) throw new TypeError("the body is an object: give JSON.stringify(body)");
  // Blobs, forms and streams: what fetch would send is read into memory.
  try {
    const carrier = new Response(body);
    const type = carrier.headers.get("content-type");
    if (type) addType(headers, type);
    return new Uint8Array(await carrier.arrayBuffer());
  } catch (error) {
    throw new TypeError("the body cannot be read into memory, so it could not be sent a second time: give a text or bytes", {
      cause: error,
    });
  }
}

async function bodyOf(request: Request): Promise<ArrayBuffer | null> {
  if (request.bodyUsed) throw new TypeError("the body of the Request was read already");
  if (request.method === "GET" || request.method === "HEAD") return null;
  const bytes = await request.arrayBuffer();
  return bytes.byteLength === 0 ? null : bytes;
}

function addType(headers: Headers, type: string): void {
  if (!headers.has("content-type")) headers.set("content-type", type);
}

/** The options that a `Request` holds, as far as the platform has them. */
function optionsOf(request: Request): RequestInit {
  const names = ["cache", "credentials", "integrity", "keepalive", "mode", "referrer", "referrerPolicy"] as const;
  const found = names.filter((name) => request[name] !== undefined).map((name) => [name, request[name]]);
  return Object.fromEntries(found) as RequestInit;
}
