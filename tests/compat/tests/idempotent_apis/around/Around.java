import jakarta.servlet.Filter;
import jakarta.servlet.FilterChain;
import jakarta.servlet.ServletException;
import jakarta.servlet.ServletOutputStream;
import jakarta.servlet.WriteListener;
import jakarta.servlet.http.Cookie;
import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpServletResponse;
import jakarta.servlet.http.HttpServletResponseWrapper;
import jakarta.servlet.http.HttpSession;
import java.io.IOException;
import java.io.PrintWriter;
import java.time.Duration;
import java.util.Locale;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.ConcurrentHashMap;
import java.util.zip.GZIPOutputStream;
import org.springframework.boot.SpringApplication;
import org.springframework.boot.SpringBootConfiguration;
import org.springframework.boot.autoconfigure.EnableAutoConfiguration;
import org.springframework.boot.web.servlet.FilterRegistrationBean;
import org.springframework.context.annotation.Bean;
import org.springframework.core.io.FileSystemResource;
import org.springframework.core.io.Resource;
import org.springframework.http.ResponseEntity;
import org.springframework.web.bind.annotation.RequestMapping;
import org.springframework.web.bind.annotation.RestController;
import org.springframework.web.cors.CorsConfiguration;
import org.springframework.web.cors.UrlBasedCorsConfigurationSource;
import org.springframework.web.filter.CorsFilter;
import org.springframework.web.filter.OncePerRequestFilter;
import org.sqlite.SQLiteDataSource;

/** What handlers do with an answer, between filters around the one of examples/spring and inside it. {@code around.json} has the requests. */
@SpringBootConfiguration
@EnableAutoConfiguration
@RestController
@RequestMapping("/{around}")
public class Around {
    private static final Map<String, Integer> RUNS = new ConcurrentHashMap<>();

    public static void main(String[] arguments) {
        SpringApplication.run(Around.class, "--server.address=127.0.0.1", "--server.port=" + System.getenv("PORT"));
    }

    @RestController
    static class Counts {
        @RequestMapping("/runs")
        Map<String, Integer> runs() {
            return RUNS;
        }
    }

    private static <T extends Filter> FilterRegistrationBean<T> at(int order, T filter, String... paths) {
        FilterRegistrationBean<T> registration = new FilterRegistrationBean<>(filter);
        registration.setOrder(order);
        registration.addUrlPatterns(paths);
        return registration;
    }

    @Bean
    static FilterRegistrationBean<Idempotency> idempotency() throws Exception {
        SQLiteDataSource source = new SQLiteDataSource();
        source.setUrl("jdbc:sqlite:" + System.getenv("IDEMPOTENCY_DB"));
        return at(2, new Idempotency(new Idempotency.Store(source, Duration.ofDays(1), Duration.ofDays(1))), "/*");
    }

    @Bean
    static FilterRegistrationBean<CorsFilter> cors() {
        CorsConfiguration all = new CorsConfiguration();
        all.addAllowedOriginPattern("*");
        all.addAllowedMethod("*");
        all.setAllowCredentials(true);
        UrlBasedCorsConfigurationSource source = new UrlBasedCorsConfigurationSource();
        source.registerCorsConfiguration("/**", all);
        return at(1, new CorsFilter(source), "/secured/*");
    }

    /** A filter in a line. */
    @FunctionalInterface
    interface Step {
        void run(HttpServletRequest request, HttpServletResponse response, FilterChain chain) throws ServletException, IOException;
    }

    private static FilterRegistrationBean<Filter> step(int order, String path, Step step) {
        return at(order, new OncePerRequestFilter() {
            @Override
            protected void doFilterInternal(HttpServletRequest request, HttpServletResponse response, FilterChain chain)
                    throws ServletException, IOException {
                step.run(request, response, chain);
            }
        }, path);
    }

    @Bean
    static FilterRegistrationBean<Filter> presets() {
        return step(1, "/presets/*", (request, response, chain) -> {
            response.setContentType("application/json");
            response.setHeader("Cache-Control", "no-store");
            response.setHeader("X-Api-Version", "3");
            response.setHeader("Vary", "origin");
            response.addCookie(new Cookie("seen", "1"));
            chain.doFilter(request, response);
        });
    }

    @Bean
    static FilterRegistrationBean<Filter> compressedAround() {
        return step(1, "/compressed/*", Around::compress);
    }

    @Bean
    static FilterRegistrationBean<Filter> compressedInside() {
        return step(3, "/compressed-after/*", Around::compress);
    }

    @Bean
    static FilterRegistrationBean<Filter> counted() {
        return step(4, "/*", (request, response, chain) -> {
            RUNS.merge(request.getRequestURI(), 1, Integer::sum);
            chain.doFilter(request, response);
        });
    }

    private static void compress(HttpServletRequest request, HttpServletResponse response, FilterChain chain)
            throws ServletException, IOException {
        response.addHeader("Vary", "accept-encoding");
        String taken = request.getHeader("Accept-Encoding");
        if (taken == null || !taken.contains("gzip")) {
            chain.doFilter(request, response);
            return;
        }
        Zipped zipped = new Zipped(response);
        chain.doFilter(request, zipped);
        zipped.finish();
    }

