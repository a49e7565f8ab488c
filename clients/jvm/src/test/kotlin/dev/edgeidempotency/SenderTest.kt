package dev.edgeidempotency

import okhttp3.Headers.Companion.headersOf
import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Assertions.assertNull
import org.junit.jupiter.api.Assertions.assertThrows
import org.junit.jupiter.api.Assertions.assertTrue
import org.junit.jupiter.api.Test
import java.io.IOException
import java.util.concurrent.TimeUnit

/** The loop over the attempts, with answers and clocks of the test. */
class SenderTest {
    private val time = FakeTime()
    private val reset = IOException("connection reset")
    private val processing = answer(202, "Idempotency-Status", "processing", "Location", "/operations/1", "Retry-After", "3")

    @Test
    fun `the number of the attempt can be left out`() {
        val script = Script(options { attemptHeader(false) }, time, answer(201))
        script.run()
        assertNull(script.requests.single().header("X-Retry-Attempt"))
    }

    @Test
    fun `it waits as the schedule says`() {
        time.random = 0.5
        Script(options(), time, reset, answer(503, "Retry-After", "4"), reset, answer(201)).run()
        assertEquals(listOf(250L, 4_500L, 1_000L), time.waits)
    }

    @Test
    fun `a wait that does not fit into the budget ends it without the wait`() {
        val script = Script(options { budget(30, TimeUnit.SECONDS) }, time, answer(503, "Retry-After", "20"), answer(503, "Retry-After", "11"))
        val error = assertThrows(NoAnswerException::class.java) { script.run() }
        assertEquals(503, error.lastStatus)
        assertEquals(listOf(20_000L), time.waits)
    }

    @Test
    fun `it asks at Location without the key and the body`() {
        val script = Script(options(), time, processing, answer(202, "Idempotency-Status", "processing"), reset, answer(503), answer(200))
        val conditions = listOf("If-Match", "if-none-match", "Range", "Expect")
        val headers = headersOf("Content-Type", "application/json", "Content-Encoding", "gzip", "Accept", "text/plain").newBuilder()
            .apply { conditions.forEach { add(it, "x") } }.build()
        val sent = script.run(headers = headers)
        assertEquals(200, sent.answer.response.code)
        assertEquals(5, sent.attempts)
        assertEquals("POST $URL", "${script.requests[0].method} ${script.requests[0].url}")
        for (question in script.requests.drop(1)) {
            assertEquals("GET http://api.test/operations/1", "${question.method} ${question.url}")
            assertNull(question.header("Idempotency-Key"))
            assertNull(question.header("Content-Type"))
            assertNull(question.header("Content-Encoding"))
            assertEquals(emptyList<String>(), conditions.filter { question.header(it) != null })
            assertEquals("text/plain", question.header("Accept"))
        }
        assertEquals(3_000L, time.waits.first())
    }

    @Test
    fun `credentials are asked before each attempt and replace the caller's`() {
        var token = 0
        val options = options { credentials { _, _ -> mapOf("authorization" to "Bearer ${++token}") } }
        val script = Script(options, time, answer(503), answer(201))
        script.run(headers = headersOf("Authorization", "Bearer old"))
        assertEquals(listOf(listOf("Bearer 1"), listOf("Bearer 2")), script.requests.map { it.headers("Authorization") })
    }

    @Test
    fun `a renewal does not exceed the attempts`() {
        var token = 0
        val script = Script(options { attempts(1).credentials { _, _ -> mapOf("Authorization" to "Bearer ${++token}") } }, time, answer(401))
        assertEquals(401, assertThrows(NoAnswerException::class.java) { script.run() }.lastStatus)
    }

    @Test
    fun `credentials that cannot be had now are asked for again, and are no attempt`() {
        var asked = 0
        val options = options { credentials { _, _ -> if (++asked == 1) throw IOException("no network") else mapOf("Authorization" to "Bearer 1") } }
        val script = Script(options, time, answer(201))
        assertEquals(1, script.run().attempts)
        assertEquals("1", script.requests.single().header("X-Retry-Attempt"))
        assertEquals(1, time.waits.size)
    }

    @Test
    fun `credentials that can never be had end it`() {
        val none = options { attempts(3).credentials { _, _ -> throw IOException("no network") } }
        val error = assertThrows(CredentialsException::class.java) { Script(none, time).run() }
        assertEquals("no network" to 0, error.cause?.message to error.attempts)
        assertEquals(2, time.waits.size)
        var asked = 0
        val later = options { attempts(3).credentials { _, _ -> if (++asked > 1) throw IOException("no network") else emptyMap() } }
        assertEquals(1, assertThrows(NoAnswerException::class.java) { Script(later, time, answer(503)).run() }.attempts)
    }

    @Test
    fun `a request that expires while credentials are asked is not sent`() {
        val slow = options {
            credentials { _, _ ->
                time.pass(TimeUnit.HOURS.toMillis(24))
                emptyMap()
            }
        }
        assertEquals(0, assertThrows(ExpiredException::class.java) { Script(slow, time).run() }.attempts)
    }

    @Test
    fun `credentials do not change the key`() {
        val script = Script(options { credentials { _, _ -> mapOf("idempotency-key" to "other") } }, time, processing, answer(200))
        script.run()
        assertEquals(listOf(KEY, null), script.requests.map { it.header("Idempotency-Key") })
    }

    @Test
    fun `a renewal that cannot be had now is tried again later`() {
        var renewals = 0
        val options = options {
            credentials { _, renew ->
                if (renew && ++renewals == 1) throw IOException("no network")
                mapOf("Authorization" to "Bearer $renewals")
            }
        }
        val script = Script(options, time, answer(401), answer(401), answer(201))
        assertEquals(201, script.run().answer.response.code)
        assertEquals(1, time.waits.size)
    }

    @Test
    fun `credentials with an error of their own end it`() {
        val script = Script(options { credentials { _, _ -> error("no user") } }, time)
        val error = assertThrows(CredentialsException::class.java) { script.run() }
        assertEquals("no user", error.cause?.message)
    }

    @Test
    fun `an expired request is not sent`() {
        val error = assertThrows(ExpiredException::class.java) {
            Script(options(), time).run(pending(keptAt = time.wall - TimeUnit.HOURS.toMillis(23) - 1))
        }
        assertEquals(0, error.attempts)
        assertTrue(error.message!!.contains("forget(key)"))
    }

    @Test
    fun `a request that expires between two attempts is not sent again`() {
        val script = Script(options { expiresAfter(10, TimeUnit.SECONDS) }, time, answer(503, "Retry-After", "11"))
        assertEquals(1, assertThrows(ExpiredException::class.java) { script.run() }.attempts)
    }

    @Test
    fun `a question may come later than the expiry`() {
        val late = answer(202, "Idempotency-Status", "processing", "Location", "/operations/1", "Retry-After", "11")
        assertEquals(2, Script(options { expiresAfter(10, TimeUnit.SECONDS) }, time, late, answer(200)).run().attempts)
    }
}
