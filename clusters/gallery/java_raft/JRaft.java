import com.alipay.sofa.jraft.Closure;
import com.alipay.sofa.jraft.Iterator;
import com.alipay.sofa.jraft.Node;
import com.alipay.sofa.jraft.RaftGroupService;
import com.alipay.sofa.jraft.Status;
import com.alipay.sofa.jraft.closure.ReadIndexClosure;
import com.alipay.sofa.jraft.conf.Configuration;
import com.alipay.sofa.jraft.core.DefaultJRaftServiceFactory;
import com.alipay.sofa.jraft.core.NodeImpl;
import com.alipay.sofa.jraft.core.State;
import com.alipay.sofa.jraft.core.StateMachineAdapter;
import com.alipay.sofa.jraft.entity.EnumOutter.EntryType;
import com.alipay.sofa.jraft.entity.LogEntry;
import com.alipay.sofa.jraft.entity.LogId;
import com.alipay.sofa.jraft.entity.PeerId;
import com.alipay.sofa.jraft.entity.Task;
import com.alipay.sofa.jraft.option.*;
import com.alipay.sofa.jraft.storage.LogManager;
import com.alipay.sofa.jraft.storage.LogStorage;
import com.alipay.sofa.jraft.storage.RaftMetaStorage;
import com.alipay.sofa.jraft.storage.impl.LocalRaftMetaStorage;
import com.alipay.sofa.jraft.storage.impl.RocksDBLogStorage;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.*;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.locks.Lock;

import static java.nio.charset.StandardCharsets.UTF_8;

/**
 * The store on SOFA JRaft, with the library's default options and no snapshots.
 *
 *     java JRaft NAME n1=ADDRESS,n2=ADDRESS,… PEER_PORT HTTP_PORT DATA_DIRECTORY LEASE_READS
 *
 * Its storages are the library's own, with trace lines: a term or a vote when it is stored and before it is answered, an
 * election when the first entry of the new leader is to be stored.
 */
final class JRaft extends StateMachineAdapter implements Keep.Log {
    private static final Map<PeerId, String> NAMES = new HashMap<>();
    private static volatile Node node;
    private static volatile long term; // the last one that a trace line names
    private final Keep keep = new Keep();

    // --- trace lines ---

    private static String name(PeerId peer) {
        return NAMES.containsKey(peer) ? "\"" + NAMES.get(peer) + "\"" : "null";
    }

    private static boolean voted(long term, PeerId peer) {
        if (NAMES.containsKey(peer)) {
            Keep.trace("vote_granted", ",\"term\":" + term + ",\"candidate\":" + name(peer));
        }
        return true;
    }

    private static final class Votes extends LocalRaftMetaStorage {
        Votes(String place, RaftOptions options) {
            super(place, options);
        }

        @Override public boolean init(RaftMetaStorageOptions options) {
            boolean done = super.init(options);
            term = getTerm();
            String file = getTerm() == 0 ? ",\"file\":\"absent\"" : "";
            Keep.trace("recovered", ",\"term\":" + getTerm() + ",\"voted_for\":" + name(getVotedFor()) + file);
            return done;
        }

        @Override public boolean setTermAndVotedFor(long stored, PeerId peer) {
            if (!super.setTermAndVotedFor(stored, peer)) {
                return false;
            }
            synchronized (Keep.class) {
                term = stored;
                Keep.trace("term_changed", ",\"term\":" + stored + ",\"voted_for\":" + name(peer));
            }
            return voted(stored, peer);
        }

        @Override public boolean setVotedFor(PeerId peer) {
            return super.setVotedFor(peer) && voted(getTerm(), peer);
        }
    }

    private static final class Entries extends RocksDBLogStorage {
        Entries(String place, RaftOptions options) {
            super(place, options);
        }

        @Override public int appendEntries(List<LogEntry> entries) {
            StringJoiner rows = new StringJoiner(",", ",\"entries\":[", "]");
            for (LogEntry entry : entries) {
                long index = entry.getId().getIndex(), term = entry.getId().getTerm();
                boolean first = entry.getType() == EntryType.ENTRY_TYPE_CONFIGURATION; // members never change here
                if (first && node != null && node.getNodeState() == State.STATE_LEADER) {
                    Keep.trace("elected", ",\"term\":" + term);
                }
                rows.add("[" + index + "," + term + ",\"" + Long.toHexString(entry.checksum()) + "\"]");
            }
            int stored = super.appendEntries(entries);
            if (stored == entries.size()) {
                Keep.trace("appended", rows.toString());
            }
            return stored;
        }

