"""The agent on each host, and the harness' end of it: the link, and cluster-wide converging with proof."""
