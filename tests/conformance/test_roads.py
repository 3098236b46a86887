from __future__ import annotations

import gc

from pytest_kscen.clusters.conformance.case import _HttpsWatch


class Answer:
    """A chunked answer that has not ended; it says what becomes of its connection."""

    def __init__(self):
        self.masked = []

    def stream(self, size):
        try:
            yield b'{"number":1}\n{"num'
            yield b'ber":2}\n'
            raise AssertionError("nobody asked for more")
        finally:
            self.masked.append("released")

    def close(self):
        self.masked.append("closed")


def test_lines_are_whole_whatever_the_chunks():
    lines = _HttpsWatch(Answer())
    assert [next(lines), next(lines)] == [{"number": 1}, {"number": 2}]


def test_a_closed_stream_leaves_its_connection_to_no_garbage_collector():
    answer = Answer()
    gc.disable()
    try:
        lines = _HttpsWatch(answer)
        next(lines)
        lines.close()
        assert answer.masked == ["released", "closed"]
    finally:
        gc.enable()
