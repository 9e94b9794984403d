"""The second implementation of acceptance, fold and chain: slow, simple, and independent of the first.

It shares no module with the fast fold, save the one file that binds the CEL library. Where the fast one joins events
into records, this one keeps all events and works everything out from all of them; where the fast one updates a sum,
this one adds up every item. `verify` and the tests hold the two against each other, byte by byte.

Leaves out: everything that needs no second opinion (Kafka, Redis, votes, publishing).
"""

from finality.core.refold.checking import check_partition
from finality.core.refold.partition import Refold, Verdict

__all__ = ["Refold", "Verdict", "check_partition"]
