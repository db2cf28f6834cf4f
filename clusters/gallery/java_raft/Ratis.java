import java.io.File;
import java.io.IOException;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.UUID;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.ratis.conf.RaftProperties;
import org.apache.ratis.grpc.GrpcConfigKeys;
import org.apache.ratis.protocol.*;
import org.apache.ratis.server.DivisionInfo;
import org.apache.ratis.server.RaftServer;
import org.apache.ratis.server.RaftServerConfigKeys;
import org.apache.ratis.server.protocol.TermIndex;
import org.apache.ratis.server.storage.RaftStorage;
import org.apache.ratis.statemachine.TransactionContext;
import org.apache.ratis.statemachine.impl.BaseStateMachine;
import org.apache.ratis.util.TimeDuration;

import static java.nio.charset.StandardCharsets.UTF_8;
import static java.util.concurrent.TimeUnit.MILLISECONDS;

/**
 * The store on Apache Ratis over gRPC, with linearizable reads, timeouts as given, and no snapshots.
 *
 *     java Ratis NAME n1=ADDRESS,n2=ADDRESS,… PEER_PORT HTTP_PORT DATA_DIRECTORY TIMEOUT_MIN_MS TIMEOUT_MAX_MS
 *
 * Ratis reports a new leader while it holds the lock under which it became one, so that line has the right term.
 */
final class Ratis extends BaseStateMachine implements Keep.Log {
    private static final int READY_POLLS = 100, READY_POLL_MS = 10;
    private static final RaftGroupId GROUP = RaftGroupId.valueOf(new UUID(0, 1));
    private final Keep keep = new Keep();
    private final ClientId client = ClientId.randomId();
    private final AtomicLong calls = new AtomicLong();
    private RaftServer server;

    private RaftServer.Division division() throws IOException {
        return server.getDivision(GROUP);
    }

    // --- what the library calls ---

    @Override public CompletableFuture<Message> applyTransaction(TransactionContext transaction) {
        var entry = transaction.getLogEntry();
        String command = entry.getStateMachineLogEntry().getLogData().toStringUtf8();
        String answer = keep.apply(command, entry.getIndex(), entry.getTerm());
        updateLastAppliedTermIndex(entry.getTerm(), entry.getIndex());
        Keep.trace("committed", ",\"index\":" + entry.getIndex());
        return CompletableFuture.completedFuture(Message.valueOf(answer));
    }

    @Override public CompletableFuture<Message> query(Message nothing) {
        return CompletableFuture.completedFuture(Message.EMPTY); // the read index is reached: look into the store now
    }

    @Override public void notifyLeaderChanged(RaftGroupMemberId member, RaftPeerId leader) {
        if (member.getPeerId().equals(leader)) {
            try {
                Keep.trace("elected", ",\"term\":" + division().getInfo().getCurrentTerm());
            } catch (IOException closed) {
                throw new IllegalStateException(closed);
            }
        }
    }

    @Override public void notifyNotLeader(Collection<TransactionContext> pending) {
        Keep.trace("stepped_down", "");
    }

    // --- what clients ask ---

    private String asked(RaftClientRequest.Type type, String text) throws Exception {
        RaftClientRequest request = RaftClientRequest.newBuilder().setClientId(client).setServerId(server.getId())
            .setGroupId(GROUP).setCallId(calls.incrementAndGet()).setMessage(Message.valueOf(text)).setType(type).build();
        return Keep.waited(server.submitClientRequestAsync(request).thenCompose(reply -> reply.isSuccess()
            ? CompletableFuture.completedFuture(reply.getMessage().getContent().toStringUtf8())
            : CompletableFuture.failedFuture(reply.getException())));
    }

    @Override public String submit(String command) throws Exception {
        DivisionInfo info = division().getInfo();
        for (int i = 0; info.isLeader() && !info.isLeaderReady() && i < READY_POLLS; i++) { // as clients of Ratis do
            Thread.sleep(READY_POLL_MS);
        }
        if (!info.isLeader() || !info.isLeaderReady()) { // from here on even a NotLeaderException is doubt
            throw new Keep.NotDone("not the leader");
        }
        return asked(RaftClientRequest.writeRequestType(), command);
    }

    @Override public void refresh() throws Exception {
        asked(RaftClientRequest.readRequestType(), "");
    }

    @Override public String status() throws IOException {
        RaftServer.Division division = division();
        synchronized (division) { // the lock with which the library changes role, term and leader
            DivisionInfo info = division.getInfo();
            Object leader = info.getLeaderId() == null ? "" : info.getLeaderId();
            long commit = division.getRaftLog().getLastCommittedIndex(); // it moves without that lock: read before the end
            TermIndex last = division.getRaftLog().getLastEntryTermIndex();
            return Keep.status(RaftServer.class, info.getCurrentRole(), info.getCurrentTerm(), leader,
                commit, last == null ? 0 : last.getTerm(), last == null ? 0 : last.getIndex());
        }
    }

    public static void main(String[] arguments) throws Exception {
        List<RaftPeer> peers = new ArrayList<>();
        String own = "";
        for (String member : arguments[1].split(",")) {
            String[] words = member.split("=");
            peers.add(RaftPeer.newBuilder().setId(words[0]).setAddress(words[1] + ":" + arguments[2]).build());
            own = words[0].equals(arguments[0]) ? words[1] : own;
        }
        RaftProperties properties = new RaftProperties();
        GrpcConfigKeys.Server.setPort(properties, Integer.parseInt(arguments[2]));
        RaftServerConfigKeys.setStorageDir(properties, List.of(new File(arguments[4])));
        RaftServerConfigKeys.Read.setOption(properties, RaftServerConfigKeys.Read.Option.LINEARIZABLE);
        RaftServerConfigKeys.Rpc.setTimeoutMin(properties, TimeDuration.valueOf(Long.parseLong(arguments[5]), MILLISECONDS));
        RaftServerConfigKeys.Rpc.setTimeoutMax(properties, TimeDuration.valueOf(Long.parseLong(arguments[6]), MILLISECONDS));
        Ratis store = new Ratis();
        store.server = RaftServer.newBuilder().setServerId(RaftPeerId.valueOf(arguments[0])).setStateMachine(store)
            .setGroup(RaftGroup.valueOf(GROUP, peers)).setProperties(properties)
            .setOption(RaftStorage.StartupOption.RECOVER).build();
        store.server.start();
        store.keep.serve(own, Integer.parseInt(arguments[3]), store);
    }
}
