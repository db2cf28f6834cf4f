"""Importable as ``dethrone.harness`` and under no other name, wherever this folder is found."""

if __name__ != "dethrone.harness":
    raise ImportError(
        "harness is dethrone.harness since dethrone 0.2.0 (CHANGELOG.md lists the new names)", name=__name__
    )
