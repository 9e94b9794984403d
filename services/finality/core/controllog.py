"""The control topic, read: commands in their one true order.

Writers number their commands as the next after what they read. Two who do so at once write the same number: the first
in log order counts, the other is ignored, and its writer sees that and tries again. Pure.
"""

from __future__ import annotations

from typing import NamedTuple

from finality.core.commands import decode_command
from finality.core.records import COMMAND, GENESIS, KIND, Record

__all__ = ["ControlLog", "Numbered"]


class Numbered(NamedTuple):
    """A command that counts. place: (epoch, number). offset: in the control topic."""

    place: tuple[int, int]
    value: bytes
    offset: int


class ControlLog:
    """Commands accepted from a prefix of the control topic. genesis: value of its first record, None before."""

    def __init__(self) -> None:
        self.genesis: bytes | None = None
        self.commands: list[Numbered] = []
        self.ignored = 0
        self._by_place: dict[tuple[int, int], int] = {}

    def read(self, record: Record) -> None:
        """Take the next record of the topic."""
        kind = next((content for name, content in record.headers if name == KIND), None)
        if kind == GENESIS and self.genesis is None and record.value is not None:
            self.genesis = record.value
            return
        command = decode_command(record.value or b"") if kind == COMMAND else None
        epoch, number = self.last
        fits = command is not None and (
            (command.op == "epoch" and command.number == 0 and command.epoch > epoch)
            or (command.op != "epoch" and (command.epoch, command.number) == (epoch, number + 1))
        )
        if not fits or command is None or record.value is None:
            self.ignored += 1
            return
        place = (command.epoch, command.number)
        self._by_place[place] = len(self.commands)
        self.commands.append(Numbered(place, record.value, record.offset))

    @property
    def last(self) -> tuple[int, int]:
        """(epoch, number) of the last command; genesis is (1, 0)."""
        return self.commands[-1].place if self.commands else (1, 0)

    def after(self, epoch: int, number: int) -> Numbered | None:
        """The command that a fold at (epoch, number) has to take next."""
        if (epoch, number) == (1, 0):
            return self.commands[0] if self.commands else None
        place = self._by_place.get((epoch, number))
        if place is None:
            return next((row for row in self.commands if row.place[0] > epoch), None)
        return self.commands[place + 1] if place + 1 < len(self.commands) else None
