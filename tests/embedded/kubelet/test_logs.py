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
    """All pieces until the end, and when they came."""
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
    """Each a second after the one before."""

    async def act():
        for deed in deeds:
            await runner.clock.sleep(1)
            deed()

    runner.start(act(), "writer")


def test_what_is_there_and_what_comes_until_the_run_ends(runner, logs):
    log = logs.begin(POD, "c")
    log.write("one\ntwo\n")
    later(runner, lambda: log.write("thr"), lambda: log.write("ee\n"), log.end)
    assert read(runner, follow(logs, tailLines=1)) == [("two\n", 0), ("thr", 1), ("ee\n", 2)]


def test_a_log_that_has_ended_is_read_at_once(runner, logs):
    log = logs.begin(POD, "c")
    log.write("one\n")
    log.end()
    assert read(runner, follow(logs)) == [("one\n", 0)]


def test_another_run_or_the_pods_end_is_the_end(runner, logs):
    logs.begin(POD, "c")
    follower = follow(logs)
    later(runner, lambda: logs.begin(POD, "c"))
    assert read(runner, follower) == []
    follower = follow(logs)
    later(runner, lambda: logs.forget(POD))
    assert read(runner, follower) == []


def test_lines_are_stamped_when_they_are_begun(runner, logs):
    log = logs.begin(POD, "c")
    log.write("o")
    later(runner, lambda: log.write("ne\nt"), lambda: log.write("wo\nthree\n"), log.end)
    assert "".join(piece for piece, _ in read(runner, follow(logs, timestamps="true"))) == (
        "2026-01-01T00:00:00.000000Z one\n2026-01-01T00:00:01.000000Z "
        "two\n2026-01-01T00:00:02.000000Z three\n"
    )


def test_no_more_bytes_than_asked_for(runner, logs):
    log = logs.begin(POD, "c")
    log.write("one\n")
    later(runner, lambda: log.write("two\n"), lambda: log.write("three\n"))
    assert read(runner, follow(logs, limitBytes=6)) == [("one\n", 0), ("tw", 1)]
    assert read(runner, follow(logs, limitBytes=2)) == [("on", 0)]


def test_who_stops_reading_is_told_nothing_more(runner, logs):
    log = logs.begin(POD, "c")
    follower = follow(logs)
    follower.close()
    log.write("one\n")
    assert read(runner, follower) == []
