"""One Apache Kafka broker, controller and broker in one process (KRaft), with the settings of a small honest cluster.

Clients, brokers among each other, and controllers have a listener each: a proxy between clients and a broker (its port
is what the broker advertises) then never stands between the brokers. Internal topics have few partitions, since each
costs files and start time; their copies follow the size of the cluster. Nothing is created by mistake (no automatic
topics) and no out-of-date copy may lead.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from importlib.resources import files
from pathlib import Path

import msgspec

from finality.lab.stack.archive import ClassArchive
from finality.lab.stack.plan import BrokerPlan, StackPlan, write_file
from finality.lab.stack.ports import HOST
from finality.lab.stack.process import ServerProcess
from finality.lab.stack.ready import await_all, knows, knows_itself

__all__ = ["LARGE_JVM", "SMALL_JVM", "Broker", "KafkaProgram"]

SMALL_JVM = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xms256m", "-Xmx512m", "-XX:ActiveProcessorCount=2")
LARGE_JVM = ("-XX:+UseG1GC", "-Xms1g", "-Xmx1g")  # for figures: all compilers, more heap
DISTURBING = ("CLASSPATH", "JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS", "JDK_JAVA_OPTIONS")


class KafkaProgram:
    """How a class of Kafka is run: a Java, the jars, and the archive of their classes."""

    def __init__(self, java: Path, jars: Sequence[Path]) -> None:
        self._java = java
        self.archive = ClassArchive(java, jars)
        self._class_path = os.pathsep.join(str(jar) for jar in jars)

    def command(self, scratch: Path, jvm: Sequence[str], *arguments: str) -> list[str]:
        """The command line. scratch: for what Kafka's native libraries unpack, and the log settings."""
        settings = scratch / "log4j2.xml"
        write_file(settings, (files("finality.lab.stack") / "log4j2.xml").read_bytes())
        quiet = ["-XX:-UsePerfData", f"-Djava.io.tmpdir={scratch}", "-Djava.awt.headless=true"]
        logging = f"-Dlog4j2.configurationFile={settings.as_uri()}"
        return [str(self._java), *jvm, *self.archive.options(), *quiet, logging, "-cp", self._class_path, *arguments]

    @staticmethod
    def environment() -> dict[str, str]:
        """The environment without what would change a Java behind our back."""
        return {key: value for key, value in os.environ.items() if key not in DISTURBING}


