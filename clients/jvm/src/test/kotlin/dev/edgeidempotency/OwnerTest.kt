package dev.edgeidempotency

import okhttp3.OkHttpClient
import okhttp3.mockwebserver.Dispatcher
import okhttp3.mockwebserver.MockResponse
import okhttp3.mockwebserver.MockWebServer
import okhttp3.mockwebserver.RecordedRequest
import okio.Buffer
import okio.ByteString.Companion.encodeUtf8
import org.junit.jupiter.api.AfterEach
import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Assertions.assertNull
import org.junit.jupiter.api.Assertions.assertThrows
import org.junit.jupiter.api.Assertions.assertTrue
import org.junit.jupiter.api.Test
import org.junit.jupiter.api.io.TempDir
import java.io.File
import java.util.concurrent.CopyOnWriteArrayList

/** A request belongs to who made it: two users of one store, and a user who changes. */
class OwnerTest {
    @TempDir
    lateinit var temporary: File

    private val server = MockWebServer().apply { start() }
    private val time = FakeTime()

    private fun stores() = listOf(MemoryStore(), FileStore(File(temporary, "pending")))

    private fun client(store: PendingStore, owner: String = ANN, change: IdempotencyOptions.Builder.() -> Unit = {}) =
        IdempotentClient.create(OkHttpClient(), store, options(owner, change), time)

    private fun IdempotentClient.post(body: String = "{}") = newCall(post(server, body).header("Idempotency-Key", KEY).build()).execute()

    private fun unanswered(store: PendingStore, owner: String = ANN) {
        server.enqueue(MockResponse().setResponseCode(503))
        assertThrows(NoAnswerException::class.java) { client(store, owner) { attempts(1) }.post() }
        server.takeRequest()
    }

    @AfterEach
    fun nothingIsLeft() {
        server.shutdown()
        assertEquals(0, UnderWay.size())
    }

    @Test
    fun `another user's resumePending tells a request, keeps it and does not send it`() {
        for (store in stores()) {
            unanswered(store)
            val sent = server.requestCount
            val bob = client(store, BOB)
            val error = bob.resumePending().single().error as OtherOwnerException
            assertEquals(ANN to KEY, error.owner to error.key)
            assertTrue("is of $ANN, and this is $BOB. It is kept" in error.message!!, error.message)
            bob.forget(KEY)
            assertEquals(sent, server.requestCount)
            server.enqueue(ok())
            assertEquals(201, client(store).resumePending().single().response!!.code)
        }
    }

    @Test
    fun `whenever the user changes, each attempt has the credentials of the owner`() {
        val processing = answer(202, "Idempotency-Status", "processing", "Location", "/operations/1")
        val cases = mapOf(
            "before the first attempt" to (0 to emptyList<Answer>()),
            "between two attempts" to (1 to listOf(answer(503))),
            "after a 401" to (1 to listOf(answer(401))),
            "before the question at Location" to (1 to listOf(processing)),
            "between two questions at Location" to (2 to listOf(processing, answer(404)))
        )
        for ((name, case) in cases) {
            val (sent, answers) = case
            var asked = 0
            val options = options {
                credentials = CredentialsSource { _, _ ->
                    val owner = if (asked++ < sent) ANN else BOB
                    Credentials(owner, mapOf("Authorization" to owner))
                }
            }
            val script = Script(options, time, *answers.toTypedArray())
            val error = assertThrows(OtherOwnerException::class.java, { script.run() }, name)
            assertEquals(sent to ANN, error.attempts to error.owner, name)
            assertEquals(List(sent) { ANN }, script.requests.map { it.header("Authorization") }, name)
        }
    }

