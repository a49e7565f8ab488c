package dev.edgeidempotency

import okhttp3.HttpUrl
import java.io.IOException

/**
 * What [CredentialsSource] gives.
 *
 * @property owner whose credentials these are, read together with them. If that is not the client's owner, nothing is sent
 * @property headers header names and values, for example `Authorization` and `Bearer …`; none where a cookie jar has the cookies
 */
public class Credentials @JvmOverloads constructor(public val owner: String, public val headers: Map<String, String> = emptyMap()) {
    init {
        requireOwner(owner)
    }
}

/** Gives the credentials of who is logged in now. It is asked before each attempt, from any thread. The client sets it no time limit. */
public fun interface CredentialsSource {
    /**
     * Returns the credentials for a request to [url]. Their headers replace headers of the same name that the request has. They are never kept.
     * [renew] is true after the API has answered 401: return a new token then. If the values are the same as before, the 401 is final.
     *
     * @throws IOException if the credentials cannot be had now, for example without a network. The client asks again after a wait, at most as
     * often as it may send the request. Before the first attempt of a new request it does not ask again, and the call fails.
     */
    @Throws(IOException::class)
    public fun get(url: HttpUrl, renew: Boolean): Credentials
}

/** There is no owner by default: a request of nobody could be sent by anybody. */
internal fun requireOwner(owner: String) {
    require(owner.isNotBlank()) { "the owner is blank: name who makes the requests" }
}
