"""How generated tests run: the same inputs every time, and no clock, so that a slow machine cannot fail them."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

FUZZ = settings(
    deadline=None,
    derandomize=True,
    max_examples=200,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
)
