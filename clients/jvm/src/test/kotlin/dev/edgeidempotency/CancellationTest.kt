package dev.edgeidempotency

import okhttp3.Call
import okhttp3.Callback
import okhttp3.OkHttpClient
import okhttp3.Response
import okhttp3.mockwebserver.Dispatcher
import okhttp3.mockwebserver.MockResponse
import okhttp3.mockwebserver.MockWebServer
import okhttp3.mockwebserver.RecordedRequest
import okhttp3.mockwebserver.SocketPolicy
import org.junit.jupiter.api.AfterEach
import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Assertions.assertThrows
import org.junit.jupiter.api.Assertions.assertTrue
import org.junit.jupiter.api.Test
import java.io.IOException
import java.io.InterruptedIOException
import java.util.concurrent.CountDownLatch
import java.util.concurrent.TimeUnit
import java.util.concurrent.atomic.AtomicReference
import kotlin.concurrent.thread

/** Each of these tests would last longer than its limit if the call went on. */
class CancellationTest {
    private val server = MockWebServer().apply { start() }
    private val store = MemoryStore()
    private val base = OkHttpClient()
    private val never = options { attemptTimeout(1, TimeUnit.HOURS) }

    @AfterEach
    fun nothingIsLeft() {
        server.shutdown()
        base.dispatcher.executorService.shutdown()
        assertEquals(0, UnderWay.size())
    }

    private fun request() = post(server).header("Idempotency-Key", KEY).build()

    private fun failure(call: Call): () -> IOException {
        val failed = CountDownLatch(1)
        val failure = AtomicReference<IOException>()
        call.enqueue(object : Callback {
            override fun onFailure(call: Call, e: IOException) {
                failure.set(e)
                failed.countDown()
            }

            override fun onResponse(call: Call, response: Response) = failed.countDown()
        })
        return {
            failed.await()
            failure.get()
        }
    }

    @Test
    fun `cancel ends the wait`() {
        server.enqueue(MockResponse().setResponseCode(503))
        val time = EndlessWait()
        val client = IdempotentClient.create(base, store, never, time)
        val call = client.newCall(request())
        val failure = failure(call)
        time.waiting.await()
        call.cancel()
        val error = failure() as AbortedException
        assertEquals(KEY to 1, error.key to error.attempts)
        assertEquals(listOf(KEY), client.pending().map { it.key })
        client.forget(KEY)
        assertEquals(emptyList<String>(), client.pending().map { it.key })
        assertEquals(0, client.calls.size())
    }

    @Test
    fun `a call that was cancelled before its start sends nothing`() {
        val client = IdempotentClient.create(base, store, never)
        val call = client.newCall(request()).apply { cancel() }
        assertThrows(AbortedException::class.java) { call.execute() }
        assertEquals(0, server.requestCount)
        assertEquals(emptyList<PendingRequest>(), store.list())
    }

    @Test
    fun `an interrupt ends the wait`() {
        server.enqueue(MockResponse().setResponseCode(503))
        val time = EndlessWait()
        val client = IdempotentClient.create(base, store, never, time)
        val failure = AtomicReference<IOException>()
        val stillInterrupted = AtomicReference<Boolean>()
        val caller = thread {
            failure.set(assertThrows(IOException::class.java) { client.newCall(request()).execute() })
            stillInterrupted.set(Thread.currentThread().isInterrupted)
        }
        time.waiting.await()
        caller.interrupt()
        caller.join()
        assertEquals(1, (failure.get() as AbortedException).attempts)
        assertEquals(true, stillInterrupted.get())
    }

    @Test
    fun `the call timeout of OkHttp ends the wait`() {
        server.enqueue(MockResponse().setResponseCode(503))
        val client = IdempotentClient.create(base.newBuilder().callTimeout(300, TimeUnit.MILLISECONDS).build(), store, never, EndlessWait())
        val error = assertThrows(InterruptedIOException::class.java) { client.newCall(request()).execute() }
        assertTrue(error.cause is AbortedException, "${error.cause}")
        assertEquals(listOf(KEY), client.pending().map { it.key })
    }

    @Test
    fun `resumePending ends when its thread is interrupted, and the answers are not lost`() {
        for (key in listOf("answered", "hangs")) {
            store.putIfAbsent(pending(key, url = server.url("/$key").toString(), keptAt = System.currentTimeMillis()))
        }
        val removed = CountDownLatch(1)
        val telling = object : PendingStore by store {
            override fun remove(owner: String, key: String) = store.remove(owner, key).also { removed.countDown() }
        }
        server.dispatcher = object : Dispatcher() {
            override fun dispatch(request: RecordedRequest): MockResponse =
                if (request.path == "/answered") ok() else MockResponse().setSocketPolicy(SocketPolicy.NO_RESPONSE)
        }
        val client = IdempotentClient.create(base, telling, never)
        val results = AtomicReference<List<ResumeResult>>()
        val stillInterrupted = AtomicReference<Boolean>()
        val caller = thread {
            results.set(client.resumePending())
            stillInterrupted.set(Thread.currentThread().isInterrupted)
        }
        repeat(2) { server.takeRequest() }
        removed.await()
        caller.interrupt()
        caller.join()
        // The attempt has ended, too, before the server closes its connection.
        assertEquals(0, UnderWay.size())
        assertEquals(true, stillInterrupted.get())
        assertEquals(listOf("answered" to 201, "hangs" to null), results.get().map { it.key to it.response?.code })
        assertTrue(results.get()[1].error is AbortedException)
        assertEquals(listOf("hangs"), client.pending().map { it.key })
    }
}