    @Test
    fun `what is refused before the first attempt is not kept, and later it is`() {
        for (sent in 0..1) {
            val store = MemoryStore()
            val before = server.requestCount
            repeat(sent) { server.enqueue(MockResponse().setResponseCode(503)) }
            val client = client(store) {
                credentials = CredentialsSource { _, _ -> Credentials(if (server.requestCount - before < sent) ANN else BOB) }
            }
            val error = assertThrows(OtherOwnerException::class.java) { client.post() }
            assertTrue((if (sent == 0) "has kept and sent nothing" else "It is kept") in error.message!!, error.message)
            assertEquals(sent to sent, server.requestCount - before to client.pending().size)
        }
    }

    @Test
    fun `there is no owner by default`() {
        for (blank in listOf("", " ")) {
            assertThrows(IllegalArgumentException::class.java) { options(blank) }
            assertThrows(IllegalArgumentException::class.java) { pending(owner = blank) }
            val client = client(MemoryStore()) { credentials = CredentialsSource { _, _ -> Credentials(blank) } }
            assertThrows(CredentialsException::class.java) { client.post() }
        }
        assertEquals(0, server.requestCount)
    }

    @Test
    fun `two users with one key neither wait for each other nor get or remove what is of the other`() {
        for (store in stores()) {
            val bobs = ArrayDeque(listOf(MockResponse().setResponseCode(503), ok("of Bob")))
            val told = CopyOnWriteArrayList<String>()
            server.dispatcher = object : Dispatcher() {
                override fun dispatch(request: RecordedRequest): MockResponse {
                    if (request.body.readUtf8() == "other") return bobs.removeFirst()
                    val bob = client(store, BOB) { attempts(1) }
                    assertThrows(NoAnswerException::class.java) { bob.post("other") }
                    told.addAll(bob.resumePending().map { it.response?.body?.string() ?: it.error!!.javaClass.simpleName })
                    return ok("of Ann")
                }
            }
            assertEquals("of Ann", client(store).post().body!!.string())
            assertEquals(listOf("OtherOwnerException", "of Bob"), told.sorted())
            assertEquals(emptyList<PendingRequest>(), store.list())
        }
    }

    @Test
    fun `one key of several owners`() {
        for (store in stores()) {
            val owners = listOf(ANN, "Ann", BOB, "1:a", "../ä 🍵", "x".repeat(500))
            for (owner in owners) assertEquals(owner, store.putIfAbsent(pending(body = owner, owner = owner)).owner)
            for (owner in owners) {
                assertEquals(owner, store.get(owner, KEY)!!.body.utf8())
                store.remove(owner, KEY)
                assertNull(store.get(owner, KEY))
            }
        }
    }

    @Test
    fun `forgetOwner removes what is of the owner, and nothing else`() {
        for (store in stores()) {
            unanswered(store)
            unanswered(store, BOB)
            client(store).forgetOwner(ANN)
            assertEquals(listOf(BOB), store.list().map { it.owner })
            store.remove(BOB, KEY)
        }
    }

    @Test
    fun `a record without its owner is never sent`() {
        val folder = File(temporary, "damaged")
        val store = FileStore(folder)
        val changes = listOf("" to "", "\"owner\":\" \"," to "blank", "\"owner\":7," to "7", "\"owner\":\"$BOB\"," to "of Bob")
        for ((owner, name) in changes) {
            unanswered(store)
            val file = folder.listFiles()!!.single { it.name.endsWith(".request") }
            val content = file.readText().substringAfter('\n').replace("\"owner\":\"$ANN\",", owner)
            val sum = Buffer().writeUtf8(content).sha256().hex()
            file.writeText("edge-idempotency-request-2 $sum\n$content")
            val sent = server.requestCount
            for (client in listOf(client(store), client(store, BOB))) {
                assertTrue(client.resumePending().single().error is DamagedRecordException, name)
            }
            assertEquals(sent, server.requestCount)
            file.delete()
        }
        val earlier = "{}".encodeUtf8()
        val bytes = "edge-idempotency-request-1 ${earlier.sha256().hex()}\n{}".toByteArray()
        assertThrows(DamagedRecordException::class.java) { PendingRequest.fromBytes(bytes) }
    }
}
