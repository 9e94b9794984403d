"""What every test may ask for: running stacks."""

from __future__ import annotations

from support.stack_fixture import broker_pid, kafka, stack1, stack3

__all__ = ["broker_pid", "kafka", "stack1", "stack3"]
