package dev.edgeidempotency

import okhttp3.Call
import okhttp3.Callback
import okhttp3.EventListener
import okhttp3.MediaType
import okhttp3.MediaType.Companion.toMediaType
import okhttp3.OkHttp
import okhttp3.OkHttpClient
import okhttp3.Request
import okhttp3.RequestBody
import okhttp3.RequestBody.Companion.toRequestBody
import okhttp3.Response
import okhttp3.mockwebserver.MockResponse
import okhttp3.mockwebserver.MockWebServer
import okhttp3.mockwebserver.SocketPolicy
import okio.BufferedSink
import org.junit.jupiter.api.AfterEach
import org.junit.jupiter.api.Assertions.assertArrayEquals
import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Assertions.assertNotEquals
import org.junit.jupiter.api.Assertions.assertNull
import org.junit.jupiter.api.Assertions.assertThrows
import org.junit.jupiter.api.Assertions.assertTrue
import org.junit.jupiter.api.Test
import java.io.IOException
import java.nio.channels.ClosedByInterruptException
import java.util.concurrent.CountDownLatch
import java.util.concurrent.TimeUnit
import java.util.concurrent.atomic.AtomicInteger

/** The client against a local HTTP server. */
class ClientTest {
    private val server = MockWebServer().apply { start() }
    private val store = MemoryStore()
    private val time = FakeTime()
    private val base = OkHttpClient()

    @AfterEach
    fun nothingIsLeft() {
        server.shutdown()
        base.dispatcher.executorService.shutdown()
        assertEquals(0, UnderWay.size())
    }

    private fun client(base: OkHttpClient = this.base, store: PendingStore = this.store, change: IdempotencyOptions.Builder.() -> Unit = {}) =
        IdempotentClient.create(base, store, options(change = change), time)

    private fun IdempotentClient.answer(request: Request): Response = newCall(request).execute().also { assertEquals(0, calls.size()) }

    @Test
    fun `the tests run with the version of OkHttp that they name`() {
        // The constant is read at run time, because the compiler would take its value from the version that it sees.
        assertEquals(System.getProperty("okhttp.version"), OkHttp::class.java.getField("VERSION").get(null))
    }

    @Test
    fun `an intent gets a key, is kept before it is sent, and is removed after its answer`() {
        server.dispatcher = object : okhttp3.mockwebserver.Dispatcher() {
            override fun dispatch(request: okhttp3.mockwebserver.RecordedRequest): MockResponse {
                val kept = store.list().single()
                assertEquals(request.getHeader("Idempotency-Key"), kept.key)
                assertEquals("{\"order\":1}", kept.body.utf8())
                return ok().setHeader("X-Operation-Id", "inv_1").setHeader("Idempotency-Status", "stored")
            }
        }
        val response = client().answer(post(server).build())
        assertEquals("done", response.body!!.string())
        val known = Idempotency.of(response)!!
        assertTrue(Regex("[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}").matches(known.key), known.key)
        assertEquals(known.key, response.request.header("Idempotency-Key"))
        assertEquals(
            listOf(1, false, "inv_1", null, null, null, null),
            with(known) {
                listOf(attempts, isReplay, operationId, code, retry, detail, storeFailure)
            }
        )
        assertEquals(emptyList<PendingRequest>(), store.list())
    }

    @Test
    fun `the caller's key is taken, and two intents have two keys`() {
        repeat(3) { server.enqueue(ok()) }
        val client = client()
        assertEquals(KEY, Idempotency.of(client.answer(post(server).header("Idempotency-Key", KEY).build()))!!.key)
        val keys = List(2) { Idempotency.of(client.answer(post(server).build()))!!.key }
        assertNotEquals(keys[0], keys[1])
        assertEquals(listOf(KEY) + keys, List(3) { server.takeRequest().getHeader("Idempotency-Key") })
    }

    @Test
    fun `other methods pass unchanged`() {
        server.enqueue(MockResponse().setResponseCode(302).setHeader("Location", "/elsewhere"))
        server.enqueue(ok("got"))
        val response = client { credentials { _, _ -> mapOf("Authorization" to "Bearer 1") } }.answer(Request.Builder().url(server.url("/")).build())
        assertEquals("got", response.body!!.string())
        assertNull(Idempotency.of(response))
        for (request in List(2) { server.takeRequest() }) {
            assertNull(request.getHeader("Idempotency-Key"))
            assertNull(request.getHeader("X-Retry-Attempt"))
            assertNull(request.getHeader("Authorization"))
        }
    }

