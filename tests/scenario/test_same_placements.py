"""The real kube-scheduler, unmodified and on a real control plane, does with a scenario what the embedded one does with it.

Where several nodes are equally good either side leaves it to chance: theirs must be one of our best, and is then ours too.
`python -m tests.scenario.test_same_placements 200` compares as many scenarios, and prints those that differ.
"""

import sys

import pytest

from pytest_kscen.chance import Chance
from pytest_kscen.clusters.controlplane.cluster import ControlPlaneCluster
from pytest_kscen.clusters.embedded import EmbeddedCluster
from pytest_kscen.runs.plan import Plan
from pytest_kscen.runs.runner import ScenarioRunner
from tests.scenario.comparing import SENT_AWAY, Follower, Tally, order
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


def test_scenarios_go_the_same_way_on_both(real):
    tally = compared(real, SEEDS)

    assert not tally.differences, "\n".join(tally.differences)
    assert tally.decided >= 40
    assert tally.ties >= 1
    assert tally.kinds[SENT_AWAY] >= 1


def test_the_same_scenario_is_placed_the_same_again(real):
    pods = [pod(f"pod-{number}", cpu) for number, cpu in enumerate(("1500m", "900m", "700m", "1"))]
    operations = [create(1, node("large", "3")), create(1, node("small", "2")), *(create(2, each) for each in pods), done(3)]
    first, second = (real.play(scenario(*operations, name=name)) for name in ("first", "second"))

    assert order(first) == order(second) != []


def test_a_part_of_a_real_program_cannot_be_held_alone(real):
    played = real.play(scenario(done(1), disabled=["replicaset-controller"], name="parts"))

    assert played.phase == "Failed"
    assert "'replicaset-controller' is a part of kube-controller-manager on this cluster" in played.message


def compared(real, seeds, tell=lambda _: None):
    tally = Tally()
    for seed in seeds:
        drawn = generated(Chance(seed).stream("generated"))
        theirs = order(succeeded(real.play(drawn)))
        follower = Follower(theirs)
        tally.add(f"seed {seed}", on_embedded(drawn, follower), theirs, follower.ties)
        tell(tally)
    return tally


def on_embedded(drawn, judge):
    cluster = EmbeddedCluster(1, nodes=0)
    cluster.site.scheduler.ties.judge = judge
    runner = ScenarioRunner(cluster, Plan())
    try:
        return order(succeeded(runner.play(drawn)))
    finally:
        runner.close()
        cluster.close()


def succeeded(played):
    assert played.phase == "Succeeded", played.message
    return played


def main(count):
    """Whether all went the same way, and there was enough to compare."""
    cluster = ControlPlaneCluster(1, nodes=0)
    real, told = ScenarioRunner(cluster, Plan()), 0

    def tell(tally):
        nonlocal told
        for difference in tally.differences[told:]:
            print(difference, flush=True)
        told = len(tally.differences)

    try:
        tally = compared(real, range(count), tell)
    finally:
        real.close()
        cluster.close()
    print(f"{count} scenarios: {tally}")
    least = count // 4
    return not tally.differences and tally.decided >= 5 * count and min(tally.ties, tally.kinds[SENT_AWAY]) >= least


if __name__ == "__main__":
    sys.exit(not main(int(sys.argv[1])))
