"""The agent on each host, and the harness' side of it: the link, and convergence of a whole cluster with proof."""
