"""Finality: how every job ended, and the proof of it.

Rooms: `core` decides and never waits; `kafka`, `ledger` and `sources` translate; `workers` are the long-running
services; `site` switches roles; `lab` holds models and the local stack; `cli` speaks to people.
"""

__version__ = "0.1.0.dev0"
