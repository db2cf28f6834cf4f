import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.IOException;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import org.opensearch.cluster.ClusterState;
import org.opensearch.cluster.service.ClusterService;
import org.opensearch.common.logging.LogConfigurator;
import org.opensearch.common.settings.Settings;
import org.opensearch.env.Environment;
import org.opensearch.node.InternalSettingsPreparer;
import org.opensearch.node.Node;
import org.opensearch.transport.Netty4Plugin;

import static java.nio.charset.StandardCharsets.UTF_8;

/**
 * An OpenSearch node out of the published jars, without the distribution around them.
 *
 *     java Start HOME
 *
 * HOME/config holds opensearch.yml and log4j2.properties, as usual. Out of scope: what the distribution's own main adds,
 * which is bootstrap checks, the security manager, the system call filter, and modules besides transport-netty4.
 */
final class Start extends Node {
    private Start(Environment environment) {
        super(environment, List.of(Netty4Plugin.class), false);
    }

    /** Print a line for the first state of a term that this node published as cluster manager, and once it is none. */
    private static void trace(ClusterState before, ClusterState now) {
        boolean led = before.nodes().isLocalNodeElectedClusterManager();
        boolean leads = now.nodes().isLocalNodeElectedClusterManager();
        if (leads && !(led && before.term() == now.term())) {
            line("\"event\":\"elected\",\"term\":" + now.term());
        } else if (led && !leads) {
            line("\"event\":\"stepped_down\"");
        }
    }

    private static void line(String more) {
        try {
            new FileOutputStream(FileDescriptor.out).write(("{\"dethrone\":1," + more + "}\n").getBytes(UTF_8));
        } catch (IOException closed) {
            Runtime.getRuntime().halt(1);
        }
    }

    public static void main(String[] arguments) throws Exception {
        Path home = Path.of(arguments[0]);
        Settings placed = Settings.builder().put(Environment.PATH_HOME_SETTING.getKey(), home).build();
        Environment environment =
            InternalSettingsPreparer.prepareEnvironment(placed, Map.of(), home.resolve("config"), () -> "");
        LogConfigurator.setNodeName(Node.NODE_NAME_SETTING.get(environment.settings()));
        LogConfigurator.configure(environment);
        Thread main = Thread.currentThread();
        Thread.setDefaultUncaughtExceptionHandler((thread, thrown) -> { // after an error nothing is sure any more
            thrown.printStackTrace();
            if (thrown instanceof Error || thread == main) {
                Runtime.getRuntime().halt(1);
            }
        });
        Start node = new Start(environment);
        ClusterService states = node.injector().getInstance(ClusterService.class);
        states.addListener(change -> trace(change.previousState(), change.state()));
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            try {
                node.close();
            } catch (IOException failed) {
                Runtime.getRuntime().halt(1);
            }
        }));
        node.start();
        new CountDownLatch(1).await();
    }
}
