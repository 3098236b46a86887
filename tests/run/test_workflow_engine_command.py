"""The engine command: interruption without traceback, and reports of missing definitions."""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import subprocess
import sys

import pytest

from pytest_kscen.clusters.embedded import EmbeddedCluster
from pytest_kscen.commands import workflow_engine

CHOSEN = argparse.Namespace(journal=None, traces=None, metrics=None, concurrency=1, rate=None)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("where", ["family_on", "start_admission", "drive"])
def test_interrupt_at_the_start_prints_no_traceback(monkeypatch, capsys, where, number):
    does = getattr(workflow_engine, where)

    def end_and_do(*arguments, **options):
        os.kill(os.getpid(), number)
        return does(*arguments, **options)

    monkeypatch.setattr(workflow_engine, where, end_and_do)
    before = signal.getsignal(number)
    with contextlib.closing(EmbeddedCluster("ended", nodes=0)) as cluster:
        assert workflow_engine._drive(cluster, CHOSEN) == 0
    assert signal.getsignal(number) is before
    assert (
        capsys.readouterr().out
        == "Workflows and Schedules of chaos-mesh.org are driven from now on\n"
    )


def test_missing_chaos_definitions_are_reported_and_the_engine_runs():
    with contextlib.closing(EmbeddedCluster("port", nodes=0)) as cluster:
        command = [
            sys.executable,
            "-m",
            "pytest_kscen",
            "workflow-engine",
            "--kubeconfig",
            str(cluster.kubeconfig),
        ]
        engine = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        greeting = engine.stdout.readline()
        engine.send_signal(signal.SIGINT)
        message = engine.communicate(timeout=60)[1]
    assert (greeting, engine.returncode) == (
        "Workflows and Schedules of chaos-mesh.org are driven from now on\n",
        0,
    )
    assert message.splitlines() == [workflow_engine.NO_DEFINITIONS]


def test_existing_chaos_definitions_are_not_reported(capsys, monkeypatch):
    monkeypatch.setattr(
        workflow_engine, "start_admission", lambda *_: os.kill(os.getpid(), signal.SIGINT)
    )
    with contextlib.closing(EmbeddedCluster("replicas-restored", nodes=0)) as cluster:
        workflow_engine._drive(cluster, CHOSEN)
    assert capsys.readouterr().err == ""
