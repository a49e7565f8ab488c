package dev.edgeidempotency

import okhttp3.Headers.Companion.headersOf
import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Assertions.assertFalse
import org.junit.jupiter.api.Assertions.assertThrows
import org.junit.jupiter.api.Assertions.assertTrue
import org.junit.jupiter.api.Test
import org.junit.jupiter.params.ParameterizedTest
import org.junit.jupiter.params.provider.CsvSource
import java.util.concurrent.TimeUnit

class ScheduleTest {
    /** 2023-11-14T22:13:20Z. */
    private val now = 1_700_000_000_000

    @ParameterizedTest
    @CsvSource(
        "0, 0",
        "2, 2000",
        "' 2 ', 2000",
        "60, 60000",
        "61, 60000",
        "99999999999, 60000",
        "9223372036854775807, 60000",
        "99999999999999999999999999, 60000",
        "-5, 0",
        "1.5, 0",
        "soon, 0",
        "'', 0",
        "'Tue, 14 Nov 2023 22:13:30 GMT', 10000",
        "'Tuesday, 14-Nov-23 22:13:30 GMT', 10000",
        "'Tue Nov 14 22:13:30 2023', 10000",
        "'Tue, 14 Nov 2023 22:13:10 GMT', 0",
        "'Fri, 14 Nov 2053 22:13:30 GMT', 60000"
    )
    fun `Retry-After is seconds or a date`(value: String, expected: Long) {
        assertEquals(expected, Schedule(options()) { 0.0 }.wait(0, headersOf("Retry-After", value), now))
    }

    @ParameterizedTest
    @CsvSource("0, 500", "1, 1000", "2, 2000", "5, 16000", "6, 30000", "9, 30000", "5000, 30000")
    fun `the random wait doubles up to the cap`(retries: Int, longest: Long) {
        assertEquals(0, Schedule(options()) { 0.0 }.wait(retries, null, now))
        assertEquals(longest / 2, Schedule(options()) { 0.5 }.wait(retries, null, now))
        assertEquals(longest - 1, Schedule(options()) { 1 - 1e-9 }.wait(retries, null, now))
    }

    @Test
    fun `the random wait comes on top of Retry-After`() {
        assertEquals(2_250, Schedule(options()) { 0.5 }.wait(0, headersOf("Retry-After", "2"), now))
        assertEquals(75_000, Schedule(options()) { 0.5 }.wait(9, headersOf("Retry-After", "3600"), now))
    }

    @Test
    fun `the number of attempts and the budget bound the schedule`() {
        val schedule = Schedule(options { attempts(3).budget(10, TimeUnit.SECONDS) }) { 0.0 }
        assertTrue(schedule.allows(2, 10_000))
        assertFalse(schedule.allows(2, 10_001))
        assertFalse(schedule.allows(3, 0))
    }

    @Test
    fun `a request expires by age, and if the clock was changed`() {
        val schedule = Schedule(options { expiresAfter(1, TimeUnit.HOURS) }) { 0.0 }
        assertFalse(schedule.isExpired(now, now + 3_600_000))
        assertTrue(schedule.isExpired(now, now + 3_600_001))
        assertFalse(schedule.isExpired(now, now - 300_000))
        assertTrue(schedule.isExpired(now, now - 300_001))
    }

    @Test
    fun `settings out of bounds are refused`() {
        assertThrows(IllegalArgumentException::class.java) { options { attempts(0) } }
        assertThrows(IllegalArgumentException::class.java) { options { base(-1, TimeUnit.SECONDS) } }
        assertThrows(IllegalArgumentException::class.java) { options { budget(-1, TimeUnit.SECONDS) } }
        assertThrows(IllegalArgumentException::class.java) { options { attemptTimeout(0, TimeUnit.SECONDS) } }
        assertThrows(IllegalArgumentException::class.java) { options { attemptTimeout(30, TimeUnit.DAYS) } }
        assertThrows(IllegalArgumentException::class.java) { options { methods("get") } }
    }

    @Test
    fun `the defaults are those of the page`() {
        val defaults = options()
        assertEquals(setOf("POST", "PATCH"), defaults.methods)
        assertEquals(
            listOf(10L, 600_000L, 30_000L, 500L, 30_000L, 60_000L, 82_800_000L),
            with(defaults) {
                listOf(attempts.toLong(), budgetMillis, attemptTimeoutMillis, baseMillis, capMillis, maxRetryAfterMillis, expiresAfterMillis)
            }
        )
        assertTrue(defaults.attemptHeader)
    }
}
