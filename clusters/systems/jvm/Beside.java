import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.net.StandardProtocolFamily;
import java.net.UnixDomainSocketAddress;
import java.nio.ByteBuffer;
import java.nio.channels.ServerSocketChannel;
import java.nio.channels.SocketChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.function.Supplier;

/**
 * What runs beside a server in its own JVM: its status on a port, and its clocks on a unix socket.
 *
 * Both only read. A question is a frame (u32 length, that many bytes, whatever they are), an answer a frame of JSON.
 * The clock socket gives each connection one line {"mono_ns","wall_ns"} as this JVM sees the time: System.nanoTime is
 * CLOCK_MONOTONIC on Linux. Everything runs in daemon threads, so it never keeps a server alive that has ended.
 */
final class Beside {
    private static final int QUESTION_MAX = 1024;

    private Beside() {}

    /** Answer questions at address:port with what {@code status} gives; an empty answer where it fails. */
    static void tell(String address, int port, Supplier<String> status) throws IOException {
        ServerSocket listener = new ServerSocket();
        listener.setReuseAddress(true);
        listener.bind(new InetSocketAddress(InetAddress.getByName(address), port));
        daemon("status", () -> {
            while (true) {
                try {
                    Socket connection = listener.accept();
                    connection.setTcpNoDelay(true);
                    daemon("status-of-one", () -> converse(connection, status));
                } catch (IOException refused) {
                    // one that went away again
                }
            }
        });
    }

    /** Tell the clocks at this path, replacing what a killed process left there. */
    static void clocks(String path) throws IOException {
        Path place = Path.of(path);
        Files.deleteIfExists(place);
        ServerSocketChannel listener = ServerSocketChannel.open(StandardProtocolFamily.UNIX);
        listener.bind(UnixDomainSocketAddress.of(place));
        daemon("clocks", () -> {
            while (true) {
                try (SocketChannel connection = listener.accept()) {
                    String line = "{\"mono_ns\":" + System.nanoTime() + ",\"wall_ns\":" + wallNs() + "}\n";
                    connection.write(ByteBuffer.wrap(line.getBytes(StandardCharsets.US_ASCII)));
                } catch (IOException gone) {
                    // whoever asked no longer wants to know
                }
            }
        });
    }

    private static long wallNs() {
        java.time.Instant now = java.time.Instant.now();
        return now.getEpochSecond() * 1_000_000_000L + now.getNano();
    }

    /** {"incarnation":…,…}: the words of a status, with the incarnation that the command line names. */
    static String object(String words) {
        return "{\"incarnation\":" + Long.getLong("dethrone.incarnation", 0) + "," + words + "}";
    }

    /** A word as JSON, null as null. */
    static String quoted(String word) {
        return word == null ? "null" : "\"" + word.replaceAll("[^A-Za-z0-9_.:-]", "?") + "\"";
    }

    private static void converse(Socket connection, Supplier<String> status) {
        try (connection) {
            DataInputStream in = new DataInputStream(connection.getInputStream());
            DataOutputStream out = new DataOutputStream(connection.getOutputStream());
            while (true) {
                int size = in.readInt();
                if (size < 0 || size > QUESTION_MAX) {
                    return;
                }
                in.readFully(new byte[size]);
                byte[] answer;
                try {
                    answer = status.get().getBytes(StandardCharsets.UTF_8);
                } catch (RuntimeException notYet) {
                    answer = new byte[0];
                }
                ByteBuffer frame = ByteBuffer.allocate(4 + answer.length).putInt(answer.length).put(answer);
                out.write(frame.array());
                out.flush();
            }
        } catch (IOException gone) {
            // the connection is closed
        }
    }

    private static void daemon(String name, Runnable work) {
        Thread thread = new Thread(work, "dethrone-" + name);
        thread.setDaemon(true);
        thread.start();
    }
}
