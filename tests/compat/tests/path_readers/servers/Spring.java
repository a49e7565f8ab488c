import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.File;
import java.net.URLDecoder;
import java.nio.charset.StandardCharsets;
import java.util.LinkedHashMap;
import java.util.Map;
import org.springframework.boot.SpringApplication;
import org.springframework.boot.autoconfigure.EnableAutoConfiguration;
import org.springframework.context.annotation.Bean;
import org.springframework.http.HttpMethod;
import org.springframework.web.servlet.function.RouterFunction;
import org.springframework.web.servlet.function.RouterFunctions;
import org.springframework.web.servlet.function.ServerResponse;

/** Spring Boot on Tomcat with the routes of a file: each answers with its name and the parameters that it read. */
@EnableAutoConfiguration
public class Spring {
    private static File routes;

    /** Arguments: the file of routes, the port. */
    public static void main(String[] arguments) {
        routes = new File(arguments[0]);
        SpringApplication.run(Spring.class, "--server.address=127.0.0.1", "--server.port=" + arguments[1],
                "--spring.main.banner-mode=off", "--logging.level.root=warn");
    }

    @Bean
    RouterFunction<ServerResponse> routes() throws Exception {
        RouterFunctions.Builder builder = RouterFunctions.route();
        for (JsonNode route : new ObjectMapper().readTree(routes)) {
            String name = route.get("name").asText();
            // Spring compares each segment after it has decoded it.
            String path = URLDecoder.decode(route.get("path").asText(), StandardCharsets.UTF_8);
            builder.route(
                    org.springframework.web.servlet.function.RequestPredicates.method(
                            HttpMethod.valueOf(route.get("method").asText()))
                            .and(org.springframework.web.servlet.function.RequestPredicates.path(path)),
                    request -> {
                        Map<String, Object> answer = new LinkedHashMap<>();
                        answer.put("route", name);
                        answer.put("values", request.pathVariables());
                        return ServerResponse.ok().body(answer);
                    });
        }
        return builder.build();
    }
}
