package dev.edgeidempotency

import okhttp3.OkHttpClient
import okhttp3.mockwebserver.Dispatcher
import okhttp3.mockwebserver.MockResponse
import okhttp3.mockwebserver.MockWebServer
import okhttp3.mockwebserver.RecordedRequest
import org.junit.jupiter.api.AfterEach
import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Assertions.assertThrows
import org.junit.jupiter.api.Assertions.assertTrue
import org.junit.jupiter.api.Test
import java.util.concurrent.CopyOnWriteArrayList
import java.util.concurrent.CountDownLatch
import java.util.concurrent.TimeUnit
import kotlin.concurrent.thread

class ResumeTest {
    private val server = MockWebServer().apply { start() }
    private val store = MemoryStore()
    private val time = FakeTime()
    private val base = OkHttpClient.Builder().addInterceptor { chain ->
        chain.proceed(chain.request().newBuilder().header("X-App", "interceptor").build())
    }.build()
    private val client = client()

    private fun client(store: PendingStore = this.store, change: IdempotencyOptions.Builder.() -> Unit = {}) =
        IdempotentClient.create(base, store, options(change = change), time)

    private fun keep(key: String, body: String = key, keptAt: Long = time.wall) =
        store.putIfAbsent(pending(key, body, server.url("/orders").toString(), keptAt))

    @AfterEach
    fun nothingIsLeft() {
        server.shutdown()
        assertEquals(0, UnderWay.size())
    }

    @Test
    fun `credentials come from the function`() {
        keep("a")
        server.enqueue(ok())
        client { credentials { _, _ -> mapOf("Authorization" to "Bearer 1") } }.resumePending()
        assertEquals("Bearer 1", server.takeRequest().getHeader("Authorization"))
    }

    @Test
    fun `an expired request is told and stays until it is forgotten`() {
        keep("old", keptAt = time.wall - TimeUnit.HOURS.toMillis(24))
        keep("new")
        server.enqueue(ok())
        val results = client.resumePending().associateBy { it.key }
        assertTrue(results["old"]!!.error is ExpiredException)
        assertEquals(201, results["new"]!!.response!!.code)
        assertEquals(listOf("old"), client.pending().map { it.key })
        client.forget("old")
        assertEquals(emptyList<PendingRequest>(), client.pending())
        assertEquals(1, server.requestCount)
    }

    @Test
    fun `a URL that is none, and a damaged record, do not stop the others`() {
        val damaged = DamagedRecordException("record 7", "its checksum is wrong")
        store.putIfAbsent(pending("bad", url = "nonsense", keptAt = time.wall))
        keep("good")
        server.enqueue(ok())
        val withDamage = object : PendingStore by store {
            override fun damaged() = listOf(damaged)
        }
        val results = client(withDamage).resumePending().associateBy { it.key }
        assertEquals(setOf(null, "bad", "good"), results.keys)
        assertEquals(damaged, results[null]!!.error)
        assertTrue(results["bad"]!!.error is InvalidRequestException)
        assertEquals(201, results["good"]!!.response!!.code)
    }

    @Test
    fun `an error that is not an IOException is a result, too`() {
        keep("a")
        val failing = object : PendingStore by store {
            override fun get(owner: String, key: String): PendingRequest = error("database closed")
        }
        assertEquals("database closed", client(failing).resumePending().single().error!!.cause!!.message)
    }

    @Test
    fun `a listener that throws still gets the other results, and its error is thrown`() {
        for (key in listOf("a", "b", "c")) {
            keep(key)
            server.enqueue(ok())
        }
        val told = CopyOnWriteArrayList<String>()
        val error = assertThrows(IllegalStateException::class.java) {
            client.resumePending {
                told.add(it.key!!)
                error("the listener failed")
            }
        }
        assertEquals("the listener failed", error.message)
        assertEquals(listOf("a", "b", "c"), told.sorted())
    }

    @Test
    fun `what is under way is not sent twice`() {
        val arrived = CountDownLatch(3)
        val go = CountDownLatch(1)
        val keys = CopyOnWriteArrayList<String>()
        server.dispatcher = object : Dispatcher() {
            override fun dispatch(request: RecordedRequest): MockResponse {
                keys.add(request.getHeader("Idempotency-Key"))
                arrived.countDown()
                go.await()
                return ok()
            }
        }
        keep("a")
        keep("b")
        val sending = thread { client.newCall(post(server).header("Idempotency-Key", "fresh").build()).execute() }
        val resuming = thread { client.resumePending() }
        arrived.await()
        // Another client of the same store shares the knowledge.
        assertEquals(emptyList<ResumeResult>(), client().resumePending())
        assertEquals(emptyList<ResumeResult>(), client.resumePending())
        go.countDown()
        sending.join()
        resuming.join()
        assertEquals(listOf("a", "b", "fresh"), keys.sorted())
        assertEquals(emptyList<PendingRequest>(), client.pending())
    }

    @Test
    fun `a request that was answered after the list was read is not sent`() {
        keep("a")
        val stale = object : PendingStore by store {
            override fun list(): List<PendingRequest> = store.list().also { store.remove(ANN, "a") }
        }
        assertEquals(emptyList<ResumeResult>(), client(stale).resumePending())
        assertEquals(0, server.requestCount)
    }
}
