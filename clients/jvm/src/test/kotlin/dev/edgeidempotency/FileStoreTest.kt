package dev.edgeidempotency

import okhttp3.Headers
import okhttp3.Headers.Companion.headersOf
import okio.ByteString.Companion.toByteString
import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Assertions.assertNotEquals
import org.junit.jupiter.api.Assertions.assertNull
import org.junit.jupiter.api.Assertions.assertSame
import org.junit.jupiter.api.Assertions.assertThrows
import org.junit.jupiter.api.Assertions.assertTrue
import org.junit.jupiter.api.Test
import org.junit.jupiter.api.io.TempDir
import java.io.File
import java.io.IOException
import java.nio.channels.ClosedByInterruptException
import java.util.concurrent.CyclicBarrier
import java.util.concurrent.TimeUnit
import java.util.concurrent.atomic.AtomicReferenceArray
import kotlin.concurrent.thread

class FileStoreTest {
    @TempDir
    lateinit var temporary: File

    private val folder get() = File(temporary, "pending")

    private fun records(): List<File> = folder.listFiles()!!.filter { it.name.endsWith(".request") }

    @Test
    fun `a request is the same after it was read again`() {
        val body = ByteArray(256) { it.toByte() }.toByteString()
        val headers = Headers.Builder().add("A", "1").add("a", "2").addUnsafeNonAscii("B", "ü").build()
        val request = PendingRequest("\"ä\"", "\"a/b\\ö\"", "PATCH", "https://api.test/x?q=%22", headers, body, 1_700_000_000_123)
        FileStore(folder).putIfAbsent(request)
        val read = FileStore(folder).list().single()
        assertEquals(
            with(request) { listOf(owner, key, method, url, headers, body, keptAtMillis) },
            with(read) { listOf(owner, key, method, url, this.headers, this.body, keptAtMillis) }
        )
        assertEquals(listOf("lock", records().single().name), folder.list()!!.sorted().reversed())
    }

    @Test
    fun `the oldest comes first, and keys that differ only by case are two`() {
        val store = FileStore(folder)
        store.putIfAbsent(pending("k", keptAt = 2))
        store.putIfAbsent(pending("K", keptAt = 1))
        assertEquals(listOf("K", "k"), store.list().map { it.key })
        store.remove(ANN, "k")
        store.remove(ANN, "k")
        assertNull(store.get(ANN, "k"))
        assertEquals("K", store.get(ANN, "K")!!.key)
    }

    @Test
    fun `the first request under a key stays`() {
        val store = FileStore(folder)
        val first = store.putIfAbsent(pending(body = "1"))
        assertEquals("1", store.putIfAbsent(pending(body = "2")).body.utf8())
        assertEquals("1", first.body.utf8())
    }

    @Test
    fun `a damaged record neither hides others nor is removed by itself`() {
        val store = FileStore(folder)
        for (key in listOf("a", "b", "c", "d")) store.putIfAbsent(pending(key))
        fun file(key: String) = records().single { it.readText().contains("\"key\":\"$key\"") }
        val cut = file("a").apply { writeBytes(readBytes().copyOf(60)) }
        val changed = file("b").apply { writeText(readText().replace("\"POST\"", "\"POSH\"")) }
        val empty = file("c").apply { writeText("") }
        assertEquals(listOf("d"), store.list().map { it.key })
        assertEquals(setOf(cut.path, changed.path, empty.path).map { File(it).canonicalPath }.toSet(), store.damaged().map { it.record }.toSet())
        assertThrows(DamagedRecordException::class.java) { store.get(ANN, "b") }
        // Nothing is written over it: somebody may still want to read it.
        assertThrows(DamagedRecordException::class.java) { store.putIfAbsent(pending("b")) }
        assertEquals(4, records().size)
        store.remove(ANN, "b")
        assertEquals("b", store.putIfAbsent(pending("b")).key)
    }

    @Test
    fun `bytes that are no record are refused whatever they are`() {
        val good = pending().toBytes()
        assertEquals(KEY, PendingRequest.fromBytes(good).key)
        for (length in good.indices) assertThrows(DamagedRecordException::class.java) { PendingRequest.fromBytes(good.copyOf(length)) }
        for (place in good.indices) {
            val changed = good.copyOf().also { it[place] = (it[place] + 1).toByte() }
            assertThrows(DamagedRecordException::class.java) { PendingRequest.fromBytes(changed) }
        }
        for (content in listOf(
            "",
            "[]",
            "{}",
            """{"key":1}""",
            """{"key":"k","method":"POST","url":"u","kept_at_ms":"x","headers":[],"body":""}"""
        )) {
            val sum = content.toByteArray().toByteString().sha256().hex()
            assertThrows(DamagedRecordException::class.java) { PendingRequest.fromBytes("edge-idempotency-request-1 $sum\n$content".toByteArray()) }
        }
    }

    @Test
    fun `a crash while a record is written leaves nothing that counts`() {
        FileStore(folder)
        val young = File(folder, "request1.unfinished").apply { writeText("half") }
        val old = File(folder, "request2.unfinished").apply { writeText("half") }
        old.setLastModified(System.currentTimeMillis() - TimeUnit.HOURS.toMillis(2))
        val store = FileStore(folder)
        assertEquals(emptyList<PendingRequest>(), store.list())
        assertEquals(emptyList<DamagedRecordException>(), store.damaged())
        assertEquals(listOf(true, false), listOf(young.exists(), old.exists()))
    }

