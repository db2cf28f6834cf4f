package dethrone;

import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import org.apache.zookeeper.server.ZooKeeperServer;
import org.apache.zookeeper.server.quorum.QuorumPeer;
import org.apache.zookeeper.server.quorum.QuorumPeer.ServerState;
import org.apache.zookeeper.server.quorum.QuorumPeer.ZabState;
import org.apache.zookeeper.server.quorum.QuorumPeerMain;
import org.apache.zookeeper.server.quorum.Vote;

/**
 * ZooKeeper's own main with a second port that tells what its peer is: the four-letter words tell no follower's leader
 * and no epoch of a server that does not serve.
 *
 * <p>It only reads. Each request is a length (4 bytes) and that many bytes, which mean nothing; the answer is a length
 * and JSON. {@code atomic}: two looks in a row saw the same, so what is told was true at one moment between them.
 */
public final class ObservedPeer extends QuorumPeerMain {
    private static final int TRIES = 5;
    private static final int REQUEST_MAX = 1024;

    private volatile QuorumPeer peer;

    @Override
    protected QuorumPeer getQuorumPeer() throws javax.security.sasl.SaslException {
        QuorumPeer made = super.getQuorumPeer();
        peer = made;
        return made;
    }

    public static void main(String[] arguments) {
        ObservedPeer main = new ObservedPeer();
        try {
            InetAddress address = InetAddress.getByName(System.getProperty("dethrone.address"));
            ServerSocket door = new ServerSocket(Integer.getInteger("dethrone.port"), 50, address);
            daemon("dethrone-status", () -> main.welcome(door));
            main.initializeAndRun(arguments);
            System.exit(0);
        } catch (Throwable trouble) {
            trouble.printStackTrace();
            System.exit(1);
        }
    }

    private static void daemon(String name, Runnable work) {
        Thread thread = new Thread(work, name);
        thread.setDaemon(true);
        thread.start();
    }

    private void welcome(ServerSocket door) {
        while (true) {
            try {
                Socket guest = door.accept();
                guest.setTcpNoDelay(true);
                daemon("dethrone-status-guest", () -> answer(guest));
            } catch (IOException trouble) {
                trouble.printStackTrace();
            }
        }
    }

    private void answer(Socket guest) {
        try (Socket socket = guest) {
            DataInputStream in = new DataInputStream(socket.getInputStream());
            DataOutputStream out = new DataOutputStream(socket.getOutputStream());
            while (true) {
                int length = in.readInt();
                if (length < 0 || length > REQUEST_MAX) {
                    return;
                }
                in.readFully(new byte[length]);
                byte[] told = look().getBytes(StandardCharsets.UTF_8);
                byte[] frame = new byte[4 + told.length];
                java.nio.ByteBuffer.wrap(frame).putInt(told.length).put(told);
                out.write(frame);
            }
        } catch (IOException ended) {
            // whoever asked is gone
        }
    }

    private String look() {
        String seen = glance();
        for (int tried = 1; tried < TRIES; tried++) {
            String again = glance();
            if (again.equals(seen)) {
                return "{\"atomic\":true," + zxid() + seen;
            }
            seen = again;
        }
        return "{\"atomic\":false," + zxid() + seen;
    }

    /** Of a moment of its own: it moves with every write. */
    private String zxid() {
        QuorumPeer now = peer;
        ZooKeeperServer server = now == null ? null : now.getActiveServer();
        boolean serves = server != null && server.isRunning();
        return "\"zxid\":" + (serves ? server.getLastProcessedZxid() : -1) + ",";
    }

    private String glance() {
        QuorumPeer now = peer;
        ServerState state = now == null ? ServerState.LOOKING : now.getPeerState();
        ZabState zab = now == null ? ZabState.ELECTION : now.getZabState();
        long id = now == null ? -1 : now.getMyId();
        Vote vote = now == null ? null : now.getCurrentVote();
        long leader = vote == null ? -1 : vote.getId();
        long current = -1;
        long accepted = -1;
        try {
            current = now == null ? -1 : now.getCurrentEpoch();
            accepted = now == null ? -1 : now.getAcceptedEpoch();
        } catch (IOException notThereYet) {
            // both are told as unknown
        }
        ZooKeeperServer server = now == null ? null : now.getActiveServer();
        boolean serves = server != null && server.isRunning();
        return String.format(
                "\"id\":%d,\"state\":\"%s\",\"zab\":\"%s\",\"leader\":%d,\"current\":%d,\"accepted\":%d,\"serves\":%b,"
                        + "\"incarnation\":%d}",
                id, state, zab, leader, current, accepted, serves, Integer.getInteger("dethrone.incarnation", 0));
    }
}
