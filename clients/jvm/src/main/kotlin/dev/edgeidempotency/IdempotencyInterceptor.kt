package dev.edgeidempotency

import okhttp3.Call
import okhttp3.EventListener
import okhttp3.Headers
import okhttp3.HttpUrl
import okhttp3.HttpUrl.Companion.toHttpUrlOrNull
import okhttp3.Interceptor
import okhttp3.Request
import okhttp3.Response
import okio.Buffer
import java.io.IOException
import java.util.Collections
import java.util.IdentityHashMap
import java.util.UUID

/**
 * The last application interceptor of an [IdempotentClient]. It keeps each request with one of the methods, sends it until it has its final
 * answer, and removes it. All attempts are calls of their own, because OkHttp can end a call, but not one attempt of it.
 */
internal class IdempotencyInterceptor(
    private val store: PendingStore,
    private val options: IdempotencyOptions,
    private val time: Time,
    private val calls: RunningCalls,
    private val sender: Sender
) : Interceptor {
    override fun intercept(chain: Interceptor.Chain): Response {
        val request = chain.request()
        if (!options.takes(request)) return chain.proceed(request)
        val call = calls.find(chain.call())
        val captured = capture(request)
        val intent = call?.sameIntent(captured, request.header(IDEMPOTENCY_KEY) != null) ?: captured
        if (call == null) {
            throw InvalidRequestException(
                "the call cannot be cancelled: set an eventListener on the client that is given to IdempotentClient.create, and do not change " +
                    "the method of a request to ${request.method} in an interceptor",
                intent.key
            )
        }
        if (call.cancellation.isCancelled) throw AbortedException(intent.key, 0, null, false)
        UnderWay.begin(store, intent)
        try {
            // The caller's headers may have credentials, which the kept request does not have.
            return send(intent, request.url, attemptHeaders(request), request, call.cancellation) { keep(intent) }
        } finally {
            UnderWay.end(store, intent)
        }
    }

    /**
     * Sends a kept request, which nothing else sends, and returns its final answer; null if the store has it no more.
     *
     * @throws IOException as a call of the client does
     */
    fun resume(listed: PendingRequest, cancellation: Cancellation): Response? {
        val request = store.get(listed.owner, listed.key) ?: return null
        val url = request.url.toHttpUrlOrNull() ?: throw InvalidRequestException("the kept URL is not valid: ${request.url}", request.key)
        val described = Request.Builder().url(url).headers(request.headers).method(request.method, OnceBody(request.body))
            .header(IDEMPOTENCY_KEY, request.key).build()
        return send(request, url, request.headers, described, cancellation, null)
    }

    private fun send(
        intent: PendingRequest,
        url: HttpUrl,
        headers: Headers,
        request: Request,
        cancellation: Cancellation,
        keep: (() -> PendingRequest)?
    ): Response {
        val sent = sender.send(intent, url, headers, cancellation, keep)
        val storeFailure = try {
            store.remove(intent.owner, intent.key)
            null
        } catch (error: IOException) {
            error
        } catch (error: RuntimeException) {
            IOException(error.message, error)
        }
        val answer = sent.answer
        val information = Idempotency.of(intent.key, sent.attempts, answer.response, answer.body, storeFailure)
        return answer.toResponse(request.newBuilder().header(IDEMPOTENCY_KEY, intent.key).tag(Idempotency::class.java, information).build())
    }

    /** Reads the request with its body. Nothing of it is sent or kept yet. */
    private fun capture(request: Request): PendingRequest {
        val keys = request.headers(IDEMPOTENCY_KEY)
        val key = keys.firstOrNull() ?: UUID.randomUUID().toString()
        if (keys.size > 1) throw InvalidRequestException("the request has ${keys.size} headers $IDEMPOTENCY_KEY: leave one of them", key)
        if (key.isBlank()) throw InvalidRequestException("the header $IDEMPOTENCY_KEY is empty: leave it out, or give it a UUID v4", key)
        val body = Buffer()
        request.body?.let {
            if (it.isDuplex()) throw InvalidRequestException("a duplex body cannot be sent twice: use a body of known bytes", key)
            it.writeTo(body)
        }
        val headers = attemptHeaders(request).newBuilder()
        for (secret in options.secretHeaders + SECRET) headers.removeAll(secret)
        val url = request.url.newBuilder().username("").password("").build()
        return PendingRequest(options.owner, key, request.method, url.toString(), headers.build(), body.readByteString(), time.wall())
    }

    private fun keep(intent: PendingRequest): PendingRequest {
        val kept = try {
            store.putIfAbsent(intent)
        } catch (error: IOException) {
            throw notKept(intent, error)
        } catch (error: RuntimeException) {
            // A store over a database may fail with errors of its own, and OkHttp ends an Android app for them.
            throw notKept(intent, error)
        }
        if (!kept.asksTheSame(intent)) {
            throw InvalidRequestException("the key ${intent.key} is kept for another request ($kept): take a new key for this one", intent.key)
        }
        return kept
    }

    /** Removes what a store that failed has written: the caller will send it with a new key, so it must not be sent later. */
    private fun notKept(intent: PendingRequest, cause: Exception): IdempotencyException {
        // An interrupt would end the removal, too.
        val interrupted = Thread.interrupted()
        val mayBeKept = try {
            val there = store.get(intent.owner, intent.key)
            // Else it is of another process, or was there before.
            if (there != null && there.asksTheSame(intent) && there.keptAtMillis == intent.keptAtMillis) store.remove(intent.owner, intent.key)
            false
        } catch (_: DamagedRecordException) {
            false
        } catch (_: IOException) {
            true
        } catch (_: RuntimeException) {
            true
        }
        if (!interrupted) return StoreException(intent.key, cause, mayBeKept)
        Thread.currentThread().interrupt()
        return AbortedException(intent.key, 0, cause, mayBeKept)
    }

    /** The headers of each attempt but for the key, the number of the attempt, and the credentials. */
    private fun attemptHeaders(request: Request): Headers {
        val headers = request.headers.newBuilder().removeAll(IDEMPOTENCY_KEY).removeAll(RETRY_ATTEMPT)
        // OkHttp sends the body's type in place of the header.
        request.body?.contentType()?.let { headers["Content-Type"] = it.toString() }
        return headers.build()
    }

    private companion object {
        val SECRET = listOf("authorization", "cookie", "proxy-authorization")
    }
}

