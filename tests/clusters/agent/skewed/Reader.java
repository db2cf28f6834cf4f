import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Instant;
import java.util.concurrent.locks.LockSupport;

/** Answers each line of standard input: "clocks" by its clocks, anything else by "done" once 200 ms are over. */
public final class Reader {
    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            if (line.equals("clocks")) {
                Instant now = Instant.now();
                System.out.println((now.getEpochSecond() * 1_000_000_000L + now.getNano()) + " " + System.nanoTime());
                continue;
            }
            long deadline = System.nanoTime() + 200_000_000L;
            if (line.equals("wall")) {
                LockSupport.parkUntil(System.currentTimeMillis() + 200);
            } else if (line.equals("sleep")) {
                Thread.sleep(200);
            } else {
                for (long left = 200_000_000L; left > 0; left = deadline - System.nanoTime()) {
                    LockSupport.parkNanos(left);
                }
            }
            System.out.println("done");
        }
    }
}
