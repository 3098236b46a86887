import pytest

from pytest_kscen.objects.errors import TooManyRequests
from pytest_kscen.objects.resources import DEPLOYMENTS, JOBS, POD_DISRUPTION_BUDGETS, PODS

SELECTOR = {"matchLabels": {"app": "web"}}


@pytest.fixture
def protect(world):
    def protect(**spec):
        world.create(POD_DISRUPTION_BUDGETS, "b", {"selector": SELECTOR, **spec})

    return protect


@pytest.fixture
def deploy(world, template):
    def deploy(replicas=4):
        world.create(
            DEPLOYMENTS, "web", {"replicas": replicas, "selector": SELECTOR, "template": template()}
        )
        world.advance(1)

    return deploy


def counts(world):
    status = world.status(POD_DISRUPTION_BUDGETS, "b")
    return tuple(
        status[name]
        for name in ("expectedPods", "desiredHealthy", "currentHealthy", "disruptionsAllowed")
    )


@pytest.mark.parametrize(
    ("spec", "wanted"),
    [
        ({"minAvailable": 3}, (4, 3, 4, 1)),
        ({"minAvailable": "50%"}, (4, 2, 4, 2)),
        ({"minAvailable": "51%"}, (4, 3, 4, 1)),
        ({"maxUnavailable": 1}, (4, 3, 4, 1)),
        ({"maxUnavailable": "30%"}, (4, 2, 4, 2)),
        ({"maxUnavailable": 9}, (4, 0, 4, 4)),
        ({"minAvailable": 9}, (4, 9, 4, 0)),
    ],
    ids=str,
)
def test_allowed_disruptions(world, protect, deploy, spec, wanted):
    deploy(4)
    protect(**spec)
    assert counts(world) == wanted


def test_condition_reports_allowed_disruptions(world, protect, deploy):
    protect(minAvailable=1)
    assert world.conditions(POD_DISRUPTION_BUDGETS, "b") == {
        "DisruptionAllowed": ("False", "InsufficientPods")
    }
    assert world.events("b") == ["No matching pods found"]
    deploy(2)
    assert world.conditions(POD_DISRUPTION_BUDGETS, "b") == {
        "DisruptionAllowed": ("True", "SufficientPods")
    }


def test_terminating_and_unready_pods_are_unhealthy(world, protect, deploy):
    world.pod_runner.takedown = 5.0
    deploy(3)
    protect(maxUnavailable=1)
    first, second, _ = world.names(PODS)
    world.unready(first)
    assert counts(world) == (3, 2, 2, 0)
    world.ready(first)
    world.delete(PODS, second)
    assert counts(world) == (3, 2, 2, 0)
    world.advance(5)
    assert counts(world) == (3, 2, 3, 1)


def test_eviction_uses_budget_until_pod_is_replaced(world, protect, deploy):
    deploy(3)
    protect(maxUnavailable=1)
    first, second, _ = world.names(PODS)
    evict(world, first)
    with pytest.raises(TooManyRequests):
        evict(world, second)
    world.advance(2)
    assert counts(world) == (3, 2, 3, 1)
    assert "disruptedPods" not in world.status(POD_DISRUPTION_BUDGETS, "b")


def evict(world, name):
    eviction = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": name, "namespace": "default"},
    }
    world.ask(world.api.create(PODS, eviction, "default", name=name, subresource="eviction"))


def test_unmanaged_pods_are_excluded_from_percentage(world, protect, template):
    lone = template()
    world.create(PODS, "lone", lone["spec"], metadata=lone["metadata"])
    world.advance(1)
    protect(minAvailable="50%")
    assert counts(world) == (0, 0, 1, 0)
    assert "were found to be unmanaged" in world.events("b")[0]
    assert (
        "(selector: &LabelSelector{MatchLabels:map[string]string{app: web,},"
        in world.events("b")[0]
    )


def test_owner_without_scale_allows_no_disruption(world, protect, template):
    world.create(JOBS, "j", {"template": template(restartPolicy="Never")})
    world.advance(1)
    protect(maxUnavailable=1)
    assert world.conditions(POD_DISRUPTION_BUDGETS, "b") == {
        "DisruptionAllowed": ("False", "SyncFailed")
    }
    assert world.status(POD_DISRUPTION_BUDGETS, "b")["disruptionsAllowed"] == 0
