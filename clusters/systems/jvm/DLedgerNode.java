import io.openmessaging.storage.dledger.DLedgerConfig;
import io.openmessaging.storage.dledger.DLedgerServer;
import io.openmessaging.storage.dledger.MemberState;
import java.lang.reflect.Method;

/**
 * One DLedger server as its jar has it, with its member's state told beside it.
 *
 * Arguments: address, status port, clock socket, group, own id, peers, store directory, then name=number settings of
 * DLedgerConfig. MemberState changes role, term, vote and leader only in its own monitor, and the store changes the
 * log's end there: what is read in that monitor belongs to one moment. The commit is read before the log's end.
 */
public final class DLedgerNode {
    private static final int SMALL_FILE = 16 * 1024 * 1024;

    private DLedgerNode() {}

    public static void main(String[] arguments) throws Exception {
        DLedgerConfig config = new DLedgerConfig();
        config.setGroup(arguments[3]);
        config.setSelfId(arguments[4]);
        config.setPeers(arguments[5]);
        config.setStoreBaseDir(arguments[6]);
        config.setMappedFileSizeForEntryData(SMALL_FILE);
        config.setMappedFileSizeForEntryIndex(SMALL_FILE / 2);
        for (int i = 7; i < arguments.length; i++) {
            String[] pair = arguments[i].split("=", 2);
            String name = "set" + Character.toUpperCase(pair[0].charAt(0)) + pair[0].substring(1);
            DLedgerConfig.class.getMethod(name, int.class).invoke(config, Integer.parseInt(pair[1]));
        }
        Beside.clocks(arguments[2]);
        DLedgerServer server = new DLedgerServer(config);
        server.startup();
        Beside.tell(arguments[0], Integer.parseInt(arguments[1]), () -> status(server));
        Runtime.getRuntime().addShutdownHook(new Thread(server::shutdown, "dethrone-stop"));
    }

    private static String status(DLedgerServer server) {
        MemberState member = server.getMemberState();
        Object store = server.getdLedgerStore();
        synchronized (member) {
            long committed = committed(member, store);
            return Beside.object("\"state\":" + Beside.quoted(String.valueOf(member.getRole()))
                + ",\"term\":" + member.currTerm() + ",\"leader\":" + Beside.quoted(member.getLeaderId())
                + ",\"vote\":" + Beside.quoted(member.currVoteFor()) + ",\"committed\":" + committed
                + ",\"end_index\":" + member.getLedgerEndIndex() + ",\"end_term\":" + member.getLedgerEndTerm());
        }
    }

    /** Releases before 0.4 keep it in the store, later ones in the member's state. */
    private static long committed(MemberState member, Object store) {
        for (Object place : new Object[] {member, store}) {
            try {
                Method getter = place.getClass().getMethod("getCommittedIndex");
                return (Long) getter.invoke(place);
            } catch (NoSuchMethodException elsewhere) {
                // the other one has it
            } catch (ReflectiveOperationException error) {
                throw new IllegalStateException(error);
            }
        }
        throw new IllegalStateException("no committed index");
    }
}
