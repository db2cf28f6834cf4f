"""A run's hosts next to somebody else's containers, without a run."""

from __future__ import annotations

import secrets
import time

from dethrone.clusters.attach.backend import AttachBackend
from dethrone.harness.core.interfaces import Command, DeploySpec, NodeStart
from dethrone.harness.core.ledger import Ledger

START = NodeStart(
    command=Command(argv=("/usr/bin/etcd",)),
    log_path="/var/log/dethrone/node.log",
    data_dir="/var/lib/dethrone/data",
)


class Attached:
    def __init__(self, label: str, state) -> None:
        self.backend = AttachBackend().lent(None, [f"label={label}"])
        self.ledger = Ledger(state, f"test-{secrets.token_hex(4)}")
        self.news = []
        self.spec = DeploySpec(
            run_id=self.ledger.run_id,
            nodes=self.backend.usable(),
            image="etcd",
            base=None,
            state_dir=str(self.ledger.directory),
            needs=frozenset({"iptables", "signals", "vdso"}),
        )
        self.hosts = self.backend.deploy(
            self.spec, origin_ns=time.monotonic_ns(), news=self.news.append, progress=lambda _: None
        )
        peers = {name: host.address for name, host in self.hosts.items()}
        for host in self.hosts.values():
            host.prepare(START, peers, dead_man_ns=0)
            host.start_node()

    def converge(self, **wants):
        return self.backend.converge_all(self.hosts, wants)

    def told(self, host: str, kind: str) -> list[dict]:
        return [one.data for one in list(self.news) if (one.host, one.kind) == (host, kind)]

    def close(self) -> None:
        for host in self.hosts.values():
            host.close()
        self.backend.destroy(self.ledger.run_id)
        self.ledger.close(clean=True)
