"""The local stack: real Kafka and a real Redis-compatible server with nothing but Python. See `stack`."""

from finality.lab.stack.broker import LARGE_JVM, SMALL_JVM, Broker
from finality.lab.stack.redis_server import RedisServer
from finality.lab.stack.stack import Cluster, Stack, silent, stop_stack

__all__ = ["LARGE_JVM", "SMALL_JVM", "Broker", "Cluster", "RedisServer", "Stack", "silent", "stop_stack"]
