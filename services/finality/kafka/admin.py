"""Sets sites up, and says what is not as it should be.

The genesis is written once and decides everything after it, so who sets up must not matter: the *control* topic of the
first site by name is the arbiter. A candidate is appended there, the topic's first record is read back, and that one is
the genesis, whoever wrote it. Only then is it written, byte for byte, to the other sites' control topics and to the
input partitions of the site that begins. Every step looks before it writes and reads back after it; so running it
twice, or two people running it at once, or a crash between any two steps, ends in the same place. A second genesis
behind the first one is ignored by every reader.

A standby's input stays empty: its copier fills it. A later topic generation is filled by a copier too.

Leaves out: changing topics that differ. `check` names them; a person decides.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from time import monotonic, sleep
from typing import Any, NamedTuple, TypeVar

import msgspec
from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic  # type: ignore[attr-defined]

from finality.core.errors import DependencyError, FinalityError, IntegrityFault, UsageError
from finality.core.genesis import Genesis, decode_genesis, encode_genesis
from finality.core.names import Names
from finality.core.records import GENESIS, KIND, Record
from finality.kafka.appender import KafkaAppender
from finality.kafka.connection import KafkaSettings, open_admin
from finality.kafka.errors import TopicAbsent, error_of, translate
from finality.kafka.plan import Difference, TopicPlan, compare, genesis_differences, topics, write_limit
from finality.kafka.tail import end_offsets, first_record, read_to_end, start_offsets
from finality.kafka.watch import ask

__all__ = ["Applied", "GenesisRecord", "Site", "apply", "check", "read_genesis"]

_TIMEOUT_S = 30.0
_T = TypeVar("_T")


class Site(NamedTuple):
    """One site as set-up sees it: how to reach its cluster, and the names of its topic generation.

    brokers: how many the cluster has when all are up; 0 = as many as are seen.
    """

    settings: KafkaSettings
    names: Names
    brokers: int = 0


class GenesisRecord(NamedTuple):
    """A genesis and the very bytes that are hashed."""

    genesis: Genesis
    value: bytes


class Applied(NamedTuple):
    """What `apply` did. created: topics by site. written: partitions that a genesis was appended to, by topic."""

    record: GenesisRecord
    created: dict[str, list[str]]
    written: dict[str, list[int]]


def read_genesis(settings: KafkaSettings, names: Names) -> GenesisRecord:
    """The genesis of a site, from its control topic, which is kept for ever.

    Raises `UsageError` when the site was not set up, `IntegrityFault` (NO_GENESIS) when control begins otherwise.
    """
    found = _genesis_in(settings, names.control)
    if found is None:
        raise UsageError(f"topic {names.control} at {settings.servers} is empty; run `finality setup apply`")
    return found


def apply(
    sites: Mapping[str, Site],
    build: Callable[[], Genesis],
    sources: Iterable[str] = (),
    timeout_s: float = _TIMEOUT_S,
) -> Applied:
    """Create the topics that are missing at every site and write the genesis where it belongs. Safe to repeat.

    build: makes the genesis from the options, if there is none yet. sources: names of raw topics to create. Raises
    `UsageError` when the genesis that is there contradicts the options, `IntegrityFault` (GENESIS_DIFFERS) when two
    places begin with different ones, `DependencyError` when a site cannot be reached.
    """
    order = sorted(sites)
    wanted = build()
    candidate = encode_genesis(wanted)
    if set(order) != {row.site for row in wanted.sites}:
        listed = ", ".join(row.site for row in wanted.sites)
        raise UsageError(f"the genesis names the sites {listed}; those to set up are {', '.join(order)}")
    admins = {name: open_admin(sites[name].settings, "setup") for name in order}
    created: dict[str, list[str]] = {name: [] for name in order}
    for name in order:
        control = [
            plan for plan in _plans(admins[name], sites[name], 1, timeout_s) if plan.name == sites[name].names.control
        ]
        created[name] += _create(admins[name], sites[name], control, timeout_s)
    written: dict[str, list[int]] = {}
    record = _settle(order, sites, candidate, written, timeout_s)
    differences = genesis_differences(record.genesis, wanted)
    if differences:
        raise UsageError(f"there is a genesis already, and it differs: {'; '.join(differences)}")
    for name in order:
        plans = _plans(admins[name], sites[name], record.genesis.partitions, timeout_s, sources)
        created[name] += _create(admins[name], sites[name], plans, timeout_s)
    first = record.genesis.site
    if sites[first].names.generation == record.genesis.generation:
        _write_inputs(admins[first], sites[first], record, written, timeout_s)
    return Applied(record, created, written)


def check(site: Site, sources: Iterable[str] = (), timeout_s: float = _TIMEOUT_S) -> list[Difference]:
    """Everything at one site that is not as planned, topic by topic; empty when all is well.

    Raises `UsageError` when the site was not set up at all.
    """
    record = read_genesis(site.settings, site.names)
    admin = open_admin(site.settings, "setup")
    plans = _plans(admin, site, record.genesis.partitions, timeout_s, sources)
    there = _describe(admin, site, [plan.name for plan in plans], timeout_s)
    configs = _configs(admin, site, list(there), timeout_s)
    found: list[Difference] = []
    for plan in plans:
        if plan.name not in there:
            found.append(Difference(plan.name, "topic", "absent", "there"))
            continue
        partitions, replication = there[plan.name]
        found += compare(plan, partitions, replication, configs[plan.name])
    name = site.names.topic("input")
    for partition in range(there[name][0] if name in there else 0):
        first = first_record(site.settings, name, partition)
        if first is not None and first.offset == 0 and first.value != record.value:
            found.append(Difference(f"{name}[{partition}]", "first record", "another", f"that of {site.names.control}"))
    return found


def _settle(
    order: list[str], sites: Mapping[str, Site], candidate: bytes, written: dict[str, list[int]], timeout_s: float
) -> GenesisRecord:
    """The one genesis: that of any control topic, else the first that lands in the arbiter's; then in all of them."""
    found: GenesisRecord | None = None
    for name in order:
        here = _control_of(sites[name], timeout_s)
        if here is not None and found is not None and here.value != found.value:
            raise _differs(sites[name].names.control, sites[name].settings)
        found = found or here
    value = candidate if found is None else found.value
    for name in order:
        site = sites[name]
        here = _control_of(site, timeout_s)
        if here is None:
            _append(site.settings, site.names.control, "control", [0], value, timeout_s)
            written.setdefault(f"{name}:{site.names.control}", []).append(0)
            here = _control_of(site, timeout_s)
            if here is None:
                raise DependencyError(f"topic {site.names.control}: the genesis was not read back; apply again")
        if found is None:
            found = here  # the arbiter has spoken, for us or for somebody who was faster
            value = here.value
        elif here.value != found.value:
            raise _differs(site.names.control, site.settings)
    assert found is not None
    return found


