"""Two runs of one test on a long-lived cluster: separate volumes, no interference."""

from __future__ import annotations

from pytest_kscen.chance import Chance
from pytest_kscen.clusters.embedded import EmbeddedCluster
from pytest_kscen.megatest.churn import Churn
from pytest_kscen.objects.storage import REPLICATED_VOLUMES
from pytest_kscen.run.plan import Plan
from pytest_kscen.run.runner import ScenarioRunner


def test_concurrent_runs_distinguish_their_objects():
    cluster = EmbeddedCluster("beside")

    def begin(salt):
        cluster.chance = Chance("the test's own seed", salt=salt)
        runner = ScenarioRunner(
            cluster, Plan(Churn(max_volumes=3, step=(3, 3), lifetime=(600.0, 600.0)))
        )
        return runner, runner.__enter__()

    def volumes(run):
        mine = f"kscen.io/run={run.context.run_id}"
        listing = cluster.runner.call(cluster.api("test").list(REPLICATED_VOLUMES, labels=mine))
        return [
            one["metadata"]["name"]
            for one in listing.items
            if "deletionTimestamp" not in one["metadata"]
        ]

    one, first = begin("monday")
    first.advance("2m")
    there = volumes(first)
    other, second = begin("tuesday")
    second.advance("1m")
    assert len(there) == 3
    assert volumes(first) == there
    assert len(volumes(second)) == 3

    other.__exit__(None, None, None)
    assert second.outcome.leftovers == []
    assert volumes(first) == there
    one.__exit__(None, None, None)
    for runner, run in ((one, first), (other, second)):
        assert run.outcome.verdict == "valid", run.outcome.explain()
        assert [volume.verdict for volume in run.outcome.volumes] == ["stable"] * 3
        runner.close()
    cluster.close()
