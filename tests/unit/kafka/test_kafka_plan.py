"""The plan of a site's topics, and what counts as a difference."""

from __future__ import annotations

import time
from dataclasses import dataclass

import pytest

from finality.core.errors import UsageError
from finality.core.genesis import Parameters, decode_genesis, encode_genesis
from finality.core.names import PLAIN_TOPICS, Names
from finality.kafka.plan import Difference, TopicPlan, compare, genesis_differences, new_genesis, topics, write_limit

NAMES = Names.of("ns")
DAY_MS = 24 * 60 * 60 * 1000


def plans(brokers: int = 3) -> dict[str, TopicPlan]:
    """The plan by topic name without namespace."""
    return {plan.name.removeprefix("ns."): plan for plan in topics(NAMES, 4, brokers, ["borg"])}


def test_each_topic_is_planned_once_with_the_partitions_of_the_genesis() -> None:
    assert set(plans()) == {"control", "raw.borg", "input", "log", "state", *PLAIN_TOPICS}
    assert {name: plan.partitions for name, plan in plans().items() if plan.partitions != 4} == {"control": 1}


def test_names_carry_the_generation_save_control_and_raw() -> None:
    later = {plan.name for plan in topics(Names.of("ns", 2), 4, 3, ["borg"])}
    assert later >= {"ns.control", "ns.raw.borg", "ns.input.g2", "ns.log.g2", "ns.state.g2", "ns.outcomes.g2"}


@pytest.mark.parametrize(("brokers", "replicas", "in_sync"), [(1, 1, "1"), (2, 1, "1"), (3, 3, "2"), (5, 3, "2")])
def test_replicas_follow_the_number_of_brokers(brokers: int, replicas: int, in_sync: str) -> None:
    for plan in plans(brokers).values():
        assert plan.replication == replicas
        assert plan.config["min.insync.replicas"] == in_sync
        assert plan.config["unclean.leader.election.enable"] == "false"


def test_retention_and_cleanup() -> None:
    found = {name: (p.config["cleanup.policy"], p.config.get("retention.ms")) for name, p in plans().items()}
    week = ("delete", str(7 * DAY_MS))
    assert found["input"] == found["raw.borg"] == found["deltas"] == found["dead-letters"] == week
    assert found["log"] == ("delete", str(400 * DAY_MS))
    assert found["control"] == ("delete", "-1")
    assert found["state"] == ("compact", None)
    assert plans()["state"].config["min.compaction.lag.ms"] == "3600000"
    assert {plan.config["retention.bytes"] for plan in plans().values()} == {"-1"}


def test_each_derived_topic_takes_64_kib_more_than_what_it_is_made_from() -> None:
    limit = {name: int(plan.config["max.message.bytes"]) for name, plan in plans().items()}
    step = 65_536
    assert write_limit("input") >= limit["raw.borg"] + step
    assert write_limit("input") >= limit["control"] + step
    assert limit["input"] >= write_limit("input") + step  # the other site's copy has a header more
    assert limit["log"] >= write_limit("log") + step
    assert write_limit("log") >= 900_000 + step
    assert limit["dead-letters"] >= limit["input"] + step
    for name in ("deltas", "commands", "outcomes"):
        assert limit[name] >= limit["log"] + step


def test_a_topic_as_planned_has_no_difference() -> None:
    for plan in plans().values():
        assert compare(plan, plan.partitions, plan.replication, plan.config) == []


@dataclass
class Planted:
    """One fault put into a topic that is otherwise as planned."""

    topic: str
    setting: str
    found: str
    wanted: str


@pytest.mark.parametrize(
    "fault",
    [
        Planted("input", "retention.bytes", "1000", "-1"),
        Planted("input", "cleanup.policy", "compact", "delete"),
        Planted("state", "cleanup.policy", "delete", "compact"),
        Planted("state", "min.compaction.lag.ms", "0", "3600000"),
        Planted("log", "retention.ms", str(DAY_MS), str(400 * DAY_MS)),
        Planted("control", "retention.ms", str(DAY_MS), "-1"),
        Planted("log", "min.insync.replicas", "1", "2"),
        Planted("log", "unclean.leader.election.enable", "true", "false"),
        Planted("input", "message.timestamp.type", "LogAppendTime", "CreateTime"),
        Planted("deltas", "max.message.bytes", "1000", "1179660"),
        Planted("deltas", "compression.type", "gzip", "lz4"),
    ],
    ids=lambda fault: f"{fault.topic} {fault.setting}",
)
def test_one_planted_setting_is_the_one_difference(fault: Planted) -> None:
    plan = plans()[fault.topic]
    found = compare(plan, plan.partitions, plan.replication, {**plan.config, fault.setting: fault.found})
    assert found == [Difference(f"ns.{fault.topic}", fault.setting, fault.found, fault.wanted)]


def test_partitions_replicas_and_old_brokers_are_named() -> None:
    plan = plans()["log"]
    assert compare(plan, 5, 3, plan.config) == [Difference("ns.log", "partitions", "5", "4")]
    assert compare(plan, 4, 2, plan.config) == [Difference("ns.log", "replicas", "2", "3")]
    old = {name: value for name, value in plan.config.items() if name != "message.timestamp.before.max.ms"}
    assert compare(plan, 4, 3, old) == [Difference("ns.log", "broker version", "below 3.6", "3.6 or newer")]


def test_keeping_more_than_planned_is_no_difference() -> None:
    plan = plans()["log"]
    for kept in ("-1", str(500 * DAY_MS)):
        assert compare(plan, 4, 3, {**plan.config, "retention.ms": kept}) == []
    small = plans(brokers=2)["log"]  # three replicas while a broker is away
    assert compare(small, 4, 3, {**small.config, "min.insync.replicas": "2"}) == []
    assert [d.setting for d in compare(small, 4, 3, small.config)] == ["min.insync.replicas"]


def test_of_a_topic_that_others_fill_only_the_size_is_asked() -> None:
    plan = plans()["raw.borg"]
    assert compare(plan, 99, 1, {**plan.config, "retention.ms": "1", "cleanup.policy": "compact"}) == []
    found = compare(plan, 4, 3, {**plan.config, "max.message.bytes": "9999999"})
    assert [d.setting for d in found] == ["max.message.bytes"]


def test_a_genesis_names_majorities_and_survives_its_encoding() -> None:
    voters = {"primary": ["r1", "r2", "r3"], "dr": ["r1"]}
    made = new_genesis(voters, "primary", start_ns=time.time_ns())
    assert {row.site: row.quorum for row in made.sites} == {"primary": 2, "dr": 1}
    assert made.partitions == 8
    assert decode_genesis(encode_genesis(made)) == made
    assert made.nonce != new_genesis(voters, "primary", start_ns=1).nonce


def test_only_what_was_asked_for_can_differ() -> None:
    voters = {"primary": ["r1"], "dr": ["r1"]}
    one = new_genesis(voters, "primary", start_ns=1)
    assert genesis_differences(one, new_genesis(voters, "primary", start_ns=2)) == []
    other = new_genesis(voters, "dr", partitions=4, start_ns=2)
    assert genesis_differences(one, other) == [
        "partitions is 8, asked for was 4",
        "site is 'primary', asked for was 'dr'",
    ]


def test_a_time_mode_that_contradicts_itself_is_refused() -> None:
    voters = {"primary": ["r1"]}
    with pytest.raises(UsageError, match="start_ns"):
        new_genesis(voters, "primary")
    with pytest.raises(UsageError, match="log_time"):
        new_genesis(voters, "primary", log_time="events", parameters=Parameters())
    assert new_genesis(voters, "primary", log_time="events").log_time == "0"
