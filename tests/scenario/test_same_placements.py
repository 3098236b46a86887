"""The real kube-scheduler, unmodified and on a real control plane, does with a scenario what the embedded one does with it.

Scores that are equal leave the choice to chance on either side: what comes after the first such pod is not compared.
`python -m tests.scenario.test_same_placements 200` compares as many scenarios, and prints those that differ.
"""

import sys

import pytest

from pytest_kscen.chance import Chance
from pytest_kscen.clusters.controlplane.cluster import ControlPlaneCluster
from pytest_kscen.clusters.embedded import EmbeddedCluster
from pytest_kscen.runs.plan import Plan
from pytest_kscen.runs.runner import ScenarioRunner
from tests.scenario.comparing import first_tie, order, until_luck
from tests.scenario.generating import generated
from tests.scenario.objects import create, done, node, pod, scenario

pytestmark = pytest.mark.controlplane

SEEDS = range(8)


@pytest.fixture(scope="module")
def real():
    cluster = ControlPlaneCluster(1, nodes=0)
    runner = ScenarioRunner(cluster, Plan())
    yield runner
    runner.close()
    cluster.close()


@pytest.mark.parametrize("seed", SEEDS)
def test_a_scenario_ends_the_same_on_both(real, seed):
    ours, theirs, _ = both(real, seed)

    assert ours == theirs


def test_the_same_scenario_is_placed_the_same_again(real):
    pods = [pod(f"pod-{number}", cpu) for number, cpu in enumerate(("1500m", "900m", "700m", "1"))]
    operations = [create(1, node("large", "3")), create(1, node("small", "2")), *(create(2, each) for each in pods), done(3)]
    first, second = (real.play(scenario(*operations, name=name)) for name in ("first", "second"))

    assert order(first) == order(second) != []


def test_a_part_of_a_real_program_cannot_be_held_alone(real):
    played = real.play(scenario(done(1), disabled=["replicaset-controller"], name="parts"))

    assert played.phase == "Failed"
    assert "'replicaset-controller' is a part of kube-controller-manager on this cluster" in played.message


def both(real, seed):
    """What happened to the pods on each side, as far as it is not luck; and whether luck came in."""
    drawn = generated(Chance(seed).stream("generated"))
    cluster = EmbeddedCluster(1, nodes=0)
    runner = ScenarioRunner(cluster, Plan())
    try:
        played = runner.play(drawn)
        again = real.play(drawn)
        assert (played.phase, again.phase) == ("Succeeded", "Succeeded"), (played.message, again.message)
        return *until_luck(played, again), first_tie(played) is not None
    finally:
        runner.close()
        cluster.close()


def main():
    cluster = ControlPlaneCluster(1, nodes=0)
    real, differ, lucky, count = ScenarioRunner(cluster, Plan()), 0, 0, int(sys.argv[1])
    try:
        for seed in range(count):
            ours, theirs, luck = both(real, seed)
            lucky += luck
            if ours != theirs:
                differ += 1
                print(f"seed {seed}\n  ours   {ours}\n  theirs {theirs}", flush=True)
        print(f"{count} scenarios: {differ} differ; in {lucky} a place was a matter of luck")
    finally:
        real.close()
        cluster.close()


if __name__ == "__main__":
    main()
