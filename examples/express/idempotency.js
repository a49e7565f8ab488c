// Runs each `Idempotency-Key` once, and gives a retry the stored answer: a middleware for Express.
//
//   app.use(idempotency(new Store("results.db", { lease: 60, retention: 86_400 })));
//
// Use it after middlewares that refuse callers, compress, keep sessions or add CORS headers: what they do is not stored, and they do it for
// a replay, too. The answers are in a table of SQLite, which several processes of one machine can share. `libsql` has the interface of `better-sqlite3`, and either can be used. For
// PostgreSQL three things differ: `NOW`, the type of `body` (`bytea`), and the driver's pool and placeholders (pg: `$1`, `$2` …).
"use strict";

const { createHash, randomUUID } = require("node:crypto");
const { ServerResponse, validateHeaderValue } = require("node:http");
const Database = require("libsql");

// The database's clock decides about leases, so that the clocks of several machines need not agree.
const NOW = "(julianday('now') - 2440587.5) * 86400"; // PostgreSQL: extract(epoch from clock_timestamp())

const TABLE = `
CREATE TABLE IF NOT EXISTS idempotency_results (
    operation  varchar(1024) NOT NULL,     -- method and path
    key        varchar(640) NOT NULL,      -- with the caller's namespace, whole (MySQL: COLLATE utf8mb4_bin)
    fingerprint varchar(64) NOT NULL,      -- of the request, from the gateway ("collision": "forward"); without one nothing is compared
    owner      char(36) NOT NULL,          -- the attempt that claimed the key last
    expires_at double precision NOT NULL,  -- the end of the attempt's lease, and with an answer the end of its retention
    status     integer,                    -- NULL while there is no answer
    headers    text,                       -- JSON, with everything else that goes before or behind the body
    body       blob,                       -- PostgreSQL: bytea
    PRIMARY KEY (operation, key)
)`;

// Inserts the claim, or takes over one whose lease has ended, or an answer whose retention has ended. One statement, so that of
// several attempts at once one gets the key: it changes one row, and the others change none.
const CLAIM = `
INSERT INTO idempotency_results (operation, key, fingerprint, owner, expires_at) VALUES (?, ?, ?, ?, ${NOW} + ?)
ON CONFLICT (operation, key) DO UPDATE
SET fingerprint = excluded.fingerprint, owner = excluded.owner, expires_at = excluded.expires_at, status = NULL, headers = NULL, body = NULL
WHERE idempotency_results.expires_at <= ${NOW}`;
const FIND = "SELECT fingerprint, status, headers, body FROM idempotency_results WHERE operation = ? AND key = ?";
// Only the owner stores its answer: an attempt that was slower than its lease has lost the key to a later one.
const KEEP = `
UPDATE idempotency_results SET status = ?, headers = ?, body = ?, expires_at = ${NOW} + ?
WHERE operation = ? AND key = ? AND owner = ?`;
const FREE = "DELETE FROM idempotency_results WHERE operation = ? AND key = ? AND owner = ? AND status IS NULL";
const DELETE_EXPIRED = `DELETE FROM idempotency_results WHERE expires_at <= ${NOW}`;

// An answer with one of these statuses is not stored. After 401 and 403 a caller gets a right or a new token and sends the same key again.
// After 408, 425, 429 and 5xx it expects that the work is tried again; nobody knows how far it came, so the handler's own steps have to be
// safe to repeat (`operationKey`).
const isFinal = (status) => status < 500 && ![401, 403, 408, 425, 429].includes(status);
// Headers of one answer or one connection. A stored `set-cookie` would be a credential in the table, and a replay would put an old session
// in the place of a newer one. A caller that lost the first answer gets its cookie from the next request that sets one.
const NOT_STORED = ["connection", "date", "keep-alive", "set-cookie", "transfer-encoding"];

// Problem documents (RFC 9457), with the members that those of the gateway have. `retry` is the advice for programs.
const KEY_TOO_LONG = problem(400, "idempotency_key_invalid", "Idempotency key invalid", "new_key", "The key is longer than 640 bytes.");
const PATH_TOO_LONG = problem(400, "request_invalid", "Request invalid", "never", "The path is longer than 1024 bytes.");
const KEY_REUSED = problem(
  ...[422, "idempotency_key_reused", "Idempotency key reused", "new_key"],
  "The key was used with another request. Send a new key for a new operation, and repeat a request unchanged.",
);
const IN_FLIGHT = problem(
  ...[409, "idempotency_key_in_flight", "Idempotency key in flight", "wait"],
  "A request with this key is still being processed. Send the same request with the same key again later to get its result.",
);
const STORE_DOWN = problem(
  ...[503, "dependency_unavailable", "Temporarily unavailable", "same_key"],
  "The key could not be checked right now. This request was not carried out; send the same request with the same key again later.",
);
const NOT_KEPT = problem(
  ...[503, "dependency_unavailable", "Temporarily unavailable", "same_key"],
  "The request was carried out, and its answer could not be stored. Send the same request with the same key again later.",
);

