package dev.edgeidempotency

import java.io.IOException

/**
 * A call of an [IdempotentClient] that ended without an answer. It is an [IOException], because OkHttp gives only those to its callers.
 *
 * @property key the request's `Idempotency-Key`
 * @property attempts how many HTTP requests were sent, or were about to be sent when they failed
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

/** The request was kept so long ago that sending it again would run it again. It stays in the store until `forget(key)`. */
public class ExpiredException internal constructor(key: String, attempts: Int) :
    IdempotencyException(
        "the request with the key $key was kept too long ago to be sent again; find out whether it ran, then call forget(key)",
        null,
        key,
        attempts
    )

/** The caller has cancelled the call, or its thread was interrupted, or `callTimeout` is over. The request is kept, if it was sent. */
public class AbortedException internal constructor(key: String, attempts: Int, cause: Throwable?) :
    IdempotencyException("Canceled: the request with the key $key", cause, key, attempts)

/** The store could not keep the request, so nothing was sent. */
public class StoreException internal constructor(key: String, cause: Throwable) :
    IdempotencyException("the store cannot keep the request with the key $key, and it was not sent: $cause", cause, key, 0)

/** [Credentials] failed with another error than an [IOException]. The request is kept. */
public class CredentialsException internal constructor(key: String, attempts: Int, cause: Throwable) :
    IdempotencyException("the credentials for the request with the key $key cannot be had: $cause", cause, key, attempts)

/** The request cannot be sent as it is, and the message says why. Nothing was sent. */
public class InvalidRequestException internal constructor(message: String, key: String) : IdempotencyException(message, null, key, 0)

/**
 * A record of the store cannot be read. It stays where it is.
 *
 * @property record the name of the record, in a [FileStore] the path of the file; empty if the bytes have no name
 */
public class DamagedRecordException internal constructor(public val record: String, problem: String) :
    IOException("the record ${if (record.isEmpty()) "" else "$record "}is damaged: $problem")
