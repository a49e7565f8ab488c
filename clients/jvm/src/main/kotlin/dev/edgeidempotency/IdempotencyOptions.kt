package dev.edgeidempotency

import okhttp3.Request
import java.util.Locale
import java.util.concurrent.TimeUnit

/** Settings of an [IdempotentClient]; [Builder] makes them, and has the default of each. Times are milliseconds. */
public class IdempotencyOptions private constructor(builder: Builder) {
    /** Who makes the requests of the client. It is kept with each request, and the client sends requests of this owner only. */
    public val owner: String = builder.owner

    /** Gives the credentials of who is logged in now. */
    public val credentials: CredentialsSource = builder.credentials

    /** The methods whose requests get a key, in capitals. Requests with other methods pass unchanged, unless they have a key already. */
    public val methods: Set<String> = builder.methods

    /** The largest number of HTTP requests for one intent. */
    public val attempts: Int = builder.attempts

    /** No attempt begins later than this after the first one. */
    public val budgetMillis: Long = builder.budgetMillis

    /** The longest time of one attempt, from its start to the last byte of the answer. */
    public val attemptTimeoutMillis: Long = builder.attemptTimeoutMillis

    /** The longest random wait before the first retry; it doubles with each retry. */
    public val baseMillis: Long = builder.baseMillis

    /** The upper bound of the random wait. */
    public val capMillis: Long = builder.capMillis

    /** A longer `Retry-After` counts as this. */
    public val maxRetryAfterMillis: Long = builder.maxRetryAfterMillis

    /** A request that was kept longer ago is not sent any more. */
    public val expiresAfterMillis: Long = builder.expiresAfterMillis

    /** Headers that are never kept, in small letters, besides `Authorization`, `Cookie` and `Proxy-Authorization`. */
    public val secretHeaders: Set<String> = builder.secretHeaders

    /** True if each attempt has its number in `X-Retry-Attempt`. */
    public val attemptHeader: Boolean = builder.attemptHeader

    /** True if the request gets a key, or has one and may have a body. */
    internal fun takes(request: Request): Boolean =
        request.method in methods || (request.header(IDEMPOTENCY_KEY) != null && request.method != "GET" && request.method != "HEAD")

    /**
     * Makes [IdempotencyOptions]. Each setter throws `IllegalArgumentException` for a value out of its bounds.
     *
     * @param owner who makes the requests of the client: all by which the API tells its callers apart, such as tenant, project and subject
     * @param credentials gives the credentials of who is logged in now, and says who that is
     */
    public class Builder(internal val owner: String, internal var credentials: CredentialsSource) {
        init {
            requireOwner(owner)
        }

        internal var methods = setOf("POST", "PATCH")
        internal var attempts = 10
        internal var budgetMillis = TimeUnit.MINUTES.toMillis(10)
        internal var attemptTimeoutMillis = TimeUnit.SECONDS.toMillis(30)
        internal var baseMillis = 500L
        internal var capMillis = TimeUnit.SECONDS.toMillis(30)
        internal var maxRetryAfterMillis = TimeUnit.SECONDS.toMillis(60)
        internal var expiresAfterMillis = TimeUnit.HOURS.toMillis(23)
        internal var secretHeaders = emptySet<String>()
        internal var attemptHeader = true

        /** The methods whose requests get a key; POST and PATCH by default. `GET` and `HEAD` are not possible, because they have no body. */
        public fun methods(vararg methods: String): Builder = apply {
            this.methods = methods.map { it.uppercase(Locale.ROOT) }.toSet()
            require("GET" !in this.methods && "HEAD" !in this.methods) { "methods: GET and HEAD take no idempotency key" }
        }

        /** The largest number of HTTP requests for one intent, 1 or more; 10 by default. Questions at `Location` count. */
        public fun attempts(attempts: Int): Builder = apply {
            require(attempts >= 1) { "attempts has to be 1 or more, and is $attempts" }
            this.attempts = attempts
        }

        /** No attempt begins later than this after the first one; 10 minutes by default. */
        public fun budget(time: Long, unit: TimeUnit): Builder = apply { budgetMillis = millis("budget", time, unit, 0) }

        /** The longest time of one attempt, from its start to the last byte of the answer, 1 ms or more; 30 seconds by default. */
        public fun attemptTimeout(time: Long, unit: TimeUnit): Builder = apply {
            attemptTimeoutMillis = millis("attemptTimeout", time, unit, 1)
            // OkHttp takes the number of milliseconds as an Int.
            require(attemptTimeoutMillis <= Int.MAX_VALUE) { "attemptTimeout has to be at most ${Int.MAX_VALUE} ms" }
        }

        /** The longest random wait before the first retry; 0.5 seconds by default. */
        public fun base(time: Long, unit: TimeUnit): Builder = apply { baseMillis = millis("base", time, unit, 0) }

        /** The upper bound of the random wait; 30 seconds by default. */
        public fun cap(time: Long, unit: TimeUnit): Builder = apply { capMillis = millis("cap", time, unit, 0) }

        /** A longer `Retry-After` counts as this; 60 seconds by default. */
        public fun maxRetryAfter(time: Long, unit: TimeUnit): Builder = apply { maxRetryAfterMillis = millis("maxRetryAfter", time, unit, 0) }

        /** A request that was kept longer ago is not sent any more; 23 hours by default. It has to be less than the API keeps its results. */
        public fun expiresAfter(time: Long, unit: TimeUnit): Builder = apply { expiresAfterMillis = millis("expiresAfter", time, unit, 1) }

        /** More headers that are never kept in the store. They have to come from the credentials when a request is resumed. */
        public fun secretHeaders(vararg names: String): Builder = apply { secretHeaders = names.map { it.lowercase(Locale.ROOT) }.toSet() }

        /** Whether each attempt has its number in `X-Retry-Attempt`; true by default. */
        public fun attemptHeader(send: Boolean): Builder = apply { attemptHeader = send }

        /** Makes the settings. */
        public fun build(): IdempotencyOptions = IdempotencyOptions(this)

        private fun millis(name: String, time: Long, unit: TimeUnit, least: Long): Long {
            val millis = unit.toMillis(time)
            require(millis >= least) { "$name has to be $least ms or more, and is $millis ms" }
            return millis
        }
    }
}
