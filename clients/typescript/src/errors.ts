/**
 * The base of the errors that end a request which has a key. Unless the error's text says that nothing was kept, the request stays in the
 * store, and `resumePending()` sends it again or `forget(key)` removes it.
 */
export abstract class IdempotencyError extends Error {
  /** The key of the request. */
  readonly key: string;
  /** How many requests were sent, polls included. */
  readonly attempts: number;

  constructor(name: string, message: string, key: string, attempts: number, cause?: unknown) {
    super(message, cause === undefined ? undefined : { cause });
    this.name = name;
    this.key = key;
    this.attempts = attempts;
  }
}

/** The budget is used up, and there is no final answer: nobody knows whether the work was done. `cause` is the last failure, if there was one. */
export class NoAnswer extends IdempotencyError {
  /** The status of the last answer, which was not final; `null` if the last attempt had no answer. */
  readonly lastStatus: number | null;

  constructor(key: string, attempts: number, why: string, lastStatus: number | null, cause?: unknown) {
    const last = lastStatus === null ? describe(cause) : `status ${lastStatus}`;
    super(
      "NoAnswer",
      `No final answer under the key ${key}: ${why}, and the last attempt had ${last}. ${KEPT}`,
      key,
      attempts,
      cause,
    );
    this.lastStatus = lastStatus;
  }
}

/**
 * The request was kept longer than `expiresAfter` ago, or by a clock that was more than 5 minutes ahead. It was not sent, because the API may have
 * forgotten its result and would run it again.
 */
export class Expired extends IdempotencyError {
  constructor(key: string, attempts: number, createdAt: number, expiresAfter: number) {
    const kept = new Date(createdAt).toISOString();
    const message =
      `The request under the key ${key} was kept at ${kept}, more than ${expiresAfter} ms ago or in the future, and the API may have ` +
      "forgotten the key: it was not sent again. Find out whether the work was done, and call forget(key).";
    super("Expired", message, key, attempts);
  }
}

/** The caller's signal ended the request. Its `name` is `AbortError` as with fetch, and `cause` is the reason of the signal. */
export class Aborted extends IdempotencyError {
  constructor(key: string, attempts: number, reason: unknown, kept: boolean) {
    const message = kept
      ? `The request under the key ${key} was aborted. ${KEPT}`
      : "The request was aborted. Nothing was kept or sent.";
    super("AbortError", message, key, attempts, reason);
  }
}

/**
 * The store failed before the request was sent. Nothing was sent. `cause` is the store's error. What the store had written is removed; if that
 * failed, too, the message says that the request may be kept.
 */
export class StoreFailed extends IdempotencyError {
  constructor(key: string, cause: unknown, mayBeKept = false) {
    const failed = `The store could not keep the request under the key ${key}, so nothing was sent: ${describe(cause)}`;
    const warning = `${failed}. It may be kept all the same: call forget(key), or resumePending() sends it.`;
    super("StoreFailed", mayBeKept ? warning : failed, key, 0, cause);
  }
}

/**
 * The function `credentials` of the options failed, or took longer than `attemptTimeout`. `cause` is its error. If it failed before the first
 * attempt of a new request, nothing was kept or sent, and the message says so.
 */
export class CredentialsFailed extends IdempotencyError {
  constructor(key: string, attempts: number, cause: unknown, kept: boolean) {
    const end = kept ? KEPT : "Nothing was kept or sent.";
    super("CredentialsFailed", `The function \`credentials\` failed: ${describe(cause)}. ${end}`, key, attempts, cause);
  }
}

/** The store has another request (another method, URL or body) under this key. Nothing was sent. */
export class KeyReused extends IdempotencyError {
  constructor(key: string) {
    const message = `Another request is kept under the key ${key}, so this one was not sent. A new intent needs a new key.`;
    super("KeyReused", message, key, 0);
  }
}

/**
 * The request belongs to another owner than the client, or than the credentials: the user has changed. It was not sent (again). It stays in the
 * store for a client of its owner; if the credentials of a new request were of another owner before its first attempt, nothing was kept.
 */
export class OtherOwner extends IdempotencyError {
  /** Whose request it is. */
  readonly owner: string;

  constructor(key: string, attempts: number, owner: string, other: string, kept: boolean) {
    const end = kept
      ? `It stays in the store: a client of ${owner} sends it, forgetOwner removes it.`
      : "Nothing was kept or sent.";
    super("OtherOwner", `The request under the key ${key} is of ${owner}, and this is ${other}. ${end}`, key, attempts);
    this.owner = owner;
  }
}

/** A record of the store that cannot be read. It stays where it is. */
export class DamagedRecord extends Error {
  /** The owner, if the store knows it without the record: then `forgetOwner(owner)` removes the record. Else remove what is at `location`. */
  readonly owner: string | null;
  /** The key, if the store knows it. */
  readonly key: string | null;
  /** Where the record is: the path of a file, or a name in the medium. */
  readonly location: string;

  constructor(location: string, owner: string | null, key: string | null, why: string) {
    super(`The record ${location} cannot be read: ${why}. It was neither sent nor removed.`);
    this.name = "DamagedRecord";
    this.owner = owner;
    this.key = key;
    this.location = location;
  }
}

const KEPT = "It stays in the store: resumePending() sends it again, forget(key) removes it.";

/** The text of an error and of its cause: the cause of undici's "fetch failed" says what failed. */
export function describe(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  return error.cause instanceof Error ? `${error.message}: ${error.cause.message}` : error.message;
}
