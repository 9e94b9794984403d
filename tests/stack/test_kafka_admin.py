"""Set-up on a real broker: one genesis whoever comes first, and every difference by name."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator

import pytest
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
)

from finality.core.errors import DependencyError, IntegrityFault, UsageError
from finality.core.genesis import Genesis
from finality.core.names import PLAIN_TOPICS, Names
from finality.core.records import GENESIS, KIND
from finality.kafka.admin import Applied, Site, apply, check, read_genesis
from finality.kafka.connection import KafkaSettings
from finality.kafka.plan import new_genesis
from finality.kafka.tail import end_offsets, read_to_end
from stack.kafka_case import PATIENCE_S, KafkaCase, fresh_name


@pytest.fixture(autouse=True)
def _lean(kafka: KafkaCase) -> Iterator[None]:
    """No case leaves its topics to the next one."""
    yield
    kafka.clean()


PARTITIONS = 4
VOTERS = {"dr": ["r1"], "primary": ["r1", "r2", "r3"]}


def wish(partitions: int = PARTITIONS, active: str = "primary") -> Callable[[], Genesis]:
    """The options of a set-up; each call gives another nonce."""
    return lambda: new_genesis(VOTERS, active, partitions=partitions, start_ns=time.time_ns())


def set_up(sites: dict[str, Site], build: Callable[[], Genesis], sources: Iterable[str] = ()) -> Applied:
    """`apply` with patience."""
    return apply(sites, build, sources, timeout_s=PATIENCE_S)


def two_sites(kafka: KafkaCase) -> dict[str, Site]:
    """Two sites that share the broker under names of their own."""
    base = fresh_name()
    return {name: Site(kafka.settings, Names.of(f"{base}.{name}")) for name in VOTERS}


def values(kafka: KafkaCase, topic: str, partition: int = 0) -> list[bytes | None]:
    """All values of a partition."""
    return [record.value for record in read_to_end(kafka.settings, topic, partition)]


def assert_one_genesis(kafka: KafkaCase, sites: dict[str, Site], value: bytes) -> None:
    """It is first in both control topics and in each input partition of the site that begins, and nowhere else."""
    for site in sites.values():
        assert values(kafka, site.names.control)[0] == value
        assert read_genesis(site.settings, site.names).value == value
    for partition in range(PARTITIONS):
        first = next(read_to_end(kafka.settings, sites["primary"].names.topic("input"), partition))
        assert (first.offset, first.key, first.value, list(first.headers)) == (0, None, value, [(KIND, GENESIS)])
    assert set(end_offsets(kafka.settings, sites["dr"].names.topic("input")).values()) == {0}


def test_set_up_makes_every_topic_and_one_genesis_and_repeating_it_changes_nothing(kafka: KafkaCase) -> None:
    sites = two_sites(kafka)
    applied = set_up(sites, wish(), ["borg"])
    names = sites["primary"].names
    made = {names.control, names.raw("borg"), *(names.topic(kind) for kind in ("input", "log", "state", *PLAIN_TOPICS))}
    assert set(applied.created["primary"]) == made
    assert len(applied.created["dr"]) == len(made)
    assert_one_genesis(kafka, sites, applied.record.value)
    again = set_up(sites, wish(), ["borg"])
    assert again == Applied(applied.record, {"dr": [], "primary": []}, {})
    assert set(end_offsets(kafka.settings, names.topic("input")).values()) == {1}
    for site in sites.values():
        assert end_offsets(kafka.settings, site.names.control) == {0: 1}
        assert check(site, ["borg"]) == []


def test_many_who_set_up_at_once_agree(kafka: KafkaCase) -> None:
    sites = two_sites(kafka)
    together = threading.Barrier(4)
    done: list[Applied] = []
    failed: list[BaseException] = []

    def one() -> None:
        together.wait(PATIENCE_S)
        try:
            done.append(set_up(sites, wish()))
        except BaseException as error:
            failed.append(error)

    people = [threading.Thread(target=one) for _ in range(4)]
    for person in people:
        person.start()
    for person in people:
        person.join(5 * PATIENCE_S)
    assert failed == []
    assert len(done) == 4
    assert len({applied.record.value for applied in done}) == 1
    assert_one_genesis(kafka, sites, done[0].record.value)
    for site in sites.values():
        assert check(site) == []


def test_a_set_up_that_died_between_two_steps_is_finished_by_the_next_one(kafka: KafkaCase) -> None:
    sites = two_sites(kafka)
    applied = set_up(sites, wish())
    other = {name: Site(site.settings, Names.of(fresh_name())) for name, site in sites.items()}
    kafka.create(other["primary"].names.control, 1, {})
    kafka.fill_genesis(other["primary"].names.control, applied.record.value)  # then nothing more happened
    finished = set_up(other, wish())
    assert finished.record.value == applied.record.value
    assert_one_genesis(kafka, other, applied.record.value)


def test_options_that_contradict_the_genesis_are_refused(kafka: KafkaCase) -> None:
    sites = two_sites(kafka)
    set_up(sites, wish())
    with pytest.raises(UsageError, match="partitions is 4, asked for was 6"):
        set_up(sites, wish(partitions=6))
    with pytest.raises(UsageError, match="site is 'primary', asked for was 'dr'"):
        set_up(sites, wish(active="dr"))
    with pytest.raises(UsageError, match="the genesis names the sites dr, primary; those to set up are dr"):
        set_up({"dr": sites["dr"]}, wish())


def test_two_histories_are_never_joined(kafka: KafkaCase) -> None:
    one, other = two_sites(kafka), two_sites(kafka)
    set_up(one, wish())
    set_up(other, wish())
    with pytest.raises(IntegrityFault, match="GENESIS_DIFFERS"):
        set_up({"primary": one["primary"], "dr": other["dr"]}, wish())


def test_an_input_partition_that_begins_otherwise_is_named(kafka: KafkaCase) -> None:
    sites = two_sites(kafka)
    topic = kafka.create(sites["primary"].names.topic("input"), PARTITIONS, {})
    kafka.fill(topic, [b"something"], 2)
    with pytest.raises(IntegrityFault, match=rf"GENESIS_DIFFERS: {topic}, partition 2"):
        set_up(sites, wish())
    found = [str(difference) for difference in check(sites["primary"])]
    assert any(f"{topic}[2]: first record is another" in line for line in found)


def test_a_control_topic_that_begins_otherwise_is_named(kafka: KafkaCase) -> None:
    sites = two_sites(kafka)
    kafka.create(sites["dr"].names.control, 1, {})
    kafka.fill(sites["dr"].names.control, [b"something"])
    with pytest.raises(IntegrityFault, match="NO_GENESIS"):
        set_up(sites, wish())


def test_where_retention_took_the_genesis_control_still_has_it(kafka: KafkaCase) -> None:
    sites = two_sites(kafka)
    applied = set_up(sites, wish())
    topic = sites["primary"].names.topic("input")
    kafka.fill(topic, [b"x"], 1)
    kafka.cut(topic, 1, 1)  # the genesis is gone, a record is left
    kafka.cut(topic, 3, 1)  # nothing is left
    again = set_up(sites, wish())
    assert again.record == applied.record
    assert again.written == {}
    assert end_offsets(kafka.settings, topic) == {0: 1, 1: 2, 2: 1, 3: 1}
    assert check(sites["primary"]) == []


def test_every_planted_difference_is_named(kafka: KafkaCase) -> None:
    sites = two_sites(kafka)
    names = sites["primary"].names
    kafka.create(names.topic("deltas"), 3, {})
    set_up(sites, wish())
    alter(kafka, names.topic("log"), "retention.bytes", "1000000")
    alter(kafka, names.topic("state"), "cleanup.policy", "delete")
    alter(kafka, names.topic("input"), "retention.ms", "1000000")
    alter(kafka, names.control, "message.timestamp.type", "LogAppendTime")
    kafka.delete(names.topic("outcomes"))
    found = {(d.topic, d.setting): (d.found, d.wanted) for d in check(sites["primary"], ["borg"])}
    deltas = {name: found.pop((topic, name)) for topic, name in list(found) if topic == names.topic("deltas")}
    assert found == {
        (names.topic("log"), "retention.bytes"): ("1000000", "-1"),
        (names.topic("state"), "cleanup.policy"): ("delete", "compact"),
        (names.topic("input"), "retention.ms"): ("1000000", "604800000"),
        (names.control, "message.timestamp.type"): ("LogAppendTime", "CreateTime"),
        (names.topic("outcomes"), "topic"): ("absent", "there"),
        (names.raw("borg"), "topic"): ("absent", "there"),
    }
    assert deltas["partitions"] == ("3", "4")
    assert deltas["max.message.bytes"] == ("1048588", "1179660")
    assert deltas["compression.type"] == ("producer", "lz4")
    assert check(sites["dr"]) == []


def alter(kafka: KafkaCase, topic: str, name: str, value: str) -> None:
    """Set one option of a topic."""
    entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=[entry])
    kafka.admin.incremental_alter_configs([resource])[resource].result(PATIENCE_S)


def test_an_input_with_the_wrong_number_of_partitions_is_refused(kafka: KafkaCase) -> None:
    sites = two_sites(kafka)
    kafka.create(sites["primary"].names.topic("input"), 3, {})
    with pytest.raises(UsageError, match="has 3 partitions, the genesis fixes 4"):
        set_up(sites, wish())


def test_a_later_generation_is_left_to_its_copier(kafka: KafkaCase) -> None:
    sites = two_sites(kafka)
    applied = set_up(sites, wish())
    later = {name: Site(site.settings, Names.of(site.names.namespace, 2)) for name, site in sites.items()}
    again = set_up(later, wish())
    assert again.record == applied.record
    assert again.written == {}
    assert set(end_offsets(kafka.settings, later["primary"].names.topic("input")).values()) == {0}


def test_a_site_that_was_not_set_up_says_so(kafka: KafkaCase) -> None:
    site = two_sites(kafka)["primary"]
    with pytest.raises(UsageError, match="setup apply"):
        check(site)
    with pytest.raises(UsageError, match="setup apply"):
        read_genesis(site.settings, site.names)


def test_a_cluster_out_of_reach_is_a_dependency() -> None:
    nowhere = Site(KafkaSettings.of({"bootstrap.servers": "127.0.0.1:1"}), Names.of("nowhere"))
    with pytest.raises(DependencyError):
        apply({"dr": nowhere, "primary": nowhere}, wish(), timeout_s=1)
