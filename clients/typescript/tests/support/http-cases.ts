import { IdempotentClient, type PendingRequest, type Store } from "edge-idempotency-client";
import { type Case, equal } from "./case.js";
import type { Received, Reply } from "./server.js";

interface Environment {
  /** Opens the same, at first empty, store each time. */
  readonly open: () => Store;
  /** The URL of the server. */
  readonly base: string;
  /** A URL at which nothing listens. */
  readonly closed: string;
  /** True in a page, where CORS holds and `fetch` hides redirects. */
  readonly browser: boolean;
}

const PROCESSING = { "Idempotency-Status": "processing" };

const ann = { owner: "ann", credentials: () => ({ owner: "ann" }) };

let names = 0;

/** A client, and a path of the server that gives these replies. */
function setUp({ open, base }: Environment, replies: Reply[]) {
  const store = open();
  const client = new IdempotentClient({
    store,
    owner: "ann",
    credentials: () => ({ owner: "ann", headers: { Authorization: "Bearer secret" } }),
    base: 2,
    cap: 20,
    maxRetryAfter: 20,
    attempts: 6,
    attemptTimeout: 2000,
  });
  names += 1;
  const name = `${names}-${Date.now()}`;
  const url = `${base}/run/${name}?replies=${encodeURIComponent(JSON.stringify(replies))}`;
  const order = (init: RequestInit = {}) =>
    client.fetch(url, { method: "POST", headers: { "Content-Type": "application/json" }, body: '{"item":"tea"}', ...init });
  const received = async (): Promise<Received[]> => (await fetch(`${base}/received/${name}`)).json();
  const kept = async (): Promise<readonly PendingRequest[]> => (await client.pending()).requests;
  return { url, store, client, order, received, kept };
}

async function caught(promise: Promise<unknown>): Promise<{ name: string; key: string; attempts: number; cause: unknown }> {
  try {
    await promise;
  } catch (error) {
    return error as { name: string; key: string; attempts: number; cause: unknown };
  }
  throw new Error("it did not fail");
}

