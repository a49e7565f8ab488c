package dev.edgeidempotency;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.File;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import okhttp3.OkHttpClient;
import okhttp3.Request;
import okhttp3.RequestBody;
import okhttp3.Response;
import okhttp3.mockwebserver.MockResponse;
import okhttp3.mockwebserver.MockWebServer;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** The library as a program in Java uses it. */
class JavaUseTest {
    /** A store that leaves out the method with a body. */
    static final class OwnStore implements PendingStore {
        private final MemoryStore memory = new MemoryStore();

        @Override public PendingRequest putIfAbsent(PendingRequest request) { return memory.putIfAbsent(request); }
        @Override public PendingRequest get(String owner, String key) { return memory.get(owner, key); }
        @Override public void remove(String owner, String key) { memory.remove(owner, key); }
        @Override public List<PendingRequest> list() { return memory.list(); }
    }

    @Test
    void sendsAndResumes(@TempDir File folder) throws Exception {
        try (MockWebServer server = new MockWebServer()) {
            server.start();
            CredentialsSource credentials = (url, renew) -> new Credentials("ann", Map.of("Authorization", "Bearer " + url.host()));
            IdempotencyOptions options = new IdempotencyOptions.Builder("ann", credentials)
                .attempts(2)
                .base(1, TimeUnit.MILLISECONDS)
                .build();
            for (PendingStore store : List.of(new FileStore(new File(folder, "pending")), new MemoryStore(), new OwnStore())) {
                IdempotentClient client = IdempotentClient.create(new OkHttpClient(), store, options);
                server.enqueue(new MockResponse().setResponseCode(503));
                server.enqueue(new MockResponse().setBody("done"));
                Request request = new Request.Builder().url(server.url("/orders")).post(RequestBody.create(new byte[] {1}, null)).build();
                try (Response response = client.newCall(request).execute()) {
                    assertEquals("done", response.body().string());
                    Idempotency known = Idempotency.of(response);
                    assertEquals(2, known.getAttempts());
                    assertFalse(known.isReplay());
                }
                server.enqueue(new MockResponse().setResponseCode(503));
                server.enqueue(new MockResponse().setResponseCode(503));
                try {
                    client.getHttp().newCall(request).execute();
                    throw new AssertionError("there was an answer");
                } catch (NoAnswerException error) {
                    assertEquals(503, error.getLastStatus());
                    assertEquals(error.getKey(), client.pending().get(0).getKey());
                }
                server.enqueue(new MockResponse().setBody("late"));
                ResumeResult result = client.resumePending().get(0);
                assertEquals("late", result.getResponse().body().string());
                assertTrue(client.pending().isEmpty());
                client.forget(result.getKey());
                client.forgetOwner("ann");
            }
        }
    }
}
