"""``python -m harness.cli``: the same as ``dethrone``."""

from __future__ import annotations

from harness.cli.main import main

main()
