package dev.edgeidempotency

import okhttp3.Call
import java.util.concurrent.TimeUnit
import java.util.concurrent.locks.ReentrantLock
import kotlin.concurrent.withLock

/** Ends the waits and the attempts of one intent, or of several, at once. It is safe for several threads. */
internal class Cancellation {
    private val lock = ReentrantLock()
    private val cancelled = lock.newCondition()
    private val attempts = ArrayList<Call>()

    /** True after [cancel]. */
    var isCancelled: Boolean = false
        get() = lock.withLock { field }
        private set

    /** Ends what is going on, and everything that begins later. */
    fun cancel() {
        val running = lock.withLock {
            isCancelled = true
            cancelled.signalAll()
            attempts.toList()
        }
        running.forEach { it.cancel() }
    }

    /** Runs [block], which executes [call]; a cancellation cancels the call. */
    fun <T> during(call: Call, block: () -> T): T {
        val now = lock.withLock {
            attempts.add(call)
            isCancelled
        }
        if (now) call.cancel()
        try {
            return block()
        } finally {
            lock.withLock { attempts.remove(call) }
        }
    }

    /**
     * Waits for [millis] milliseconds, or until the cancellation.
     *
     * @throws InterruptedException if the thread is interrupted
     */
    fun await(millis: Long) {
        lock.withLock {
            var left = TimeUnit.MILLISECONDS.toNanos(millis)
            while (left > 0 && !isCancelled) left = cancelled.awaitNanos(left)
        }
    }
}
