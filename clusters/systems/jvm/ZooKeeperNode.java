import java.io.IOException;
import javax.security.sasl.SaslException;
import org.apache.zookeeper.server.ZooKeeperServer;
import org.apache.zookeeper.server.quorum.QuorumPeer;
import org.apache.zookeeper.server.quorum.QuorumPeerMain;
import org.apache.zookeeper.server.quorum.Vote;

/**
 * A ZooKeeper server as its own main starts it, with what its peer is told beside it: the four-letter words tell no
 * follower's leader, and no epoch of a server that does not serve.
 *
 * Arguments: address, status port, clock socket, configuration file. "atomic": two looks in a row at everything but the
 * zxid saw the same, so what is told was true at one moment between them; the zxid is of a moment of its own.
 */
public final class ZooKeeperNode extends QuorumPeerMain {
    private static final int TRIES = 5;

    private volatile QuorumPeer peer;

    @Override
    protected QuorumPeer getQuorumPeer() throws SaslException {
        QuorumPeer made = super.getQuorumPeer();
        peer = made;
        return made;
    }

    public static void main(String[] arguments) {
        ZooKeeperNode node = new ZooKeeperNode();
        try {
            Beside.clocks(arguments[2]);
            Beside.tell(arguments[0], Integer.parseInt(arguments[1]), node::status);
            node.initializeAndRun(new String[] {arguments[3]});
            System.exit(0);
        } catch (Exception trouble) {
            trouble.printStackTrace();
            System.exit(1);
        }
    }

    private String status() {
        QuorumPeer now = peer;
        if (now == null) {
            return "";
        }
        String seen = look(now);
        for (int tried = 1; tried < TRIES; tried++) {
            long zxid = zxid(now);
            String again = look(now);
            if (again.equals(seen)) {
                return Beside.object("\"atomic\":true,\"zxid\":" + zxid + "," + seen);
            }
            seen = again;
        }
        return Beside.object("\"atomic\":false,\"zxid\":-1," + seen);
    }

    private static String look(QuorumPeer peer) {
        try {
            Vote vote = peer.getCurrentVote();
            return "\"id\":" + peer.getMyId()
                + ",\"state\":" + Beside.quoted(String.valueOf(peer.getPeerState()))
                + ",\"zab\":" + Beside.quoted(String.valueOf(peer.getZabState()))
                + ",\"leader\":" + (vote == null ? -1 : vote.getId())
                + ",\"accepted\":" + peer.getAcceptedEpoch()
                + ",\"current\":" + peer.getCurrentEpoch()
                + ",\"serves\":" + serves(peer.getActiveServer());
        } catch (IOException notYet) {
            throw new IllegalStateException(notYet);
        }
    }

    private static boolean serves(ZooKeeperServer server) {
        return server != null && server.isRunning();
    }

    private static long zxid(QuorumPeer peer) {
        ZooKeeperServer server = peer.getActiveServer();
        return serves(server) ? server.getLastProcessedZxid() : -1;
    }
}
