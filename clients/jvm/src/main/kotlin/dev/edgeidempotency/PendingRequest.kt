package dev.edgeidempotency

import com.squareup.moshi.JsonDataException
import com.squareup.moshi.JsonReader
import com.squareup.moshi.JsonWriter
import okhttp3.Headers
import okio.Buffer
import okio.ByteString
import okio.ByteString.Companion.decodeBase64
import okio.ByteString.Companion.toByteString
import java.io.IOException

/**
 * A request that is kept until it has its answer. It has no credentials.
 *
 * @property owner who made it: only a client of this owner sends it
 * @property key the `Idempotency-Key`; two owners may have the same one, these are two requests
 * @property method the HTTP method
 * @property url the absolute URL, without user and password
 * @property headers the headers that each attempt has, without the key and without credentials
 * @property body the body's bytes
 * @property keptAtMillis when it was kept, in milliseconds since the epoch
 */
public class PendingRequest(
    public val owner: String,
    public val key: String,
    public val method: String,
    public val url: String,
    public val headers: Headers,
    public val body: ByteString,
    public val keptAtMillis: Long
) {
    init {
        requireOwner(owner)
    }

    /** True if [other] asks for the same: method, URL and body are equal. The headers may differ. */
    internal fun asksTheSame(other: PendingRequest): Boolean = method == other.method && url == other.url && body == other.body

    /** Returns the request as one record with a checksum, for a store. [fromBytes] reads it. */
    public fun toBytes(): ByteArray {
        val content = Buffer()
        JsonWriter.of(content).use { json ->
            json.beginObject()
            json.name("owner").value(owner)
            json.name("key").value(key)
            json.name("method").value(method)
            json.name("url").value(url)
            json.name("kept_at_ms").value(keptAtMillis)
            json.name("headers").beginArray()
            for ((name, value) in headers) json.beginArray().value(name).value(value).endArray()
            json.endArray()
            json.name("body").value(body.base64())
            json.endObject()
        }
        return Buffer().writeUtf8("$FORMAT ${content.snapshot().sha256().hex()}\n").apply { writeAll(content) }.readByteArray()
    }

    override fun toString(): String = "$method $url with the key $key"

    public companion object {
        private const val FORMAT = "edge-idempotency-request-2"

        /**
         * Reads what [toBytes] has written. [record] is a name for the error.
         *
         * @throws DamagedRecordException if [bytes] are anything else
         */
        @JvmStatic
        @JvmOverloads
        @Throws(DamagedRecordException::class)
        public fun fromBytes(bytes: ByteArray, record: String = ""): PendingRequest {
            val end = bytes.indexOf('\n'.code.toByte())
            if (end < 0) throw DamagedRecordException(record, "it has no first line")
            val line = String(bytes, 0, end, Charsets.UTF_8).split(' ')
            if (line.size != 2 || line[0] != FORMAT) throw DamagedRecordException(record, "its first line is not \"$FORMAT\" and a checksum")
            val content = bytes.toByteString(end + 1, bytes.size - end - 1)
            if (content.sha256().hex() != line[1]) throw DamagedRecordException(record, "its checksum is wrong")
            return try {
                read(JsonReader.of(Buffer().write(content)).readJsonValue() as Map<*, *>)
            } catch (error: RuntimeException) {
                // A member is missing, or has another type, or a header has characters that HTTP does not have.
                throw DamagedRecordException(record, error.toString())
            } catch (error: IOException) {
                throw DamagedRecordException(record, error.toString())
            }
        }

        private fun read(json: Map<*, *>): PendingRequest {
            val headers = Headers.Builder()
            for (header in json["headers"] as List<*>) {
                val (name, value) = header as List<*>
                headers.addUnsafeNonAscii(name as String, value as String)
            }
            return PendingRequest(
                owner = json["owner"] as String,
                key = json["key"] as String,
                method = json["method"] as String,
                url = json["url"] as String,
                headers = headers.build(),
                body = (json["body"] as String).decodeBase64() ?: throw JsonDataException("the body is not Base64"),
                keptAtMillis = (json["kept_at_ms"] as Double).toLong()
            )
        }
    }
}
