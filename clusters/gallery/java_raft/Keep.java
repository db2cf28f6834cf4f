import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;

import static java.nio.charset.StandardCharsets.UTF_8;

/**
 * Registers and lists over HTTP, whose changes a replicated log carries: what the stores of this folder have in common.
 *
 * A command is four lines: what is done, the key, the old value and the new one. Only committed commands are applied, in
 * the order of the log.
 */
final class Keep {
    /** The log of one member. Every exception but NotDone is doubt. */
    interface Log {
        /** The answer of this command, once it is committed and applied here. */
        String submit(String command) throws Exception;

        /** Return when what is held here is as new as a read of now must see. */
        void refresh() throws Exception;

        /** Role, term, leader and commit as JSON. */
        String status() throws Exception;
    }

    /** The command is certainly not done, now or later. */
    static final class NotDone extends Exception {
        NotDone(String why) {
            super(why);
        }
    }

    private static final int LIMIT_S = 2;
    private static final Map<String, String> OPS = Map.of( // a method and what a path begins with → the operation
        "PUT /kv/", "put", "POST /kv/", "cas", "GET /kv/", "get", "POST /list/", "append", "GET /list/", "read");
    private final Map<String, String> held = new HashMap<>();
    private final Map<String, List<String>> lists = new HashMap<>();

    /** Carry out a committed command; its answer. */
    synchronized String apply(String command, long index, long term) {
        String[] words = command.split("\n", 4);
        if (words[0].equals("append")) {
            lists.computeIfAbsent(words[1], absent -> new ArrayList<>()).add(words[3]);
            return "{\"index\":" + index + ",\"term\":" + term + "}";
        }
        boolean same = words[0].equals("put") || held.getOrDefault(words[1], "null").equals(words[2]);
        if (same) {
            held.put(words[1], words[3]);
        }
        return String.valueOf(same);
    }

    private synchronized String found(String op, String key) {
        return op.equals("get") ? held.getOrDefault(key, "null") : String.valueOf(lists.getOrDefault(key, List.of()));
    }

    /** Serve at this address until the process ends. */
    void serve(String address, int port, Log log) throws IOException {
        HttpServer server = HttpServer.create(new InetSocketAddress(address, port), 0);
        server.setExecutor(Executors.newCachedThreadPool());
        server.createContext("/", ask -> {
            try {
                reply(ask, 200, answer(ask, log));
            } catch (NotDone why) {
                reply(ask, 421, String.valueOf(why.getMessage()));
            } catch (Exception why) {
                reply(ask, 500, String.valueOf(why));
            }
        });
        server.start();
    }

    private String answer(HttpExchange ask, Log log) throws Exception {
        String path = ask.getRequestURI().getPath();
        if (path.equals("/status")) {
            return log.status();
        }
        int end = path.lastIndexOf('/') + 1;
        String op = OPS.get(ask.getRequestMethod() + " " + path.substring(0, end)), key = path.substring(end);
        if (op.equals("get") || op.equals("read")) {
            log.refresh();
            return found(op, key);
        }
        String body = new String(ask.getRequestBody().readAllBytes(), UTF_8); // of a cas: the old value, then the new one
        return log.submit(op + "\n" + key + "\n" + (op.equals("cas") ? body : "\n" + body));
    }

    private static void reply(HttpExchange ask, int code, String text) throws IOException {
        byte[] body = text.getBytes(UTF_8);
        ask.getRequestBody().readAllBytes();
        ask.sendResponseHeaders(code, body.length);
        ask.getResponseBody().write(body);
        ask.close();
    }

    /** A status answer. ``library``: a class of it; the last two: of the last entry of the log. */
    static String status(Class<?> library, Object role, long term, Object leader, long commit, long logTerm, long logIndex) {
        return String.format("{\"role\":\"%s\",\"term\":%d,\"leader\":\"%s\",\"commit\":%d,\"log_term\":%d,\"log_index\":%d,"
            + "\"incarnation\":%s,\"version\":\"%s\"}", role, term, leader, Math.max(commit, 0), logTerm, logIndex,
            System.getenv().getOrDefault("DETHRONE_INCARNATION", "0"), release(library));
    }

    /** Which release of a library runs here, by the name of its jar. */
    private static String release(Class<?> library) {
        String jar = library.getProtectionDomain().getCodeSource().getLocation().getPath();
        return jar.replaceFirst(".*-([0-9.]+)\\.jar", "$1");
    }

    /** The answer, if it comes in time. */
    static String waited(CompletableFuture<String> answer) throws Exception {
        try {
            return answer.get(LIMIT_S, TimeUnit.SECONDS);
        } catch (ExecutionException failed) {
            throw (Exception) failed.getCause();
        }
    }

    /** Print one trace line, unbuffered. The lock keeps lines in the order of what they report. */
    static synchronized void trace(String event, String more) {
        try {
            byte[] line = ("{\"dethrone\":1,\"event\":\"" + event + "\"" + more + "}\n").getBytes(UTF_8);
            new FileOutputStream(FileDescriptor.out).write(line);
        } catch (IOException closed) {
            Runtime.getRuntime().halt(1);
        }
    }
}
