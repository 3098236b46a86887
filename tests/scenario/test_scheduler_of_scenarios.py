"""The scheduler of a scenario: deterministic draws and the requested configuration."""

import json

import pytest

from pytest_kscen.objects.resources import CONFIG_MAPS
from pytest_kscen.run.plan import Plan, ScenarioSettings
from pytest_kscen.run.runner import ScenarioRunner
from pytest_kscen.scenario.analysis import compare
from pytest_kscen.scenario.files import ScenarioRefused
from pytest_kscen.scheduler import Plugin, unschedulable, wait
from tests.scenario.comparing import order
from tests.scenario.objects import create, done, node, pod, scenario

NODES = [create(1, node(name, "4")) for name in "abc"]
PODS = [create(2, pod(f"pod-{number}", "1")) for number in range(3)]
TIED = scenario(*NODES, *(create(2, pod(f"pod-{number}", "700m")) for number in range(9)), done(3))
PACK = {"type": "MostAllocated", "resources": [{"name": "cpu", "weight": 1}]}


def configuration(strategy=PACK, **more):
    profile = {
        "pluginConfig": [{"name": "NodeResourcesFit", "args": {"scoringStrategy": strategy}}],
        "plugins": {"score": {"disabled": [{"name": "NodeResourcesBalancedAllocation"}]}},
    }
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [profile],
        **more,
    }


def nodes_of(played):
    assert (played.phase, played.message) == ("Succeeded", "")
    return [life.node for life in played.result.pods]


def configure_cluster(cluster, text, key="config.yaml"):
    config_map = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "kube-scheduler"},
        "data": {key: text},
    }
    cluster.runner.call(cluster.api("somebody").create(CONFIG_MAPS, config_map, "kube-system"))


def test_scenario_gives_the_same_result_each_time(runner):
    first, second, third = (
        runner.play(TIED, name=name).result for name in ("first", "second", "third")
    )

    assert compare(first, second).is_same
    assert compare(first, third).is_same


def test_generated_names_are_the_same_each_time(runner):
    template = {
        "metadata": {"labels": {"app": "web"}},
        "spec": {"containers": [{"name": "c", "image": "pause"}]},
    }
    spec = {"replicas": 3, "selector": {"matchLabels": {"app": "web"}}, "template": template}
    web = {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": spec,
    }
    wanted = scenario(create(1, node()), create(2, web), done(3))

    first, second = (runner.play(wanted, name=name).result for name in ("first", "second"))

    assert compare(first, second).is_same


def test_scenario_configuration_is_restored_afterwards(runner):
    wanted = scenario(*NODES, *PODS, done(3))
    plain, packed, again = (
        nodes_of(runner.play(wanted, name=name, scheduler=scheduler))
        for name, scheduler in (("plain", None), ("packed", configuration()), ("again", None))
    )

    assert len(set(plain)) == 3
    assert len(set(packed)) == 1
    assert again == plain


def test_operations_may_configure_a_custom_scheduler(runner):
    with runner.scenario(["kube-scheduler"], scheduler=configuration()) as played:
        for each in (*NODES, *PODS):
            played.create(each["createOperation"]["object"], step=each["step"])
        played.done(step=3)

    assert len(set(nodes_of(played))) == 1


def test_configuration_is_part_of_the_scenario_file(runner, tmp_path):
    (tmp_path / "packed.yaml").write_text(
        f"{json.dumps(configuration())}\n---\n{json.dumps(scenario(*NODES, *PODS, done(3)))}\n"
    )
    (tmp_path / "two.yaml").write_text(
        "\n---\n".join(json.dumps(each) for each in (TIED, configuration(), configuration()))
    )

    assert len(set(nodes_of(runner.play(tmp_path / "packed.yaml")))) == 1
    with pytest.raises(ScenarioRefused, match=r"two.yaml:5: a second KubeSchedulerConfiguration"):
        runner.play(tmp_path / "two.yaml")


