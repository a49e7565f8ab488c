import java.io.IOException;
import java.io.InterruptedIOException;
import java.time.Duration;
import java.util.Date;
import java.util.Set;
import java.util.concurrent.ThreadLocalRandom;
import okhttp3.Interceptor;
import okhttp3.OkHttpClient;
import okhttp3.Request;
import okhttp3.Response;
import okhttp3.ResponseBody;

/** An interceptor of OkHttp: a request that has an Idempotency-Key is sent again until there is an answer. */
final class KeyRetry implements Interceptor {
    private final long base;

    KeyRetry(Duration base) {
        this.base = base.toMillis();
    }

    /** A client. timeout is that of each wait for the network, base the first wait between two attempts. */
    static OkHttpClient client(Duration timeout, Duration base) {
        return new OkHttpClient.Builder().readTimeout(timeout).addInterceptor(new KeyRetry(base)).build();
    }

    @Override
    public Response intercept(Chain chain) throws IOException {
        Request request = chain.request();
        boolean hasKey = request.header("Idempotency-Key") != null && (request.body() == null || !request.body().isOneShot());
        for (int attempt = 1; ; attempt++) {
            boolean isLast = !hasKey || attempt == 10;
            long wait = 0;
            try {
                Response answer = chain.proceed(request);
                if (!isLast) { // reads the whole answer: one that is cut off is none
                    ResponseBody whole = ResponseBody.create(answer.body().bytes(), answer.body().contentType());
                    answer = answer.newBuilder().body(whole).build();
                }
                if (isLast || !again(answer)) return answer;
                wait = retryAfter(answer);
            } catch (IOException error) {
                if (isLast || chain.call().isCanceled()) throw error;
            }
            try {
                Thread.sleep(wait + ThreadLocalRandom.current().nextLong(1 + Math.min(30_000, base << attempt)));
            } catch (InterruptedException stopped) {
                Thread.currentThread().interrupt();
                throw new InterruptedIOException("interrupted before attempt " + (attempt + 1));
            }
        }
    }

    private static boolean again(Response answer) {
        String advice = answer.header("Idempotency-Retry");
        if (advice != null) return advice.equals("same_key") || advice.equals("wait");
        boolean isInFlight = Set.of(409, 425).contains(answer.code()) && answer.header("Retry-After") != null;
        return isInFlight || Set.of(429, 502, 503, 504).contains(answer.code());
    }

    /** Milliseconds to wait at least: Retry-After is a number of seconds or a date. */
    private static long retryAfter(Response answer) {
        Date date = answer.headers().getDate("Retry-After");
        String seconds = answer.header("Retry-After", "0");
        long wait = date != null ? date.getTime() - System.currentTimeMillis() : seconds.matches("\\d{1,9}") ? Long.parseLong(seconds) * 1000 : 0;
        return Math.max(0, Math.min(60_000, wait));
    }
}
