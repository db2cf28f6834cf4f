"""Importable as ``dethrone.nemesis`` and under no other name, wherever this folder is found."""

if __name__ != "dethrone.nemesis":
    raise ImportError(
        "nemesis is dethrone.nemesis since dethrone 0.2.0 (CHANGELOG.md lists the new names)", name=__name__
    )