def test_cluster_configuration_is_the_default(runner):
    wanted = scenario(*NODES, *PODS, done(3))
    configure_cluster(runner.cluster, json.dumps(configuration()))

    assert len(set(nodes_of(runner.play(wanted)))) == 1
    assert (
        len(set(nodes_of(runner.play(wanted, scheduler=configuration({"type": "LeastAllocated"})))))
        == 3
    )
    assert len(set(nodes_of(runner.play(wanted)))) == 1


@pytest.mark.parametrize(
    ("written", "why"),
    [
        (configuration({"type": "MostAlocated"}), "did you mean 'MostAllocated'?"),
        (configuration(profils=[]), "did you mean 'profiles'?"),
        (
            {
                **configuration(),
                "profiles": [{"plugins": {"score": {"enabled": [{"name": "nowhere:X"}]}}}],
            },
            "nowhere",
        ),
    ],
)
@pytest.mark.parametrize("of", ["cluster", "scenario"])
def test_invalid_configuration_fails_the_scenario(runner, written, why, of):
    if of == "cluster":
        configure_cluster(runner.cluster, json.dumps(written))
    played = runner.play(TIED, scheduler=written if of == "scenario" else None)

    assert played.phase == "Failed"
    assert "the scheduler's configuration is refused: " in played.message
    assert why in played.message


@pytest.mark.parametrize(
    ("key", "text", "why"),
    [
        ("config.yaml", "a: [", "not valid YAML"),
        (
            "config.yml",
            "",
            (
                "the ConfigMap kube-scheduler in kube-system has no config.yaml (did you "
                "mean 'config.yml'?)"
            ),
        ),
    ],
)
def test_config_map_without_a_configuration_fails_the_scenario(runner, key, text, why):
    configure_cluster(runner.cluster, text, key)
    played = runner.play(TIED)

    assert played.phase == "Failed"
    assert why in played.message


def test_no_operation_changes_the_scheduler_configuration(runner):
    metadata = {"name": "kube-scheduler", "namespace": "kube-system"}
    config_map = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {}}
    played = runner.play(scenario(create(1, config_map, id="packs"), done(1)))

    assert played.phase == "Failed"
    assert (
        "operation 'packs' cannot be part of a scenario: the scheduler's configuration "
        "applies to the whole scenario; give"
    ) in played.message


def test_new_pod_waits_until_the_nominated_pod_is_placed(runner):
    high = {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": "high"},
        "value": 1000,
    }
    first, urgent = (
        pod("first", "1800m", terminationGracePeriodSeconds=0),
        pod("urgent", "1800m", priorityClassName="high"),
    )
    machines = [create(1, each) for each in (high, node("large", "2"), node("small", "1"))]
    pods = [create(2, first), create(3, urgent), create(3, pod("new", "500m"))]
    played = runner.play(scenario(*machines, *pods, done(4), disabled=["kubelet"]))

    assert order(played) == [
        ("bound", "first", "large"),
        ("sent away", "first", "large"),
        ("bound", "urgent", "large"),
        ("bound", "new", "small"),
    ]


def test_unschedulable_pods_are_retried_without_counting_as_work(runner):
    early = [create(1, pod("a")), create(1, pod("b"))]
    played = runner.play(scenario(*early, create(2, node()), create(2, pod("c")), done(3)))

    assert (played.phase, played.message) == ("Succeeded", "")
    assert {life.name: life.scheduled.major for life in played.result.pods} == {
        "a": 2,
        "b": 2,
        "c": 2,
    }
    first = played.result.pod("a").attempts[0]
    assert (first.step.major, first.message) == (1, "no nodes available to schedule pods")


class RejectingPermit(Plugin):
    def permit(self, state, pod, node):
        return unschedulable("not today")


class Slow(Plugin):
    """Permit plugin that never allows the pod."""

    def permit(self, state, pod, node):
        return wait(5)


class WaitingPermit(Plugin):
    def permit(self, state, pod, node):
        return wait(800)


class RejectingPreEnqueue(Plugin):
    def pre_enqueue(self, pod):
        return unschedulable("not before its time") if pod.name == "held" else None


