"""Simulation of a user's controller, held at the end of its loop until others have reacted."""

import json
import re
import shutil
import subprocess
import threading

import pytest

from pytest_kscen.clusters.controlplane.cluster import ControlPlaneCluster
from pytest_kscen.kube.gate import check_scenario_step_phase
from pytest_kscen.run.plan import Plan
from pytest_kscen.run.runner import ScenarioRunner
from pytest_kscen.scenario.gate import check_scenario_step_phase as check_with_the_official_client
from tests.scenario.hoge import (
    IN_GO,
    NAME,
    HogeWaiter,
    control,
    control_with_the_official_client,
    hoge,
    run_once,
)
from tests.scenario.objects import create, done, node, pod, scenario

SCENARIO = scenario(
    create(1, node()), create(2, hoge("a", 3)), done(3), controllers=[NAME, "kube-scheduler"]
)


def _is_right(played):
    assert played.phase == "Succeeded", played.message
    made = [event for event in played.timeline.of("create") if event.controller == NAME]
    assert [(event.create.result["metadata"]["name"], *event.step) for event in made] == [
        ("a-0", 2, 1),
        ("a-1", 2, 2),
        ("a-2", 2, 3),
    ]
    assert [event.step for event in played.timeline.of("podScheduled")] == [(2, 4), (2, 5), (2, 6)]


def test_controller_in_the_event_loop_of_the_cluster(runner):
    cluster = runner.cluster
    api, clock = cluster.api(NAME), cluster.runner.clock
    runner.scenario_player.controller.register.add(HogeWaiter())
    cluster.runner.start(
        control(api, clock, lambda: check_scenario_step_phase(NAME, api, clock)), NAME
    )

    _is_right(runner.play(SCENARIO))


async def _control_without_gate(api, clock):
    while True:
        await run_once(api)
        await clock.sleep(1)


def test_turn_ends_when_the_controller_is_back_at_its_gate(runner):
    cluster = runner.cluster
    api, clock = cluster.api(NAME), cluster.runner.clock
    runner.controllers.add(HogeWaiter())
    cluster.runner.start(
        control(api, clock, lambda: check_scenario_step_phase(NAME, api, clock)), NAME
    )
    operations = (
        create(1, node()),
        create(2, hoge("a", 1)),
        create(2, pod("p")),
        create(3, hoge("b", 1)),
        create(3, pod("q")),
    )
    played = runner.play(scenario(*operations, done(4), controllers=["kube-scheduler", NAME]))

    assert (played.phase, played.message) == ("Succeeded", "")
    made = [*played.timeline.of("create"), *played.timeline.of("podScheduled")]
    assert sorted((*event.step, event.controller) for event in made if event.controller) == [
        (2, 1, "kube-scheduler"),
        (2, 2, NAME),
        (3, 1, "kube-scheduler"),
        (3, 2, "kube-scheduler"),
        (3, 3, NAME),
        (4, 1, "kube-scheduler"),
    ]


def test_write_outside_its_turn_fails_the_scenario(runner):
    runner.controllers.add(HogeWaiter())
    cluster = runner.cluster
    cluster.runner.start(_control_without_gate(cluster.api(NAME), cluster.runner.clock), NAME)
    operations = (
        create(1, node()),
        create(2, hoge("a", 3)),
        create(2, pod("p")),
        create(3, hoge("b", 3)),
        create(3, pod("q")),
    )
    played = runner.play(scenario(*operations, done(4), controllers=["kube-scheduler", NAME]))

    assert played.phase == "Failed"
    while_ = r"(it was the turn of kube-scheduler|the phase was \w+)"
    assert re.match(
        rf"step [23]: {NAME} created pods default/[ab]-[012] out of its turn, while {while_}: "
        "a simulated controller must await its gate at the end of each of its loops, and "
        "must not write while the gate holds it$",
        played.message,
    )


def test_controller_not_returning_to_its_gate_is_named(runner):
    cluster = runner.cluster
    api, clock = cluster.api(NAME), cluster.runner.clock
    runner.controllers.add(HogeWaiter())

    async def waits_outside_gate():
        await check_scenario_step_phase(NAME, api, clock)
        await clock.sleep(10**6)

    cluster.runner.start(waits_outside_gate(), NAME)
    cluster.advance("1s")
    played = runner.play(SCENARIO)

    assert played.message == (
        f"step 1: {NAME} has passed its gate, and has not returned to it within 600 s: "
        "await the gate at the end of each loop, before the controller waits for anything else"
    )


@pytest.fixture
def real():
    cluster = ControlPlaneCluster(1, nodes=0)
    runner = ScenarioRunner(cluster, Plan())
    runner.scenario_player.controller.register.add(HogeWaiter())
    yield runner
    runner.close()
    cluster.close()


@pytest.mark.controlplane
def test_controller_as_a_separate_program(real):
    from kubernetes.client import ApiClient

    client, stopped = ApiClient(real.cluster.client.configuration), threading.Event()
    client.set_default_header("Impersonate-User", f"kscen:{NAME}")
    client.set_default_header("Impersonate-Group", "system:masters")
    arguments = client, lambda: check_with_the_official_client(NAME, client), stopped
    program = threading.Thread(target=control_with_the_official_client, args=arguments)
    program.start()
    try:
        _is_right(real.play(SCENARIO))
    finally:
        stopped.set()
        program.join()
        client.close()


@pytest.mark.controlplane
def test_controller_in_another_language(real, tmp_path):
    subprocess.run([shutil.which("go"), "build", "-o", tmp_path / "hoge", IN_GO], check=True)
    config = json.loads(real.cluster.kubeconfig.read_text())
    server, authority = (
        config["clusters"][0]["cluster"][name] for name in ("server", "certificate-authority")
    )
    token = config["users"][0]["user"]["token"]
    program = subprocess.Popen(
        [tmp_path / "hoge", server, token, authority, real.scenario_player.gate_url]
    )
    try:
        _is_right(real.play(SCENARIO))
    finally:
        program.kill()
        program.wait()