    @Test
    fun `one key at a time from many threads and stores is kept once`() {
        val stores = List(8) { FileStore(folder) }
        repeat(20) { round ->
            val together = CyclicBarrier(stores.size)
            val kept = AtomicReferenceArray<String>(stores.size)
            stores.mapIndexed { number, store ->
                thread {
                    together.await()
                    kept[number] = store.putIfAbsent(pending("key-$round", body = "$number")).body.utf8()
                }
            }.forEach { it.join() }
            assertEquals(1, List(stores.size) { kept[it] }.toSet().size, "$kept")
        }
        assertEquals(20, stores[0].list().size)
    }

    @Test
    fun `another process waits for the lock, and the first request stays`() {
        FileStore(folder)
        // The other process keeps requests with the same keys at the same time.
        val java = File(System.getProperty("java.home"), "bin/java").path
        val classpath = System.getProperty("surefire.test.class.path") ?: System.getProperty("java.class.path")
        val other = ProcessBuilder(java, "-cp", classpath, "dev.edgeidempotency.OtherProcess", folder.path)
            .redirectErrorStream(true).start()
        assertEquals("ready", other.inputStream.bufferedReader().readLineOrFail())
        other.outputStream.apply { write('\n'.code) }.flush()
        val ours = (1..200).map { FileStore(folder).putIfAbsent(pending("key-$it", body = "ours")).body.utf8() }
        val theirs = other.inputStream.bufferedReader().readLines()
        assertEquals(0, other.waitFor(), "$theirs")
        assertEquals(ours, theirs)
        assertEquals(200, records().size)
    }

    private fun java.io.BufferedReader.readLineOrFail(): String = readLine() ?: error("the other process has ended")

    @Test
    fun `a record whose folder cannot be forced to the disk does not stay`() {
        FileStore(folder).putIfAbsent(pending("earlier"))
        val failing = FileStore(folder) { throw IOException("too many open files") }
        for (key in listOf("new", "earlier")) {
            assertEquals("too many open files", assertThrows(IOException::class.java) { failing.putIfAbsent(pending(key)) }.message)
        }
        assertEquals(listOf("earlier"), FileStore(folder).list().map { it.key })
    }

    @Test
    fun `an interrupt while the folder is forced to the disk waits until it is done`() {
        var forced = 0
        val store = FileStore(folder) {
            if (++forced == 1) {
                Thread.currentThread().interrupt()
                throw ClosedByInterruptException()
            }
        }
        assertEquals(KEY, store.putIfAbsent(pending()).key)
        assertTrue(Thread.interrupted())
        assertEquals(2, forced)
        // The same with the real folder.
        Thread.currentThread().interrupt()
        assertEquals(KEY, FileStore(folder).putIfAbsent(pending()).key)
        assertTrue(Thread.interrupted())
        // An interrupt before the record has its name leaves none.
        Thread.currentThread().interrupt()
        assertThrows(IOException::class.java) { FileStore(folder).putIfAbsent(pending("other")) }
        assertTrue(Thread.interrupted())
        assertEquals(listOf(KEY), store.list().map { it.key })
    }

    @Test
    fun `the folder is forced to the disk after a removal, too`() {
        var forced = 0
        val store = FileStore(folder) { forced++ }
        store.putIfAbsent(pending())
        store.remove(ANN, KEY)
        assertEquals(2, forced)
        store.remove(ANN, KEY)
        assertEquals(2, forced)
    }

    @Test
    fun `two stores of one folder are equal`() {
        assertEquals(FileStore(folder), FileStore(File(folder, "../pending")))
        assertEquals(FileStore(folder).hashCode(), FileStore(File(folder, "../pending")).hashCode())
        assertNotEquals(FileStore(folder), FileStore(File(temporary, "other")))
    }

    @Test
    fun `only the owner can read a folder that the store has made`() {
        FileStore(folder)
        assertEquals("rwx------", java.nio.file.attribute.PosixFilePermissions.toString(java.nio.file.Files.getPosixFilePermissions(folder.toPath())))
    }

    @Test
    fun `a folder that cannot be made, or has gone, is an error`() {
        val file = File(temporary, "file").apply { writeText("") }
        assertThrows(IOException::class.java) { FileStore(file) }
        assertThrows(IOException::class.java) { FileStore(File(file, "below")) }
        val store = FileStore(folder)
        folder.deleteRecursively()
        assertThrows(IOException::class.java) { store.putIfAbsent(pending()) }
        assertThrows(IOException::class.java) { store.list() }
    }

    @Test
    fun `the memory store keeps the first request, and the oldest comes first`() {
        val store = MemoryStore()
        val first = store.putIfAbsent(pending("a", keptAt = 2))
        assertSame(first, store.putIfAbsent(pending("a", keptAt = 3)))
        store.putIfAbsent(pending("b", keptAt = 1))
        assertEquals(listOf("b", "a"), store.list().map { it.key })
        assertEquals(emptyList<DamagedRecordException>(), store.damaged())
        store.remove(ANN, "a")
        assertNull(store.get(ANN, "a"))
        assertEquals(headersOf("Content-Type", "application/json"), store.get(ANN, "b")!!.headers)
    }
}

/** The other process of a test. */
internal object OtherProcess {
    @JvmStatic
    fun main(arguments: Array<String>) {
        val store = FileStore(File(arguments.single()))
        println("ready")
        readln()
        for (number in 1..200) println(store.putIfAbsent(pending("key-$number", body = "theirs")).body.utf8())
    }
}
