package dev.edgeidempotency

import okhttp3.Headers
import kotlin.math.min

/** When the next attempt begins. All times are milliseconds. [random] gives values of at least 0 and below 1. */
internal class Schedule(private val options: IdempotencyOptions, private val random: () -> Double) {
    /**
     * The wait before the next attempt: as long as `Retry-After` says, plus a random time (full jitter). [retries] is the number of waits
     * before this one. [headers] are those of the last answer, if there was one, and [now] is the time since the epoch.
     */
    fun wait(retries: Int, headers: Headers?, now: Long): Long {
        val longest = min(options.capMillis.toDouble(), options.baseMillis * Math.pow(2.0, retries.toDouble()))
        return retryAfter(headers, now) + (random() * longest).toLong()
    }

    /** True if an attempt may begin [elapsed] after the first one, when [attempts] of them have begun. */
    fun allows(attempts: Int, elapsed: Long): Boolean = attempts < options.attempts && elapsed <= options.budgetMillis

    /**
     * True if a request that was kept at [keptAt] must not be sent any more. That is also so if [keptAt] lies clearly in the future: then the
     * clock was changed, and nobody knows the request's age.
     */
    fun isExpired(keptAt: Long, now: Long): Boolean = now - keptAt > options.expiresAfterMillis || keptAt - now > CLOCK_STEP

    private fun retryAfter(headers: Headers?, now: Long): Long {
        val value = headers?.get(RETRY_AFTER)?.trim() ?: return 0
        val millis = when {
            value.isEmpty() -> 0
            // A number that does not fit into a Long is longer than any wait.
            value.all { it in '0'..'9' } -> value.toLongOrNull()?.takeIf { it < Long.MAX_VALUE / 1000 }?.times(1000) ?: Long.MAX_VALUE
            else -> headers.getDate(RETRY_AFTER)?.let { it.time - now } ?: 0
        }
        return millis.coerceIn(0, options.maxRetryAfterMillis)
    }

    private companion object {
        /** Clocks are set back by small steps; five minutes are more than that. */
        const val CLOCK_STEP = 5 * 60_000L
    }
}
