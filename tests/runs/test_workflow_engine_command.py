"""The command that drives workflows: it is ended at any moment without a traceback, and says what its cluster lacks."""

from __future__ import annotations

import argparse
import contextlib
import os
import signal

import pytest

from pytest_kscen.clusters.embedded import EmbeddedCluster
from pytest_kscen.runs import driving

CHOSEN = argparse.Namespace(journal=None, traces=None, metrics=None, concurrency=1, rate=None)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("where", ["family_on", "judge_workflows", "drive"])
def test_who_ends_it_as_it_begins_gets_no_traceback(monkeypatch, capsys, where, number):
    does = getattr(driving, where)

    def end_and_do(*arguments, **options):
        os.kill(os.getpid(), number)
        return does(*arguments, **options)

    monkeypatch.setattr(driving, where, end_and_do)
    before = signal.getsignal(number)
    with contextlib.closing(EmbeddedCluster("ended", nodes=0)) as cluster:
        assert driving._drive(cluster, CHOSEN) == 0
    assert signal.getsignal(number) is before
    assert capsys.readouterr().out == "Workflows and Schedules of chaos-mesh.org are driven from now on\n"
