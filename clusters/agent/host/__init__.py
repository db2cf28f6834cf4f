"""The agent: one file, standard library only, on each host; only the agent changes the host during a run.

    python3 agent.py serve --socket PATH --run RUN [--dead-man SECONDS] [--probe-port PORT]
    python3 agent.py relay --socket PATH [--wait SECONDS]      stdin/stdout <-> the agent's socket
    python3 agent.py heal  --socket PATH [--run RUN] [--stop]  converge to healthy, through a living agent or alone
    python3 agent.py disk  --directory DIR --run RUN           serve a node's data directory, for the agent
    python3 agent.py lookout --socket PATH                     search a node's log for patterns, for the agent
    python3 agent.py match --socket PATH                       match texts, read from stdin, against a user's pattern

``serve`` may be the first process of a container. It starts and signals the node process, installs and probes faults,
tails the trace log, watches the host's noise, and heals the host by itself if the harness falls silent.

Protocol: JSON lines over a unix socket. A request is ``{"id": n, "do": verb, ...}``; its answer has the same id and
either ``ok`` or ``error``. Requests are pipelined; verbs of one lane are served in order. ``{"news": n, ...}`` lines
answer no request; they are numbered and kept until acknowledged. A session's answers are kept for a while, so a
connection that breaks and comes back loses nothing. All times are ns of the host's monotonic clock.

An agent that is root starts the node as a user of its own, without capabilities unless the node asks for some, and
unable to gain any; on its socket it serves root and its own user only. ``prepare`` answers with the user that the node
will run as (``runs_as``), and why that user is not its own.

Guarantees: wrong input never ends the agent; every wait and queue is bounded; a fault that did not take effect is
``confirmed: false`` with a reason; rules are in a chain of our own, and no other rule is changed; a peer is cut at all
of its addresses, IPv4 and IPv6; files are damaged only while the node is down; a mount of ours over a node's data
directory is the only one that is ever removed; what the node may use is limited in a control group of its own, which
never holds the agent. Out of scope: meaning of any kind.
Runs on Python 3.9 and later. Its source is the package ``dethrone.clusters.agent.host``;
``dethrone.clusters.agent.bundle`` joins the modules, so each name is defined in one module only.
"""
