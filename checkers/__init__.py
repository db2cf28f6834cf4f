"""Importable as ``dethrone.checkers`` and under no other name, wherever this folder is found."""

if __name__ != "dethrone.checkers":
    raise ImportError(
        "checkers is dethrone.checkers since dethrone 0.2.0 (CHANGELOG.md lists the new names)", name=__name__
    )
