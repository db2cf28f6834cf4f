"""``python -m dethrone.harness.cli``: the same as ``dethrone``."""

from __future__ import annotations

from dethrone.harness.cli.main import main

main()