class InvalidScore(Plugin):
    """Plugin with an invalid score and an invalid pre-score."""

    def score(self, state, pod, node):
        return 101


class Refusing(Plugin):
    def pre_score(self, state, pod, nodes):
        return unschedulable("no mood")

    def score(self, state, pod, node):
        return 1


class RejectingPreBind(Plugin):
    """Rejects pods during binding, so that each makes room for the other."""

    async def pre_bind(self, state, pod, node):
        return unschedulable("not now")


def with_plugin(plugin):
    enabled = {"multiPoint": {"enabled": [{"name": f"{__name__}:{plugin.__name__}"}]}}
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"plugins": enabled}],
    }


def test_events_of_the_scheduler_wake_no_pod(runner):
    pods = (create(2, pod("p")), create(2, pod("q")))
    played = runner.play(
        scenario(create(1, node()), *pods, done(3)), scheduler=with_plugin(RejectingPermit)
    )

    assert (played.phase, played.message) == ("Succeeded", "")
    assert [len(life.attempts) for life in played.result.pods] == [1, 1]
    assert "not today" in played.result.pod("p").why_not


def test_timed_out_pod_is_not_helped_by_its_own_removal(runner):
    played = runner.play(
        scenario(create(1, node()), create(2, pod("p")), done(3)), scheduler=with_plugin(Slow)
    )

    assert (played.phase, played.message) == ("Succeeded", "")
    assert "timeout after 5s waiting on permit of plugin" in played.result.pod("p").why_not


def test_pod_blocked_by_pre_enqueue_delays_no_other(runner):
    pods = (create(2, pod("held")), create(2, pod("p")), create(3, pod("q")))
    played = runner.play(
        scenario(create(1, node()), *pods, done(4)), scheduler=with_plugin(RejectingPreEnqueue)
    )

    assert (played.phase, played.message) == ("Succeeded", "")
    assert [(life.name, life.state, len(life.attempts)) for life in played.result.pods] == [
        ("held", "pending", 0),
        ("p", "placed", 1),
        ("q", "placed", 1),
    ]


def test_pod_waiting_too_long_for_permit_is_reported(runner):
    played = runner.play(
        scenario(create(1, node()), create(2, pod("p")), done(3)),
        scheduler=with_plugin(WaitingPermit),
    )

    assert played.phase == "Failed"
    assert played.message == (
        "step 2: not finished within 600 s: kube-scheduler: Pod default/p waits for the "
        f"permission of {__name__}:WaitingPermit"
    )


@pytest.mark.parametrize(
    ("plugin", "words"),
    [
        (
            InvalidScore,
            (
                f"plugin '{__name__}:InvalidScore' returns an invalid score 101, it should in the "
                "range of [0, 100] after normalizing"
            ),
        ),
        (Refusing, f'running PreScore plugin "{__name__}:Refusing": no mood'),
    ],
)
def test_repeated_errors_are_reported_with_their_pods(runner, plugin, words):
    machines, pods = (
        (create(1, node("one")), create(1, node("other"))),
        (create(2, pod("p")), create(2, pod("q"))),
    )
    played = runner.play(scenario(*machines, *pods, done(3)), scheduler=with_plugin(plugin))

    assert played.phase == "Failed"
    assert f"; the scheduler reports an error for Pod default/p ({words})" in played.message
    assert "Node" not in played.message


def test_cluster_that_never_settles_is_reported_with_pods_and_plugin(runner):
    pods = (create(2, pod("p")), create(2, pod("q")))
    impatient = ScenarioRunner(runner.cluster, Plan(), terms=ScenarioSettings(patience=60))
    played = impatient.play(
        scenario(create(1, node()), *pods, done(3)), scheduler=with_plugin(RejectingPreBind)
    )

    assert played.phase == "Failed"
    assert "not finished within 60 s: kube-scheduler is not idle; last changes: " in played.message
    assert "Pod default/q (0/1 nodes are available: 1 not now.)" in played.message
    impatient.close()
