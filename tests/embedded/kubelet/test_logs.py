import pytest

from pytest_kscen.clock import VirtualRunner
from pytest_kscen.embedded.kubelet.logs import Logs

POD = {"metadata": {"name": "p", "namespace": "n", "uid": "u"}}


@pytest.fixture
def runner():
    runner = VirtualRunner()
    yield runner
    runner.close()


@pytest.fixture
def logs(runner):
    return Logs(runner.clock)


def follow(logs, **options):
    return logs.follow("n", "p", "c", {name: str(value) for name, value in options.items()})


def read(runner, follower):
    """Return all chunks until the end, and their times."""
    pieces, began = [], runner.clock.now()

    async def reading():
        while True:
            try:
                pieces.append((await follower.__anext__(), runner.clock.now() - began))
            except StopAsyncIteration:
                return

    runner.call(reading())
    return pieces


def later(runner, *deeds):
    """Write each line a second after the previous one."""

    async def act():
        for deed in deeds:
            await runner.clock.sleep(1)
            deed()

    runner.start(act(), "writer")


def test_follow_returns_existing_and_new_lines(runner, logs):
    log = logs.begin(POD, "c")
    log.write("one\ntwo\n")
    later(runner, lambda: log.write("thr"), lambda: log.write("ee\n"), log.end)
    assert read(runner, follow(logs, tailLines=1)) == [("two\n", 0), ("thr", 1), ("ee\n", 2)]


def test_ended_log_is_read_immediately(runner, logs):
    log = logs.begin(POD, "c")
    log.write("one\n")
    log.end()
    assert read(runner, follow(logs)) == [("one\n", 0)]


def test_restart_or_pod_end_ends_log(runner, logs):
    logs.begin(POD, "c")
    follower = follow(logs)
    later(runner, lambda: logs.begin(POD, "c"))
    assert read(runner, follower) == []
    follower = follow(logs)
    later(runner, lambda: logs.forget(POD))
    assert read(runner, follower) == []


def test_line_has_timestamp_of_its_start(runner, logs):
    log = logs.begin(POD, "c")
    log.write("o")
    later(runner, lambda: log.write("ne\nt"), lambda: log.write("wo\nthree\n"), log.end)
    assert "".join(piece for piece, _ in read(runner, follow(logs, timestamps="true"))) == (
        "2026-01-01T00:00:00.000000Z one\n2026-01-01T00:00:01.000000Z "
        "two\n2026-01-01T00:00:02.000000Z three\n"
    )


def test_byte_limit(runner, logs):
    log = logs.begin(POD, "c")
    log.write("one\n")
    later(runner, lambda: log.write("two\n"), lambda: log.write("three\n"))
    assert read(runner, follow(logs, limitBytes=6)) == [("one\n", 0), ("tw", 1)]
    assert read(runner, follow(logs, limitBytes=2)) == [("on", 0)]


def test_closed_reader_receives_nothing(runner, logs):
    log = logs.begin(POD, "c")
    follower = follow(logs)
    follower.close()
    log.write("one\n")
    assert read(runner, follower) == []
