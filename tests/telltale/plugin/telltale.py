"""The system ``telltale``: nodes that use every channel and log what they felt (``node.py`` next to this file).

Register it by putting this directory on PYTHONPATH (the ``.dist-info`` next to this file does the rest), then
``dethrone run telltale --workload election``. Its knob ``mode`` does harm. It elects no leader: the first node says
that it leads, which is all that a run needs; its verdicts mean nothing, what its nodes logged does (``compare``).
"""

from __future__ import annotations

from pathlib import Path

from dethrone.clusters.own.parse import FileRead, parse
from dethrone.clusters.own.system import OwnSystem
from dethrone.harness.core.interfaces import Available, Yes

NODE = Path(__file__).with_name("node.py")

TEXT = """
[system]
name = "telltale"
[node]
command = "python3 -S {run_dir}/telltale.py {name} {members} {run_dir} {data_dir} {log_dir} {mode}"
ports = { udp = 7411, tcp = 7412, http = 7413 }
files = { "{run_dir}/telltale.py" = "node.py" }
[knobs]
mode = "watch"
[probe]
http = "/status"
port = "http"
role = "role"
term = "term"
leader = "leader"
[promise]
election_timeout = "1s"
heartbeat = "100ms"
tolerates = ["partition", "kill", "pause", "stop", "restart", "clock"]
leader_within = "5s"
"""


class Telltale(OwnSystem):
    """As described, and its nodes tell their own clocks."""

    def __init__(self, text: str = TEXT) -> None:
        super().__init__(
            parse(text, path="telltale.toml", read=lambda _: FileRead(NODE.read_bytes(), executable=False))
        )

    def fault_support(self, kind: str) -> Available:
        """Every live fault."""
        return Yes() if kind == "clock" else super().fault_support(kind)


SYSTEM = Telltale()

STRONG = Telltale(
    TEXT.replace('name = "telltale"', 'name = "telltale-strong"').replace(
        "[node]\n", '[node]\nuser = "root"\ncapabilities = ["NET_ADMIN", "NET_RAW"]\n'
    )
)
"""As root, over its own network: it can flush the rules that cut it off, and ask the agent."""
