"""Ports of a stack: chosen by binding them, all held at once, then let go for the servers to take.

They lie below the range out of which the system serves outgoing connections, so that no client takes one in between.
Between choosing and taking another stack may still be quicker; the start then sees it and chooses anew.
"""

from __future__ import annotations

import random
import socket
from contextlib import ExitStack

from finality.core.errors import DependencyError

__all__ = ["choose_ports", "is_free", "take_ports"]

HOST = "127.0.0.1"
LOWEST, HIGHEST = 20_000, 31_999
TRIES = 2_000


def choose_ports(count: int) -> list[int]:
    """That many different free ports. Raises `DependencyError` when the machine has none left."""
    chosen: list[int] = []
    with ExitStack() as held:
        for _ in range(TRIES):
            if len(chosen) == count:
                return chosen
            port = random.randint(LOWEST, HIGHEST)
            if _bound(port, held):
                chosen.append(port)
    raise DependencyError(f"no {count} free ports between {LOWEST} and {HIGHEST} on {HOST}: stop what holds them")


def take_ports(first: int, count: int) -> list[int]:
    """The ports from `first` on. Raises `DependencyError` that names the first one taken."""
    with ExitStack() as held:
        for port in range(first, first + count):
            if not 0 < port < 65_536 or not _bound(port, held):
                raise DependencyError(
                    f"port {port} is taken: this stack wants {first} to {first + count - 1} on {HOST}; "
                    "choose another --port, or none to have free ones found"
                )
    return list(range(first, first + count))


def is_free(port: int) -> bool:
    """Whether the port could be bound just now."""
    with ExitStack() as held:
        return _bound(port, held)


def _bound(port: int, held: ExitStack) -> bool:
    handle = held.enter_context(socket.socket(socket.AF_INET, socket.SOCK_STREAM))
    handle.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as the servers do: old connections may linger
    try:
        handle.bind((HOST, port))
        handle.listen(1)
    except OSError:
        return False
    return True
