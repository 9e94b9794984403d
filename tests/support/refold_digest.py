"""Folds a fixed set of generated histories and prints one hash over everything that came out.

Run as a process of its own, so that a test can give it another hash seed, time zone and locale.
"""

from __future__ import annotations

import random
from hashlib import sha256

from finality.core.refold import Refold
from finality.core.replica import Replica
from support.histories import HOME, Shape, build


def everything(histories: int, records: int) -> str:
    """Hash over the entries, chains and state items of both folds."""
    seen = sha256()
    for seed in range(histories):
        rng = random.Random(seed)
        history = build(rng, [rng.randrange(2**32) for _ in range(records)], Shape(malformed=True))
        fast = Replica(history.genesis, 0, HOME)
        slow = Refold(history.genesis, 0, *HOME)
        for record in history.all:
            fast.feed(record)
            slow.feed_input(record.key, record.value, record.headers)
        for row in fast.window:
            seen.update(row.entry + row.chain + row.input_chain)
        for item in sorted(fast.fold.state.items()) + sorted(slow.state_items()):
            seen.update(item)
        seen.update(slow.chain)
    return seen.hexdigest()


if __name__ == "__main__":
    print(everything(6, 120))
