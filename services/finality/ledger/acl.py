"""Who may do what in Redis: one user per voter, which may speak for itself only.

A voter may write the lease, the proposal and, of the vote keys, its own, in every partition of its site and topic
generation; it may read all of these. Of commands it has those that the ledger sends and those that its scripts call.
A stolen voter password can disturb (leases and proposals are hints), and can lie in one voter's name; it cannot lie in
two, nor delete what others said. A process slot is no part of a user: slots of a replica are one voter.

Works on Redis ≥ 7.0 (rules for reading alone, `%R~`, came with it) and Valkey.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from finality.core.errors import UsageError
from finality.core.names import Names
from finality.ledger.redis import NAME

__all__ = ["acl_lines", "redis_user"]

# eval and evalsha need reading and writing on the key that they declare; the others are called inside the scripts.
_COMMANDS = "+eval +evalsha +mget +get +set +pttl +pexpire +del +ping +select"


def redis_user(names: Names, site: str, replica: str) -> str:
    """User of a voter. Sites may share a Redis, and both have an r1, so the site is in it."""
    return f"{names.namespace}.{site}.{replica}"


def acl_lines(names: Names, site: str, passwords: Mapping[str, str]) -> list[str]:
    """Lines of an ACL file: each voter of `passwords` (voter id → password), and the default user switched off.

    Passwords stand in it as SHA-256. Users of other services (operators, read model) are for the caller to add.
    Raises `UsageError` for a name that would mean something else in a key pattern, and for an empty password.
    """
    partition = names.redis(site, 0, "").replace(":0}", ":*}")  # `*` for the partition; braces are plain letters here
    lines = ["user default reset off"]
    for replica, password in passwords.items():
        for what, name in (("site", site), ("replica", replica)):
            if not NAME.fullmatch(name):
                raise UsageError(f"{what} {name!r}: use up to 63 letters, digits, '_', '.', '-'")
        if not password:
            raise UsageError(f"replica {replica!r}: an empty password would let anybody vote in its name")
        secret = hashlib.sha256(password.encode()).hexdigest()
        keys = " ".join(f"~{partition}{what}" for what in ("lease", "prop", f"vote:{replica}"))
        lines.append(
            f"user {redis_user(names, site, replica)} reset on #{secret} resetchannels -@all {_COMMANDS}"
            f" %R~{partition}* {keys}"
        )
    return lines
