package dev.edgeidempotency

import okhttp3.Headers.Companion.headersOf
import okhttp3.HttpUrl.Companion.toHttpUrl
import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.DynamicTest
import org.junit.jupiter.api.DynamicTest.dynamicTest
import org.junit.jupiter.api.TestFactory

/** Every row of the table in clients/README.md, and which row wins if several fit. */
class AnswerTableTest {
    private val operation = "http://api.test/operations/1/state".toHttpUrl()

    private class Row(val expected: String, val status: Int, vararg val headers: String)

    private val rows = listOf(
        Row("ask http://api.test/operations/1", 202, "Idempotency-Status", "processing", "Location", "/operations/1"),
        Row("ask http://api.test/operations/1", 202, "Idempotency-Status", "processing", "Location", "http://api.test:80/operations/1"),
        Row("ask http://api.test/1", 202, "Idempotency-Status", "Processing", "Location", "1"),
        Row("again", 500, "Idempotency-Retry", "Same_Key"),
        Row("final", 503, "Idempotency-Status", "Stored"),
        Row("final", 503, "Idempotent-Replayed", "True"),
        Row("again", 202, "Idempotency-Status", "processing"),
        Row("again", 202, "Idempotency-Status", "processing", "Location", "http://other.test/operations/1"),
        Row("again", 202, "Idempotency-Status", "processing", "Location", "https://api.test/operations/1"),
        Row("again", 202, "Idempotency-Status", "processing", "Location", "http://api.test:81/operations/1"),
        Row("again", 202, "Idempotency-Status", "processing", "Location", "//other.test/operations/1"),
        Row("again", 202, "Idempotency-Status", "processing", "Location", "mailto:somebody@api.test"),
        Row("ask http://api.test/operations/1", 202, "Idempotency-Status", "completed", "Idempotent-Replayed", "true", "Location", "/operations/1"),
        Row("ask http://api.test/operations/1", 202, "Idempotency-Status", "failed", "Idempotency-Retry", "new_key", "Location", "/operations/1"),
        Row("ask http://api.test/operations/1", 202, "Idempotency-Status", "accepted", "Location", "/operations/1"),
        Row("final", 202, "Idempotency-Status", "completed"),
        Row("final", 202, "Idempotency-Status", "completed", "Location", "http://other.test/operations/1"),
        Row("final", 200, "Idempotency-Status", "completed", "Location", "/operations/1"),
        Row("final", 202),
        Row("final", 202, "Location", "/operations/1"),
        Row("final", 200, "Idempotency-Status", "processing"),
        Row("again", 500, "Idempotency-Retry", "same_key"),
        Row("again", 404, "Idempotency-Retry", "same_key"),
        Row("again", 409, "Idempotency-Retry", "wait"),
        Row("again", 503, "Idempotency-Retry", "wait", "Idempotency-Status", "stored"),
        Row("final", 503, "Idempotency-Retry", "never"),
        Row("final", 503, "Idempotency-Retry", "new_key"),
        Row("final", 409, "Idempotency-Retry", "new_key", "Retry-After", "1"),
        Row("final", 401, "Idempotency-Retry", "new_request"),
        Row("final", 429, "Idempotency-Retry", "something else"),
        Row("renew", 401),
        Row("renew", 401, "Idempotency-Status", "stored"),
        Row("final", 503, "Idempotency-Status", "stored"),
        Row("final", 503, "Idempotency-Status", "replayed"),
        Row("final", 503, "Idempotent-Replayed", "true"),
        Row("final", 409, "Idempotency-Status", "stored", "Retry-After", "1"),
        Row("again", 503, "Idempotent-Replayed", "false"),
        Row("again", 409, "Retry-After", "1"),
        Row("again", 425, "Retry-After", "1"),
        Row("final", 409),
        Row("final", 425),
        Row("again", 429),
        Row("again", 502),
        Row("again", 503),
        Row("again", 504),
        Row("final", 200),
        Row("final", 201, "Idempotency-Status", "stored"),
        Row("final", 302, "Location", "/elsewhere"),
        Row("final", 307, "Location", "/elsewhere"),
        Row("final", 400),
        Row("final", 408),
        Row("final", 422),
        Row("final", 500),
        Row("final", 501)
    )

    @TestFactory
    fun rows(): List<DynamicTest> = rows.map { row ->
        dynamicTest("${row.status} ${row.headers.toList()} is ${row.expected}") {
            assertEquals(row.expected, name(AnswerTable.read(row.status, headersOf(*row.headers), URL, location = null, mayRenew = true)))
        }
    }

    @TestFactory
    fun `while it asks at Location`(): List<DynamicTest> = listOf(
        Row("send the request", 404),
        Row("send the request", 404, "Idempotency-Retry", "new_key"),
        Row("final", 404, "Idempotent-Replayed", "true"),
        Row("ask http://api.test/operations/2", 202, "Idempotency-Status", "processing", "Location", "/operations/2"),
        Row("ask http://api.test/operations/1/result", 202, "Idempotency-Status", "processing", "Location", "result"),
        Row("again", 202, "Idempotency-Status", "processing"),
        Row("again", 503),
        Row("final", 200, "Idempotency-Status", "completed"),
        Row("final", 400)
    ).map { row ->
        dynamicTest("${row.status} ${row.headers.toList()} is ${row.expected}") {
            assertEquals(row.expected, name(AnswerTable.read(row.status, headersOf(*row.headers), URL, location = operation, mayRenew = true)))
        }
    }

    @TestFactory
    fun `401 without new credentials`(): List<DynamicTest> =
        listOf(Row("final", 401), Row("again", 401, "Idempotency-Retry", "same_key")).map { row ->
            dynamicTest("${row.status} ${row.headers.toList()} is ${row.expected}") {
                assertEquals(row.expected, name(AnswerTable.read(row.status, headersOf(*row.headers), URL, location = null, mayRenew = false)))
            }
        }

    private fun name(step: Step): String = when (step) {
        is Step.Final -> "final"
        is Step.Again -> "again"
        is Step.Ask -> "ask ${step.location}"
        is Step.SendRequest -> "send the request"
        is Step.Renew -> "renew"
    }
}
