package dev.edgeidempotency

import okio.ByteString.Companion.encodeUtf8
import java.io.File
import java.io.FileOutputStream
import java.io.IOException
import java.io.RandomAccessFile
import java.nio.channels.ClosedByInterruptException
import java.nio.channels.FileChannel
import java.nio.file.StandardOpenOption

/**
 * Keeps each request in a file of its own in [folder], which is made if it is missing. The bodies are not encrypted, and only the owner can
 * read the folder if this class has made it.
 *
 * A file is written under another name, forced to the disk, and renamed, so that a crash leaves a whole record or none. Several threads,
 * stores and processes may use one folder: a lock on the file `lock` makes the check for a key and the rename one step.
 *
 * On Android the folder belongs into `context.filesDir` or `noBackupFilesDir`, on a disk of the device itself.
 */
public class FileStore internal constructor(folder: File, private val force: (File) -> Unit) : PendingStore {
    /** @throws IOException if the folder cannot be made */
    @Throws(IOException::class)
    public constructor(folder: File) : this(folder, ::forceFolder)

    /** The folder as an absolute path without links, so that two stores of one folder are equal. */
    public val folder: File = folder.canonicalFile

    init {
        if (this.folder.mkdirs()) {
            for (everybody in listOf(true, false)) {
                this.folder.setReadable(!everybody, !everybody)
                this.folder.setWritable(!everybody, !everybody)
                this.folder.setExecutable(!everybody, !everybody)
            }
        }
        if (!this.folder.isDirectory) throw IOException("${this.folder} is not a folder, and cannot be made one")
        // A crash leaves such a file. A young one may belong to another process that writes it now.
        val old = System.currentTimeMillis() - 3_600_000
        files(UNFINISHED).filter { it.lastModified() < old }.forEach { it.delete() }
    }

    override fun putIfAbsent(request: PendingRequest): PendingRequest {
        while (true) {
            val place = place(request.owner, request.key)
            val isNew = !place.exists() && write(request, place)
            try {
                // Also where another thread has renamed the file: it may not have forced the folder to the disk yet.
                uninterrupted { force(folder) }
            } catch (error: IOException) {
                // The caller learns that it is not kept, so it must not be sent later.
                if (isNew && !place.delete()) error.addSuppressed(IOException("$place cannot be removed"))
                throw error
            }
            if (isNew) return request
            // Another call with this key may have got its answer and removed the file; then it is written again.
            read(place)?.let { return it }
        }
    }

    override fun get(owner: String, key: String): PendingRequest? = read(place(owner, key))

    override fun remove(owner: String, key: String) {
        val place = place(owner, key)
        if (place.delete()) {
            uninterrupted { force(folder) }
        } else if (place.exists()) {
            throw IOException("$place cannot be removed")
        }
    }

    override fun list(): List<PendingRequest> = files(RECORD).mapNotNull {
        try {
            read(it)
        } catch (_: DamagedRecordException) {
            null
        }
    }.sortedBy { it.keptAtMillis }

    override fun damaged(): List<DamagedRecordException> = files(RECORD).mapNotNull {
        try {
            read(it)
            null
        } catch (damaged: DamagedRecordException) {
            damaged
        }
    }

    /** Two stores of one folder are equal. */
    override fun equals(other: Any?): Boolean = other is FileStore && other.folder == folder

    override fun hashCode(): Int = folder.hashCode()

    /** A key may have characters that a file name cannot have, and some file systems do not know `a` from `A`. */
    private fun place(owner: String, key: String): File = File(folder, "${owner.length}:$owner$key".encodeUtf8().sha256().hex() + RECORD)

    private fun files(ending: String): List<File> =
        folder.listFiles { file -> file.name.endsWith(ending) }?.toList() ?: throw IOException("$folder cannot be listed")

    /** Null if the file is not there, or is removed at this moment. */
    private fun read(file: File): PendingRequest? {
        val bytes = try {
            file.readBytes()
        } catch (error: IOException) {
            if (file.exists()) throw DamagedRecordException(file.path, error.toString())
            return null
        }
        val request = PendingRequest.fromBytes(bytes, file.path)
        if (place(request.owner, request.key).name != file.name) throw DamagedRecordException(file.path, "its name is that of another owner or key")
        return request
    }

    /** Returns false if another thread or process has written the file at the same time. */
    private fun write(request: PendingRequest, place: File): Boolean {
        val unfinished = File.createTempFile("request", UNFINISHED, folder)
        try {
            FileOutputStream(unfinished).use { out ->
                out.write(request.toBytes())
                out.fd.sync()
            }
            return locked {
                val isNew = !place.exists()
                if (isNew && !unfinished.renameTo(place)) throw IOException("$unfinished cannot be renamed to $place")
                isNew
            }
        } finally {
            unfinished.delete()
        }
    }

    private fun <T> locked(action: () -> T): T {
        // The lock of a file counts for a whole process, and a second one in the same process is an error.
        synchronized(THREADS) {
            return RandomAccessFile(File(folder, "lock"), "rw").use { file -> file.channel.lock().use { action() } }
        }
    }

    /** Runs [action] to its end, and lets an interrupt wait until then: it would close the channel of the folder, and leave the record. */
    private fun uninterrupted(action: () -> Unit) {
        var interrupted = Thread.interrupted()
        try {
            while (true) {
                try {
                    return action()
                } catch (_: ClosedByInterruptException) {
                    Thread.interrupted()
                    interrupted = true
                }
            }
        } finally {
            if (interrupted) Thread.currentThread().interrupt()
        }
    }

    private companion object {
        const val RECORD = ".request"
        const val UNFINISHED = ".unfinished"
        val THREADS = Any()
    }
}

private fun forceFolder(folder: File) {
    try {
        FolderForcer.force(folder)
    } catch (_: LinkageError) {
        // Before API 26 Android has no way to force a folder to the disk. A loss of power may lose the newest records there.
    }
}

/** What needs classes that Android has only since API 26. */
@NewerThanApi21
private object FolderForcer {
    fun force(folder: File) {
        // Windows cannot open a folder, and writes its entries without that.
        if (File.separatorChar == '\\') return
        FileChannel.open(folder.toPath(), StandardOpenOption.READ).use { it.force(true) }
    }
}

/** Marks code that is called only where its classes exist; the check for API 21 in pom.xml leaves it out. */
@Retention(AnnotationRetention.BINARY)
@Target(AnnotationTarget.CLASS)
internal annotation class NewerThanApi21