    @Test
    fun `the read timeout of the app's client does not end an attempt`() {
        server.enqueue(ok().setHeadersDelay(400, TimeUnit.MILLISECONDS))
        val impatient = base.newBuilder().readTimeout(100, TimeUnit.MILLISECONDS).build()
        assertEquals(1, Idempotency.of(client(impatient).answer(post(server).build()))!!.attempts)
    }

    @Test
    fun `OkHttp sends nothing a second time by itself`() {
        val secondTimes = AtomicInteger()
        val eager = base.newBuilder().retryOnConnectionFailure(true).followRedirects(true)
            .authenticator { _, response ->
                response.request.newBuilder().header("Authorization", "again").build().also { secondTimes.incrementAndGet() }
            }
            .build()
        for (status in listOf(301, 302, 303, 307, 308)) {
            server.enqueue(MockResponse().setResponseCode(status).setHeader("Location", "/elsewhere"))
            assertEquals(status, client(eager).answer(post(server).build()).code)
        }
        server.enqueue(MockResponse().setResponseCode(401))
        assertEquals(401, client(eager).answer(post(server).build()).code)
        server.enqueue(MockResponse().setResponseCode(408))
        assertEquals(408, client(eager).answer(post(server).build()).code)
        assertEquals(0, secondTimes.get())
        assertEquals(7, server.requestCount)
        // OkHttp itself would send a request again after this 503.
        server.enqueue(MockResponse().setResponseCode(503).setHeader("Retry-After", "0"))
        server.enqueue(MockResponse().setResponseCode(202).setHeader("Idempotency-Status", "processing").setHeader("Location", "/operations/1"))
        server.enqueue(MockResponse().setResponseCode(503).setHeader("Retry-After", "0"))
        server.enqueue(ok())
        assertEquals(4, Idempotency.of(client(eager).answer(post(server).build()))!!.attempts)
        assertEquals(11, server.requestCount)
    }

    @Test
    fun `an error without a problem document has the advice of the header`() {
        for (body in listOf("", "{", "[]", "nonsense", "{\"code\":7}", "[".repeat(100_000))) {
            server.enqueue(
                MockResponse().setResponseCode(500).setHeader("Content-Type", "application/problem+json").setBody(body)
                    .setHeader("Idempotency-Retry", "new_key").setHeader("Idempotent-Replayed", "true")
            )
            val known = Idempotency.of(client().answer(post(server).build()))!!
            assertEquals(listOf(null, "new_key", null, true), listOf(known.code, known.retry, known.detail, known.isReplay))
        }
    }

    @Test
    fun `credentials are not kept`() {
        server.enqueue(MockResponse().setSocketPolicy(SocketPolicy.DISCONNECT_AFTER_REQUEST))
        val secrets = client {
            attempts(1).secretHeaders("X-Api-Secret").credentials { _, _ -> mapOf("X-Token" to "secret-5") }
        }
        val request = post(server).header("Authorization", "secret-1").header("cookie", "secret-2").header("Proxy-Authorization", "secret-3")
            .header("x-api-secret", "secret-4").header("X-Kept", "yes").header("X-Retry-Attempt", "99")
            .url(server.url("/orders").newBuilder().username("user").password("secret-6").build()).build()
        assertThrows(NoAnswerException::class.java) { secrets.answer(request) }
        val sent = server.takeRequest()
        assertEquals(
            listOf("secret-1", "secret-4", "secret-5", "1"),
            listOf("Authorization", "X-Api-Secret", "X-Token", "X-Retry-Attempt").map {
                sent.getHeader(it)
            }
        )
        val kept = store.list().single()
        assertEquals(listOf("X-Kept" to "yes"), kept.headers.toList())
        assertTrue("secret" !in String(kept.toBytes()), String(kept.toBytes()))
    }

    @Test
    fun `a body that can be written once is sent with each attempt, with its type`() {
        repeat(2) { server.enqueue(if (it == 0) MockResponse().setResponseCode(503) else ok()) }
        val written = AtomicInteger()
        val once = object : RequestBody() {
            override fun contentType(): MediaType = "application/vnd.order".toMediaType()

            override fun isOneShot() = true

            override fun writeTo(sink: BufferedSink) {
                written.incrementAndGet()
                sink.write(byteArrayOf(0, -1, 13, 10))
            }
        }
        client().answer(Request.Builder().url(server.url("/")).post(once).header("Content-Type", "replaced").build())
        repeat(2) {
            val request = server.takeRequest()
            assertArrayEquals(byteArrayOf(0, -1, 13, 10), request.body.readByteArray())
            assertEquals(listOf("application/vnd.order"), request.headers.values("Content-Type"))
        }
        assertEquals(1, written.get())
    }

