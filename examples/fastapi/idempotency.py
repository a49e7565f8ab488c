"""Runs each `Idempotency-Key` once, and gives a retry the stored answer: a middleware for FastAPI, Starlette and other ASGI applications.

    app.add_middleware(Idempotency, store=Store("results.db", lease=60, retention=86_400))

Add it before (that is, inside) middlewares that refuse callers, compress, keep sessions or add CORS headers: what they do is not stored,
and they do it for a replay, too. The answers are in a table of SQLite, which several processes of one machine can share. For PostgreSQL
three things differ: `NOW`, the type of `body` (`bytea`), and the driver's connections and placeholders (psycopg: a pool and `%s`).
"""

import asyncio
import hashlib
import json
import logging
import sqlite3
import uuid
from contextlib import closing

# The database's clock decides about leases, so that the clocks of several machines need not agree.
NOW = "(julianday('now') - 2440587.5) * 86400"  # PostgreSQL: extract(epoch from clock_timestamp())

TABLE = """
CREATE TABLE IF NOT EXISTS idempotency_results (
    operation  varchar(1024) NOT NULL,     -- method and path
    key        varchar(640) NOT NULL,      -- with the caller's namespace, whole (MySQL: COLLATE utf8mb4_bin)
    fingerprint varchar(64) NOT NULL,      -- of the request, from the gateway ("collision": "forward"); without one nothing is compared
    owner      char(32) NOT NULL,          -- the attempt that claimed the key last
    expires_at double precision NOT NULL,  -- the end of the attempt's lease, and with an answer the end of its retention
    status     integer,                    -- NULL while there is no answer
    headers    text,
    body       blob,                       -- PostgreSQL: bytea
    PRIMARY KEY (operation, key)
)"""

# Inserts the claim, or takes over one whose lease has ended, or an answer whose retention has ended. One statement, so that of
# several attempts at once one gets the key: it changes one row, and the others change none.
CLAIM = f"""
INSERT INTO idempotency_results (operation, key, fingerprint, owner, expires_at) VALUES (?, ?, ?, ?, {NOW} + ?)
ON CONFLICT (operation, key) DO UPDATE
SET fingerprint = excluded.fingerprint, owner = excluded.owner, expires_at = excluded.expires_at, status = NULL, headers = NULL, body = NULL
WHERE idempotency_results.expires_at <= {NOW}"""
FIND = "SELECT fingerprint, status, headers, body FROM idempotency_results WHERE operation = ? AND key = ?"
# Only the owner stores its answer: an attempt that was slower than its lease has lost the key to a later one.
KEEP = f"""
UPDATE idempotency_results SET status = ?, headers = ?, body = ?, expires_at = {NOW} + ?
WHERE operation = ? AND key = ? AND owner = ?"""
FREE = "DELETE FROM idempotency_results WHERE operation = ? AND key = ? AND owner = ? AND status IS NULL"
DELETE_EXPIRED = f"DELETE FROM idempotency_results WHERE expires_at <= {NOW}"

# An answer with one of these statuses is not stored. After 401 and 403 a caller gets a right or a new token and sends the same key again.
# After 408, 425, 429 and 5xx it expects that the work is tried again; nobody knows how far it came, so the handler's own steps have to be
# safe to repeat (`operation_key`).
NOT_FINAL = {401, 403, 408, 425, 429}
# Headers of one answer or one connection. A stored `set-cookie` would be a credential in the table, and a replay would put an old session
# in the place of a newer one. A caller that lost the first answer gets its cookie from the next request that sets one.
NOT_STORED = {b"connection", b"date", b"keep-alive", b"server", b"set-cookie", b"transfer-encoding"}
# Extensions in which a body comes as the path of a file, or as something else that is not in its messages.
BODY_EXTENSIONS = {"http.response.pathsend", "http.response.trailers", "http.response.zerocopysend"}

log = logging.getLogger(__name__)


def problem(status, code, title, retry, detail):
    """A problem document (RFC 9457), with the members that those of the gateway have. `retry` is the advice for programs."""
    return {"type": "about:blank", "title": title, "status": status, "detail": detail, "code": code, "retry": retry}


KEY_TOO_LONG = problem(400, "idempotency_key_invalid", "Idempotency key invalid", "new_key", "The key is longer than 640 bytes.")
PATH_TOO_LONG = problem(400, "request_invalid", "Request invalid", "never", "The path is longer than 1024 bytes.")
KEY_REUSED = problem(
    *(422, "idempotency_key_reused", "Idempotency key reused", "new_key"),
    "The key was used with another request. Send a new key for a new operation, and repeat a request unchanged.",
)
IN_FLIGHT = problem(
    *(409, "idempotency_key_in_flight", "Idempotency key in flight", "wait"),
    "A request with this key is still being processed. Send the same request with the same key again later to get its result.",
)
STORE_DOWN = problem(
    *(503, "dependency_unavailable", "Temporarily unavailable", "same_key"),
    "The key could not be checked right now. This request was not carried out; send the same request with the same key again later.",
)
NOT_KEPT = problem(
    *(503, "dependency_unavailable", "Temporarily unavailable", "same_key"),
    "The request was carried out, and its answer could not be stored. Send the same request with the same key again later.",
)


