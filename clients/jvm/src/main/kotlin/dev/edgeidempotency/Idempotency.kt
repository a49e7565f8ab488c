package dev.edgeidempotency

import com.squareup.moshi.JsonDataException
import com.squareup.moshi.JsonReader
import okhttp3.Response
import okio.Buffer
import java.io.IOException

/** What the client knows about an answer besides the answer itself; [of] gives it. */
public class Idempotency internal constructor(
    /** The request's `Idempotency-Key`. */
    public val key: String,
    /** The number of HTTP requests that were sent, questions at `Location` included. */
    public val attempts: Int,
    /** True if the answer is the kept result of an earlier request with this key. */
    public val isReplay: Boolean,
    /** The operation's id (`X-Operation-Id`), or null. */
    public val operationId: String?,
    /** The `code` of a refusal's problem document, or null. */
    public val code: String?,
    /** What to do after an error: `retry` of the problem document, or else the header `Idempotency-Retry`, or null. */
    public val retry: String?,
    /** What to change: `detail` of the problem document, or null. */
    public val detail: String?,
    /** Why the store could not remove the answered request, or null. `resumePending()` gives the same answer again then. */
    public val storeFailure: IOException?
) {
    public companion object {
        /** The information about [response], or null if its request had no key from an [IdempotentClient]. */
        @JvmStatic
        public fun of(response: Response): Idempotency? = response.request.tag(Idempotency::class.java)

        internal fun of(key: String, attempts: Int, response: Response, body: ByteArray, storeFailure: IOException?): Idempotency {
            val problem = if (response.code >= 400) problem(response, body) else emptyMap<Any?, Any?>()
            return Idempotency(
                key = key,
                attempts = attempts,
                isReplay = AnswerTable.isReplay(response.headers),
                operationId = response.header("X-Operation-Id"),
                code = problem["code"] as? String,
                retry = problem["retry"] as? String ?: response.header(IDEMPOTENCY_RETRY),
                detail = problem["detail"] as? String,
                storeFailure = storeFailure
            )
        }

        /** The members of a problem document (RFC 9457); none if the body is not one. */
        private fun problem(response: Response, body: ByteArray): Map<*, *> {
            val type = response.header("Content-Type")?.substringBefore(';')?.trim()
            if (!type.equals("application/problem+json", ignoreCase = true)) return emptyMap<Any?, Any?>()
            return try {
                JsonReader.of(Buffer().write(body)).readJsonValue() as? Map<*, *>
            } catch (_: IOException) {
                null
            } catch (_: JsonDataException) {
                null
            } ?: emptyMap<Any?, Any?>()
        }
    }
}
