import com.fasterxml.jackson.databind.ObjectMapper;
import jakarta.servlet.*;
import jakarta.servlet.http.*;
import java.io.*;
import java.nio.charset.StandardCharsets;
import java.security.*;
import java.time.Duration;
import java.util.*;
import java.util.function.Supplier;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import org.springframework.jdbc.core.JdbcTemplate;
import org.springframework.web.filter.OncePerRequestFilter;
import org.springframework.web.util.ContentCachingResponseWrapper;

/**
 * Runs each {@code Idempotency-Key} once, and gives a retry the stored answer: a filter for Spring MVC and other servlets.
 *
 * <pre>{@code
 * @Bean
 * Idempotency idempotency(JdbcTemplate jdbc) {
 *     return new Idempotency(new Idempotency.Store(jdbc, Duration.ofSeconds(60), Duration.ofDays(1)));
 * }
 * }</pre>
 *
 * Spring Boot puts a filter without an order inside all others, and there it belongs: what filters around it do (refuse callers,
 * compress, add CORS headers) is not stored, and they do it for a replay, too. An answer of {@code sendError} is made in a second
 * dispatch, to the error page, so a registration by hand has to name the dispatcher types REQUEST and ERROR. With a key there are no
 * asynchronous requests: {@code startAsync} fails. The answers are in a table of SQLite, which several processes of one machine can
 * share. For PostgreSQL two things differ: {@code NOW} and the type of {@code body} ({@code bytea}).
 */
public class Idempotency extends OncePerRequestFilter {
    /**
     * The name of a request's attribute: a key that is the same in every attempt. The handler passes it to services that it calls, and
     * puts it into a unique column of rows that it inserts, so that an attempt that runs again after a crash or a 5xx does nothing twice.
     */
    public static final String OPERATION_KEY = "idempotency.operation_key";

    // The database's clock decides about leases, so that the clocks of several machines need not agree.
    private static final String NOW = "(julianday('now') - 2440587.5) * 86400"; // PostgreSQL: extract(epoch from clock_timestamp())

    private static final String TABLE = """
            CREATE TABLE IF NOT EXISTS idempotency_results (
                operation  varchar(1024) NOT NULL,     -- method and path
                key        varchar(640) NOT NULL,      -- with the caller's namespace, whole (MySQL: COLLATE utf8mb4_bin)
                fingerprint varchar(64) NOT NULL,      -- of the request, from the gateway ("collision": "forward"); without one nothing is compared
                owner      char(36) NOT NULL,          -- the attempt that claimed the key last
                expires_at double precision NOT NULL,  -- the end of the attempt's lease, and with an answer the end of its retention
                status     integer,                    -- NULL while there is no answer
                headers    text,                       -- JSON, with everything else that goes before or behind the body
                body       blob,                       -- PostgreSQL: bytea
                PRIMARY KEY (operation, key)
            )""";

    // Inserts the claim, or takes over one whose lease has ended, or an answer whose retention has ended. One statement, so that of
    // several attempts at once one gets the key: it changes one row, and the others change none.
    private static final String CLAIM = """
            INSERT INTO idempotency_results (operation, key, fingerprint, owner, expires_at) VALUES (?, ?, ?, ?, NOW + ?)
            ON CONFLICT (operation, key) DO UPDATE
            SET fingerprint = excluded.fingerprint, owner = excluded.owner, expires_at = excluded.expires_at, status = NULL, headers = NULL, body = NULL
            WHERE idempotency_results.expires_at <= NOW""".replace("NOW", NOW);
    private static final String FIND = "SELECT fingerprint, headers, body FROM idempotency_results WHERE operation = ? AND key = ?";
    // Only the owner stores its answer: an attempt that was slower than its lease has lost the key to a later one.
    private static final String KEEP = """
            UPDATE idempotency_results SET status = ?, headers = ?, body = ?, expires_at = NOW + ?
            WHERE operation = ? AND key = ? AND owner = ?""".replace("NOW", NOW);
    private static final String FREE = "DELETE FROM idempotency_results WHERE operation = ? AND key = ? AND owner = ? AND status IS NULL";
    private static final String DELETE_EXPIRED = "DELETE FROM idempotency_results WHERE expires_at <= " + NOW;

