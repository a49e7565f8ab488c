package dev.edgeidempotency

import okhttp3.Call
import okhttp3.OkHttpClient
import okhttp3.Request
import okhttp3.Response
import java.io.IOException
import java.io.InterruptedIOException
import java.util.concurrent.Callable
import java.util.concurrent.ExecutorService
import java.util.concurrent.Executors
import java.util.concurrent.TimeUnit
import kotlin.math.min

/**
 * An HTTP client that retries safely behind the filter "Edge Idempotency". [create] makes it of an app's own [OkHttpClient].
 *
 * A request with `POST` or `PATCH` gets an `Idempotency-Key`, is kept in the store, and is sent until there is a final answer; the body and
 * the answer are in memory meanwhile. Calls end with an answer of any status, or with an [IdempotencyException]. Requests with other methods
 * pass unchanged. It is safe for several threads.
 */
public class IdempotentClient private constructor(
    /** The client to send with. Libraries such as Retrofit take it. A client that is derived of it has to keep its event listener. */
    public val http: OkHttpClient,
    /** The store of the requests that have no answer yet. */
    public val store: PendingStore,
    private val interceptor: IdempotencyInterceptor,
    internal val calls: RunningCalls
) : Call.Factory {
    override fun newCall(request: Request): Call = http.newCall(request)

    /**
     * Sends each kept request that this process does not send now, with its key, and waits until all of them have an answer or an error. They
     * are sent at the same time, at most `dispatcher.maxRequests` of them. The interceptors of the app do not run again; credentials come from
     * [IdempotencyOptions.credentials]. An app calls this when it starts, and when it has a network again.
     *
     * @param listener gets each result as soon as it is there, from any thread; null if there is none
     * @return all results, and one for each record that cannot be read
     * @throws InterruptedIOException if the thread is interrupted; what has no answer then stays in the store
     * @throws IOException if the store cannot be read
     */
    @JvmOverloads
    @Throws(IOException::class)
    public fun resumePending(listener: ResumeListener? = null): List<ResumeResult> {
        val damaged = store.damaged().map { ResumeResult(null, null, it).also { result -> listener?.resumed(result) } }
        val requests = store.list()
        if (requests.isEmpty()) return damaged
        val threads = Executors.newFixedThreadPool(min(requests.size, http.dispatcher.maxRequests)) { task ->
            Thread(task, "idempotency-resume").apply { isDaemon = true }
        }
        val cancellation = Cancellation()
        try {
            val tasks = requests.map { request ->
                Callable { resume(request, cancellation)?.also { result -> listener?.resumed(result) } }
            }
            return damaged + threads.invokeAll(tasks).mapNotNull { it.get() }
        } catch (_: InterruptedException) {
            cancellation.cancel()
            end(threads)
            Thread.currentThread().interrupt()
            throw InterruptedIOException("interrupted; what has no answer stays in the store")
        } finally {
            threads.shutdown()
        }
    }

    /** Waits until cancelled tasks have ended, so that a later call of [resumePending] finds nothing under way. Only credentials can last longer. */
    private fun end(threads: ExecutorService) {
        threads.shutdown()
        try {
            threads.awaitTermination(10, TimeUnit.SECONDS)
        } catch (_: InterruptedException) {
            // The second interrupt asks for the same as the first one.
        }
    }

    /** Returns the requests that are in the store, the oldest first; also those that are sent now, and those that have expired. */
    @Throws(IOException::class)
    public fun pending(): List<PendingRequest> = store.list()

    /** Removes the request with this key from the store. A call that sends it now goes on. */
    @Throws(IOException::class)
    public fun forget(key: String) {
        store.remove(key)
    }

    private fun resume(request: PendingRequest, cancellation: Cancellation): ResumeResult? {
        if (!UnderWay.beginOnly(store, request.key)) return null
        return try {
            interceptor.resume(request, cancellation)?.let { ResumeResult(request.key, it, null) }
        } catch (error: IOException) {
            ResumeResult(request.key, null, error)
        } catch (error: RuntimeException) {
            // A store over a database may fail with errors of its own. They must not hide the results of the others.
            ResumeResult(request.key, null, IOException(error.message, error))
        } finally {
            UnderWay.end(store, request.key)
        }
    }

    public companion object {
        /**
         * Makes a client of [base], which stays as it is. The new one has its connections, dispatcher, interceptors, cookies, proxy and TLS
         * settings. Its `callTimeout` limits the whole call, and its `readTimeout`, `writeTimeout` and `authenticator` do not count for requests
         * with a key. An event listener of [base] sees each attempt as one call.
         */
        @JvmStatic
        @JvmOverloads
        public fun create(
            base: OkHttpClient,
            store: PendingStore,
            options: IdempotencyOptions = IdempotencyOptions.Builder().build()
        ): IdempotentClient = create(base, store, options, Time())

        internal fun create(base: OkHttpClient, store: PendingStore, options: IdempotencyOptions, time: Time): IdempotentClient {
            val attempts = Attempts(base, options.attemptTimeoutMillis)
            val calls = RunningCalls(options, base.eventListenerFactory)
            val interceptor = IdempotencyInterceptor(store, options, time, calls, Sender(options, time, attempts::send))
            val http = base.newBuilder().addInterceptor(interceptor).eventListenerFactory(calls).build()
            return IdempotentClient(http, store, interceptor, calls)
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
