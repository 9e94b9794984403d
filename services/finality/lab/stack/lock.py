"""The exact jars that make one broker: coordinates, size and SHA-256 of each, written once and shipped.

Resolving at run time would let a repository decide what runs here, and a download cut short would look like a jar. So
the set is resolved by a person (`python -m finality.lab.stack.lock > kafka-jars.toml`, in this folder) and only fetched
by everybody else. Kafka and its logging binding are resolved as two environments: together, the binding's parent would
replace versions that Kafka chose. The file names no host.
"""

from __future__ import annotations

import sys
import tempfile
from hashlib import sha256
from importlib.resources import files
from pathlib import Path

import msgspec

__all__ = ["Jar", "JarLock", "load_lock"]

KAFKA = "4.3.1"
LOG4J = "2.25.4"  # what Kafka 4.3.1 chose for log4j-api and log4j-core


class Jar(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One file. at: group:artifact:version; size in bytes."""

    at: str
    size: int
    sha256: str

    @property
    def name(self) -> str:
        """File name, unique in the set."""
        _, artifact, version = self.at.split(":")
        return f"{artifact}-{version}.jar"

    @property
    def place(self) -> str:
        """Path within a Maven repository."""
        group, artifact, version = self.at.split(":")
        return f"{group.replace('.', '/')}/{artifact}/{version}/{self.name}"


class JarLock(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The whole set for one version of Kafka."""

    kafka: str
    jars: tuple[Jar, ...]

    @property
    def size(self) -> int:
        """Bytes of all jars."""
        return sum(jar.size for jar in self.jars)


def load_lock() -> JarLock:
    """The lock file that this package ships."""
    return msgspec.toml.decode((files(__package__ or __name__) / "kafka-jars.toml").read_bytes(), type=JarLock)


def resolve() -> str:
    """Resolve anew and return the text of a lock file. Needs the network and the wheel `jgo`."""
    from jgo.env import EnvironmentBuilder
    from jgo.maven import MavenContext

    found: dict[str, Jar] = {}
    with tempfile.TemporaryDirectory() as folder:
        context = MavenContext(repo_cache=Path(folder) / "repository")
        builder = EnvironmentBuilder(context=context, cache_dir=Path(folder) / "environments")
        for wanted in (f"org.apache.kafka:kafka_2.13:{KAFKA}", f"org.apache.logging.log4j:log4j-slf4j-impl:{LOG4J}"):
            environment = builder.from_endpoint(wanted)
            by_name = {path.name: path for path in environment.all_jars}
            for item in environment.lockfile.dependencies if environment.lockfile else ():
                content = by_name[f"{item.artifactId}-{item.version}.jar"].read_bytes()
                at = f"{item.groupId}:{item.artifactId}:{item.version}"
                jar = Jar(at, len(content), sha256(content).hexdigest())
                found.setdefault(jar.name, jar)
    lines = [f'kafka = "{KAFKA}"', ""]
    for jar in found.values():
        lines += ["[[jars]]", f'at = "{jar.at}"', f"size = {jar.size}", f'sha256 = "{jar.sha256}"', ""]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.stdout.write(resolve())