    @Test
    fun `requests that cannot be sent safely are refused, and nothing is sent or kept`() {
        val duplex = object : RequestBody() {
            override fun contentType(): MediaType? = null

            override fun isDuplex() = true

            override fun writeTo(sink: BufferedSink) = Unit
        }
        val refused = listOf(
            post(server).post(duplex),
            post(server).addHeader("Idempotency-Key", "a").addHeader("Idempotency-Key", "b"),
            post(server).header("Idempotency-Key", " ")
        )
        for (request in refused) assertThrows(InvalidRequestException::class.java) { client().answer(request.build()) }
        assertEquals(0, server.requestCount)
        assertEquals(emptyList<PendingRequest>(), store.list())
    }

    @Test
    fun `a body that fails is the caller's error`() {
        val broken = object : RequestBody() {
            override fun contentType(): MediaType? = null

            override fun writeTo(sink: BufferedSink): Unit = throw IOException("the file is gone")
        }
        assertEquals("the file is gone", assertThrows(IOException::class.java) { client().answer(post(server).post(broken).build()) }.message)
        assertEquals(0, server.requestCount)
    }

    @Test
    fun `a key that is kept for another request is refused, and for the same one it is sent again`() {
        val url = server.url("/orders").toString()
        store.putIfAbsent(pending(body = "{\"order\":2}", url = url))
        val request = post(server).header("Idempotency-Key", KEY).build()
        val error = assertThrows(InvalidRequestException::class.java) { client().answer(request) }
        assertTrue(error.message!!.contains("take a new key"), error.message)
        store.remove(ANN, KEY)
        val expired = time.wall - TimeUnit.HOURS.toMillis(24)
        store.putIfAbsent(pending(body = "{\"order\":1}", url = url, keptAt = expired))
        assertThrows(ExpiredException::class.java) { client().answer(request) }
        assertEquals(0, server.requestCount)
        store.remove(ANN, KEY)
        store.putIfAbsent(pending(body = "{\"order\":1}", url = url))
        server.enqueue(ok())
        assertEquals(201, client().answer(request).code)
    }

    @Test
    fun `nothing is sent if the store fails`() {
        for (failure in listOf(IOException("disk full"), IllegalStateException("database closed"))) {
            val failing = object : PendingStore by store {
                override fun putIfAbsent(request: PendingRequest): PendingRequest = throw failure
            }
            val error = assertThrows(StoreException::class.java) { client(store = failing).answer(post(server).build()) }
            assertEquals(failure, error.cause)
        }
        assertEquals(0, server.requestCount)
    }

    /** A store that keeps the request, and then fails. */
    private fun keepsAndFails(failure: () -> Exception) = object : PendingStore by store {
        override fun putIfAbsent(request: PendingRequest): PendingRequest {
            store.putIfAbsent(request)
            throw failure()
        }
    }

    @Test
    fun `a record whose put has failed does not stay`() {
        val failing = keepsAndFails { IllegalStateException("disk full") }
        val error = assertThrows(StoreException::class.java) { client(store = failing).answer(post(server).build()) }
        assertTrue("may be kept" !in error.message!!, error.message)
        assertEquals(emptyList<PendingRequest>(), store.list())
        val stuck = object : PendingStore by failing {
            override fun remove(owner: String, key: String): Unit = throw IOException("disk gone")
        }
        val second = assertThrows(StoreException::class.java) { client(store = stuck).answer(post(server).build()) }
        assertTrue("It may be kept all the same: call forget(key)" in second.message!!, second.message)
        assertEquals(0, server.requestCount)
    }

    @Test
    fun `a store that fails does not remove what was kept before`() {
        store.putIfAbsent(pending(body = "{\"order\":1}", url = server.url("/orders").toString(), keptAt = time.wall - 1))
        val failing = keepsAndFails { IOException("disk full") }
        val request = post(server).header("Idempotency-Key", KEY).build()
        assertThrows(StoreException::class.java) { client(store = failing).answer(request) }
        assertEquals(listOf(KEY), store.list().map { it.key })
    }

