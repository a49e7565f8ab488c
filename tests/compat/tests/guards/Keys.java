import dev.restate.sdk.Context;
import dev.restate.sdk.annotation.Handler;
import dev.restate.sdk.annotation.Service;
import dev.restate.sdk.endpoint.Endpoint;
import dev.restate.sdk.http.vertx.RestateHttpServer;

@Service
public class Keys {
    @Handler
    public String show(Context context) {
        String key = context.request().headers().get("x-idempotency-key");
        return key == null ? "none" : key;
    }

    public static void main(String[] arguments) {
        RestateHttpServer.listen(Endpoint.bind(new Keys()), Integer.parseInt(System.getenv("PORT")));
    }
}
