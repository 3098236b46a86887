"""Queries on scenarios that were played."""

import pytest

from pytest_kscen.objects.resources import PODS
from pytest_kscen.scenario.analysis import Result, attempts_of
from pytest_kscen.scenario.analysis.timeline import NoScenario
from tests.scenario.objects import create, done, node, pod, scenario


def important(name, value):
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": name},
        "value": value,
    }


PREEMPTED = scenario(
    create(1, node("a", cpu="2")),
    create(1, node("b", cpu="1")),
    create(1, important("high", 1000)),
    create(2, pod("low", "2")),
    create(3, pod("first", "1500m", priorityClassName="high")),
    create(4, pod("second", "1500m", priorityClassName="high")),
    done(5),
)


def test_preempted_pods_and_their_preemptors(runner):
    result = runner.play(PREEMPTED).result

    (found,) = result.preemptions
    assert (found.pod, found.node, found.step.major, found.by, found.evidence) == (
        "low",
        "a",
        3,
        "default/first",
        "reported",
    )
    assert result.pod("low").state == "preempted"
    assert (result.pod("first").node, result.pod("second").state) == ("a", "pending")
    assert result.pod("first").attempts[0].nominated == "a"


def test_result_is_recomputed_after_a_change(runner):
    with runner.scenario(["kube-scheduler"]) as played:
        played.create(node("a"), step=1)
        played.until_paused()
        early = played.result
        assert played.result is early
        played.create(pod("late", "1"), step=2)
        played.done(step=3)
    assert early.pods == []
    assert [life.name for life in played.result.pods] == ["late"]


def test_status_and_journal_agree(runner):
    played = runner.play(PREEMPTED)
    assert Result.of_status(played.live).report() == played.result.report()


def test_annotations_of_a_live_pod_agree_with_the_timeline(runner):
    played = runner.play(PREEMPTED)
    live = runner.cluster.runner.call(runner.cluster.api().get(PODS, "first", "default"))
    reported = [
        (each.node, each.nominated, each.filters, each.final_scores) for each in attempts_of(live)
    ]
    assert reported == [
        (each.node, each.nominated, each.filters, each.final_scores)
        for each in played.result.attempts("first")
    ]


def test_name_missing_from_the_journal_is_refused(runner):
    played = runner.play(PREEMPTED)

    with pytest.raises(NoScenario, match="the journal has no scenario 'wrong'"):
        Result.of_journal(played.journal, "wrong")
