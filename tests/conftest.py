"""What holds for every test: no property fails because the machine is slow."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

settings.register_profile(
    "any-machine",
    settings.get_profile("ci" if os.environ.get("CI") else "default"),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("any-machine")
