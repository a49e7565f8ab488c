package dev.edgeidempotency

import java.io.IOException

/**
 * Keeps requests until their final answer has arrived. An app can implement it over its own database: [PendingRequest.toBytes] gives one blob
 * for each owner and key. All methods are called from several threads at once, never from Android's main thread unless the app calls there.
 */
public interface PendingStore {
    /**
     * Keeps [request], unless its owner has one with its key already, and returns the one that is kept. When it returns, the request has to survive
     * a crash, as far as the store is durable.
     *
     * @throws IOException if the request cannot be kept; then it is not sent, and the client removes what was written
     */
    @Throws(IOException::class)
    public fun putIfAbsent(request: PendingRequest): PendingRequest

    /**
     * Returns the request of [owner] with this key, or null.
     *
     * @throws IOException if the store cannot be read, or the record is damaged
     */
    @Throws(IOException::class)
    public fun get(owner: String, key: String): PendingRequest?

    /**
     * Removes the request of [owner] with this key, if it is there. A damaged record of them is removed, too.
     *
     * @throws IOException if it cannot be removed
     */
    @Throws(IOException::class)
    public fun remove(owner: String, key: String)

    /**
     * Returns all requests that can be read, of all owners, the oldest first.
     *
     * @throws IOException if the store cannot be read at all; one damaged record is no reason for that
     */
    @Throws(IOException::class)
    public fun list(): List<PendingRequest>

    /** Returns what is wrong with each record that cannot be read. By default there is none. */
    @Throws(IOException::class)
    public fun damaged(): List<DamagedRecordException> = emptyList()
}

/** Keeps requests in memory only: they are lost when the process ends. One store may be used by several clients of a process. */
public class MemoryStore : PendingStore {
    private val requests = LinkedHashMap<Pair<String, String>, PendingRequest>()

    override fun putIfAbsent(request: PendingRequest): PendingRequest =
        synchronized(requests) { requests.getOrPut(request.owner to request.key) { request } }

    override fun get(owner: String, key: String): PendingRequest? = synchronized(requests) { requests[owner to key] }

    override fun remove(owner: String, key: String) {
        synchronized(requests) { requests.remove(owner to key) }
    }

    override fun list(): List<PendingRequest> = synchronized(requests) { requests.values.sortedBy { it.keptAtMillis } }
}
