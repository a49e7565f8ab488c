package dev.edgeidempotency

import okhttp3.Call
import okhttp3.OkHttpClient
import okhttp3.Request
import okhttp3.Response
import java.io.IOException
import java.util.concurrent.Executors
import java.util.concurrent.TimeUnit
import java.util.concurrent.atomic.AtomicReference
import java.util.concurrent.atomic.AtomicReferenceArray
import kotlin.math.min

/**
 * An HTTP client that retries safely behind the filter "Edge Idempotency". [create] makes it of an app's own [OkHttpClient].
 *
 * A request with `POST` or `PATCH` gets an `Idempotency-Key`, is kept in the store, and is sent until there is a final answer; the body and
 * the answer are in memory meanwhile. Calls end with an answer of any status, or with an [IdempotencyException]. Requests with other methods
 * pass unchanged. It is safe for several threads.
 */
public class IdempotentClient private constructor(
    /** Who makes the requests of this client. */
    public val owner: String,
    /** The client to send with. Libraries such as Retrofit take it. A client that is derived of it has to keep its event listener. */
    public val http: OkHttpClient,
    /** The store of the requests that have no answer yet. */
    public val store: PendingStore,
    private val interceptor: IdempotencyInterceptor,
    internal val calls: RunningCalls
) : Call.Factory {
    override fun newCall(request: Request): Call = http.newCall(request)

    /**
     * Sends each kept request of this [owner] that this process does not send now, with its key, and waits until all of them have an answer or an
     * error. A request of another owner is not sent, and stays: its error is an [OtherOwnerException]. They are sent at the same time, at most
     * `dispatcher.maxRequests` of them. The interceptors of the app do not run again; credentials come from [IdempotencyOptions.credentials]. An app
     * calls this when it starts, and when it has a network again.
     *
     * An interrupt of the thread ends the waits and attempts. The results that are there are returned, with an [AbortedException] for each request
     * that has no answer, and the thread stays interrupted. A request whose [CredentialsSource] does not end within 10 seconds then has no result.
     *
     * @param listener gets each result as soon as it is there, from any thread; null if there is none. If it throws, it still gets the other
     * results, and its first error is thrown when all of them are there
     * @return all results, and one for each record that cannot be read
     * @throws IOException if the store cannot be read
     */
    @JvmOverloads
    @Throws(IOException::class)
    public fun resumePending(listener: ResumeListener? = null): List<ResumeResult> {
        val damaged = store.damaged().map { ResumeResult(null, null, it) }
        val requests = store.list()
        val failure = AtomicReference<Throwable>()
        for (result in damaged) noting(failure) { listener?.resumed(result) }
        val answered = AtomicReferenceArray<ResumeResult>(requests.size)
        if (requests.isNotEmpty()) {
            resumeAll(requests, failure) { place, result ->
                // The result is noted before the listener may fail.
                answered[place] = result
                listener?.resumed(result)
            }
        }
        failure.get()?.let { throw it }
        return damaged + requests.indices.mapNotNull { answered[it] }
    }

    /** Calls [tell] with each result and the place of its request in the list. */
    private fun resumeAll(requests: List<PendingRequest>, failure: AtomicReference<Throwable>, tell: (Int, ResumeResult) -> Unit) {
        val threads = Executors.newFixedThreadPool(min(requests.size, http.dispatcher.maxRequests)) { task ->
            Thread(task, "idempotency-resume").apply { isDaemon = true }
        }
        val cancellation = Cancellation()
        requests.forEachIndexed { place, request ->
            threads.execute { noting(failure) { resume(request, cancellation)?.let { tell(place, it) } } }
        }
        threads.shutdown()
        try {
            threads.awaitTermination(Long.MAX_VALUE, TimeUnit.NANOSECONDS)
        } catch (_: InterruptedException) {
            cancellation.cancel()
            try {
                // A later call of resumePending() then finds nothing under way. Only credentials can last longer.
                threads.awaitTermination(10, TimeUnit.SECONDS)
            } catch (_: InterruptedException) {
                // The second interrupt asks for the same as the first one.
            }
            Thread.currentThread().interrupt()
        }
    }

    /** Runs [action], and notes its error if it is the first one. */
    private fun noting(failure: AtomicReference<Throwable>, action: () -> Unit) {
        try {
            action()
        } catch (error: Throwable) {
            failure.compareAndSet(null, error)
        }
    }

    /** Returns the requests that are in the store, of all owners, the oldest first; also those that are sent now, and those that have expired. */
    @Throws(IOException::class)
    public fun pending(): List<PendingRequest> = store.list()

    /** Removes the request of this [owner] with this key from the store. A call that sends it now goes on. */
    @Throws(IOException::class)
    public fun forget(key: String) {
        store.remove(owner, key)
    }

    /** Removes all requests of [owner] that can be read from the store, for the log-out. Cancel calls that send them before. */
    @Throws(IOException::class)
    public fun forgetOwner(owner: String) {
        for (request in store.list()) if (request.owner == owner) store.remove(owner, request.key)
    }

    private fun resume(request: PendingRequest, cancellation: Cancellation): ResumeResult? {
        if (request.owner != owner) return ResumeResult(request.key, null, OtherOwnerException(request.key, 0, request.owner, owner, true))
        if (!UnderWay.beginOnly(store, request)) return null
        return try {
            interceptor.resume(request, cancellation)?.let { ResumeResult(request.key, it, null) }
        } catch (error: IOException) {
            ResumeResult(request.key, null, error)
        } catch (error: RuntimeException) {
            // A store over a database may fail with errors of its own. They must not hide the results of the others.
            ResumeResult(request.key, null, IOException(error.message, error))
        } finally {
            UnderWay.end(store, request)
        }
    }

    public companion object {
        /**
         * Makes a client of [base], which stays as it is. The new one has its connections, dispatcher, interceptors, cookies, proxy and TLS
         * settings. Its `callTimeout` limits the whole call, and its `readTimeout`, `writeTimeout` and `authenticator` do not count for requests
         * with a key. An event listener of [base] sees each attempt as one call.
         */
        @JvmStatic
        public fun create(base: OkHttpClient, store: PendingStore, options: IdempotencyOptions): IdempotentClient =
            create(base, store, options, Time())

        internal fun create(base: OkHttpClient, store: PendingStore, options: IdempotencyOptions, time: Time): IdempotentClient {
            val attempts = Attempts(base, options.attemptTimeoutMillis)
            val calls = RunningCalls(options, base.eventListenerFactory)
            val interceptor = IdempotencyInterceptor(store, options, time, calls, Sender(options, time, attempts::send))
            val http = base.newBuilder().addInterceptor(interceptor).eventListenerFactory(calls).build()
            return IdempotentClient(options.owner, http, store, interceptor, calls)
        }
    }
}

/** Gets each result of [IdempotentClient.resumePending] as soon as it is there. */
public fun interface ResumeListener {
    /** Called once for each result, from any thread. */
    public fun resumed(result: ResumeResult)
}

/**
 * What became of one kept request. Either [response] or [error] is null.
 *
 * @property key the request's key; null if its record is damaged
 * @property response the final answer, of any status, with its body in memory
 * @property error an [IdempotencyException], a [DamagedRecordException], or an error of the store
 */
public class ResumeResult internal constructor(public val key: String?, public val response: Response?, public val error: IOException?)
