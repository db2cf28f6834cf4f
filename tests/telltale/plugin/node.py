"""The tell-tale: a hostile node that uses every channel it has, and logs what it felt.

    python3 -S node.py NAME n1=ADDRESS,n2=ADDRESS,… RUN_DIR DATA_DIR LOG_DIR [flush | heal | die]

Each line of its output is a JSON object; times are ns of the monotonic clock, which all hosts of one machine share.
``heard``: something of ``from`` arrived over ``channel``, sent at ``sent``, received by ``at``; it was on its way
within these two. ``clock``: a reading of both clocks after a timed wait. ``tried``: whether a privilege was
granted. ``born``, ``ending``: its life. A mode does harm: ``flush`` empties the firewall every 0.3 s, ``heal`` asks the
agent to heal the host, ``die`` panics.

Standard library only, Python 3.9 and later. Judging is not its business: ``compare`` does that.
"""

# ruff: noqa: PTH103, PTH108, PTH110, PTH123, PTH208, SIM105, B023, PLR0917 - it stands alone on a host, with any Python

import ctypes
import http.server
import json
import os
import select
import signal
import socket
import struct
import subprocess
import sys
import threading
import time

UDP, TCP, STATUS = 7411, 7412, 7413
EVERY_S = 0.1
GROUP_4, GROUP_6 = "239.255.77.77", "ff02::7777"
DIRECTORIES_MAX = 60

_lock = threading.Lock()


def say(what, **fields):
    line = json.dumps({"what": what, "at": time.monotonic_ns(), **fields}).encode() + b"\n"
    with _lock:
        os.write(1, line)


def pause(seconds):
    """Wait; ``time.sleep`` fails under libfaketime, whose absolute waits on the monotonic clock are broken."""
    select.select([], [], [], seconds)


def forever(work, every_s=EVERY_S):
    """Repeat in a thread of its own; what the kernel refuses now may work later."""

    def run():
        while True:
            try:
                work()
            except OSError:
                pass
            pause(every_s)

    threading.Thread(target=run, daemon=True).start()


def interfaces():
    return {name: index for index, name in socket.if_nameindex() if name != "lo"}


def own_addresses():
    """Every address of this host that others may see, both families."""
    found = set()
    try:
        with open("/proc/net/if_inet6", encoding="ascii") as file:
            for line in file:
                raw, _, _, _, flags, name = line.split()
                if name != "lo" and not int(flags, 16) & 0x40:
                    found.add(socket.inet_ntop(socket.AF_INET6, bytes.fromhex(raw)))
    except OSError:
        pass
    try:
        with open("/proc/net/fib_trie", encoding="ascii") as file:
            last = ""
            for line in file:
                word = line.split()
                if line.strip().startswith("|--"):
                    last = word[1]
                elif "/32 host LOCAL" in line and not last.startswith("127."):
                    found.add(last)
    except OSError:
        pass
    return sorted(found)