def _write_inputs(
    admin: AdminClient, site: Site, record: GenesisRecord, written: dict[str, list[int]], timeout_s: float
) -> None:
    topic = site.names.topic("input")
    count = _once_known(lambda: _count_partitions(admin, site, topic, timeout_s), timeout_s)
    if count != record.genesis.partitions:
        raise UsageError(
            f"topic {topic} at {site.settings.servers} has {count} partitions, the genesis fixes "
            f"{record.genesis.partitions}; remove the topic if it holds nothing, and apply again"
        )
    empty = _once_known(lambda: _empty_partitions(site, topic, record), timeout_s)
    if empty:
        _append(site.settings, topic, "input", empty, record.value, timeout_s)
        written[f"{record.genesis.site}:{topic}"] = empty
    left = _once_known(lambda: _empty_partitions(site, topic, record), timeout_s) if empty else []
    if left:
        raise DependencyError(f"topic {topic}, partition {left[0]}: the genesis was not read back; apply again")


def _empty_partitions(site: Site, topic: str, record: GenesisRecord) -> list[int]:
    """Partitions that never held a record. Raises if another one begins with something else than the genesis."""
    starts = start_offsets(site.settings, topic)
    empty = []
    for partition, end in end_offsets(site.settings, topic).items():
        if end == 0:
            empty.append(partition)
        elif starts[partition] == 0:  # above 0, retention took the genesis and control has it
            first = next(read_to_end(site.settings, topic, partition, 0, upto=1), None)
            if first is None or first.value != record.value:
                raise _differs(f"{topic}, partition {partition}", site.settings)
    return empty


def _once_known(question: Callable[[], _T], timeout_s: float) -> _T:
    """The answer about a topic that this set-up has just seen; a broker that does not know it yet is asked again."""
    deadline = monotonic() + timeout_s
    while True:
        try:
            return question()
        except TopicAbsent:
            if monotonic() > deadline:
                raise
        sleep(0.2)


def _control_of(site: Site, timeout_s: float) -> GenesisRecord | None:
    return _once_known(lambda: _genesis_in(site.settings, site.names.control), timeout_s)


def _genesis_in(settings: KafkaSettings, control: str) -> GenesisRecord | None:
    if end_offsets(settings, control, (0,))[0] == 0:
        return None
    return _decode(first_record(settings, control, 0), f"topic {control} at {settings.servers}")


def _decode(first: Record | None, where: str) -> GenesisRecord:
    kinds = [content for name, content in first.headers if name == KIND] if first else []
    if first is None or first.offset != 0 or kinds != [GENESIS] or first.value is None:
        raise IntegrityFault("NO_GENESIS", f"{where} does not begin with a genesis; restore it from the other site")
    try:
        return GenesisRecord(decode_genesis(first.value), first.value)
    except msgspec.MsgspecError as error:
        raise IntegrityFault("NO_GENESIS", f"{where}: the genesis cannot be read: {error}") from None


def _differs(place: str, settings: KafkaSettings) -> IntegrityFault:
    return IntegrityFault(
        "GENESIS_DIFFERS",
        f"{place} at {settings.servers} begins with another genesis than the other places: these are two different "
        "histories; choose another namespace, or remove the topics of the one that is not wanted",
    )