    // An answer with one of these statuses is not stored. After 401 and 403 a caller gets a right or a new token and sends the same key
    // again. After 408, 425, 429 and 5xx it expects that the work is tried again; nobody knows how far it came, so the handler's own steps
    // have to be safe to repeat (OPERATION_KEY).
    private static final Set<Integer> NOT_FINAL = Set.of(401, 403, 408, 425, 429);
    // Headers of one answer or one connection. A stored Set-Cookie would be a credential in the table, and a replay would put an old session
    // in the place of a newer one. A caller that lost the first answer gets its cookie from the next request that sets one.
    private static final Set<String> NOT_STORED = Set.of("connection", "date", "keep-alive", "set-cookie", "transfer-encoding");

    private static final Problem KEY_TOO_LONG = new Problem(400, "idempotency_key_invalid", "Idempotency key invalid", "new_key",
            "The key is longer than 640 bytes.");
    private static final Problem PATH_TOO_LONG = new Problem(400, "request_invalid", "Request invalid", "never",
            "The path is longer than 1024 bytes.");
    private static final Problem KEY_REUSED = new Problem(422, "idempotency_key_reused", "Idempotency key reused", "new_key",
            "The key was used with another request. Send a new key for a new operation, and repeat a request unchanged.");
    private static final Problem IN_FLIGHT = new Problem(409, "idempotency_key_in_flight", "Idempotency key in flight", "wait",
            "A request with this key is still being processed. Send the same request with the same key again later to get its result.");
    private static final Problem STORE_DOWN = new Problem(503, "dependency_unavailable", "Temporarily unavailable", "same_key",
            "The key could not be checked right now. This request was not carried out; send the same request with the same key again later.");
    private static final Problem NOT_KEPT = new Problem(503, "dependency_unavailable", "Temporarily unavailable", "same_key",
            "The request was carried out, and its answer could not be stored. Send the same request with the same key again later.");

    private static final String CLAIMED = Idempotency.class.getName() + ".claim";
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final Logger LOG = LoggerFactory.getLogger(Idempotency.class);

    private final Store store;

    public Idempotency(Store store) {
        this.store = store;
    }

    @Override
    protected boolean shouldNotFilterErrorDispatch() {
        return false;
    }

    @Override
    protected void doFilterInternal(HttpServletRequest request, HttpServletResponse response, FilterChain chain)
            throws ServletException, IOException {
        if (request.getDispatcherType() == DispatcherType.ERROR) {
            // After sendError the page makes the answer.
            Claim claim = (Claim) request.getAttribute(CLAIMED);
            request.removeAttribute(CLAIMED);
            if (claim == null) {
                chain.doFilter(request, response);
            } else {
                run(claim, request, response, chain);
            }
            return;
        }
        String key = Objects.requireNonNullElse(request.getHeader("Idempotency-Key"), "");
        String fingerprint = Objects.requireNonNullElse(request.getHeader("Idempotency-Fingerprint"), "");
        String operation = request.getMethod() + " " + request.getRequestURI();
        // A request without a key runs every time; whether a key is needed is the gateway's policy.
        if (key.isEmpty() || key.length() > 640 || operation.length() > 1024) {
            if (key.isEmpty()) {
                chain.doFilter(request, response);
            } else {
                refuse(response, key.length() > 640 ? KEY_TOO_LONG : PATH_TOO_LONG);
            }
            return;
        }
        Claim claim = new Claim(operation, key, UUID.randomUUID().toString(), headersOf(response));
        Stored stored;
        try {
            stored = store.claim(claim, fingerprint) ? null : store.find(claim);
        } catch (RuntimeException error) {
            LOG.error("The store cannot be asked", error);
            refuse(response, STORE_DOWN);
            return;
        }
        if (stored == null) {
            request.setAttribute(OPERATION_KEY, sha256(operation + "\n" + key));
            run(claim, request, response, chain);
        } else if (!stored.fingerprint.isEmpty() && !fingerprint.isEmpty() && !stored.fingerprint.equals(fingerprint)) {
            refuse(response, KEY_REUSED);
        } else if (stored.answer == null) {
            refuse(response, IN_FLIGHT);
        } else {
            response.setHeader("Idempotent-Replayed", "true");
            send(response, stored.answer, stored.body);
        }
    }

