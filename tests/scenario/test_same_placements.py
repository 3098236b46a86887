"""The unmodified kube-scheduler on a real control plane gives the embedded one's results.

Where several nodes are equally good either side leaves it to chance: theirs must be one of our
best, and is then ours too.
`python -m tests.scenario.test_same_placements 200` compares as many scenarios, and prints those
that differ; with `200 3` there are three control planes, each of which plays every third.
"""

import functools
import itertools
import multiprocessing
import pathlib
import sys

import pytest

from pytest_kscen.chance import Chance
from pytest_kscen.clusters.controlplane.cluster import ControlPlaneCluster
from pytest_kscen.clusters.embedded import EmbeddedCluster
from pytest_kscen.run.plan import Plan
from pytest_kscen.run.runner import ScenarioRunner
from pytest_kscen.scenario.files import scenario_of
from tests.scenario.comparing import SENT_AWAY, Follower, Tally, order
from tests.scenario.generating import generated
from tests.scenario.objects import create, done, node, pod, scenario

pytestmark = pytest.mark.controlplane

SEEDS = range(8)
SAMPLES = sorted(
    (pathlib.Path(__file__).parents[2] / "scenarios" / "samples").glob("*.scenario.yaml")
)


@pytest.fixture(scope="module")
def real():
    cluster = ControlPlaneCluster(1, nodes=0)
    runner = ScenarioRunner(cluster, Plan())
    yield runner
    runner.close()
    cluster.close()


def test_scenarios_give_the_same_placements_on_both_clusters(real):
    tally = compared(real, drawn(SEEDS))

    assert not tally.differences, "\n".join(tally.differences)
    assert tally.decided >= 40
    assert tally.ties >= 1
    assert tally.kinds[SENT_AWAY] >= 1


def test_repeated_scenario_gives_the_same_placements(real):
    pods = [pod(f"pod-{number}", cpu) for number, cpu in enumerate(("1500m", "900m", "700m", "1"))]
    operations = [
        create(1, node("large", "3")),
        create(1, node("small", "2")),
        *(create(2, each) for each in pods),
        done(3),
    ]
    first, second = (real.play(scenario(*operations, name=name)) for name in ("first", "second"))

    assert order(first) == order(second) != []


def test_part_of_a_real_program_cannot_be_held_alone(real):
    played = real.play(scenario(done(1), disabled=["replicaset-controller"], name="parts"))

    assert played.phase == "Failed"
    assert (
        "'replicaset-controller' is a part of kube-controller-manager on this cluster"
        in played.message
    )


def drawn(seeds):
    return ((f"seed {seed}", generated(Chance(seed).stream("generated"))) for seed in seeds)


def samples():
    return ((path.name, scenario_of(path)) for path in SAMPLES)


def compared(real, scenarios, tell=lambda _: None):
    tally = Tally()
    for name, each in scenarios:
        played = real.play(each)
        theirs = order(played), played.phase
        tally.add(name, theirs, functools.partial(on_embedded, each, theirs[0]), played.message)
        tell(tally)
    return tally


def on_embedded(one, theirs, choices=()):
    cluster, follower = EmbeddedCluster(1, nodes=0), Follower(one, theirs, choices)
    cluster.site.scheduler.ties.judge, cluster.site.scheduler.queue.judge = (
        follower.node,
        follower.next_one,
    )
    runner = ScenarioRunner(cluster, Plan())
    try:
        played = runner.play(one)
        return follower, order(played), played.phase
    finally:
        runner.close()
        cluster.close()


def main(count, hands=1):
    """Return whether all scenarios gave equal results, and enough were compared."""
    with multiprocessing.get_context("spawn").Pool(hands) as pool:
        tally = sum(
            pool.imap_unordered(functools.partial(share, count, hands), range(hands)), Tally()
        )
    print(f"{count} scenarios and {len(SAMPLES)} samples: {tally}")
    least = count // 4
    return (
        not tally.differences
        and tally.decided >= 5 * count
        and min(tally.ties, tally.kinds[SENT_AWAY]) >= least
    )


def share(count, hands, hand):
    """Play the scenarios of one of several control planes."""
    cluster = ControlPlaneCluster(1, nodes=0)
    real, reported = ScenarioRunner(cluster, Plan()), set()

    def tell(tally):
        for line in {*tally.differences, *tally.by_clock} - reported:
            print(line, flush=True)
            reported.add(line)

    try:
        return compared(
            real,
            itertools.islice(itertools.chain(samples(), drawn(range(count))), hand, None, hands),
            tell,
        )
    finally:
        real.close()
        cluster.close()


if __name__ == "__main__":
    sys.exit(not main(*map(int, sys.argv[1:])))
