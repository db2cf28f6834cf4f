import java.lang.management.ManagementFactory;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import javax.management.JMException;
import javax.management.MBeanServer;
import javax.management.ObjectName;
import org.apache.kafka.common.utils.AppInfoParser;

/**
 * A Kafka node as shipped, formatted at its first start, with its Raft status told beside it.
 *
 * Arguments: address, status port, clock socket, cluster id, log directory, properties file, roles, and the release
 * whose metadata the storage is formatted for, if it is not this one. A broker's first
 * incarnation tells nothing before it serves, so that a run does not begin before that. The status is what Kafka
 * publishes as metrics (kafka.server:type=raft-metrics). They are read one after another; the epoch is read first and
 * last, and only what lies between two equal epochs is told, so that role, leader and vote belong to that epoch.
 */
public final class KafkaNode {
    private static final int TRIES = 20;
    private static final int RUNNING = 3;

    private static volatile boolean told;

    private KafkaNode() {}

    public static void main(String[] arguments) throws Exception {
        String address = arguments[0];
        int port = Integer.parseInt(arguments[1]);
        String properties = arguments[5];
        ObjectName name = new ObjectName("kafka.server:type=raft-metrics");
        ObjectName broker = new ObjectName("kafka.server:type=KafkaServer,name=BrokerState");
        told = Long.getLong("dethrone.incarnation", 0) > 1 || !arguments[6].contains("broker");
        Beside.clocks(arguments[2]);
        Beside.tell(address, port, () -> status(name, broker));
        if (!Files.exists(Path.of(arguments[4], "meta.properties"))) {
            List<String> words = new ArrayList<>(List.of("format", "--cluster-id", arguments[3], "--config", properties));
            if (arguments.length > 7) {
                words.addAll(List.of("--release-version", arguments[7]));
            }
            int code = kafka.tools.StorageTool.execute(words.toArray(new String[0]), System.out);
            if (code != 0) {
                throw new IllegalStateException("the storage could not be formatted: " + code);
            }
        }
        kafka.Kafka.main(new String[] {properties});
    }

    private static String status(ObjectName name, ObjectName broker) {
        MBeanServer beans = ManagementFactory.getPlatformMBeanServer();
        try {
            if (!told && number(beans, broker, "Value") != RUNNING) {
                return "";
            }
            told = true;
            for (int i = 0; i < TRIES; i++) {
                long epoch = number(beans, name, "current-epoch");
                String state = String.valueOf(beans.getAttribute(name, "current-state"));
                long leader = number(beans, name, "current-leader");
                long vote = number(beans, name, "current-vote");
                long highWatermark = number(beans, name, "high-watermark");
                if (number(beans, name, "current-epoch") == epoch) {
                    return Beside.object("\"state\":" + Beside.quoted(state) + ",\"epoch\":" + epoch + ",\"leader\":"
                        + leader + ",\"vote\":" + vote + ",\"high_watermark\":" + highWatermark + ",\"version\":"
                        + Beside.quoted(AppInfoParser.getVersion()));
                }
            }
            return "";
        } catch (JMException notYet) {
            return "";
        }
    }

    private static long number(MBeanServer beans, ObjectName name, String attribute) throws JMException {
        return ((Number) beans.getAttribute(name, attribute)).longValue();
    }
}