/** The table. `lease` and `retention` are seconds; the lease is longer than the longest request runs. */
class Store {
  constructor(path, { lease, retention }) {
    Object.assign(this, { lease, retention });
    this.database = new Database(path, { timeout: 10_000 });
    this.database.exec("PRAGMA journal_mode = WAL");
    this.database.exec(TABLE);
  }

  // These functions are asynchronous as those of a database server are.
  async claim(operation, key, fingerprint, owner) {
    return this.database.prepare(CLAIM).run(operation, key, fingerprint, owner, this.lease).changes === 1;
  }

  async find(operation, key) {
    return this.database.prepare(FIND).get(operation, key);
  }

  async keep(operation, key, owner, status, headers, body) {
    return this.database.prepare(KEEP).run(status, headers, body, this.retention, operation, key, owner).changes === 1;
  }

  async free(operation, key, owner) {
    this.database.prepare(FREE).run(operation, key, owner);
  }

  /** Run it every hour or so. Correctness does not depend on it. */
  async deleteExpired() {
    return this.database.prepare(DELETE_EXPIRED).run().changes;
  }
}

function idempotency(store) {
  return async (request, response, next) => {
    const key = request.get("idempotency-key");
    // A request without a key runs every time; whether a key is needed is the gateway's policy.
    if (!key) return next();
    const operation = `${request.method} ${request.originalUrl.split("?")[0]}`;
    if (key.length > 640) return refuse(response, KEY_TOO_LONG);
    if (operation.length > 1024) return refuse(response, PATH_TOO_LONG);
    const fingerprint = request.get("idempotency-fingerprint") ?? "";
    const owner = randomUUID();
    let stored;
    try {
      if (!(await store.claim(operation, key, fingerprint, owner))) stored = (await store.find(operation, key)) ?? { status: null };
    } catch (error) {
      console.error(error);
      return refuse(response, STORE_DOWN);
    }
    if (stored !== undefined) {
      if (stored.fingerprint && fingerprint && stored.fingerprint !== fingerprint) return refuse(response, KEY_REUSED);
      if (stored.status === null) return refuse(response, IN_FLIGHT);
      const { headers, ...rest } = JSON.parse(stored.headers);
      const marked = [...headers, ["Idempotent-Replayed", "true"]];
      return send(response, { status: stored.status, headers: marked, ...rest }, stored.body);
    }

    // Stores the answer before any of it is sent: what a caller has seen, a retry gets.
    const keep = async ({ status, headers, ...rest }, body) => {
      if (!isFinal(status)) {
        // If that fails, the claim ends with its lease.
        await store.free(operation, key, owner).catch(console.error);
        return;
      }
      const lines = headers.filter(([name]) => !NOT_STORED.includes(name.toLowerCase()));
      const text = JSON.stringify({ headers: lines, ...rest });
      if (!(await store.keep(operation, key, owner, status, text, body))) throw new LostKey();
    };
    holdAnswer(response, keep, next);
    // The same in every attempt. The handler passes it to services that it calls, and puts it into a unique column of rows that it
    // inserts, so that an attempt that runs again after a crash or a 5xx does nothing twice.
    response.locals.operationKey = createHash("sha256").update(`${operation}\n${key}`).digest("hex");
    // An error of the handler becomes a 500, which frees the key. If the process dies, or the handler breaks the connection off, the claim
    // ends with its lease instead.
    next();
  };
}

/** Another attempt has claimed the key since this one's lease ended. */
class LostKey extends Error {}

/** The headers that are set, each with its value or a list of values. The list is a copy: `appendHeader` changes the other one. */
const headersOf = (response) =>
  response.getRawHeaderNames().map((name) => {
    const value = response.getHeader(name);
    return [name, Array.isArray(value) ? [...value] : value];
  });

/** The headers in all forms in which `writeHead` takes them: an object, a list of pairs, or names and values in turn. */
function pairsOf(headers) {
  if (!Array.isArray(headers)) return Object.entries(headers ?? {});
  if (Array.isArray(headers[0])) return headers;
  return headers.flatMap((name, place) => (place % 2 ? [] : [[name, headers[place + 1]]]));
}

