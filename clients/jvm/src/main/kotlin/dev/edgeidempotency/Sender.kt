package dev.edgeidempotency

import okhttp3.Headers
import okhttp3.HttpUrl
import okhttp3.Request
import java.io.IOException
import java.util.concurrent.TimeUnit
import kotlin.math.max
import kotlin.random.Random

/** The clocks and the random source. The tests have others. */
internal open class Time {
    /** Milliseconds since the epoch. */
    open fun wall(): Long = System.currentTimeMillis()

    /** Milliseconds since any moment; nobody can set this clock. */
    open fun elapsed(): Long = TimeUnit.NANOSECONDS.toMillis(System.nanoTime())

    /** Waits, or returns early after the cancellation. */
    open fun await(cancellation: Cancellation, millis: Long) {
        cancellation.await(millis)
    }

    /** A value of at least 0 and below 1. */
    open fun random(): Double = Random.nextDouble()
}

/** A final answer, and the number of the HTTP requests that it took. */
internal class Sent(val answer: Answer, val attempts: Int)

/** The credentials cannot be had now. */
private class NoCredentialsNow(override val cause: IOException) : Exception(cause)

/** Sends the requests of one client, each of them until it has its final answer. */
internal class Sender(private val options: IdempotencyOptions, private val time: Time, private val attempt: (Request, Cancellation) -> Answer) {
    private val schedule = Schedule(options, time::random)

    /**
     * Sends [request] until there is a final answer. [headers] are those of the attempts; they may have credentials. [keep] is called before
     * the first attempt, and returns the request that is kept; it is null if [request] is kept already.
     *
     * @throws IdempotencyException if there is none
     */
    fun send(request: PendingRequest, url: HttpUrl, headers: Headers, cancellation: Cancellation, keep: (() -> PendingRequest)? = null): Sent =
        Sending(request, url, headers, cancellation, keep).run()

    private inner class Sending(
        private var request: PendingRequest,
        private val url: HttpUrl,
        private val headers: Headers,
        private val cancellation: Cancellation,
        private val keep: (() -> PendingRequest)?
    ) {
        private var start = time.elapsed()
        private var isKept = keep == null
        private var attempts = 0
        private var retries = 0
        private var lastStatus: Int? = null
        private var location: HttpUrl? = null
        private var credentials = emptyMap<String, String>()
        private var mayRenew = true
        private var renewed = false

        fun run(): Sent {
            while (true) {
                refuseToGoOn()
                if (!hasCredentials()) continue
                if (keep != null && !isKept) {
                    request = keep.invoke()
                    isKept = true
                }
                // Credentials and the store may have taken their time.
                refuseToGoOn()
                if (attempts == 0) start = time.elapsed()
                if (!schedule.allows(attempts, time.elapsed() - start)) throw NoAnswerException(request.key, attempts, lastStatus, null)
                attempts++
                val answer = try {
                    attempt(next(), cancellation)
                } catch (error: IOException) {
                    if (aborted()) throw aborted(error)
                    waitAfter(null, error)
                    continue
                }
                if (isFinal(answer)) return Sent(answer, attempts)
            }
        }

        /** Asks for credentials, unless they were renewed just now. False if they cannot be had now; then it has waited. */
        private fun hasCredentials(): Boolean {
            if (!renewed) {
                try {
                    credentials = askCredentials(false)
                } catch (error: NoCredentialsNow) {
                    if (aborted()) throw aborted(error.cause)
                    if (!isKept) throw CredentialsException(request.key, attempts, error.cause, false)
                    waitAfter(null, error.cause)
                    return false
                }
            }
            renewed = false
            return true
        }

        private fun isFinal(answer: Answer): Boolean {
            val step = AnswerTable.read(answer.response.code, answer.response.headers, url, location, mayRenew)
            when (step) {
                is Step.Final -> return true
                is Step.Again -> Unit
                is Step.Ask -> location = step.location
                is Step.SendRequest -> location = null
                is Step.Renew -> return !renew(answer)
            }
            waitAfter(answer, null)
            return false
        }

        /** True if the credentials have changed after the 401 [answer]. */
        private fun renew(answer: Answer): Boolean {
            mayRenew = false
            if (aborted()) throw aborted(null)
            val before = credentials
            try {
                credentials = askCredentials(true)
            } catch (error: NoCredentialsNow) {
                if (aborted()) throw aborted(error.cause)
                // The token service has no answer now, which says nothing about the token.
                mayRenew = true
                waitAfter(null, error.cause)
                return true
            }
            if (credentials == before) return false
            if (!schedule.allows(attempts, time.elapsed() - start)) throw NoAnswerException(request.key, attempts, answer.response.code, null)
            renewed = true
            return true
        }

        private fun askCredentials(renew: Boolean): Map<String, String> {
            val (owner, headers) = try {
                val given = options.credentials.get(location ?: url, renew)
                given.owner to given.headers.toMap().onEach { (name, value) -> checkHeader(name, value) }
            } catch (error: IOException) {
                throw NoCredentialsNow(error)
            } catch (error: RuntimeException) {
                throw CredentialsException(request.key, attempts, error, isKept)
            }
            if (owner != request.owner) throw OtherOwnerException(request.key, attempts, request.owner, owner, isKept)
            return headers
        }

        /** OkHttp would refuse the header when the request is made, with an error that may show the secret. */
        private fun checkHeader(name: String, value: String) {
            try {
                Headers.Builder().add(name, value)
            } catch (_: IllegalArgumentException) {
                throw IllegalArgumentException(
                    "the name or value of the header $name has a character that a header cannot have, such as a line break"
                )
            }
        }

        private fun next(): Request {
            val asked = location
            val next = Request.Builder().url(asked ?: url).headers(headers)
            // These are about the request itself: a GET has no body, and what it asks for is not what the request changes.
            if (asked != null) headers.names().filter { OF_THE_REQUEST.matches(it) }.forEach { next.removeHeader(it) }
            for ((name, value) in credentials) next.header(name, value)
            if (asked == null) {
                next.method(request.method, OnceBody(request.body)).header(IDEMPOTENCY_KEY, request.key)
            } else {
                // Operations with GET take no key.
                next.removeHeader(IDEMPOTENCY_KEY)
            }
            if (options.attemptHeader) next.header(RETRY_ATTEMPT, attempts.toString())
            return next.build()
        }

        private fun refuseToGoOn() {
            if (aborted()) throw aborted(null)
            // A question at `Location` runs nothing, so it may come late.
            if (location == null && schedule.isExpired(request.keptAtMillis, time.wall())) throw ExpiredException(request.key, attempts)
        }

        private fun waitAfter(answer: Answer?, error: IOException?) {
            lastStatus = answer?.response?.code
            val wait = schedule.wait(retries++, answer?.response?.headers, time.wall())
            // Credentials that fail are no attempts, but they must not be asked for without an end either.
            if (!schedule.allows(max(attempts, retries), time.elapsed() - start + wait)) {
                if (attempts == 0 && error != null) throw CredentialsException(request.key, 0, error, true)
                throw NoAnswerException(request.key, attempts, answer?.response?.code, error)
            }
            try {
                time.await(cancellation, wait)
            } catch (_: InterruptedException) {
                Thread.currentThread().interrupt()
            }
        }

        private fun aborted(): Boolean = cancellation.isCancelled || Thread.currentThread().isInterrupted

        private fun aborted(cause: IOException?) = AbortedException(request.key, attempts, cause, isKept)
    }

    private companion object {
        val OF_THE_REQUEST = Regex("content-.*|if-.*|range|expect", RegexOption.IGNORE_CASE)
    }
}
