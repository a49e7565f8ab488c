package dev.edgeidempotency

/**
 * The requests that this process sends now. Stores that are equal hold the same requests, so all clients of a process share this list, and
 * `resumePending()` of one does not send what another one sends.
 */
internal object UnderWay {
    private val calls = HashMap<Triple<PendingStore, String, String>, Int>()

    /** Notes one more call with the owner and the key of [request]. Several at a time are possible, because a caller may send its key twice. */
    fun begin(store: PendingStore, request: PendingRequest) {
        val place = place(store, request)
        synchronized(calls) { calls[place] = (calls[place] ?: 0) + 1 }
    }

    /** Notes a call with them and returns true, if there is none. */
    fun beginOnly(store: PendingStore, request: PendingRequest): Boolean = synchronized(calls) {
        if (place(store, request) in calls) return false
        begin(store, request)
        true
    }

    /** Ends what one [begin] or [beginOnly] has begun. */
    fun end(store: PendingStore, request: PendingRequest) {
        val place = place(store, request)
        synchronized(calls) {
            val left = (calls[place] ?: return) - 1
            if (left > 0) calls[place] = left else calls.remove(place)
        }
    }

    private fun place(store: PendingStore, request: PendingRequest) = Triple(store, request.owner, request.key)

    /** The number of keys under way. */
    fun size(): Int = synchronized(calls) { calls.size }
}
