import jakarta.servlet.*;
import jakarta.servlet.http.*;
import java.io.IOException;
import java.time.Duration;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.Callable;
import java.util.concurrent.ConcurrentHashMap;
import org.springframework.boot.SpringApplication;
import org.springframework.boot.SpringBootConfiguration;
import org.springframework.boot.autoconfigure.EnableAutoConfiguration;
import org.springframework.boot.web.servlet.FilterRegistrationBean;
import org.springframework.context.annotation.Bean;
import org.springframework.core.io.FileSystemResource;
import org.springframework.http.ResponseEntity;
import org.springframework.jdbc.core.JdbcTemplate;
import org.springframework.web.bind.annotation.*;
import org.springframework.web.cors.CorsConfiguration;
import org.springframework.web.filter.CorsFilter;
import org.springframework.web.filter.OncePerRequestFilter;

/** What handlers do with an answer, between filters around the one of examples/spring and inside it. {@code around.json} has the requests. */
@SpringBootConfiguration
@EnableAutoConfiguration
@RestController
public class Around {
    private static final Map<String, Integer> RUNS = new ConcurrentHashMap<>();

    public static void main(String[] arguments) {
        SpringApplication.run(Around.class, "--server.address=127.0.0.1", "--server.port=" + System.getenv("PORT"),
                "--server.compression.enabled=true", "--server.compression.mime-types=text/plain",
                "--spring.datasource.url=jdbc:sqlite:" + System.getenv("IDEMPOTENCY_DB"));
    }

    private static <T extends Filter> FilterRegistrationBean<T> at(int order, T filter, String path) {
        FilterRegistrationBean<T> registration = new FilterRegistrationBean<>(filter);
        registration.setOrder(order);
        registration.addUrlPatterns(path);
        return registration;
    }

    @Bean
    static FilterRegistrationBean<Idempotency> idempotency(JdbcTemplate jdbc) {
        return at(2, new Idempotency(new Idempotency.Store(jdbc, Duration.ofDays(1), Duration.ofDays(1))), "/*");
    }

    @Bean
    static FilterRegistrationBean<CorsFilter> cors() {
        CorsConfiguration all = new CorsConfiguration();
        all.addAllowedOriginPattern("*");
        all.addAllowedMethod("*");
        all.setAllowCredentials(true);
        return at(1, new CorsFilter(request -> all), "/secured/*");
    }

    @Bean
    static FilterRegistrationBean<Filter> presets() {
        return at(1, new OncePerRequestFilter() {
            @Override
            protected void doFilterInternal(HttpServletRequest request, HttpServletResponse response, FilterChain chain)
                    throws ServletException, IOException {
                response.setContentType("application/json");
                Map.of("Cache-Control", "no-store", "X-Api-Version", "3", "Vary", "origin").forEach(response::setHeader);
                response.addCookie(new Cookie("seen", "1"));
                chain.doFilter(request, response);
            }
        }, "/presets/*");
    }

    @RequestMapping("/runs")
    Map<String, Integer> runs() {
        return RUNS;
    }

    @RequestMapping("/{around}/{what}")
    Object handle(@PathVariable String what, HttpServletRequest request, HttpServletResponse response) throws IOException {
        RUNS.merge(request.getRequestURI(), 1, Integer::sum);
        ServletOutputStream body = Set.of("changed", "reset", "writer", "found").contains(what) ? null : response.getOutputStream();
        switch (what) {
            case "cart" -> {
                HttpSession session = request.getSession();
                int items = session.getAttribute("items") instanceof Integer count ? count + 1 : 1;
                session.setAttribute("items", items);
                return Map.of("items", items);
            }
            case "cookies" -> {
                response.addCookie(new Cookie("a", "1"));
                response.addCookie(new Cookie("b", "2"));
                return "{}";
            }
            case "text" -> {
                return ResponseEntity.ok().header("Content-Type", "text/plain;charset=utf-8").body("all work and no play ".repeat(200));
            }
            case "changed" -> {
                response.addHeader("Vary", "accept-language");
                response.setHeader("Cache-Control", "private, max-age=60");
                response.setContentType("text/csv;charset=utf-8");
                response.getWriter().write("a,b\n");
            }
            case "reset" -> {
                response.setContentLength(9);
                response.getWriter().write("first");
                response.reset();
                response.setHeader("Vary", "accept");
                response.getOutputStream().print("second");
            }
            case "empty" -> {
                return ResponseEntity.noContent().build();
            }
            case "redirect" -> {
                return ResponseEntity.status(303).header("Location", "/elsewhere").build();
            }
            case "found" -> {
                response.getWriter().write("not shown");
                response.sendRedirect("/elsewhere");
                response.getWriter().write("not shown either");
            }
            case "file" -> {
                return ResponseEntity.ok(new FileSystemResource("file.txt"));
            }
            case "stream" -> {
                response.setContentType("text/css");
                for (String piece : new String[] {"one, ", "two, ", "three"}) {
                    body.print(piece);
                    response.flushBuffer();
                }
            }
            case "breaks" -> {
                body.print("partial");
                body.flush();
                throw new IllegalStateException("after the first bytes");
            }
            case "short" -> {
                response.setContentLength(9);
                body.print("part");
            }
            case "writer" -> {
                response.setContentType("text/plain");
                response.setLocale(Locale.GERMANY);
                response.getWriter().write("ÿ");
            }
            case "trailers" -> {
                response.setHeader("Trailer", "x-sum");
                response.setTrailerFields(() -> Map.of("x-sum", "7"));
                body.print("ok");
            }
            case "missing" -> {
                response.setHeader("X-A", "1");
                body.print("partial");
                response.sendError(404, "Nothing is here");
            }
            case "bytes" -> {
                response.setHeader("X-B", "ÿ");
                response.setHeader("set-cookie", "a=1");
            }
            case "forbidden" -> response.sendError(403);
            case "async" -> {
                return (Callable<String>) () -> "later";
            }
            case "body" -> {
                try {
                    body.print(new String(request.getInputStream().readAllBytes()).toUpperCase(Locale.ROOT));
                } catch (IOException error) {
                    body.print("no body");
                }
            }
            default -> response.sendError(501);
        }
        return null;
    }
}
