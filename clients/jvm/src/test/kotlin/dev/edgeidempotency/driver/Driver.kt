package dev.edgeidempotency.driver

import com.squareup.moshi.JsonReader
import com.squareup.moshi.JsonWriter
import dev.edgeidempotency.AbortedException
import dev.edgeidempotency.Credentials
import dev.edgeidempotency.ExpiredException
import dev.edgeidempotency.FileStore
import dev.edgeidempotency.Idempotency
import dev.edgeidempotency.IdempotencyException
import dev.edgeidempotency.IdempotencyOptions
import dev.edgeidempotency.IdempotentClient
import dev.edgeidempotency.NoAnswerException
import dev.edgeidempotency.OtherOwnerException
import okhttp3.Call
import okhttp3.Callback
import okhttp3.ConnectionPool
import okhttp3.Dispatcher
import okhttp3.MediaType.Companion.toMediaType
import okhttp3.OkHttpClient
import okhttp3.Request
import okhttp3.RequestBody.Companion.toRequestBody
import okhttp3.Response
import okio.Buffer
import java.io.File
import java.io.IOException
import java.io.PrintStream
import java.util.concurrent.Executors
import java.util.concurrent.TimeUnit
import java.util.concurrent.locks.ReentrantLock
import kotlin.concurrent.withLock
import kotlin.system.exitProcess

/** The program of clients/DRIVER.md. */
fun main(arguments: Array<String>) {
    val settings = parse(arguments.single())
    val concurrency = settings.number("concurrency")?.toInt() ?: 64
    val base = OkHttpClient.Builder()
        .dispatcher(
            Dispatcher().apply {
                maxRequests = concurrency
                maxRequestsPerHost = concurrency
            }
        )
        .connectionPool(ConnectionPool(concurrency, 1, TimeUnit.MINUTES))
        .build()
    val owner = settings["owner"] as String
    val token = settings["token"] as? String
    val options = IdempotencyOptions.Builder(owner) { _, _ ->
        Credentials(owner, if (token == null) emptyMap() else mapOf("Authorization" to "Bearer $token"))
    }.apply {
        settings.number("base_ms")?.let { base(it, TimeUnit.MILLISECONDS) }
        settings.number("cap_ms")?.let { cap(it, TimeUnit.MILLISECONDS) }
        settings.number("attempts")?.let { attempts(it.toInt()) }
        settings.number("attempt_timeout_ms")?.let { attemptTimeout(it, TimeUnit.MILLISECONDS) }
        settings.number("budget_ms")?.let { budget(it, TimeUnit.MILLISECONDS) }
        settings.number("max_retry_after_ms")?.let { maxRetryAfter(it, TimeUnit.MILLISECONDS) }
    }.build()
    val client = IdempotentClient.create(base, FileStore(File(settings["store"] as String)), options)

    if (settings["resume"] == true) {
        client.resumePending { result ->
            val response = result.response
            if (response != null) tellAnswer(null, response) else tellFailure(null, result.key, result.error!!)
        }
    }
    val timer = Executors.newSingleThreadScheduledExecutor { Thread(it).apply { isDaemon = true } }
    while (true) {
        val intent = parse(readlnOrNull() ?: break)
        start(client, intent) { call, millis -> timer.schedule(call::cancel, millis, TimeUnit.MILLISECONDS) }
    }
    running.awaitZero()
    exitProcess(0)
}

/** The number of the intents that have no result yet. */
private class Running {
    private val lock = ReentrantLock()
    private val changed = lock.newCondition()
    private var number = 0L

    fun add(change: Int) = lock.withLock {
        number += change
        changed.signalAll()
    }

    fun awaitZero() = lock.withLock {
        while (number > 0) changed.await()
    }
}

private val running = Running()

private fun start(client: IdempotentClient, intent: Map<*, *>, cancelAfter: (Call, Long) -> Unit) {
    val id = intent["id"] as String
    val body = (intent["body"] as? String)?.toByteArray()?.toRequestBody("application/json".toMediaType())
    val call = client.newCall(Request.Builder().url(intent["url"] as String).method(intent["method"] as String, body).build())
    running.add(1)
    call.enqueue(object : Callback {
        override fun onFailure(call: Call, e: IOException) {
            tellFailure(id, null, e)
            running.add(-1)
        }

        override fun onResponse(call: Call, response: Response) {
            tellAnswer(id, response)
            running.add(-1)
        }
    })
    intent.number("abort_after_ms")?.let { cancelAfter(call, it) }
}

private fun tellAnswer(id: String?, response: Response) {
    val known = Idempotency.of(response)
    val body = response.body!!.string()
    tell {
        name("event").value("answer").name("id").value(id).name("key").value(known?.key).name("status").value(response.code)
        name("body").value(body).name("replayed").value(known?.isReplay == true).name("attempts").value(known?.attempts ?: 1)
        name("operation_id").value(known?.operationId).name("code").value(known?.code).name("retry").value(known?.retry)
    }
}

private fun tellFailure(id: String?, key: String?, error: IOException) {
    val known = error as? IdempotencyException
    val name = when (error) {
        is NoAnswerException -> "no_answer"
        is ExpiredException -> "expired"
        is AbortedException -> "aborted"
        is OtherOwnerException -> "other_owner"
        // A call that was cancelled before it began is OkHttp's own error.
        else -> if (error.message == "Canceled") "aborted" else "other"
    }
    tell {
        name("event").value("failed").name("id").value(id).name("key").value(known?.key ?: key).name("error").value(name)
        name("attempts").value(known?.attempts ?: 0).name("message").value(error.message ?: error.toString())
    }
}

private val output = PrintStream(java.io.FileOutputStream(java.io.FileDescriptor.out), false, "UTF-8")

private fun tell(members: JsonWriter.() -> Unit) {
    val line = Buffer()
    JsonWriter.of(line).use {
        it.serializeNulls = true
        it.beginObject()
        it.members()
        it.endObject()
    }
    synchronized(output) {
        output.write(line.writeByte('\n'.code).readByteArray())
        output.flush()
    }
}

private fun parse(line: String): Map<*, *> = JsonReader.of(Buffer().writeUtf8(line)).readJsonValue() as Map<*, *>

private fun Map<*, *>.number(name: String): Long? = (this[name] as? Double)?.toLong()
