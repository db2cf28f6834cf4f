"""The one package that is installed: ``harness``, ``nemesis``, ``checkers``, ``workloads`` and ``clusters``.

In the repository these are links to its top-level folders, in what is installed they are folders. Guarantees: importing
it imports nothing else. Out of scope: the version, which ``importlib.metadata`` has.
"""