class Node:
    def __init__(self, name, members, run_dir, data_dir, log_dir, mode):
        self.name, self.members = name, members
        self.run_dir, self.data_dir, self.log_dir, self.mode = run_dir, data_dir, log_dir, mode
        self.others = {other: {address} for other, address in members.items() if other != name}
        self.own = own_addresses()

    def letter(self, **more):
        return json.dumps({"from": self.name, "sent": time.monotonic_ns(), **more}).encode()

    def hear(self, raw, channel):
        try:
            letter = json.loads(raw)
        except ValueError:
            return
        if letter.get("from") in self.others:
            self.others[letter["from"]].update(letter.get("own", ()))
            say("heard", channel=channel, to=letter.get("to", ""), sent=letter["sent"], **{"from": letter["from"]})

    def places(self, address, port):
        """Where to send for an address: link-local ones need an interface."""
        if ":" not in address:
            return [(address, port)]
        if not address.startswith("fe80"):
            return [(address, port, 0, 0)]
        return [(address, port, 0, index) for index in interfaces().values()]

    # --- the network ---

    def udp(self, family):
        version = "4" if family == socket.AF_INET else "6"
        try:
            receiver = socket.socket(family, socket.SOCK_DGRAM)
            receiver.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            receiver.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
            if family == socket.AF_INET6:
                receiver.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            receiver.bind(("", UDP))
        except OSError as error:
            say("no", channel="udp" + version, why=str(error))
            return
        for index in interfaces().values():
            try:
                if family == socket.AF_INET:
                    joined = socket.inet_aton(GROUP_4) + struct.pack("=4si", b"\0" * 4, index)
                    receiver.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, joined)
                else:
                    joined = socket.inet_pton(family, GROUP_6) + struct.pack("=i", index)
                    receiver.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_JOIN_GROUP, joined)
            except OSError as error:
                say("no", channel="multicast" + version, why=str(error))

        def receive():
            while True:
                raw, _ = receiver.recvfrom(4096)
                kind = "multicast" if b'"to": "group"' in raw else "udp"
                self.hear(raw, kind + version)

        def send():
            for addresses in list(self.others.values()):
                for address in sorted(addresses):
                    if (":" in address) == (family == socket.AF_INET6):
                        for place in self.places(address, UDP):
                            self.try_to(
                                lambda place=place, address=address: receiver.sendto(
                                    self.letter(to=address, own=self.own), place
                                )
                            )
            for index in interfaces().values():
                if family == socket.AF_INET:
                    chosen = struct.pack("=4s4si", b"\0" * 4, b"\0" * 4, index)
                    self.try_to(lambda: receiver.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, chosen))
                    self.try_to(lambda: receiver.sendto(self.letter(to="group"), (GROUP_4, UDP)))
                else:
                    self.try_to(lambda index=index: receiver.sendto(self.letter(to="group"), (GROUP_6, UDP, 0, index)))

        forever(receive)
        forever(send)

    def refresh(self):
        """Addresses come late: one of IPv6 is nobody's before its host has asked around."""
        self.own = own_addresses()

    @staticmethod
    def try_to(act):
        try:
            act()
        except OSError:
            pass

    def tcp_server(self, family):
        version = "4" if family == socket.AF_INET else "6"
        try:
            listener = socket.socket(family, socket.SOCK_STREAM)
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            listener.bind(("", TCP))
            listener.listen(64)
        except OSError as error:
            say("no", channel="tcp" + version, why=str(error))
            return

        def accept():
            connected, _ = listener.accept()
            threading.Thread(target=self.serve, args=(connected, "tcp" + version), daemon=True).start()

        forever(accept, 0)

    def serve(self, connected, channel):
        """Hear each letter, and answer it with one."""
        with connected:
            connected.settimeout(3)
            try:
                for raw in connected.makefile("rb"):
                    self.hear(raw, channel)
                    connected.sendall(self.letter(to="answer") + b"\n")
            except OSError:
                pass

    def tcp_client(self, other, address):
        """A connection that is kept while it answers, and made again when it does not."""
        channel = "tcp6" if ":" in address else "tcp4"
        family = socket.AF_INET6 if ":" in address else socket.AF_INET

        def talk(place):
            with socket.socket(family, socket.SOCK_STREAM) as client:
                client.settimeout(0.4)
                client.connect(place)
                answers = client.makefile("rb")
                while True:
                    client.sendall(self.letter(to=address) + b"\n")
                    answer = answers.readline()
                    if not answer:
                        break
                    self.hear(answer, channel)
                    pause(EVERY_S)

        def turn():
            for place in self.places(address, TCP):
                self.try_to(lambda place=place: talk(place))

        forever(turn)

    def clients(self):
        known = set()

        def look():
            for other, addresses in list(self.others.items()):
                for address in sorted(addresses):
                    if address not in known:
                        known.add(address)
                        self.tcp_client(other, address)

        forever(look)

    # --- the machine ---

    def writable(self):
        found = [self.run_dir, self.data_dir, self.log_dir, "/tmp", "/var/tmp", "/dev/shm", "/run"]
        for top, below, _ in os.walk("/"):
            if top.count("/") >= 3 or top.startswith(("/proc", "/sys")):
                below.clear()
                continue
            if top not in found and os.access(top, os.W_OK):
                found.append(top)
        return found[:DIRECTORIES_MAX]

    def files(self):
        """Write into every directory that lets it, and read what others wrote there."""
        places = [place for place in self.writable() if os.access(place, os.W_OK)]
        say("writes", places=places)

        def turn():
            for place in places:
                self.try_to(lambda place=place: self.leave(place))
                for other in self.others:
                    try:
                        with open(f"{place}/telltale-{other}", "rb") as file:
                            self.hear(file.read(), f"file:{place}")
                    except OSError:
                        pass

        forever(turn)

    def leave(self, place):
        with open(f"{place}/telltale-{self.name}", "wb") as file:
            file.write(self.letter(to=place))

    def sockets(self):
        """Unix sockets: abstract ones, and one in each shared place."""

        def listen(path, channel):
            listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            try:
                if not path.startswith("\0") and os.path.exists(path):
                    os.unlink(path)
                listener.bind(path)
                listener.listen(16)
            except OSError:
                return

            def accept():
                connected, _ = listener.accept()
                threading.Thread(target=self.serve, args=(connected, channel), daemon=True).start()

            forever(accept, 0)

        def call(path, channel):
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
                client.settimeout(0.3)
                client.connect(path)
                client.sendall(self.letter(to=channel) + b"\n")
                self.hear(client.makefile("rb").readline(), channel)

        for before, channel in (("\0", "abstract"), ("/tmp/", "socket:/tmp"), ("/dev/shm/", "socket:/dev/shm")):
            listen(f"{before}telltale-{self.name}.sock", channel)
            for other in self.others:
                forever(
                    lambda other=other, before=before, channel=channel: call(f"{before}telltale-{other}.sock", channel)
                )

    def clocks(self):
        def look():
            before = time.monotonic_ns()
            pause(0.04)
            after = time.monotonic_ns()
            for _ in range(10):
                mono, wall, again = time.monotonic_ns(), time.time_ns(), time.monotonic_ns()
                if again - mono < 2_000_000:  # else something came in between, and the two do not belong together
                    say("clock", mono=mono, wall=wall, waited=after - before)
                    break

        forever(look, 0.02)

    def clock_socket(self):
        path = f"{self.run_dir}/clock.sock"
        try:
            if os.path.exists(path):
                os.unlink(path)
            listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            listener.bind(path)
            listener.listen(16)
        except OSError:
            return

        def tell():
            connected, _ = listener.accept()
            with connected:
                connected.sendall(b'{"mono_ns":%d,"wall_ns":%d}\n' % (time.monotonic_ns(), time.time_ns()))

        forever(tell, 0)

    # --- privileges ---

    def privileges(self):
        tries = {
            "iptables": lambda: (
                self.tool("iptables", "-w", "2", "-N", "TELLTALE")
                and self.tool("iptables", "-w", "2", "-X", "TELLTALE")
            ),
            "ip6tables": lambda: (
                self.tool("ip6tables", "-w", "2", "-N", "TELLTALE")
                and self.tool("ip6tables", "-w", "2", "-X", "TELLTALE")
            ),
            "shadow": lambda: bool(self.read("/etc/shadow")),
            "mount": self.mounts,
            "sysctl": lambda: self.rewrite("/proc/sys/net/ipv4/ip_default_ttl"),
            "core-pattern": lambda: self.opens("/proc/sys/kernel/core_pattern"),
            "ipv6-on": lambda: self.rewrite("/proc/sys/net/ipv6/conf/default/disable_ipv6"),
            "signal-agent": self.signals_the_agent,
            "agent-socket": lambda: bool(self.ask_agent("silence")),
            "wall-clock": lambda: time.clock_settime_ns(time.CLOCK_REALTIME, time.time_ns()) is None,
            "raw-socket": lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW).close() is None,
        }
        for name, attempt in tries.items():
            try:
                granted = bool(attempt())
            except (OSError, ValueError, subprocess.SubprocessError):
                granted = False
            say("tried", privilege=name, granted=granted)

    @staticmethod
    def tool(*argv):
        return subprocess.run(argv, capture_output=True, timeout=3, check=False).returncode == 0

    @staticmethod
    def read(path):
        with open(path, "rb") as file:
            return file.read()

    @staticmethod
    def opens(path):
        os.close(os.open(path, os.O_WRONLY))
        return True

    def rewrite(self, path):
        content = self.read(path)
        with open(path, "wb") as file:
            file.write(content)
        return True

    def mounts(self):
        libc = ctypes.CDLL(None, use_errno=True)
        place = f"{self.data_dir}/mounted".encode()
        os.makedirs(place, exist_ok=True)
        if libc.mount(b"tmpfs", place, b"tmpfs", 0, None) != 0:
            return False
        libc.umount2(place, 2)
        return True

    @staticmethod
    def agents():
        for entry in os.listdir("/proc"):
            if entry.isdigit():
                try:
                    with open(f"/proc/{entry}/cmdline", "rb") as file:
                        words = file.read().split(b"\0")
                except OSError:
                    continue
                if b"serve" in words and b"--socket" in words:
                    yield int(entry), words[words.index(b"--socket") + 1].decode()

    def signals_the_agent(self):
        for pid, _ in self.agents():
            os.kill(pid, signal.SIGCONT)
            return True
        return False

    def ask_agent(self, verb):
        for _, path in self.agents():
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
                client.settimeout(2)
                client.connect(path)
                client.sendall(json.dumps({"id": 1, "do": verb}).encode() + b"\n")
                return client.makefile("rb").readline()
        return b""

    # --- harm ---

    def flush(self):
        for tool in ("iptables", "ip6tables", "iptables-legacy", "ip6tables-legacy"):
            self.try_to(lambda tool=tool: self.tool(tool, "-w", "2", "-F"))

    def status(self):
        leader = min(self.members)
        node = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                role = "leader" if node.name == leader else "follower"
                body = json.dumps({"role": role, "term": 1, "leader": leader}).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *words):
                pass

        server = http.server.ThreadingHTTPServer(("", STATUS), Handler)
        server.daemon_threads = True
        server.serve_forever()

    def live(self):
        say("born", name=self.name, pid=os.getpid(), own=self.own, incarnation=os.environ.get("DETHRONE_INCARNATION"))
        self.clock_socket()
        forever(self.refresh, 0.5)
        for family in (socket.AF_INET, socket.AF_INET6):
            self.udp(family)
            self.tcp_server(family)
        self.clients()
        self.clocks()
        if self.mode == "flush":
            forever(self.flush, 0.3)
        elif self.mode == "heal":
            forever(lambda: self.ask_agent("heal"), 0.3)
        elif self.mode == "die" and self.name == max(self.members):
            threading.Thread(target=self.die, daemon=True).start()
        threading.Thread(target=self.privileges, daemon=True).start()
        threading.Thread(target=self.files, daemon=True).start()
        self.sockets()
        self.status()

    def die(self):
        pause(3)
        say("ending", by="panic")
        os.write(2, b"panic: the tell-tale has had enough\n")
        os._exit(2)


def ended(number, _frame):
    say("ending", by=signal.Signals(number).name)
    os._exit(0)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, ended)
    given = sys.argv[1:]
    Node(
        given[0],
        dict(member.split("=") for member in given[1].split(",")),
        *given[2:5],
        mode=given[5] if len(given) > 5 else "",
    ).live()
