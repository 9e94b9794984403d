"""Job keys: `tenant/source/instance/kind/id`, each part percent-encoded, at most 512 bytes together.

The kind belongs to the identity: a workflow run and a job of that run may carry the same number.
"""

from __future__ import annotations

import struct
from functools import lru_cache
from hashlib import sha256
from typing import NamedTuple
from urllib.parse import quote, unquote

from finality.core.errors import Rejected

__all__ = ["MAX_KEY_BYTES", "JobKey", "is_job_key", "job_key", "parse_job_key", "partition_of", "source_and_kind"]

MAX_KEY_BYTES = 512
_SAFE = "-._~:@!$'()*+,;="


class JobKey(NamedTuple):
    """The five decoded parts of a job key."""

    tenant: str
    source: str
    instance: str
    kind: str
    id: str


def job_key(tenant: str, source: str, instance: str, kind: str, ident: str) -> str:
    """The key of a job. Raises `Rejected` (code KEY_EMPTY or KEY_TOO_LONG)."""
    parts = (tenant, source, instance, kind, ident)
    if not all(parts):
        raise Rejected("KEY_EMPTY", "tenant, source, instance, kind and id must not be empty")
    try:
        key = "/".join([quote(part, safe=_SAFE) for part in parts])
    except UnicodeEncodeError:
        raise Rejected("KEY_NOT_TEXT", "a part of the key holds a lone surrogate") from None
    if len(key) > MAX_KEY_BYTES:
        raise Rejected("KEY_TOO_LONG", f"{len(key)} bytes, at most {MAX_KEY_BYTES}")
    return key


def parse_job_key(key: str) -> JobKey:
    """The parts of a key made by `job_key`. Raises `Rejected` (KEY_MALFORMED)."""
    if not is_job_key(key):
        raise Rejected("KEY_MALFORMED", "a job key is tenant/source/instance/kind/id, percent-encoded")
    return JobKey(*[unquote(part) for part in key.split("/")])


@lru_cache(maxsize=4096)
def source_and_kind(prefix: str) -> tuple[str, str]:
    """Source and kind in `tenant/source/instance/kind`, the part of a job key that many jobs share."""
    _, source, _, kind = prefix.split("/")
    return unquote(source), unquote(kind)


def is_job_key(key: str) -> bool:
    """True for five non-empty parts of printable ASCII within the size limit."""
    return (
        key.count("/") == 4
        and len(key) <= MAX_KEY_BYTES
        and key.isascii()
        and key.isprintable()
        and "//" not in key
        and key[0] != "/"
        and key[-1] != "/"
    )


def partition_of(key: bytes, partitions: int) -> int:
    """Input partition of a partition key (partitioner `sha256-8`, fixed by genesis)."""
    number: int = struct.unpack(">Q", sha256(key).digest()[:8])[0]
    return number % partitions
