"""A TCP proxy that misbehaves on order: it delays, swallows, resets or refuses, for one server behind it.

An asyncio loop on a thread of its own serves one listener; so a test sets `mode` and goes on. With several brokers
there is one proxy for each. `Schedule` draws modes and durations from a seed, so that a failing run can be had again.

| mode | what happens |
| --- | --- |
| CALM | bytes pass |
| DELAY | bytes pass after `delay_s`, in order |
| SWALLOW | bytes are taken and vanish, in both directions; connections stay open (a half-open network) |
| DEAF | requests reach the server, its answers vanish |
| REFUSE | open connections are reset, new ones too |

A connection whose bytes were swallowed is reset when another mode begins: a stream with a hole in it cannot go on.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import socket
import struct
import threading
from collections.abc import Iterator
from enum import StrEnum
from typing import NamedTuple

__all__ = ["FaultProxy", "Mode", "Schedule", "Turn"]

_CHUNK = 65_536
_LINGER_NONE = struct.pack("ii", 1, 0)  # close sends RST
_HOST = "127.0.0.1"


class Mode(StrEnum):
    """See the module's head."""

    CALM = "CALM"
    DELAY = "DELAY"
    SWALLOW = "SWALLOW"
    DEAF = "DEAF"
    REFUSE = "REFUSE"


class Turn(NamedTuple):
    """A mode for so many seconds."""

    mode: Mode
    seconds: float


class Schedule:
    """An endless run of turns, the same for the same seed: a fault, then calm, and so on."""

    def __init__(self, seed: int, longest_s: float = 1.0) -> None:
        self._chance = random.Random(seed)
        self._longest_s = longest_s

    def __iter__(self) -> Iterator[Turn]:
        faults = [mode for mode in Mode if mode is not Mode.CALM]
        while True:
            yield Turn(self._chance.choice(faults), self._chance.uniform(0.05, self._longest_s))
            yield Turn(Mode.CALM, self._chance.uniform(0.05, self._longest_s))


class _Pair:
    """One client's connection and ours to the server."""

    def __init__(self, client: asyncio.StreamWriter, server: asyncio.StreamWriter) -> None:
        self.client = client
        self.server = server
        self.has_hole = False

    def reset(self) -> None:
        for writer in (self.client, self.server):
            with contextlib.suppress(OSError):
                writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_NONE)
            writer.transport.abort()


class FaultProxy:
    """A proxy before `port` of this machine, on its own `port`; a context manager. connections: how many were made."""

    def __init__(self, port: int, delay_s: float = 0.3) -> None:
        self.delay_s = delay_s
        self.connections = 0
        self._target = port
        self._mode = Mode.CALM
        self._pairs: set[_Pair] = set()
        self._listener = socket.create_server((_HOST, 0))
        self.port: int = self._listener.getsockname()[1]
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._serve, name=f"proxy-{port}", daemon=True)

    def __enter__(self) -> FaultProxy:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()

    @property
    def mode(self) -> Mode:
        """What it does now."""
        return self._mode

    @mode.setter
    def mode(self, mode: Mode) -> None:
        done = threading.Event()

        def change() -> None:
            self._mode = mode
            for pair in list(self._pairs):
                if pair.has_hole or mode is Mode.REFUSE:
                    pair.reset()
            done.set()

        self._loop.call_soon_threadsafe(change)
        done.wait()

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._stop = asyncio.Event()
        self._loop.run_until_complete(self._run())
        self._loop.close()

    async def _run(self) -> None:
        server = await asyncio.start_server(self._meet, sock=self._listener)
        await self._stop.wait()
        server.close()
        for pair in list(self._pairs):
            pair.reset()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    async def _meet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            back, forth = await asyncio.open_connection(_HOST, self._target)
        except OSError:
            writer.transport.abort()
            return
        pair = _Pair(writer, forth)
        if self._mode is Mode.REFUSE:
            pair.reset()
            return
        self._pairs.add(pair)
        try:
            await asyncio.gather(self._pump(reader, forth, pair, False), self._pump(back, writer, pair, True))
        except OSError:
            pass  # one side is gone, so is the other
        finally:
            self._pairs.discard(pair)
            pair.reset()

    async def _pump(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, pair: _Pair, is_answer: bool
    ) -> None:
        while chunk := await reader.read(_CHUNK):
            if self._mode is Mode.DELAY:
                await asyncio.sleep(self.delay_s)
            if self._mode is Mode.SWALLOW or (self._mode is Mode.DEAF and is_answer) or pair.has_hole:
                pair.has_hole = True
                continue
            writer.write(chunk)
            await writer.drain()
        raise ConnectionResetError