    /** Runs the handler, and stores its answer before any of it is sent: what a caller has seen, a retry gets. */
    private void run(Claim claim, HttpServletRequest request, HttpServletResponse response, FilterChain chain)
            throws ServletException, IOException {
        HeldResponse held = new HeldResponse(response);
        WholeRequest whole = new WholeRequest(request);
        try {
            chain.doFilter(whole, held);
            if (held.isBroken(request.getMethod().equals("HEAD"))) {
                throw new IOException("The body has another length than its header says");
            }
        } catch (Throwable error) {
            // If the process dies, the claim ends with its lease instead.
            free(claim);
            throw error;
        }
        int status = held.error == 0 ? held.getStatus() : held.error;
        // What a handler answers to a part of a request is no answer to it. Forms are read by Tomcat.
        boolean isWhole = !whole.isBroken && request.getAttribute("org.apache.catalina.parameter_parse_failed") == null;
        // An error page that fails itself has no page.
        boolean hasAnswer = held.error == 0 || request.getDispatcherType() != DispatcherType.ERROR;
        boolean isFinal = status < 500 && !NOT_FINAL.contains(status) && isWhole && hasAnswer;
        if (!isFinal) {
            free(claim);
        }
        if (held.error != 0) {
            if (isFinal) {
                request.setAttribute(CLAIMED, claim);
            }
            response.sendError(held.error, held.message);
            return;
        }
        Answer answer = held.answer(claim.before);
        byte[] body = held.body();
        if (isFinal) {
            Problem problem;
            try {
                // A later attempt may have claimed the key since this one's lease ended.
                problem = store.keep(claim, answer, body) ? null : IN_FLIGHT;
            } catch (RuntimeException | IOException error) {
                LOG.error("The answer cannot be stored", error);
                problem = NOT_KEPT;
            }
            if (problem != null) {
                // Nobody may see an answer that a retry would not get.
                restore(response, claim.before);
                refuse(response, problem);
                return;
            }
        }
        send(response, answer, body);
    }

    private void free(Claim claim) {
        try {
            store.free(claim);
        } catch (RuntimeException error) {
            LOG.error("The key cannot be freed: its claim ends with its lease", error);
        }
    }

    /** Sends an answer, for the first time or again. */
    private static void send(HttpServletResponse response, Answer answer, byte[] body) throws IOException {
        Map<String, List<String>> headers = headersOf(response);
        if (answer.removed.stream().anyMatch(headers::containsKey)) {
            // A single header cannot be removed.
            answer.removed.forEach(headers::remove);
            restore(response, headers);
        }
        set(response, answer.headers);
        response.setStatus(answer.status);
        if (!answer.trailers.isEmpty()) {
            response.setTrailerFields(() -> answer.trailers);
            // With a length, which a short body would get, there are no trailers.
            response.flushBuffer();
        }
        if (body.length > 0) {
            response.getOutputStream().write(body);
        }
    }

    private static void refuse(HttpServletResponse response, Problem problem) throws IOException {
        response.setStatus(problem.status);
        response.setContentType("application/problem+json");
        response.setHeader("Content-Language", "en");
        response.setHeader("Cache-Control", "no-store");
        String after = Map.of("wait", "1", "same_key", "5").get(problem.retry);
        if (after != null) {
            response.setHeader("Retry-After", after);
        }
        response.getOutputStream().write(JSON.writeValueAsBytes(problem));
    }

