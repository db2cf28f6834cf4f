"""Importable as ``dethrone.clusters`` and under no other name, wherever this folder is found."""

if __name__ != "dethrone.clusters":
    raise ImportError(
        "clusters is dethrone.clusters since dethrone 0.2.0 (CHANGELOG.md lists the new names)", name=__name__
    )