/**
 * Keeps the answer back until the handler has ended it and `keep` has taken it. Then the functions that stood on the response before send it,
 * so that what earlier middlewares do with an answer, they do with this one. An error that they throw goes to `next`.
 */
function holdAnswer(response, keep, next) {
  const functions = ["writeHead", "flushHeaders", "write", "end", "addTrailers"].map((name) => {
    return [name, Object.getOwnPropertyDescriptor(response, name)];
  });
  const before = headersOf(response);
  const [parts, answer] = [[], {}];
  let isEnded = false;
  // Nothing has been sent yet, so an error handler may still answer: another status begins the answer anew.
  const begin = () => answer.status === response.statusCode || response.writeHead(response.statusCode);
  const add = (chunk, encoding) => parts.push(Buffer.from(chunk, typeof encoding === "string" ? encoding : "utf8"));
  const callbackOf = (...parameters) => parameters.find((parameter) => typeof parameter === "function");

  response.writeHead = (status, reason, headers = reason) => {
    if (isEnded) return response;
    if (!(status >= 100 && status <= 999)) throw new RangeError(`Invalid status code: ${status}`);
    if (typeof reason === "string") response.statusMessage = reason;
    if (response.statusMessage) validateHeaderValue("reason", response.statusMessage);
    const pairs = typeof headers === "string" ? [] : pairsOf(headers);
    for (const [name] of pairs) response.removeHeader(name);
    for (const [name, value] of pairs) response.appendHeader(name, value);
    if (answer.status !== status) {
      parts.length = 0;
      delete answer.trailers;
    }
    answer.status = response.statusCode = status;
    return response;
  };
  response.flushHeaders = () => void begin();
  response.addTrailers = (trailers) => {
    ServerResponse.prototype.addTrailers.call(response, trailers);
    answer.trailers = trailers;
  };
  response.write = (chunk, encoding, callback) => {
    if (isEnded) return false;
    begin();
    add(chunk, encoding);
    const done = callbackOf(encoding, callback);
    if (done) process.nextTick(done);
    return true;
  };
  response.end = (chunk, encoding, callback) => {
    // The first end counts: what comes later would not be what is stored.
    if (isEnded) return response;
    begin();
    if (chunk && typeof chunk !== "function") add(chunk, encoding);
    isEnded = true;
    const [body, after] = [Buffer.concat(parts), headersOf(response)];
    // What the handler has changed of the headers is its answer; the others are those of earlier middlewares, for a replay anew.
    const old = new Map(before.map(([name, value]) => [name.toLowerCase(), JSON.stringify(value)]));
    answer.message = response.statusMessage;
    answer.headers = after.filter(([name, value]) => old.get(name.toLowerCase()) !== JSON.stringify(value));
    answer.removed = before.map(([name]) => name).filter((name) => !response.hasHeader(name));
    const finish = (proceed) => {
      for (const [name, own] of functions) {
        if (own) Object.defineProperty(response, name, own);
        else delete response[name];
      }
      for (const name of response.getHeaderNames()) response.removeHeader(name);
      for (const [name, value] of before) response.setHeader(name, value);
      proceed(callbackOf(chunk, encoding, callback));
    };
    keep(answer, body)
      .then(
        () => finish((done) => send(response, answer, body, done)),
        (error) => {
          // Nobody may see an answer that a retry would not get.
          if (!(error instanceof LostKey)) console.error(error);
          finish((done) => refuse(response, error instanceof LostKey ? IN_FLIGHT : NOT_KEPT, done));
        },
      )
      .catch(next);
    return response;
  };
}

/** Sends an answer, for the first time or again. */
function send(response, { status, message, headers, removed, trailers }, body, callback) {
  Object.assign(response, { statusCode: status, statusMessage: message });
  for (const name of removed) response.removeHeader(name);
  for (const [name, value] of headers) response.setHeader(name, value);
  response.addTrailers(trailers ?? {});
  // With a length there are no trailers.
  if (trailers) response.flushHeaders();
  if (body.length > 0) response.end(body, callback);
  else response.end(callback);
}

function problem(status, code, title, retry, detail) {
  return { type: "about:blank", title, status, detail, code, retry };
}

function refuse(response, document, callback) {
  const headers = [
    ...[["Content-Type", "application/problem+json"], ["Content-Language", "en"], ["Cache-Control", "no-store"]],
    ...({ wait: [["Retry-After", "1"]], same_key: [["Retry-After", "5"]] }[document.retry] ?? []),
  ];
  send(response, { status: document.status, headers, removed: [] }, JSON.stringify(document), callback);
}

module.exports = { idempotency, Store };
