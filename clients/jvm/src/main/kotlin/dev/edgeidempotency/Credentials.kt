package dev.edgeidempotency

import okhttp3.HttpUrl
import java.io.IOException

/** Gives the headers with the caller's credentials. It is asked before each attempt, from any thread. The client sets it no time limit. */
public fun interface Credentials {
    /**
     * Returns header names and values for a request to [url], for example `Authorization` and `Bearer …`. They replace headers of the same
     * name that the request has. They are never kept. [renew] is true after the API has answered 401: return a new token then. If the values are
     * the same as before, the 401 is final.
     *
     * @throws IOException if the credentials cannot be had now, for example without a network. The client asks again after a wait, at most as
     * often as it may send the request. Before the first attempt of a new request it does not ask again, and the call fails.
     */
    @Throws(IOException::class)
    public fun headers(url: HttpUrl, renew: Boolean): Map<String, String>
}