    private static class Zipped extends HttpServletResponseWrapper {
        private GZIPOutputStream body;

        Zipped(HttpServletResponse response) {
            super(response);
        }

        void finish() throws IOException {
            if (body != null) {
                body.finish();
            }
        }

        @Override
        public ServletOutputStream getOutputStream() throws IOException {
            if (body == null) {
                super.setHeader("Content-Encoding", "gzip");
                body = new GZIPOutputStream(super.getOutputStream());
            }
            return new ServletOutputStream() {
                @Override
                public void write(int one) throws IOException {
                    body.write(one);
                }

                @Override
                public void flush() throws IOException {
                    body.flush();
                }

                @Override
                public boolean isReady() {
                    return true;
                }

                @Override
                public void setWriteListener(WriteListener listener) { }
            };
        }

        @Override
        public void setContentLengthLong(long length) { }

        @Override
        public void setContentLength(int length) { }

        @Override
        public void setHeader(String name, String value) {
            if (!name.equalsIgnoreCase("Content-Length")) {
                super.setHeader(name, value);
            }
        }

        @Override
        public void addHeader(String name, String value) {
            if (!name.equalsIgnoreCase("Content-Length")) {
                super.addHeader(name, value);
            }
        }
    }

    @RequestMapping("/cart")
    Map<String, Integer> cart(HttpSession session) {
        int items = session.getAttribute("items") instanceof Integer count ? count + 1 : 1;
        session.setAttribute("items", items);
        return Map.of("items", items);
    }

    @RequestMapping("/cookies")
    String cookies(HttpServletResponse response) {
        response.addCookie(new Cookie("a", "1"));
        response.addCookie(new Cookie("b", "2"));
        return "{}";
    }

    @RequestMapping(path = "/text", produces = "text/plain;charset=utf-8")
    String text() {
        return "all work and no play ".repeat(200);
    }

    @RequestMapping("/changed")
    void changed(HttpServletResponse response) throws IOException {
        response.addHeader("Vary", "accept-language");
        response.setHeader("Cache-Control", "private, max-age=60");
        response.setContentType("text/csv;charset=utf-8");
        response.getWriter().write("a,b\n");
    }

    /** What it resets has been set by a filter around. */
    @RequestMapping("/reset")
    void reset(HttpServletResponse response) throws IOException {
        response.getWriter().write("first");
        response.reset();
        response.setHeader("Vary", "accept");
        response.getOutputStream().write("second".getBytes());
    }

    @RequestMapping("/empty")
    ResponseEntity<Void> empty() {
        return ResponseEntity.noContent().build();
    }

    @RequestMapping("/redirect")
    ResponseEntity<Void> redirect() {
        return ResponseEntity.status(303).header("Location", "/elsewhere").build();
    }

    @RequestMapping("/found")
    void found(HttpServletResponse response) throws IOException {
        response.getWriter().write("not shown");
        response.sendRedirect("/elsewhere");
        response.getWriter().write("not shown either");
    }

    @RequestMapping("/file")
    Resource file() {
        return new FileSystemResource("file.txt");
    }

    @RequestMapping("/stream")
    void stream(HttpServletResponse response) throws IOException {
        response.setContentType("text/plain");
        for (String piece : new String[] {"one, ", "two, ", "three"}) {
            response.getOutputStream().write(piece.getBytes());
            response.flushBuffer();
        }
    }

    @RequestMapping("/breaks")
    void breaks(HttpServletResponse response) throws IOException {
        response.setContentType("text/plain");
        response.getOutputStream().write("partial".getBytes());
        response.getOutputStream().flush();
        throw new IllegalStateException("after the first bytes");
    }

    @RequestMapping("/short")
    void shorter(HttpServletResponse response) throws IOException {
        response.setContentLength(9);
        response.getOutputStream().write("part".getBytes());
    }

    @RequestMapping("/writer")
    void writer(HttpServletResponse response) throws IOException {
        response.setContentType("text/html");
        response.setLocale(Locale.GERMANY);
        PrintWriter writer = response.getWriter();
        // Too late for an encoding
        response.setContentType("text/plain;charset=utf-8");
        writer.write("ÿ");
    }

    @RequestMapping("/trailers")
    void trailers(HttpServletResponse response) throws IOException {
        response.setHeader("Trailer", "x-sum");
        response.setTrailerFields(() -> Map.of("x-sum", "7"));
        response.getOutputStream().write("ok".getBytes());
    }

    @RequestMapping("/missing")
    void missing(HttpServletResponse response) throws IOException {
        response.setHeader("X-A", "1");
        response.getOutputStream().write("partial".getBytes());
        response.sendError(404, "Nothing is here");
    }

    @RequestMapping("/forbidden")
    void forbidden(HttpServletResponse response) throws IOException {
        response.sendError(403);
    }

    @RequestMapping("/async")
    Callable<String> async() {
        return () -> "later";
    }

    @RequestMapping("/body")
    String body(HttpServletRequest request) throws IOException {
        try {
            return new String(request.getInputStream().readAllBytes()).toUpperCase();
        } catch (IOException error) {
            return "no body";
        }
    }
}
