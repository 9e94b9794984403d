"""The reconciler: folds the input of its partitions, agrees with its peers, and publishes what a quorum computed.

`loop.py` is the service, `seat.py` the leadership of one partition, `feed.py` the freshness of what was read.
"""

from finality.workers.reconciler.loop import Reconciler, ReconcilerOptions, ReconcilerPorts

__all__ = ["Reconciler", "ReconcilerOptions", "ReconcilerPorts"]