def _append(
    settings: KafkaSettings, topic: str, kind: str, partitions: list[int], value: bytes, timeout_s: float
) -> None:
    appender = KafkaAppender(settings, topic, max_bytes=write_limit(kind), message_timeout_s=timeout_s)
    try:
        for partition in partitions:
            appender.append(partition, None, value, [(KIND, GENESIS)])
        deadline = monotonic() + timeout_s
        left = appender.flush(max(0.0, deadline - monotonic()))
        errors = sorted({report.error for report in appender.poll() if report.error})
    finally:
        appender.close()
    if left or errors:
        why = ", ".join(errors) or "no answer"
        raise DependencyError(
            f"topic {topic} at {settings.servers}: the genesis was not acknowledged ({why}); check the brokers and "
            "apply again"
        )


def _plans(
    admin: AdminClient, site: Site, partitions: int, timeout_s: float, sources: Iterable[str] = ()
) -> list[TopicPlan]:
    try:
        cluster = admin.list_topics(timeout=timeout_s)
    except KafkaException as error:
        raise translate(error, f"set-up at {site.settings.servers}") from None
    return topics(site.names, partitions, max(site.brokers, len(cluster.brokers)), sources)


def _create(admin: AdminClient, site: Site, plans: list[TopicPlan], timeout_s: float) -> list[str]:
    """Create what is missing; the names of what this call created. Asks again while brokers are just coming up."""
    names = [plan.name for plan in plans]
    created: list[str] = []
    deadline = monotonic() + timeout_s
    while True:
        there = _describe(admin, site, names, timeout_s)
        missing = [plan for plan in plans if plan.name not in there and plan.name not in created]
        try:
            _create_once(admin, site, missing, created, timeout_s)
            break
        except DependencyError:
            if monotonic() > deadline:
                raise
        sleep(0.2)
    _await_leaders(admin, site, names, timeout_s)
    return created


def _create_once(
    admin: AdminClient, site: Site, missing: list[TopicPlan], created: list[str], timeout_s: float
) -> None:
    """Ask once for all that is missing, and add to `created` what was made; raises the last error, if any."""
    if not missing:
        return
    request = [NewTopic(plan.name, plan.partitions, plan.replication, config=plan.config) for plan in missing]
    futures = admin.create_topics(request, operation_timeout=timeout_s, request_timeout=timeout_s)
    trouble: FinalityError | None = None
    for name, future in futures.items():
        where = f"create topic {name} at {site.settings.servers}"
        try:
            future.result(timeout_s + 1)
            created.append(name)
        except KafkaException as error:
            if error_of(error).code() != KafkaError.TOPIC_ALREADY_EXISTS:
                trouble = translate(error, where)
        except TimeoutError:
            trouble = DependencyError(f"{where}: no answer; apply again")
    if trouble is not None:
        raise trouble


def _await_leaders(admin: AdminClient, site: Site, names: list[str], timeout_s: float) -> None:
    """Until the cluster's metadata knows a leader for each partition of the topics."""
    deadline = monotonic() + timeout_s
    while True:
        missing = set(names) - set(_describe(admin, site, names, timeout_s, led=True))
        if not missing:
            return
        if monotonic() > deadline:
            raise DependencyError(
                f"topics {', '.join(sorted(missing))} at {site.settings.servers} have no leader after {timeout_s:g} s; "
                "check that the brokers are up"
            )
        sleep(0.1)


def _describe(
    admin: AdminClient, site: Site, names: list[str], timeout_s: float, *, led: bool = False
) -> dict[str, tuple[int, int]]:
    """Partitions and least replica count of the topics that are there. led: only of those that can be written."""
    found = {}
    for name, future in admin.describe_topics(TopicCollection(names), request_timeout=timeout_s).items():
        try:
            partitions: list[Any] = ask(future, f"topic {name} at {site.settings.servers}", timeout_s + 1).partitions
        except TopicAbsent:
            continue
        if led and any(row.leader is None for row in partitions):
            continue
        found[name] = (len(partitions), min(len(row.replicas) for row in partitions))
    return found


def _count_partitions(admin: AdminClient, site: Site, topic: str, timeout_s: float) -> int:
    found = _describe(admin, site, [topic], timeout_s)
    if topic not in found:
        raise TopicAbsent(f"topic {topic} at {site.settings.servers} is not known to every broker; apply again")
    return found[topic][0]


def _configs(admin: AdminClient, site: Site, names: list[str], timeout_s: float) -> dict[str, dict[str, str]]:
    resources = [ConfigResource(ConfigResource.Type.TOPIC, name) for name in names]
    if not resources:
        return {}
    found = {}
    for resource, future in admin.describe_configs(resources, request_timeout=timeout_s).items():
        entries = ask(future, f"settings of topic {resource.name} at {site.settings.servers}", timeout_s + 1)
        found[resource.name] = {name: entry.value for name, entry in entries.items() if entry.value is not None}
    return found
