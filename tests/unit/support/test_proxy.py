"""The fault proxy does what its modes say, to a real server behind it."""

from __future__ import annotations

import itertools
import socket
import socketserver
import threading
import time
from collections.abc import Iterator

import pytest

from support.proxy import FaultProxy, Mode, Schedule


class _Echo(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        while data := self.request.recv(1024):
            self.server.seen += data  # type: ignore[attr-defined]
            self.request.sendall(data)


class _Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True
    seen = b""

    def handle_error(self, request: object, client_address: object) -> None:
        """A reset connection is what the test wants."""


@pytest.fixture
def server() -> Iterator[_Server]:
    with _Server(("127.0.0.1", 0), _Echo) as made:
        thread = threading.Thread(target=made.serve_forever, daemon=True)
        thread.start()
        yield made
        made.shutdown()


@pytest.fixture
def proxy(server: _Server) -> Iterator[FaultProxy]:
    with FaultProxy(server.server_address[1]) as made:
        yield made


def connect(proxy: FaultProxy, timeout_s: float = 30) -> socket.socket:
    return socket.create_connection(("127.0.0.1", proxy.port), timeout=timeout_s)


def answer(client: socket.socket, text: bytes) -> bytes:
    client.sendall(text)
    found = b""
    while len(found) < len(text) and (more := client.recv(1024)):
        found += more
    return found


def is_reset(client: socket.socket) -> bool:
    """The other side has cut the connection: by an error, or, where the machine was slow to tell, by its end."""
    try:
        client.sendall(b"y")
        return client.recv(10) == b""
    except ConnectionError:
        return True


def test_calm_passes_everything(proxy: FaultProxy) -> None:
    with connect(proxy) as one, connect(proxy) as two:
        assert answer(one, b"hello") == b"hello"
        assert answer(two, b"again") == b"again"
    assert proxy.connections == 2


def test_delay_takes_its_time_and_keeps_the_bytes(proxy: FaultProxy) -> None:
    with connect(proxy) as client:
        proxy.mode = Mode.DELAY
        began = time.monotonic()
        assert answer(client, b"slow") == b"slow"
        assert time.monotonic() - began >= 2 * proxy.delay_s


def test_swallow_leaves_the_connection_open_and_silent(proxy: FaultProxy, server: _Server) -> None:
    with connect(proxy) as client:
        assert answer(client, b"a") == b"a"
        proxy.mode = Mode.SWALLOW
        client.sendall(b"lost")
        client.settimeout(0.3)
        with pytest.raises(TimeoutError):
            client.recv(10)
        assert server.seen == b"a"


def test_deaf_lets_requests_through_and_no_answers(proxy: FaultProxy, server: _Server) -> None:
    with connect(proxy) as client:
        assert answer(client, b"a") == b"a"
        proxy.mode = Mode.DEAF
        client.sendall(b"done")
        client.settimeout(0.3)
        with pytest.raises(TimeoutError):
            client.recv(10)
        deadline = time.monotonic() + 30
        while server.seen != b"adone":
            assert time.monotonic() < deadline
            time.sleep(0.01)


def test_a_stream_with_a_hole_is_reset_and_a_new_one_is_whole(proxy: FaultProxy) -> None:
    with connect(proxy) as client:
        proxy.mode = Mode.DEAF
        client.sendall(b"x")
        client.settimeout(0.3)
        with pytest.raises(TimeoutError):
            client.recv(10)
        proxy.mode = Mode.CALM
        client.settimeout(30)
        assert is_reset(client)
    with connect(proxy) as client:
        assert answer(client, b"whole") == b"whole"


def test_refuse_resets_old_and_new_connections(proxy: FaultProxy) -> None:
    with connect(proxy) as client:
        assert answer(client, b"a") == b"a"
        proxy.mode = Mode.REFUSE
        assert is_reset(client)
    with connect(proxy) as client:
        assert is_reset(client)


def test_a_schedule_is_the_same_for_the_same_seed() -> None:
    first, second, other = (list(itertools.islice(Schedule(seed), 40)) for seed in (7, 7, 8))
    assert first == second != other
    assert {turn.mode for turn in first} == set(Mode)
