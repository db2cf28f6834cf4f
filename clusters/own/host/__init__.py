"""A program that is the node where a node is several processes, or has commands that run once.

    ``python3 supervisor.py CONFIG INCARNATION``

It starts the processes in their order, each once those before it are ready, runs the commands of a first start and of
the cluster's setup, and stays. Processes are children in its own process group, so what ends or freezes the node ends
or freezes all of them, and they die with it. A process that ends without being asked to ends the node, in the same
way: with its exit code or signal, and with its last lines in the node's output.

Which processes are held down or frozen by themselves stands in files, ``held/PROCESS.KIND`` (with the signal's name),
which outlive the node; who wrote one asks over ``processes.sock`` that it be looked at.

Guarantees: only the standard library, for these modules travel to hosts as one file; what is read, waited for and
printed has a limit. Out of scope: what the commands do.
"""
