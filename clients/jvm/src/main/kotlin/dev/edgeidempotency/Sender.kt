package dev.edgeidempotency

import okhttp3.Headers
import okhttp3.HttpUrl
import okhttp3.Request
import java.io.IOException
import java.util.concurrent.TimeUnit
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

/** Sends the requests of one client, each of them until it has its final answer. It does not touch the store. */
internal class Sender(private val options: IdempotencyOptions, private val time: Time, private val attempt: (Request, Cancellation) -> Answer) {
    private val schedule = Schedule(options, time::random)

    /**
     * Sends [request] until there is a final answer. [headers] are those of the attempts; they may have credentials.
     *
     * @throws IdempotencyException if there is none
     */
    fun send(request: PendingRequest, url: HttpUrl, headers: Headers, cancellation: Cancellation): Sent =
        Sending(request, url, headers, cancellation).run()

    private inner class Sending(
        private val request: PendingRequest,
        private val url: HttpUrl,
        private val headers: Headers,
        private val cancellation: Cancellation
    ) {
        private val start = time.elapsed()
        private var attempts = 0
        private var retries = 0
        private var location: HttpUrl? = null
        private var credentials = emptyMap<String, String>()
        private var mayRenew = options.credentials != null
        private var renewed = false

        fun run(): Sent {
            while (true) {
                refuseToGoOn()
                val answer: Answer
                try {
                    attempts++
                    if (!renewed) credentials = askCredentials(false)
                    renewed = false
                    answer = attempt(next(), cancellation)
                } catch (error: IdempotencyException) {
                    throw error
                } catch (error: IOException) {
                    if (aborted()) throw AbortedException(request.key, attempts, error)
                    waitAfter(null, error)
                    continue
                }
                if (isFinal(answer)) return Sent(answer, attempts)
            }
        }

        private fun isFinal(answer: Answer): Boolean {
            val step = AnswerTable.read(answer.response.code, answer.response.headers, url, location != null, mayRenew)
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
            if (aborted()) throw AbortedException(request.key, attempts, null)
            val before = credentials
            try {
                credentials = askCredentials(true)
            } catch (error: IdempotencyException) {
                throw error
            } catch (error: IOException) {
                // The token service has no answer now, which says nothing about the token.
                mayRenew = true
                waitAfter(null, error)
                return true
            }
            if (credentials == before) return false
            if (!schedule.allows(attempts, time.elapsed() - start)) throw NoAnswerException(request.key, attempts, answer.response.code, null)
            renewed = true
            return true
        }

        private fun askCredentials(renew: Boolean): Map<String, String> = try {
            options.credentials?.headers(location ?: url, renew)?.toMap() ?: emptyMap()
        } catch (error: IOException) {
            throw error
        } catch (error: RuntimeException) {
            throw CredentialsException(request.key, attempts, error)
        }

        private fun next(): Request {
            val asked = location
            val next = Request.Builder().url(asked ?: url).headers(headers)
            if (asked == null) {
                next.method(request.method, OnceBody(request.body)).header(IDEMPOTENCY_KEY, request.key)
            } else {
                // A GET has no body, and operations with GET take no key.
                for (name in headers.names()) if (name.startsWith("Content-", ignoreCase = true)) next.removeHeader(name)
                next.removeHeader(IDEMPOTENCY_KEY)
            }
            for ((name, value) in credentials) next.header(name, value)
            if (options.attemptHeader) next.header(RETRY_ATTEMPT, attempts.toString())
            return next.build()
        }

        private fun refuseToGoOn() {
            if (aborted()) throw AbortedException(request.key, attempts, null)
            // A question at `Location` runs nothing, so it may come late.
            if (location == null && schedule.isExpired(request.keptAtMillis, time.wall())) throw ExpiredException(request.key, attempts)
        }

        private fun waitAfter(answer: Answer?, error: IOException?) {
            val wait = schedule.wait(retries++, answer?.response?.headers, time.wall())
            if (!schedule.allows(attempts, time.elapsed() - start + wait)) {
                throw NoAnswerException(request.key, attempts, answer?.response?.code, error)
            }
            try {
                time.await(cancellation, wait)
            } catch (_: InterruptedException) {
                Thread.currentThread().interrupt()
            }
        }

        private fun aborted(): Boolean = cancellation.isCancelled || Thread.currentThread().isInterrupted
    }
}
