import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.IOException;
import java.nio.charset.StandardCharsets;

/**
 * A Java program that prints trace lines: {@code tell} is all that an implementation needs of it.
 *
 * <pre>java Trace.java | dethrone doctor --lines -</pre>
 */
public final class Trace {
    private static final FileOutputStream OUT = new FileOutputStream(FileDescriptor.out);

    private Trace() {}

    /** Prints one line; {@code more} holds its other fields as JSON. The lock keeps lines in the order of what they tell. */
    static synchronized void tell(String event, String more) {
        String line = "{\"dethrone\":1,\"event\":\"" + event + "\"," + more + "}\n";
        try {
            OUT.write(line.getBytes(StandardCharsets.UTF_8)); // one write, not buffered: a kill leaves no half line
        } catch (IOException error) {
            throw new IllegalStateException("the trace cannot be written", error);
        }
    }

    public static void main(String[] arguments) {
        tell("recovered", "\"term\":0,\"voted_for\":null,\"file\":\"absent\"");
        tell("term_changed", "\"term\":1"); // stored, and before acting in it
        tell("vote_granted", "\"term\":1,\"candidate\":\"n1\""); // stored, and before the answer leaves
        tell("elected", "\"term\":1,\"voters\":[\"n1\",\"n2\"]"); // before the first entry leaves
        tell("appended", "\"entries\":[[1,1,\"9f86d081\"]]");
        tell("committed", "\"term\":1,\"index\":1");
        tell("stepped_down", "\"term\":1");
    }
}