    /** The headers that are set. Tomcat does not count Content-Type among them. */
    private static Map<String, List<String>> headersOf(HttpServletResponse response) {
        Map<String, List<String>> headers = new TreeMap<>(String.CASE_INSENSITIVE_ORDER);
        for (String name : response.getHeaderNames()) {
            headers.put(name, new ArrayList<>(response.getHeaders(name)));
        }
        if (response.getContentType() != null) {
            headers.put("Content-Type", List.of(response.getContentType()));
        }
        return headers;
    }

    private static void set(HttpServletResponse response, Map<String, List<String>> headers) {
        headers.forEach((name, values) -> {
            response.setHeader(name, values.get(0));
            values.stream().skip(1).forEach(value -> response.addHeader(name, value));
        });
    }

    private static void restore(HttpServletResponse response, Map<String, List<String>> headers) {
        response.reset();
        set(response, headers);
    }

    private static String sha256(String text) {
        try {
            return HexFormat.of().formatHex(MessageDigest.getInstance("SHA-256").digest(text.getBytes(StandardCharsets.UTF_8)));
        } catch (NoSuchAlgorithmException error) {
            throw new IllegalStateException(error);
        }
    }

    /** A problem document (RFC 9457), with the members that those of the gateway have. {@code retry} is the advice for programs. */
    record Problem(String type, int status, String code, String title, String retry, String detail) {
        Problem(int status, String code, String title, String retry, String detail) {
            this("about:blank", status, code, title, retry, detail);
        }
    }

    /** An attempt, and the headers that filters around had set before it. */
    record Claim(String operation, String key, String owner, Map<String, List<String>> before) { }

    /** The headers that the handler has set or changed, those of filters around that it has removed, and trailers. */
    record Answer(int status, Map<String, List<String>> headers, List<String> removed, Map<String, String> trailers) { }

    record Stored(String fingerprint, Answer answer, byte[] body) { }

    /** The table. The lease is longer than the longest request runs. */
    public static class Store {
        private final JdbcTemplate jdbc;
        private final double lease;
        private final double retention;

        public Store(JdbcTemplate jdbc, Duration lease, Duration retention) {
            this.jdbc = jdbc;
            this.lease = lease.toMillis() / 1000.0;
            this.retention = retention.toMillis() / 1000.0;
            jdbc.execute(TABLE);
        }

        boolean claim(Claim claim, String fingerprint) {
            return jdbc.update(CLAIM, claim.operation, claim.key, fingerprint, claim.owner, lease) == 1;
        }

        Stored find(Claim claim) {
            return jdbc.query(FIND, row -> {
                // An attempt that has just freed the key was in flight.
                return row.next() ? new Stored(row.getString(1), answerOf(row.getString(2)), row.getBytes(3)) : new Stored("", null, null);
            }, claim.operation, claim.key);
        }

        boolean keep(Claim claim, Answer answer, byte[] body) throws IOException {
            Map<String, List<String>> lines = new LinkedHashMap<>(answer.headers);
            lines.keySet().removeIf(name -> NOT_STORED.contains(name.toLowerCase(Locale.ROOT)));
            String headers = JSON.writeValueAsString(new Answer(answer.status, lines, answer.removed, answer.trailers));
            return jdbc.update(KEEP, answer.status, headers, body, retention, claim.operation, claim.key, claim.owner) == 1;
        }

        void free(Claim claim) {
            jdbc.update(FREE, claim.operation, claim.key, claim.owner);
        }

        /** Run it every hour or so. Correctness does not depend on it. */
        public int deleteExpired() {
            return jdbc.update(DELETE_EXPIRED);
        }

        private static Answer answerOf(String headers) {
            try {
                return headers == null ? null : JSON.readValue(headers, Answer.class);
            } catch (IOException error) {
                throw new UncheckedIOException(error);
            }
        }
    }

