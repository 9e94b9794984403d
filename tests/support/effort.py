"""How long generated tests search: a fixed, quick set by default, more and random with FINALITY_EFFORT=N (N times)."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings


def effort(examples: int) -> settings:
    """Settings for a test that takes about `examples` examples in the quick run."""
    times = int(os.environ.get("FINALITY_EFFORT", "0"))
    return settings(
        max_examples=examples * max(times, 1),
        derandomize=times == 0,
        deadline=None,
        database=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )
