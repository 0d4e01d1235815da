import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.nio.file.*;
import java.security.*;
import java.time.Instant;
import java.util.Base64;
import java.util.concurrent.Executors;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;

class Receiver {
    static final byte[] KEY = Base64.getDecoder().decode(System.getenv("WEBHOOK_SECRET").replaceFirst("^whsec_", ""));

    static boolean genuine(String id, String timestamp, String signatures, byte[] body) throws GeneralSecurityException {
        if (id == null || signatures == null || timestamp == null || !timestamp.matches("\\d{1,12}")) return false;
        if (Math.abs(Instant.now().getEpochSecond() - Long.parseLong(timestamp)) > 300) return false; // a recorded request is not sent again later
        Mac mac = Mac.getInstance("HmacSHA256");
        mac.init(new SecretKeySpec(KEY, "HmacSHA256"));
        mac.update((id + "." + timestamp + ".").getBytes());
        byte[] want = ("v1," + Base64.getEncoder().encodeToString(mac.doFinal(body))).getBytes();
        for (String one : signatures.split(" ")) // several during a rotation
            if (MessageDigest.isEqual(want, one.getBytes())) return true; // in constant time
        return false;
    }

    static void store(String id, byte[] body) throws IOException {
        Path file = Files.createDirectories(Path.of("inbox")).resolve(id);
        if (Files.exists(file)) return; // a message may arrive twice
        Files.move(Files.write(Path.of("inbox", id + ".new"), body), file);
    }

    public static void main(String[] args) throws IOException {
        HttpServer server = HttpServer.create(new InetSocketAddress("127.0.0.1", 9000), 0);
        server.setExecutor(Executors.newFixedThreadPool(16));
        server.createContext("/hooks", call -> {
            try (call) {
                var headers = call.getRequestHeaders();
                String id = headers.getFirst("webhook-id");
                byte[] body = call.getRequestBody().readAllBytes(); // the bytes as they came
                boolean good = genuine(id, headers.getFirst("webhook-timestamp"), headers.getFirst("webhook-signature"), body);
                if (good) store(id, body);
                call.sendResponseHeaders(good ? 204 : 401, -1); // respond now, process the file later
            } catch (GeneralSecurityException e) {
                throw new IOException(e);
            }
        });
        server.start();
    }
}