    /** A request that knows whether its body has come whole. */
    private static class WholeRequest extends HttpServletRequestWrapper {
        private boolean isBroken;
        private ServletInputStream stream;
        private BufferedReader reader;

        WholeRequest(HttpServletRequest request) {
            super(request);
        }

        @Override
        public AsyncContext startAsync(ServletRequest request, ServletResponse response) {
            throw new IllegalStateException("A request with an Idempotency-Key cannot be answered asynchronously");
        }

        @Override
        public AsyncContext startAsync() {
            return startAsync(this, null);
        }

        @Override
        public BufferedReader getReader() throws IOException {
            if (reader == null) {
                String encoding = Objects.requireNonNullElse(getCharacterEncoding(), "ISO-8859-1");
                reader = new BufferedReader(new InputStreamReader(getInputStream(), encoding));
            }
            return reader;
        }

        @Override
        public ServletInputStream getInputStream() throws IOException {
            if (stream == null) {
                ServletInputStream body = super.getInputStream();
                stream = new ServletInputStream() {
                    @Override
                    public int read(byte[] part, int offset, int length) throws IOException {
                        try {
                            return body.read(part, offset, length);
                        } catch (IOException error) {
                            isBroken = true;
                            throw error;
                        }
                    }

                    @Override
                    public int read() throws IOException {
                        byte[] one = new byte[1];
                        return read(one, 0, 1) < 0 ? -1 : one[0] & 0xff;
                    }

                    @Override
                    public boolean isFinished() {
                        return body.isFinished();
                    }

                    @Override
                    public boolean isReady() {
                        return body.isReady();
                    }

                    @Override
                    public void setReadListener(ReadListener listener) {
                        body.setReadListener(listener);
                    }
                };
            }
            return stream;
        }
    }

    /** Keeps the body, its length and {@code sendError} back. Other headers and the status go to the response, which is not sent yet. */
    private static class HeldResponse extends ContentCachingResponseWrapper {
        private Supplier<Map<String, String>> trailers = Map::of;
        private int error;
        private String message;
        private boolean isRedirect;

        HeldResponse(HttpServletResponse response) {
            super(response);
        }

        byte[] body() {
            return isRedirect ? new byte[0] : getContentAsByteArray();
        }

        boolean isBroken(boolean isHead) {
            String length = getHeader("Content-Length");
            return length != null && error == 0 && !isHead && getStatus() != SC_NOT_MODIFIED && Long.parseLong(length) != body().length;
        }

        /** What the handler has changed of the headers. The others are those of filters around, for a replay anew. */
        Answer answer(Map<String, List<String>> before) {
            Map<String, List<String>> after = headersOf(this);
            List<String> removed = before.keySet().stream().filter(name -> !after.containsKey(name)).toList();
            after.entrySet().removeIf(header -> header.getValue().equals(before.get(header.getKey())));
            return new Answer(getStatus(), after, removed, trailers.get());
        }

        @Override
        public PrintWriter getWriter() throws IOException {
            // Content-Type tells the encoding.
            setCharacterEncoding(getCharacterEncoding());
            return super.getWriter();
        }

        @Override
        public void setLocale(Locale locale) {
            super.setLocale(locale);
            // Tomcat does not count the header that this sets among the others.
            setHeader("Content-Language", locale.toLanguageTag());
        }

        @Override
        public void setTrailerFields(Supplier<Map<String, String>> fields) {
            trailers = fields;
        }

        @Override
        public void reset() {
            super.reset();
            setHeader("Content-Length", null);
        }

        @Override
        public void sendError(int status, String text) {
            error = status;
            message = text;
        }

        @Override
        public void sendError(int status) {
            sendError(status, null);
        }

        @Override
        public void sendRedirect(String location) {
            sendRedirect(location, SC_FOUND, true);
        }

        // Servlet 6.1 has this one, too. The location stays relative: a caller resolves it.
        public void sendRedirect(String location, int status, boolean withoutBody) {
            isRedirect = withoutBody;
            setStatus(status);
            setHeader("Location", location);
        }
    }
}