class Store:
    """The table. `lease` and `retention` are seconds; the lease is longer than the longest request runs."""

    def __init__(self, path, lease, retention):
        self.path, self.lease, self.retention = path, lease, retention
        self._run("PRAGMA journal_mode = WAL")
        self._run(TABLE)

    def _run(self, statement, *values):
        with closing(sqlite3.connect(self.path, timeout=10, isolation_level=None)) as connection:
            cursor = connection.execute(statement, values)
            return cursor.fetchone() if statement == FIND else cursor.rowcount

    def claim(self, operation, key, fingerprint, owner):
        return self._run(CLAIM, operation, key, fingerprint, owner, self.lease) == 1

    def find(self, operation, key):
        return self._run(FIND, operation, key)

    def keep(self, operation, key, owner, status, headers, body):
        return self._run(KEEP, status, headers, body, self.retention, operation, key, owner) == 1

    def free(self, operation, key, owner):
        self._run(FREE, operation, key, owner)

    def delete_expired(self):
        """Run it every hour or so. Correctness does not depend on it."""
        return self._run(DELETE_EXPIRED)


class Idempotency:
    def __init__(self, app, store):
        self.app, self.store = app, store

    async def __call__(self, scope, receive, send):
        headers = dict(scope.get("headers", ()))
        key, fingerprint = (
            headers.get(name, b"").decode("latin-1") for name in (b"idempotency-key", b"idempotency-fingerprint")
        )
        # A request without a key runs every time; whether a key is needed is the gateway's policy.
        if scope["type"] != "http" or not key:
            return await self.app(scope, receive, send)
        operation = f"{scope['method']} {scope['path']}"
        if len(key) > 640:
            return await refuse(send, KEY_TOO_LONG)
        if len(operation) > 1024:
            return await refuse(send, PATH_TOO_LONG)
        owner = uuid.uuid4().hex
        try:
            stored = None
            if not await asyncio.to_thread(self.store.claim, operation, key, fingerprint, owner):
                stored = await asyncio.to_thread(self.store.find, operation, key) or ("", None, None, None)
        except Exception:
            log.exception("The store cannot be asked")
            return await refuse(send, STORE_DOWN)
        if stored is not None:
            first, status, headers, body = stored
            if first and fingerprint and first != fingerprint:
                return await refuse(send, KEY_REUSED)
            if status is None:
                return await refuse(send, IN_FLIGHT)
            headers = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in json.loads(headers)]
            return await answer(send, scope["method"], status, [*headers, (b"idempotent-replayed", b"true")], body)

        start, parts, answered = {}, [], False

        async def free():
            try:
                await asyncio.to_thread(self.store.free, operation, key, owner)
            except Exception:
                log.exception("The key cannot be freed: its claim ends with its lease")

        async def hold(message):
            """Stores the answer before any of it is sent: what a caller has seen, a retry gets."""
            nonlocal answered
            if message["type"] == "http.response.start":
                parts.clear()
                return start.update(message)
            # Others are not the answer: early hints, for one.
            if message["type"] != "http.response.body":
                return await send(message)
            # The first end counts: what comes later would not be what is stored.
            if answered:
                return
            parts.append(bytes(message.get("body", b"")))
            if message.get("more_body"):
                return
            answered = True
            status, headers, body = start["status"], list(start.get("headers", ())), b"".join(parts)
            if status >= 500 or status in NOT_FINAL:
                await free()
            else:
                lines = [(n.decode("latin-1"), v.decode("latin-1")) for n, v in headers if n.lower() not in NOT_STORED]
                try:
                    is_kept = await asyncio.to_thread(
                        self.store.keep, operation, key, owner, status, json.dumps(lines), body
                    )
                except Exception:
                    log.exception("The answer cannot be stored")
                    return await refuse(send, NOT_KEPT)
                if not is_kept:
                    # A later attempt has claimed the key since this one's lease ended.
                    return await refuse(send, IN_FLIGHT)
            await answer(send, scope["method"], status, headers, body)

        # The same in every attempt. The handler passes it to services that it calls, and puts it into a unique column of rows that
        # it inserts, so that an attempt that runs again after a crash or a 5xx does nothing twice.
        operation_key = hashlib.sha256(f"{operation}\n{key}".encode()).hexdigest()
        # The scope stays the same object: middlewares around this one read in it what the handler has written.
        scope.setdefault("state", {})["operation_key"] = operation_key
        extensions = scope.get("extensions") or {}
        scope["extensions"] = {name: extensions[name] for name in extensions if name not in BODY_EXTENSIONS}
        try:
            await self.app(scope, receive, hold)
        except Exception:
            # If the process dies, or the request is cancelled, the claim ends with its lease instead.
            await free()
            raise
        finally:
            scope["extensions"] = extensions
        if not answered:
            # The handler has returned, so that nothing is at work any more: the caller went away, and the answer was broken off.
            await free()


async def answer(send, method, status, headers, body):
    # Without a body of its own an answer has no length of one.
    has_length = any(name.lower() in (b"content-length", b"transfer-encoding") for name, _ in headers)
    if method != "HEAD" and status not in (204, 304) and not has_length:
        headers = [*headers, (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def refuse(send, document):
    headers = [(b"content-type", b"application/problem+json"), (b"content-language", b"en"), (b"cache-control", b"no-store")]
    if document["retry"] in ("wait", "same_key"):
        headers.append((b"retry-after", b"1" if document["retry"] == "wait" else b"5"))
    await answer(send, "", document["status"], headers, json.dumps(document).encode())
