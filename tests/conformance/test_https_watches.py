from __future__ import annotations

import gc

from pytest_kscen.clusters.conformance.case import _HttpsWatch


class ChunkedResponse:
    """Chunked response that has not ended; records what happens to its connection."""

    def __init__(self):
        self.connection_calls = []

    def stream(self, size):
        try:
            yield b'{"number":1}\n{"num'
            yield b'ber":2}\n'
            raise AssertionError("read more than requested")
        finally:
            self.connection_calls.append("released")

    def close(self):
        self.connection_calls.append("closed")


def test_watch_lines_are_joined_across_chunks():
    lines = _HttpsWatch(ChunkedResponse())
    assert [next(lines), next(lines)] == [{"number": 1}, {"number": 2}]


def test_closed_watch_releases_connection_immediately():
    answer = ChunkedResponse()
    gc.disable()
    try:
        lines = _HttpsWatch(answer)
        next(lines)
        lines.close()
        assert answer.connection_calls == ["released", "closed"]
    finally:
        gc.enable()
