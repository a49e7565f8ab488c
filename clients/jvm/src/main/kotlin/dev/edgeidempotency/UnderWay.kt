package dev.edgeidempotency

/**
 * The requests that this process sends now. Stores that are equal hold the same requests, so all clients of a process share this list, and
 * `resumePending()` of one does not send what another one sends.
 */
internal object UnderWay {
    private val calls = HashMap<Pair<PendingStore, String>, Int>()

    /** Notes one more call with [key]. Several at a time are possible, because a caller may send its key twice. */
    fun begin(store: PendingStore, key: String) {
        synchronized(calls) { calls[store to key] = (calls[store to key] ?: 0) + 1 }
    }

    /** Notes a call with [key] and returns true, if there is none. */
    fun beginOnly(store: PendingStore, key: String): Boolean = synchronized(calls) {
        if (store to key in calls) return false
        begin(store, key)
        true
    }

    /** Ends what one [begin] or [beginOnly] has begun. */
    fun end(store: PendingStore, key: String) {
        synchronized(calls) {
            val left = (calls[store to key] ?: return) - 1
            if (left > 0) calls[store to key] = left else calls.remove(store to key)
        }
    }

    /** The number of keys under way. */
    fun size(): Int = synchronized(calls) { calls.size }
}