/** One running call of the app. */
internal class RunningCall {
    val cancellation = Cancellation()
    private val intents = ArrayList<PendingRequest>()

    /**
     * The earlier request of this call that asks for the same, or else [request], which is noted. An interceptor of the app may send a request
     * twice in one call; both are one intent, so they have one key. If the key is [given] by the app, it counts.
     */
    @Synchronized
    fun sameIntent(request: PendingRequest, given: Boolean): PendingRequest =
        intents.find { it.asksTheSame(request) && (!given || it.key == request.key) } ?: request.also { intents.add(it) }
}

/** The calls that run now. As the event listener of the client it learns of each cancellation at once; OkHttp has no other way to tell. */
internal class RunningCalls(private val options: IdempotencyOptions, private val others: EventListener.Factory) :
    EventListener(),
    EventListener.Factory {
    private val running = Collections.synchronizedMap(IdentityHashMap<Call, RunningCall>())

    /** The listener of the app sees each attempt as a call of its own, and so it does not see the call around them. */
    override fun create(call: Call): EventListener = if (options.takes(call.request())) this else others.create(call)

    fun find(call: Call): RunningCall? = running[call]

    override fun callStart(call: Call) {
        running[call] = RunningCall()
        // The call may have been cancelled before it was started.
        if (call.isCanceled()) canceled(call)
    }

    override fun canceled(call: Call) {
        running[call]?.cancellation?.cancel()
    }

    override fun callEnd(call: Call) {
        running.remove(call)
    }

    override fun callFailed(call: Call, ioe: IOException) {
        running.remove(call)
    }

    /** The number of calls that run. */
    fun size(): Int = running.size
}
