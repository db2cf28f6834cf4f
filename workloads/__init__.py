"""Importable as ``dethrone.workloads`` and under no other name, wherever this folder is found."""

if __name__ != "dethrone.workloads":
    raise ImportError(
        "workloads is dethrone.workloads since dethrone 0.2.0 (CHANGELOG.md lists the new names)", name=__name__
    )