class Broker(ServerProcess):
    """A broker of a stack. `kill`, `stop`, `pause`, `resume` come from the process; `start` waits until it answers."""

    def __init__(self, plan: StackPlan, own: BrokerPlan, home: Path, program: KafkaProgram) -> None:
        super().__init__(own.name, home)
        self.site = own.site
        self.node = own.node
        self.port = own.port
        self.advertised = own.advertised
        self.data = home / "data" / own.name
        self._plan = plan
        self._own = own
        self._home = home
        self._program = program
        self._marker = home / "data" / f"{own.name}.json"
        self._settings = home / "config" / f"{own.name}.properties"

    @property
    def bootstrap(self) -> str:
        """Its own address, whatever it advertises."""
        return f"{HOST}:{self.port}"

    def prepare(self) -> ServerProcess | None:
        """Write the settings. Returns the started formatter of the data folder, or None when it is formatted."""
        lines = [f"{key}={value}" for key, value in self.settings().items()]
        write_file(self._settings, ("\n".join(lines) + "\n").encode())
        if self._formatted():
            return None
        shutil.rmtree(self.data, ignore_errors=True)  # a format that was cut short is no data
        self._scratch.mkdir(parents=True, exist_ok=True)
        tool = ServerProcess(f"{self.name}-format", self._home)
        cluster = self._plan.clusters[self.site]
        arguments = ("kafka.tools.StorageTool", "format", "-t", cluster, "-c", str(self._settings))
        command = self._program.command(self._scratch, ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"), *arguments)
        tool.launch(command, self._program.environment(), self._home)
        return tool

    def formatted(self) -> None:
        """Note that the data folder is whole, and whose it is."""
        write_file(self._marker, self._mark())

    def begin(self, recording: bool = False) -> None:
        """Start the process and return at once. recording: it may write down which classes it loads."""
        self._scratch.mkdir(parents=True, exist_ok=True)
        jvm = [*self._plan.jvm, *(self._program.archive.recording() if recording else [])]
        command = self._program.command(self._scratch, jvm, "kafka.Kafka", str(self._settings))
        self.launch(command, self._program.environment(), self._home)

    def start(self, deadline_s: float = 60.0, progress: Callable[[str], None] = lambda line: None) -> None:
        """Start again on the same ports and data; wait until it is back in its cluster.

        Raises `DependencyError` with its last words when it ends, or when `deadline_s` passes.
        """
        if self.pid is not None:
            return
        self.begin()
        await_all({self.name: (self, lambda: knows_itself(self.bootstrap, self.node))}, deadline_s, progress)

    def question(self, count: int) -> Callable[[], bool]:
        """Whether it answers and knows `count` brokers of its cluster, to be asked again and again."""
        return lambda: knows(self.bootstrap, count)

    def settings(self) -> dict[str, str]:
        """The whole properties file; `overrides` of the plan come last."""
        own = self._own
        siblings = self._plan.of_site(self.site)
        copies = min(3, len(siblings))
        listeners = {"CLIENT": own.port, "BROKER": own.internal_port, "CONTROLLER": own.controller_port}
        return {
            "process.roles": "broker,controller",
            "node.id": str(own.node),
            "controller.quorum.voters": ",".join(f"{one.node}@{HOST}:{one.controller_port}" for one in siblings),
            "listeners": ",".join(f"{name}://{HOST}:{port}" for name, port in listeners.items()),
            "advertised.listeners": f"CLIENT://{HOST}:{own.advertised},BROKER://{HOST}:{own.internal_port}",
            "listener.security.protocol.map": ",".join(f"{name}:PLAINTEXT" for name in listeners),
            "inter.broker.listener.name": "BROKER",
            "controller.listener.names": "CONTROLLER",
            "log.dirs": str(self.data),
            **_topics(copies),
            "broker.session.timeout.ms": str(self._plan.session_timeout_ms),
            "broker.heartbeat.interval.ms": str(max(100, self._plan.session_timeout_ms // 5)),
            "num.network.threads": "2",
            "num.io.threads": "4",
            "log.cleaner.dedupe.buffer.size": str(16 << 20),
            **self._plan.overrides,
        }

    @property
    def _scratch(self) -> Path:
        return self._home / "scratch" / self.name

    def _mark(self) -> bytes:
        return msgspec.json.encode({"kafka": self._plan.kafka, "cluster": self._plan.clusters[self.site]}) + b"\n"

    def _formatted(self) -> bool:
        try:
            return (self.data / "meta.properties").exists() and self._marker.read_bytes() == self._mark()
        except OSError:
            return False


def _topics(copies: int) -> Mapping[str, str]:
    """Settings of topics. copies: 3 in a cluster of three, 1 in a cluster of one."""
    in_sync = "2" if copies == 3 else "1"
    return {
        "auto.create.topics.enable": "false",
        "default.replication.factor": str(copies),
        "min.insync.replicas": in_sync,
        "unclean.leader.election.enable": "false",
        "offsets.topic.num.partitions": "4",
        "offsets.topic.replication.factor": str(copies),
        "transaction.state.log.num.partitions": "4",
        "transaction.state.log.replication.factor": str(copies),
        "transaction.state.log.min.isr": in_sync,
        "share.coordinator.state.topic.num.partitions": "4",
        "share.coordinator.state.topic.replication.factor": str(copies),
        "share.coordinator.state.topic.min.isr": in_sync,
        "group.initial.rebalance.delay.ms": "0",
        "log.segment.bytes": str(64 << 20),
    }
