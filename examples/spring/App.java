import com.fasterxml.jackson.databind.ObjectMapper;
import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpServletResponse;
import java.io.IOException;
import java.net.URI;
import java.net.http.*;
import java.time.Duration;
import java.util.Map;
import org.springframework.boot.SpringApplication;
import org.springframework.boot.SpringBootConfiguration;
import org.springframework.boot.autoconfigure.EnableAutoConfiguration;
import org.springframework.context.annotation.Bean;
import org.springframework.http.HttpStatus;
import org.springframework.http.ResponseCookie;
import org.springframework.http.ResponseEntity;
import org.springframework.jdbc.core.JdbcTemplate;
import org.springframework.web.bind.annotation.*;
import org.springframework.web.server.ResponseStatusException;

/**
 * Takes orders and refunds, each of which calls a payment provider, and does each of them once for each {@code Idempotency-Key}.
 *
 * <pre>PAYMENTS_URL=https://payments.example.com PORT=9000 mvn --file examples/spring spring-boot:run</pre>
 *
 * {@code IDEMPOTENCY_DB}, {@code IDEMPOTENCY_LEASE_SECONDS} and {@code IDEMPOTENCY_RETENTION_SECONDS} say where answers are kept, and how
 * long.
 */
@SpringBootConfiguration
@EnableAutoConfiguration
@RestController
public class App {
    private static final String PAYMENTS = System.getenv("PAYMENTS_URL");
    private final HttpClient client = HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).build();
    private final ObjectMapper json;

    App(ObjectMapper json) {
        this.json = json;
    }

    public static void main(String[] arguments) {
        String store = "jdbc:sqlite:" + setting("IDEMPOTENCY_DB", "results.db") + "?journal_mode=WAL&busy_timeout=10000";
        SpringApplication.run(App.class, "--server.address=127.0.0.1", "--server.port=" + setting("PORT", "9000"),
                "--spring.datasource.url=" + store);
    }

    private static String setting(String name, String standard) {
        return System.getenv().getOrDefault(name, standard);
    }

    @Bean
    static Idempotency idempotency(JdbcTemplate jdbc) {
        // The lease is longer than the gateway waits for an answer (60 s in a rendered configuration) and than any handler runs.
        Duration lease = Duration.ofSeconds(Long.parseLong(setting("IDEMPOTENCY_LEASE_SECONDS", "90")));
        Duration retention = Duration.ofSeconds(Long.parseLong(setting("IDEMPOTENCY_RETENTION_SECONDS", "86400")));
        return new Idempotency(new Idempotency.Store(jdbc, lease, retention));
    }

    record Order(String item, Integer amount) { }

    record Paid(String id, String item) { }

    @PostMapping("/orders")
    ResponseEntity<Paid> order(@RequestBody Order order, HttpServletRequest request) throws IOException, InterruptedException {
        String payment = pay("charges", order, request);
        ResponseCookie noBasket = ResponseCookie.from("basket").path("/").maxAge(0).build();
        return ResponseEntity.created(URI.create("/orders/" + payment)).header("Set-Cookie", noBasket.toString())
                .body(new Paid(payment, order.item));
    }

    @PostMapping("/refunds")
    ResponseEntity<Paid> refund(@RequestBody Order order, HttpServletRequest request) throws IOException, InterruptedException {
        return ResponseEntity.status(HttpStatus.CREATED).body(new Paid(pay("refunds", order, request), order.item));
    }

    @DeleteMapping("/orders/{item}")
    void cancel(@PathVariable String item, HttpServletRequest request, HttpServletResponse response)
            throws IOException, InterruptedException {
        pay("cancellations", new Order(item, 0), request);
        response.setStatus(HttpServletResponse.SC_NO_CONTENT);
    }

    /** Asks the payment provider, which deduplicates by our key: after a crash here, the second attempt moves no money. */
    private String pay(String what, Order order, HttpServletRequest request) throws IOException, InterruptedException {
        if (order.item == null || order.amount == null) {
            throw new ResponseStatusException(HttpStatus.UNPROCESSABLE_ENTITY, "An order or refund has an item and an amount");
        }
        String body = json.writeValueAsString(Map.of("item", order.item, "amount", order.amount));
        HttpRequest.Builder call = HttpRequest.newBuilder(URI.create(PAYMENTS + "/" + what)).timeout(Duration.ofSeconds(25))
                .header("Content-Type", "application/json").POST(HttpRequest.BodyPublishers.ofString(body));
        if (request.getAttribute(Idempotency.OPERATION_KEY) instanceof String key) {
            call.header("Idempotency-Key", key);
        }
        HttpResponse<String> reply = client.send(call.build(), HttpResponse.BodyHandlers.ofString());
        return switch (reply.statusCode()) {
            case 200 -> json.readTree(reply.body()).get("id").asText();
            case 402 -> throw new ResponseStatusException(HttpStatus.PAYMENT_REQUIRED, "The card was declined");
            case 403 -> throw new ResponseStatusException(HttpStatus.FORBIDDEN, "The card needs a right that the caller does not have");
            default -> throw new ResponseStatusException(HttpStatus.SERVICE_UNAVAILABLE, "The payment provider does not answer");
        };
    }
}