    @Test
    fun `an interrupt of the store aborts the call, and nothing is kept`() {
        val interrupted = keepsAndFails {
            Thread.currentThread().interrupt()
            ClosedByInterruptException()
        }
        val error = assertThrows(AbortedException::class.java) { client(store = interrupted).answer(post(server).build()) }
        assertTrue(Thread.interrupted())
        assertTrue("has kept and sent nothing" in error.message!!, error.message)
        assertEquals(emptyList<PendingRequest>(), store.list())
    }

    @Test
    fun `credentials are asked before the request is kept`() {
        for (failure in listOf(IOException("no network"), IllegalStateException("no user"))) {
            val failing = client { credentials { _, _ -> throw failure } }
            val error = assertThrows(CredentialsException::class.java) { failing.answer(post(server).build()) }
            assertEquals(failure to 0, error.cause to error.attempts)
            assertTrue("has kept and sent nothing" in error.message!!, error.message)
        }
        assertEquals(emptyList<PendingRequest>(), store.list())
        assertEquals(0, server.requestCount)
    }

    @Test
    fun `credentials that cannot be headers are an error of the call, which does not show them`() {
        for (bad in listOf(mapOf("X-Api-Key" to "secret\n"), mapOf("X-Api Key" to "secret"), mapOf("X-Api-Key" to "sécret"))) {
            val failing = client { credentials { _, _ -> bad } }
            val failed = CountDownLatch(1)
            var message = ""
            failing.newCall(post(server).build()).enqueue(object : Callback {
                override fun onFailure(call: Call, e: IOException) {
                    message = "${(e as CredentialsException).message}"
                    failed.countDown()
                }

                override fun onResponse(call: Call, response: Response) = failed.countDown()
            })
            failed.await()
            assertTrue("the header X-Api" in message && "cret" !in message, message)
        }
        assertEquals(0, server.requestCount)
    }

    @Test
    fun `a key that an interceptor of the app gives to its second try counts`() {
        repeat(2) { server.enqueue(ok()) }
        val retrying = base.newBuilder().addInterceptor { chain ->
            chain.proceed(chain.request())
            chain.proceed(chain.request().newBuilder().header("Idempotency-Key", "another").build())
        }.build()
        assertEquals("another", Idempotency.of(client(retrying).answer(post(server).build()))!!.key)
        assertNotEquals("another", server.takeRequest().getHeader("Idempotency-Key"))
        assertEquals("another", server.takeRequest().getHeader("Idempotency-Key"))
    }

    @Test
    fun `an answer arrives also if its request cannot be removed`() {
        for (failure in listOf(IOException("disk full"), IllegalStateException("database closed"))) {
            server.enqueue(ok())
            val failing = object : PendingStore by store {
                override fun remove(owner: String, key: String): Unit = throw failure
            }
            val response = client(store = failing).answer(post(server).build())
            assertEquals(201, response.code)
            assertEquals(failure.message, Idempotency.of(response)!!.storeFailure!!.message)
        }
    }

    @Test
    fun `the interceptors of the app run once, and a second try of theirs is the same intent`() {
        repeat(3) { server.enqueue(if (it == 2) ok() else MockResponse().setResponseCode(500)) }
        val runs = AtomicInteger()
        val retrying = base.newBuilder().addInterceptor { chain ->
            runs.incrementAndGet()
            val first = chain.proceed(chain.request())
            val other = chain.proceed(chain.request().newBuilder().post("other".toRequestBody()).build())
            assertNotEquals(Idempotency.of(first)!!.key, Idempotency.of(other)!!.key)
            chain.proceed(chain.request())
        }.build()
        assertEquals(201, client(retrying).answer(post(server).build()).code)
        assertEquals(1, runs.get())
        val keys = List(3) { server.takeRequest().getHeader("Idempotency-Key") }
        assertEquals(keys[0], keys[2])
    }

    @Test
    fun `a listener of the app sees each attempt`() {
        repeat(2) { server.enqueue(if (it == 1) ok() else MockResponse().setResponseCode(503)) }
        val starts = AtomicInteger()
        val listening = base.newBuilder().eventListener(object : EventListener() {
            override fun callStart(call: Call) {
                starts.incrementAndGet()
            }
        }).build()
        client(listening).answer(post(server).build())
        assertEquals(2, starts.get())
    }

    @Test
    fun `a derived client without the listener is refused`() {
        val derived = client().http.newBuilder().eventListener(object : EventListener() {}).build()
        val error = assertThrows(InvalidRequestException::class.java) { derived.newCall(post(server).build()).execute() }
        assertTrue(error.message!!.contains("eventListener"), error.message)
        assertEquals(0, server.requestCount)
    }
}