        @Override public boolean truncateSuffix(long last) {
            boolean done = super.truncateSuffix(last);
            Keep.trace("truncated", ",\"from\":" + (last + 1));
            return done;
        }
    }

    // --- the log ---

    private record Asked(CompletableFuture<String> answer) implements Closure {
        @Override public void run(Status status) { // called only where the command is not applied by this node
            boolean refused = status.getErrorMsg().equals("Is not leader."); // before it was appended
            answer.completeExceptionally(refused ? new Keep.NotDone("not the leader") : new IOException(status.toString()));
        }
    }

    @Override public void onApply(Iterator entries) {
        Map<Asked, String> answers = new LinkedHashMap<>();
        long last = 0;
        for (; entries.hasNext(); entries.next()) {
            last = entries.getIndex();
            // its own position: a leader sends the same buffer to followers that are behind
            String command = UTF_8.decode(entries.getData().duplicate()).toString();
            String answer = keep.apply(command, last, entries.getTerm());
            if (entries.done() != null) {
                answers.put((Asked) entries.done(), answer);
            }
        }
        synchronized (Keep.class) { // so that the terms of lines never fall
            Keep.trace("committed", ",\"term\":" + term + ",\"index\":" + last);
        }
        answers.forEach((asked, answer) -> asked.answer.complete(answer));
    }

    @Override public void onLeaderStop(Status status) {
        Keep.trace("stepped_down", "");
    }

    @Override public String submit(String command) throws Exception {
        Asked asked = new Asked(new CompletableFuture<>());
        node.apply(new Task(ByteBuffer.wrap(command.getBytes(UTF_8)), asked));
        return Keep.waited(asked.answer);
    }

    @Override public void refresh() throws Exception {
        CompletableFuture<String> answer = new CompletableFuture<>();
        node.readIndex(new byte[0], new ReadIndexClosure() {
            @Override public void run(Status status, long index, byte[] context) {
                if (status.isOk()) {
                    answer.complete("");
                } else {
                    answer.completeExceptionally(new IOException(status.toString()));
                }
            }
        });
        Keep.waited(answer);
    }

    @Override public String status() throws Exception {
        Lock lock = (Lock) field("readLock"); // the library changes role, term and leader with its write lock only
        lock.lock();
        try {
            PeerId leader = (PeerId) field("leaderId");
            long commit = node.getLastCommittedIndex(); // it may move without that lock: read before the end
            LogId last = ((LogManager) field("logManager")).getLastLogId(false);
            return Keep.status(NodeImpl.class, field("state"), (long) field("currTerm"), leader.isEmpty() ? "" : leader,
                commit, last.getTerm(), last.getIndex());
        } finally {
            lock.unlock();
        }
    }

    private static Object field(String name) throws ReflectiveOperationException {
        var field = NodeImpl.class.getDeclaredField(name);
        field.setAccessible(true);
        return field.get(node);
    }

    public static void main(String[] arguments) throws Exception {
        Configuration members = new Configuration();
        PeerId own = null;
        for (String member : arguments[1].split(",")) {
            String[] words = member.split("=");
            PeerId peer = new PeerId(words[1], Integer.parseInt(arguments[2]));
            NAMES.put(peer, words[0]);
            members.addPeer(peer);
            own = words[0].equals(arguments[0]) ? peer : own;
        }
        JRaft store = new JRaft();
        NodeOptions options = new NodeOptions();
        options.setInitialConf(members);
        options.setFsm(store);
        options.setLogUri(arguments[4] + "/log");
        options.setRaftMetaUri(arguments[4] + "/meta");
        options.setServiceFactory(new DefaultJRaftServiceFactory() {
            @Override public RaftMetaStorage createRaftMetaStorage(String place, RaftOptions raft) {
                return new Votes(place, raft);
            }

            @Override public LogStorage createLogStorage(String place, RaftOptions raft) {
                return new Entries(place, raft);
            }
        });
        if (Boolean.parseBoolean(arguments[5])) {
            options.getRaftOptions().setReadOnlyOptions(ReadOnlyOption.ReadOnlyLeaseBased);
        }
        node = new RaftGroupService("keep", own, options).start();
        store.keep.serve(own.getIp(), Integer.parseInt(arguments[3]), store);
    }
}
