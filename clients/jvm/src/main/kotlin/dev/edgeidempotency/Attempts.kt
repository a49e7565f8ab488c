package dev.edgeidempotency

import okhttp3.Authenticator
import okhttp3.Interceptor
import okhttp3.OkHttpClient
import okhttp3.Request
import okhttp3.RequestBody
import okhttp3.Response
import okhttp3.ResponseBody.Companion.toResponseBody
import okio.BufferedSink
import okio.ByteString
import java.io.IOException
import java.util.concurrent.TimeUnit

/** One answer that arrived whole. [response] has no body of its own, [body] has the bytes. */
internal class Answer(val response: Response, val body: ByteArray) {
    /** The response with its body in memory. */
    fun toResponse(request: Request): Response =
        response.newBuilder().request(request).body(body.toResponseBody(response.body?.contentType())).build()
}

/** Sends single HTTP requests, each of them once. */
internal class Attempts(base: OkHttpClient, timeoutMillis: Long) {
    /** The client of one attempt. It has the connections, the proxy, the cookies and the network interceptors of the app's client. */
    private val client: OkHttpClient = base.newBuilder().apply {
        // The app's interceptors run once for each intent, before this client.
        interceptors().clear()
        networkInterceptors().add(0, HideRetryAfter)
        retryOnConnectionFailure(false)
        followRedirects(false)
        followSslRedirects(false)
        authenticator(Authenticator.NONE)
        // The answer to a question at `Location` must not come from a cache.
        cache(null)
        // The limit of a whole attempt, from the name look-up to the last byte. The limits of one read or write would end it before.
        callTimeout(timeoutMillis, TimeUnit.MILLISECONDS)
        readTimeout(0, TimeUnit.MILLISECONDS)
        writeTimeout(0, TimeUnit.MILLISECONDS)
    }.build()

    /**
     * Sends [request] once and reads the whole answer.
     *
     * @throws IOException if there is no whole answer in time
     */
    fun send(request: Request, cancellation: Cancellation): Answer {
        val call = client.newCall(request)
        return cancellation.during(call) {
            call.execute().use { response ->
                val shown = response.newBuilder().removeHeader(HideRetryAfter.HIDDEN)
                response.header(HideRetryAfter.HIDDEN)?.let { shown.header(RETRY_AFTER, it) }
                Answer(shown.build(), response.body?.bytes() ?: ByteArray(0))
            }
        }
    }
}

/**
 * Hides `Retry-After` from OkHttp. It sends a request again at once after a 503 with `Retry-After: 0`, whatever its settings are, and fails
 * with a NumberFormatException if the number does not fit into an Int.
 */
private object HideRetryAfter : Interceptor {
    const val HIDDEN = "Edge-Idempotency-Retry-After"

    override fun intercept(chain: Interceptor.Chain): Response {
        val response = chain.proceed(chain.request())
        val value = response.header(RETRY_AFTER) ?: return response
        return response.newBuilder().removeHeader(RETRY_AFTER).header(HIDDEN, value).build()
    }
}

/** A body that OkHttp sends once at most: it makes no second request of its own (after 401, 408, 421 or a redirect) with such a body. */
internal class OnceBody(private val bytes: ByteString) : RequestBody() {
    // The header Content-Type is among the request's headers.
    override fun contentType() = null
    override fun contentLength(): Long = bytes.size.toLong()
    override fun isOneShot(): Boolean = true
    override fun writeTo(sink: BufferedSink) {
        sink.write(bytes)
    }
}
