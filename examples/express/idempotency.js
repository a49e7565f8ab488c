// Runs each `Idempotency-Key` once, and gives a retry the stored answer: a middleware for Express.
//
//   app.use(idempotency(new Store("results.db", { lease: 60, retention: 86_400 })));
//
// Use it after middlewares that refuse callers, compress or add CORS headers: what they do is not to be stored. The answers are in a table
// of SQLite, which several processes of one machine can share. `libsql` has the interface of `better-sqlite3`, and either can be used. For
// PostgreSQL three things differ: `NOW`, the type of `body` (`bytea`), and the driver's pool and placeholders (pg: `$1`, `$2` …).
"use strict";

const { createHash, randomUUID } = require("node:crypto");
const Database = require("libsql");

// The database's clock decides about leases, so that the clocks of several machines need not agree.
const NOW = "(julianday('now') - 2440587.5) * 86400"; // PostgreSQL: extract(epoch from clock_timestamp())

const TABLE = `
CREATE TABLE IF NOT EXISTS idempotency_results (
    operation  varchar(1024) NOT NULL,     -- method and path
    key        varchar(640) NOT NULL,      -- with the caller's namespace, whole (MySQL: COLLATE utf8mb4_bin)
    owner      char(36) NOT NULL,          -- the attempt that claimed the key last
    expires_at double precision NOT NULL,  -- the end of the attempt's lease, and with an answer the end of its retention
    status     integer,                    -- NULL while there is no answer
    headers    text,
    body       blob,                       -- PostgreSQL: bytea
    PRIMARY KEY (operation, key)
)`;

// Inserts the claim, or takes over one whose lease has ended, or an answer whose retention has ended. One statement, so that of
// several attempts at once one gets the key: it changes one row, and the others change none.
const CLAIM = `
INSERT INTO idempotency_results (operation, key, owner, expires_at) VALUES (?, ?, ?, ${NOW} + ?)
ON CONFLICT (operation, key) DO UPDATE
SET owner = excluded.owner, expires_at = excluded.expires_at, status = NULL, headers = NULL, body = NULL
WHERE idempotency_results.expires_at <= ${NOW}`;
const FIND = "SELECT status, headers, body FROM idempotency_results WHERE operation = ? AND key = ? AND status IS NOT NULL";
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
// Headers of one answer or one connection. A stored `set-cookie` would be a credential in the table, and an old one in a replay.
const NOT_STORED = ["connection", "content-length", "date", "keep-alive", "set-cookie", "trailer", "transfer-encoding"];

/** The table. `lease` and `retention` are seconds; the lease is longer than the longest request runs. */
class Store {
  constructor(path, { lease, retention }) {
    Object.assign(this, { lease, retention });
    this.database = new Database(path, { timeout: 10_000 });
    this.database.exec("PRAGMA journal_mode = WAL");
    this.database.exec(TABLE);
  }

  // These functions are asynchronous as those of a database server are.
  async claim(operation, key, owner) {
    return this.database.prepare(CLAIM).run(operation, key, owner, this.lease).changes === 1;
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
    if (key.length > 640 || operation.length > 1024) return refuse(response, 400, "The key or the path is too long");
    const owner = randomUUID();
    if (!(await store.claim(operation, key, owner))) {
      const stored = await store.find(operation, key);
      if (stored === undefined) return refuse(response, 409, "A request with this key is being processed");
      for (const [name, value] of JSON.parse(stored.headers)) response.setHeader(name, value);
      return response.status(stored.status).setHeader("idempotent-replayed", "true").end(stored.body);
    }

    // Stores the answer before any of it is sent: what a caller has seen, a retry gets.
    holdAnswer(response, async (status, headers, body) => {
      if (!isFinal(status)) return store.free(operation, key, owner);
      const lines = headers.filter(([name]) => !NOT_STORED.includes(name));
      if (await store.keep(operation, key, owner, status, JSON.stringify(lines), body)) return;
      throw new LostKey();
    });
    // The same in every attempt. The handler passes it to services that it calls, and puts it into a unique column of rows that it
    // inserts, so that an attempt that runs again after a crash or a 5xx does nothing twice.
    response.locals.operationKey = createHash("sha256").update(`${operation}\n${key}`).digest("hex");
    // An error of the handler becomes a 500, which frees the key. If the process dies, the claim ends with its lease instead.
    next();
  };
}

/** Another attempt has claimed the key since this one's lease ended. */
class LostKey extends Error {}

/** Keeps the answer back until the handler has ended it and `store` has taken it. Headers that were set before belong to others. */
function holdAnswer(response, store) {
  const parts = [];
  const others = response.getHeaderNames();
  const add = (chunk, encoding) => {
    if (chunk && typeof chunk !== "function") parts.push(Buffer.from(chunk, typeof encoding === "string" ? encoding : "utf8"));
  };
  const callbackOf = (...parameters) => parameters.find((parameter) => typeof parameter === "function");
  response.writeHead = (status, ...rest) => {
    response.statusCode = status;
    const headers = rest.find((parameter) => typeof parameter === "object") ?? {};
    for (const [name, value] of Object.entries(headers)) response.setHeader(name, value);
    return response;
  };
  response.flushHeaders = () => {};
  response.write = (chunk, encoding, callback) => {
    add(chunk, encoding);
    callbackOf(encoding, callback)?.();
    return true;
  };
  response.end = (chunk, encoding, callback) => {
    add(chunk, encoding);
    // From here on the functions of the prototype send again.
    for (const name of ["writeHead", "flushHeaders", "write", "end"]) delete response[name];
    const body = Buffer.concat(parts);
    const headers = Object.entries(response.getHeaders()).filter(([name]) => !others.includes(name));
    store(response.statusCode, headers, body).then(
      () => response.end(body, callbackOf(chunk, encoding, callback)),
      (error) => {
        // Nobody may see an answer that a retry would not get.
        for (const [name] of headers) response.removeHeader(name);
        if (error instanceof LostKey) return refuse(response, 409, "A later request with this key has taken over");
        console.error(error);
        return refuse(response, 503, "The answer cannot be stored");
      },
    );
    return response;
  };
}

function refuse(response, status, title) {
  if (status === 409) response.setHeader("retry-after", "1");
  response.status(status).type("application/problem+json").end(JSON.stringify({ title, status }));
}

module.exports = { idempotency, Store };
