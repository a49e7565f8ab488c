package dev.edgeidempotency

import okhttp3.Headers
import okhttp3.HttpUrl
import java.util.Locale

/** What an answer asks the client to do. */
internal sealed class Step {
    /** The caller gets the answer. */
    object Final : Step()

    /** The client sends the same thing again after a wait: the request, or the question at `Location`. */
    object Again : Step()

    /** The client asks at [location] with `GET` after a wait. */
    class Ask(val location: HttpUrl) : Step()

    /** The operation at `Location` has gone, so the client sends the request itself again after a wait. */
    object SendRequest : Step()

    /** The client sends the same thing again at once, if the credentials have changed; else the answer is final. */
    object Renew : Step()
}

/** The table "What an answer means" of clients/README.md. The first row that fits counts. */
internal object AnswerTable {
    private val SENT_AGAIN = setOf(429, 502, 503, 504)

    /** The request came before, and its result is elsewhere. */
    private val CAME_BEFORE = setOf("completed", "failed", "accepted")

    /**
     * [url] is the URL of the request itself, and [location] is the one that was asked in its place, or null. [mayRenew] is false when there
     * are no credentials, or when they were renewed before.
     */
    fun read(status: Int, headers: Headers, url: HttpUrl, location: HttpUrl?, mayRenew: Boolean): Step {
        val state = headers.word(IDEMPOTENCY_STATUS)
        val advice = headers.word(IDEMPOTENCY_RETRY)
        return when {
            location != null && status == 404 && !isKept(headers) -> Step.SendRequest
            status == 202 && state == "processing" -> sameOrigin(headers[LOCATION], url, location ?: url)?.let { Step.Ask(it) } ?: Step.Again
            status == 202 && state in CAME_BEFORE -> sameOrigin(headers[LOCATION], url, location ?: url)?.let { Step.Ask(it) } ?: Step.Final
            advice == "same_key" || advice == "wait" -> Step.Again
            advice != null -> Step.Final
            status == 401 && mayRenew -> Step.Renew
            isKept(headers) -> Step.Final
            (status == 409 || status == 425) && headers[RETRY_AFTER] != null -> Step.Again
            status in SENT_AGAIN -> Step.Again
            else -> Step.Final
        }
    }

    /** True if the answer is the kept result of an earlier request with this key. */
    fun isReplay(headers: Headers): Boolean = headers.word(IDEMPOTENCY_STATUS) == "replayed" || headers.word("Idempotent-Replayed") == "true"

    private fun isKept(headers: Headers): Boolean = headers.word(IDEMPOTENCY_STATUS) == "stored" || isReplay(headers)

    /** A relative [location] is relative to the URL that was [asked]. */
    private fun sameOrigin(location: String?, url: HttpUrl, asked: HttpUrl): HttpUrl? = location?.let { asked.resolve(it) }
        ?.takeIf { it.scheme == url.scheme && it.host == url.host && it.port == url.port }

    private fun Headers.word(name: String): String? = this[name]?.trim()?.lowercase(Locale.ROOT)?.ifEmpty { null }
}

internal const val IDEMPOTENCY_KEY = "Idempotency-Key"
internal const val IDEMPOTENCY_STATUS = "Idempotency-Status"
internal const val IDEMPOTENCY_RETRY = "Idempotency-Retry"
internal const val RETRY_AFTER = "Retry-After"
internal const val RETRY_ATTEMPT = "X-Retry-Attempt"
internal const val LOCATION = "Location"
