import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import okhttp3.MediaType;
import okhttp3.OkHttpClient;
import okhttp3.Request;
import okhttp3.RequestBody;
import okhttp3.Response;

/**
 * Sends requests with OkHttp, all at the same time. tests/compat/tests/recipes/programs.rs has the form of the lines.
 *
 * <p>usage: java Clients okhttp plain|configured
 */
final class Clients {
    private static final Duration BASE = Duration.ofMillis(10);

    private static String send(String mode, String[] call) {
        Duration timeout = Duration.ofMillis(Long.parseLong(call[4]));
        OkHttpClient client =
                mode.equals("configured") ? KeyRetry.client(timeout, BASE) : new OkHttpClient.Builder().readTimeout(timeout).build();
        // Without a charset, which OkHttp would add to the header.
        RequestBody body = RequestBody.create(call[5].getBytes(StandardCharsets.UTF_8), MediaType.get("application/json"));
        Request.Builder request = new Request.Builder().url(call[1]).header("Authorization", "Bearer " + call[2]).post(body);
        if (!call[3].isEmpty()) request.header("Idempotency-Key", call[3]);
        try (Response answer = client.newCall(request.build()).execute()) {
            answer.body().bytes();
            return Integer.toString(answer.code());
        } catch (IOException error) {
            System.err.println(call[0] + ": " + error);
            return error.getClass().getSimpleName();
        }
    }

    public static void main(String[] words) throws Exception {
        List<Thread> threads = new ArrayList<>();
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] call = line.split("\t");
            Thread thread = new Thread(() -> System.out.println(call[0] + "\t" + send(words[1], call)));
            thread.start();
            threads.add(thread);
        }
        for (Thread thread : threads) thread.join();
        System.exit(0); // OkHttp's threads would keep the program for a minute
    }
}
