"""Three SSH servers of one computer, which stand for three machines: each has a state directory of its own."""

from __future__ import annotations

import sys
import time

from dethrone.clusters.ssh.backend import SshBackend
from dethrone.clusters.ssh.hosts import parse_hosts
from dethrone.harness.core.interfaces import Command, DeploySpec, NodeStart

NODES = ("n1", "n2", "n3")
NODE = "import time\nwhile True: time.sleep(0.05)"


class Machines:
    """Three servers of one computer: each has a state directory of its own."""

    def __init__(self, lab, directory) -> None:
        self.directory = directory
        self.servers = {"n1": lab.server} | {node: lab.another_server(known=True) for node in ("n2", "n3")}
        self.key_file, self.known_hosts = lab.key_file, lab.known_hosts
        self.news = []
        self.hosts = {}
        self.backend = self.of()

    def text(self, expendable: str, more: str = "") -> str:
        head = (
            f'expendable = {expendable}\nuser = "chaos"\nkey = "{self.key_file}"\nknown_hosts = "{self.known_hosts}"\n'
        )
        return head + "".join(
            f'[hosts.{node}]\naddress = "127.0.0.1"\nport = {server.port}\ninside = "198.18.0.{index}"\n'
            f'state_dir = "{self.directory}/{node}"\n{more.replace("NODE", node)}'
            for index, (node, server) in enumerate(self.servers.items(), 1)
        )

    def of(self, expendable: str = '["n1", "n2", "n3"]', more: str = "") -> SshBackend:
        return SshBackend(parse_hosts(self.text(expendable, more), source="hosts.toml"), patience_s=2, probe_port=0)

    def deploy(self, backend: SshBackend | None = None, run: str = "r1"):
        spec = DeploySpec(run_id=run, nodes=NODES, image="somebody's own", base=None, state_dir="/somewhere")
        hosts = (backend or self.backend).deploy(
            spec, origin_ns=time.monotonic_ns(), news=self.news.append, progress=lambda _: None
        )
        self.hosts |= hosts
        return hosts

    def running(self, backend: SshBackend | None = None):
        """Hosts with a node on each."""
        hosts = self.deploy(backend)
        self.start_nodes(hosts)
        return hosts

    def start_nodes(self, hosts) -> None:
        for node, host in hosts.items():
            base = f"{self.directory}/{node}/r1"
            start = NodeStart(
                command=Command(argv=(sys.executable, "-S", "-c", NODE)),
                log_path=f"{base}/node.log",
                data_dir=f"{base}/data",
            )
            host.prepare(start, {}, dead_man_ns=0)
            host.start_node()

    def close(self) -> None:
        for host in self.hosts.values():
            host.close()
        self.hosts.clear()

    def leave(self) -> None:
        """As at the end of a run, whatever a test left undone: healed, and no agent any more."""
        self.close()
        for server in self.servers.values():
            server.deaf = False
        self.of().destroy("r1")

    def touched(self) -> list[str]:
        return [node for node, server in self.servers.items() if server.logins]
