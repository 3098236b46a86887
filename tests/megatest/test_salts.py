"""Runs on a long-lived cluster: equal seeds give equal stories, except for salted names."""

from __future__ import annotations

import re

from pytest_kscen.chance import Chance
from pytest_kscen.chaos.profiles import NetworkBlock
from pytest_kscen.clusters.embedded import EmbeddedCluster
from pytest_kscen.megatest.churn import Churn
from pytest_kscen.models.storage.drbd.kernel import KernelServices
from pytest_kscen.run.plan import Plan
from pytest_kscen.run.runner import ScenarioRunner

NAME = re.compile(r"mgt-[0-9a-f-]{36}|(?:blocking-drbd|pod-destroy)-\w{8}")
CHURN = Churn(
    max_volumes=5, resizer=True, replica_destroyer=True, replica_creator=True, pod_destroyer=True
)
CHAOS = (NetworkBlock((10.0, 20.0), (10.0, 20.0), variants=("blocking-drbd",)),)


def played(salt):
    """Return the journal of a run."""
    cluster = EmbeddedCluster("1")
    cluster.chance = Chance("1", salt)
    runner = ScenarioRunner(cluster, Plan(CHURN, CHAOS), parent=cluster.parent)
    with runner as run:
        run.volumes.create("availability", attach=2)
        run.advance("10m")
    text = run.journal.content().decode().replace(run.context.run_id, "the run's id")
    assert run.outcome.verdict != "invalid", run.outcome.explain()
    assert run.context.keys == {}
    runner.close()
    cluster.close()
    return text


def reported(text, names):
    """Replace names by numbers."""
    return NAME.sub(lambda name: str(names.setdefault(name[0], len(names))), text).splitlines()


def test_salt_changes_only_the_names_in_a_story(monkeypatch):
    same_for_all = lambda kernel, _, one, other: kernel._links_chance.temporary_stream(  # noqa: E731
        f"{one}/{other}"
    )
    monkeypatch.setattr(
        KernelServices, "stream", same_for_all
    )  # how long links take is the storage's, which knows volumes by their names
    plain, one, other = {}, {}, {}
    story = reported(played(""), plain)
    assert reported(played("monday"), one) == reported(played("tuesday"), other) == story
    assert len(plain) > 30
    assert len({*plain, *one, *other}) == 3 * len(plain)
    done = set(re.findall(r'"(?:variant|action)":"([^"]+)"', "".join(story)))
    assert {
        "blocking-drbd",
        "pod-destroy",
        "resize the volume",
        "delete a replica",
        "create a replica",
        "detach",
    } <= done
