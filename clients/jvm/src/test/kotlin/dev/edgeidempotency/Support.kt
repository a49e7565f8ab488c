package dev.edgeidempotency

import okhttp3.Headers
import okhttp3.Headers.Companion.headersOf
import okhttp3.HttpUrl
import okhttp3.HttpUrl.Companion.toHttpUrl
import okhttp3.Protocol
import okhttp3.Request
import okhttp3.RequestBody.Companion.toRequestBody
import okhttp3.Response
import okhttp3.mockwebserver.MockResponse
import okhttp3.mockwebserver.MockWebServer
import okio.ByteString.Companion.encodeUtf8
import org.junit.jupiter.api.Assertions.assertTrue
import java.io.IOException
import java.util.concurrent.CopyOnWriteArrayList
import java.util.concurrent.CountDownLatch
import java.util.concurrent.TimeUnit

internal val URL = "http://api.test/orders".toHttpUrl()

internal const val KEY = "8e03978e-40d5-43e8-bc93-6894a57f9324"

/** Clocks that only move while the client waits, and a random source with one value. */
internal class FakeTime(var random: Double = 0.0, var wall: Long = 1_700_000_000_000) : Time() {
    /** The waits so far, in milliseconds. */
    val waits = CopyOnWriteArrayList<Long>()
    private var elapsed = 0L

    override fun wall(): Long = wall

    override fun elapsed(): Long = elapsed

    override fun random(): Double = random

    override fun await(cancellation: Cancellation, millis: Long) {
        waits.add(millis)
        pass(millis)
    }

    fun pass(millis: Long) {
        wall += millis
        elapsed += millis
    }
}

/** A time whose wait only a cancellation or an interrupt ends; [waiting] tells that it has begun. */
internal class EndlessWait : Time() {
    val waiting = CountDownLatch(1)

    override fun await(cancellation: Cancellation, millis: Long) {
        waiting.countDown()
        cancellation.await(TimeUnit.HOURS.toMillis(1))
    }
}

/** Who sends, unless the test says otherwise. */
internal const val ANN = "acme/shop/ann"

internal const val BOB = "acme/shop/bob"

internal fun options(owner: String = ANN, change: IdempotencyOptions.Builder.() -> Unit = {}): IdempotencyOptions =
    IdempotencyOptions.Builder(owner) { _, _ -> Credentials(owner) }.apply(change).build()

/** Credentials with these headers, always of the owner. */
internal fun IdempotencyOptions.Builder.credentials(headers: (HttpUrl, Boolean) -> Map<String, String>) = apply {
    credentials = CredentialsSource { url, renew -> Credentials(owner, headers(url, renew)) }
}

internal fun pending(key: String = KEY, body: String = "{}", url: String = URL.toString(), keptAt: Long = 1_700_000_000_000, owner: String = ANN) =
    PendingRequest(owner, key, "POST", url, headersOf("Content-Type", "application/json"), body.encodeUtf8(), keptAt)

internal fun answer(status: Int, vararg headers: String): Answer = Answer(
    Response.Builder().request(Request.Builder().url(URL).build()).protocol(Protocol.HTTP_1_1).message("").code(status)
        .headers(headersOf(*headers)).build(),
    ByteArray(0)
)

/** Runs one intent against answers that are given one after another; an exception among them is thrown. */
internal class Script(private val options: IdempotencyOptions, val time: FakeTime, vararg answers: Any) {
    val requests = CopyOnWriteArrayList<Request>()
    private val left = ArrayDeque(answers.toList())
    private val sender = Sender(options, time) { request, _ ->
        requests.add(request)
        when (val next = left.removeFirstOrNull() ?: error("the client sends request ${requests.size}, which the test does not expect")) {
            is Answer -> next
            is IOException -> throw next
            else -> error("$next")
        }
    }

    fun run(request: PendingRequest = pending(keptAt = time.wall), headers: Headers = request.headers): Sent =
        sender.send(request, URL, headers, Cancellation()).also { assertTrue(left.isEmpty(), "the client left out the answers $left") }
}

internal fun post(server: MockWebServer, body: String = "{\"order\":1}", path: String = "/orders"): Request.Builder =
    Request.Builder().url(server.url(path)).post(body.toRequestBody())

internal fun ok(body: String = "done"): MockResponse = MockResponse().setResponseCode(201).setBody(body)
