import dev.restate.sdk.Context;
import dev.restate.sdk.annotation.Handler;
import dev.restate.sdk.annotation.Service;
import dev.restate.sdk.endpoint.Endpoint;
import dev.restate.sdk.endpoint.definition.InvocationRetryPolicy;
import dev.restate.sdk.http.vertx.RestateHttpServer;
import java.time.Duration;

@Service
public class IdempotencyGuard {
    @Handler
    public String claim(Context context, String fingerprint) {
        return fingerprint;
    }

    public static void main(String[] arguments) {
        InvocationRetryPolicy retries = InvocationRetryPolicy.builder().maxInterval(Duration.ofSeconds(5)).maxAttempts(10_000_000)
                .onMaxAttempts(InvocationRetryPolicy.OnMaxAttempts.PAUSE).build();
        Endpoint.Builder endpoint = Endpoint.bind(new IdempotencyGuard(), guard -> guard
                .idempotencyRetention(Duration.ofHours(170)).journalRetention(Duration.ZERO).invocationRetryPolicy(retries));
        RestateHttpServer.listen(endpoint, Integer.parseInt(System.getenv().getOrDefault("PORT", "9090")));
    }
}
