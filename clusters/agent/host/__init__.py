"""The agent: one file, standard library only, on each host; it alone touches the host while a run lasts.

    python3 agent.py serve --socket PATH --run RUN [--dead-man SECONDS] [--probe-port PORT]
    python3 agent.py relay --socket PATH [--wait SECONDS]      stdin/stdout <-> the agent's socket
    python3 agent.py heal  --socket PATH [--run RUN] [--stop]  converge to healthy, through a living agent or alone
    python3 agent.py match --socket PATH                       which texts a user's pattern matches; asked on stdin

``serve`` may be the first process of a container. It starts and signals the node process, installs and probes faults,
tails the trace log, watches the host's noise, and heals the host by itself if the harness falls silent.

Protocol: JSON lines over a unix socket. A request is ``{"id": n, "do": verb, ...}``; its answer has the same id and
either ``ok`` or ``error``. Requests are pipelined; verbs of one lane are served in order. Unasked ``{"news": n, ...}``
lines are numbered and kept until acknowledged, answers of a session are kept for a while, so a connection that breaks
and comes back loses nothing. All times are ns of the host's monotonic clock.

An agent that is root starts the node as a user of its own, without capabilities unless the node asks for some, and
unable to gain any; on its socket it serves root and its own user only. ``prepare`` answers as what the node will
run (``runs_as``), and why, where that is not a user of its own.

Guarantees: wrong input never ends the agent; every wait and queue is bounded; what did not take is ``confirmed: false``
with a reason; rules sit in a chain of our own and nothing that is not ours is flushed; a peer is cut at all of its
addresses, IPv4 and IPv6. Out of scope: delay and jitter of links, disk trouble and CPU limits (answered ``confirmed:
false``), and meaning of any kind.
Runs on Python 3.9 and later. It is written as the modules of ``dethrone.clusters.agent.host``;
``dethrone.clusters.agent.bundle`` makes the file of them, so each name is defined in one module only.
"""
