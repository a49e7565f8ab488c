package dev.edgeidempotency

import java.io.IOException

/**
 * A call of an [IdempotentClient] that ended without an answer. It is an [IOException], because OkHttp gives only those to its callers.
 *
 * @property key the request's `Idempotency-Key`
 * @property attempts how many HTTP requests were sent; one that failed, for example because there was no connection, counts
 */
public sealed class IdempotencyException(message: String, cause: Throwable?, public val key: String, public val attempts: Int) :
    IOException(message, cause)

/**
 * The budget is used up, and nobody knows whether the work was done. The request is still kept: `resumePending()` sends it again.
 *
 * @property lastStatus the status of the last answer that asked for a retry, or null if the last attempt had no answer; then [cause] says why
 */
public class NoAnswerException internal constructor(key: String, attempts: Int, public val lastStatus: Int?, cause: IOException?) :
    IdempotencyException(
        "no answer to the request with the key $key after $attempts attempts (the last one: ${lastStatus ?: cause}); " +
            "it is kept: call resumePending() later, or forget(key)",
        cause,
        key,
        attempts
    )

/**
 * The request was kept so long ago that sending it again would run it again, or by a clock that was more than 5 minutes ahead. It stays in the
 * store until `forget(key)`.
 */
public class ExpiredException internal constructor(key: String, attempts: Int) :
    IdempotencyException(
        "the request with the key $key was kept too long ago to be sent again; find out whether it ran, then call forget(key)",
        null,
        key,
        attempts
    )

/** The caller has cancelled the call, or its thread was interrupted, or `callTimeout` is over. The message says whether the request is kept. */
public class AbortedException internal constructor(key: String, attempts: Int, cause: Throwable?, isKept: Boolean) :
    IdempotencyException("Canceled: the request with the key $key. ${end(isKept)}", cause, key, attempts)

/**
 * The store could not keep the request, so nothing was sent. What the store had written is removed; if that failed, too, the message says that
 * the request may be kept.
 */
public class StoreException internal constructor(key: String, cause: Throwable, mayBeKept: Boolean) :
    IdempotencyException(
        "the store cannot keep the request with the key $key, and it was not sent: $cause" +
            if (mayBeKept) ". It may be kept all the same: call forget(key), or resumePending() sends it" else "",
        cause,
        key,
        0
    )

/**
 * [CredentialsSource] failed, or gave something that cannot be a header. After an [IOException] the client asks again first, unless the request was
 * not kept yet. The message says whether the request is kept.
 */
public class CredentialsException internal constructor(key: String, attempts: Int, cause: Throwable, isKept: Boolean) :
    IdempotencyException("the credentials for the request with the key $key cannot be had: $cause. ${end(isKept)}", cause, key, attempts)

/**
 * The request belongs to another owner than the client, or than the credentials: the user has changed. It was not sent (again). It stays in the
 * store for a client of its owner, unless the credentials were of another owner before the first attempt. The message says whether it is kept.
 *
 * @property owner whose request it is
 */
public class OtherOwnerException internal constructor(key: String, attempts: Int, public val owner: String, other: String, isKept: Boolean) :
    IdempotencyException(
        "the request with the key $key is of $owner, and this is $other. " +
            if (isKept) "It is kept: a client of $owner sends it, forgetOwner removes it" else "This call has kept and sent nothing",
        null,
        key,
        attempts
    )

private fun end(isKept: Boolean): String =
    if (isKept) "It is kept: call resumePending() later, or forget(key)" else "This call has kept and sent nothing"

/** The request cannot be sent as it is, and the message says why. Nothing was sent. */
public class InvalidRequestException internal constructor(message: String, key: String) : IdempotencyException(message, null, key, 0)

/**
 * A record of the store cannot be read. It stays where it is.
 *
 * @property record the name of the record, in a [FileStore] the path of the file; empty if the bytes have no name
 */
public class DamagedRecordException internal constructor(public val record: String, problem: String) :
    IOException("the record ${if (record.isEmpty()) "" else "$record "}is damaged: $problem")