/** Resolves when the server has got a request. */
async function arrived(received: () => Promise<Received[]>): Promise<void> {
  for (let tries = 0; (await received()).length === 0; tries++) {
    if (tries === 2000) throw new Error("no request has arrived");
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}

/** What the client does with answers and faults of a real server. */
export const httpCases: Case<Environment>[] = [
  ...(["reset", "cut", "cut-chunked"] as const).map((fault) => ({
    name: `${fault}: the same request again`,
    async run(environment: Environment) {
      const { order, received, kept } = setUp(environment, [{ fault }, { fault }, { status: 201, body: "done" }]);
      const response = await order();
      equal([response.status, await response.text(), response.idempotency.attempts], [201, "done", 3]);
      const got = await received();
      const { key } = response.idempotency;
      equal(
        got,
        [1, 2, 3].map((attempt) => ({
          method: "POST",
          key,
          authorization: "Bearer secret",
          attempt: environment.browser ? null : String(attempt),
          body: '{"item":"tea"}',
        })),
      );
      equal(await kept(), []);
    },
  })),
  {
    name: "no server: an error, and the request stays without secrets",
    async run(environment) {
      const { client, store } = setUp(environment, []);
      const error = await caught(client.fetch(environment.closed, { method: "POST", headers: { Cookie: "secret" } }));
      equal([error.name, error.attempts], ["NoAnswer", 6]);
      const kept = await store.get("ann", error.key);
      equal(kept?.headers, {});
      equal(JSON.stringify(kept).includes("secret"), false);
    },
  },
  ...(["hang", "half"] as const).map((fault) => ({
    name: `an answer that does not come, or not whole (${fault}), is ended by the timeout of the attempt`,
    async run(environment: Environment) {
      const { client, url, received } = setUp(environment, [{ fault }, { fault }, { status: 200 }]);
      const quick = new IdempotentClient({ ...ann, store: environment.open(), attemptTimeout: 300, base: 1 });
      equal((await quick.fetch(url, { method: "POST" })).idempotency.attempts, 3);
      equal((await received()).length, 3);
      equal((await client.pending()).requests, []);
    },
  })),
  ...(["hang", "half"] as const).map((fault) => ({
    name: `abort during the attempt (${fault}), and resumePending`,
    async run(environment: Environment) {
      const { order, received, kept, client } = setUp(environment, [{ fault }, { status: 200, body: "done" }]);
      const caller = new AbortController();
      const ordered = caught(order({ signal: caller.signal }));
      await arrived(received);
      caller.abort();
      const error = await ordered;
      equal(error.name, "AbortError");
      equal(
        (await kept()).map(({ key }) => key),
        [error.key],
      );
      const [resumed] = await client.resumePending();
      equal(await resumed?.response?.text(), "done");
      const got = await received();
      equal(got.length, 2);
      equal(got[1], { ...got[0] });
    },
  })),
  {
    name: "abort during the wait",
    async run(environment) {
      const { url, received } = setUp(environment, [{ status: 503, headers: { "Retry-After": "60" } }]);
      const caller = new AbortController();
      const client = new IdempotentClient({ ...ann, store: environment.open() });
      const ordered = caught(client.fetch(url, { method: "POST", signal: caller.signal }));
      await arrived(received);
      setTimeout(() => caller.abort(), 20);
      equal((await ordered).name, "AbortError");
      equal((await received()).length, 1);
    },
  },
  {
    name: "under way: the client asks at Location",
    async run(environment) {
      const name = `poll-${Date.now()}`;
      const replies = encodeURIComponent(
        JSON.stringify([
          { status: 202, headers: PROCESSING },
          { status: 200, body: "done" },
        ]),
      );
      const location = `/run/${name}?replies=${replies}`;
      const { order } = setUp(environment, [{ status: 202, headers: { ...PROCESSING, Location: location } }]);
      const response = await order();
      equal([await response.text(), response.idempotency.attempts], ["done", 3]);
      const polls: Received[] = await (await fetch(`${environment.base}/received/${name}`)).json();
      equal(
        polls.map(({ method, key, authorization, body }) => [method, key, authorization, body]),
        Array(2).fill(["GET", null, "Bearer secret", ""]),
      );
    },
  },
  {
    name: "another user of the store: a request under way is told and kept, and only its owner sends it again",
    async run(environment) {
      const { order, received, kept, client } = setUp(environment, [{ fault: "hang" }, { status: 200, body: "done" }]);
      const bob = new IdempotentClient({ owner: "bob", credentials: () => ({ owner: "bob" }), store: environment.open() });
      const caller = new AbortController();
      const ordered = caught(order({ signal: caller.signal }));
      await arrived(received);
      const others = async () => (await bob.resumePending()).map(({ request, error }) => [request?.owner, error?.name]);
      equal(await others(), [["ann", "OtherOwner"]]);
      caller.abort();
      const { key } = await ordered;
      await bob.forget(key);
      await bob.forgetOwner("bob");
      equal(await others(), [["ann", "OtherOwner"]]);
      equal((await received()).length, 1);
      const [resumed] = await client.resumePending();
      equal([resumed?.response?.idempotency.key, await resumed?.response?.text()], [key, "done"]);
      equal(await kept(), []);
    },
  },
  {
    name: "a redirect is not followed",
    async run(environment) {
      const { order, received, kept } = setUp(environment, [{ status: 307, headers: { Location: "/run/elsewhere" } }]);
      const response = await order();
      equal(response.status, environment.browser ? 0 : 307);
      equal(response.type, environment.browser ? "opaqueredirect" : "basic");
      equal((await received()).length, 1);
      equal(await kept(), []);
    },
  },
  {
    name: "a refusal tells its code, and a replay that it is one",
    async run(environment) {
      const problem = { code: "idempotency_key_reused", retry: "new_key", detail: "Take a new key.", status: 422 };
      const headers = { "Content-Type": "application/problem+json", "Idempotency-Retry": "new_key" };
      const refusal = setUp(environment, [{ status: 422, headers, body: JSON.stringify(problem) }]);
      const refused = await refusal.order();
      equal(await refused.json(), problem);
      const { code, retry, detail } = refused.idempotency;
      equal([code, retry, detail], [problem.code, problem.retry, problem.detail]);

      const replay = { "Idempotency-Status": "replayed", "X-Operation-Id": "inv_1" };
      const { idempotency } = await setUp(environment, [{ headers: replay }]).order();
      equal([idempotency.replayed, idempotency.operationId], [true, "inv_1"]);
    },
  },
  {
    name: "a large answer can still be read",
    async run(environment) {
      const response = await setUp(environment, [{ body: "x".repeat(1000) }]).order({ body: "y".repeat(3_000_000) });
      equal((await response.text()).length, 1000);
      equal(response.url.startsWith(environment.base), true);
    },
  },
  {
    name: "204 has no body",
    async run(environment) {
      const response = await setUp(environment, [{ status: 204 }]).order();
      equal([response.status, await response.text()], [204, ""]);
    },
  },
];
