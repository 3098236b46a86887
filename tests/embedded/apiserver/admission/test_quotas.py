from __future__ import annotations

import contextlib

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pytest_kscen.clock import VirtualRunner
from pytest_kscen.objects import quota as usage
from pytest_kscen.objects.errors import ApiError, Forbidden
from pytest_kscen.objects.resources import (
    CONFIG_MAPS,
    DEPLOYMENTS,
    PERSISTENT_VOLUME_CLAIMS,
    PODS,
    RESOURCE_QUOTAS,
    SERVICES,
)


def quota(site, name="q", *, scopes=None, selector=None, **hard):
    hard = {each.replace("__", "/").replace("_", "."): amount for each, amount in hard.items()}
    extra = {
        **({"scopes": scopes} if scopes else {}),
        **({"scopeSelector": selector} if selector else {}),
    }
    site.create(RESOURCE_QUOTAS, name, spec={"hard": hard, **extra})


def pod(site, name, *, requests=None, limits=None, dry_run=False, **spec):
    resources = {"requests": requests or {}, "limits": limits or {}}
    spec = {"containers": [{"name": "c", "image": "i", "resources": resources}], **spec}
    return site.create(PODS, name, spec=spec, dry_run=dry_run)


def refused(action, *arguments, **more):
    with pytest.raises(Forbidden) as refusal:
        action(*arguments, **more)
    return refusal.value.message.partition(" is forbidden: ")[2]


def used(site, name="q"):
    return site.get(RESOURCE_QUOTAS, name).get("status", {}).get("used")


def test_quota_is_enforced_and_usage_reported(site):
    quota(site, pods="2", requests_cpu="1", limits_memory="1Gi")
    pod(site, "a", requests={"cpu": "600m"}, limits={"memory": "500Mi"})
    assert used(site) == {"pods": "1", "requests.cpu": "600m", "limits.memory": "500Mi"}
    assert refused(pod, site, "b", requests={"cpu": "600m"}, limits={"memory": "700Mi"}) == (
        "exceeded quota: q, requested: limits.memory=700Mi,requests.cpu=600m, used: "
        "limits.memory=500Mi,requests.cpu=600m, "
        "limited: limits.memory=1Gi,requests.cpu=1"
    )
    pod(site, "b", requests={"cpu": "400m"}, limits={"memory": "100Mi"})
    assert used(site) == {"pods": "2", "requests.cpu": "1", "limits.memory": "600Mi"}
    assert refused(pod, site, "c", requests={"cpu": "1m"}, limits={"memory": "1"}).startswith(
        "exceeded quota: q, requested: pods=1,requests.cpu=1m, used: "
        "pods=2,requests.cpu=1, limited: pods=2,requests.cpu=1"
    )


def test_quota_requires_resource_requests(site):
    quota(site, requests_cpu="1", limits_memory="1Gi")
    assert (
        refused(pod, site, "a")
        == "failed quota: q: must specify limits.memory for: c; requests.cpu for: c"
    )


def test_deleted_or_finished_pods_are_not_counted(site):
    quota(site, pods="1")
    pod(site, "a", terminationGracePeriodSeconds=0)
    assert (
        refused(pod, site, "b")
        == "exceeded quota: q, requested: pods=1, used: pods=1, limited: pods=1"
    )
    site.delete(PODS, "a")
    pod(site, "b")
    site.patch(PODS, "b", {"status": {"phase": "Succeeded"}}, subresource="status")
    pod(site, "c")


def test_dry_run_is_checked_but_not_counted(site):
    quota(site, pods="1")
    pod(site, "a", dry_run=True)
    assert used(site) is None
    pod(site, "a")
    assert refused(pod, site, "b", dry_run=True).startswith("exceeded quota: q")


def test_objects_of_any_kind_are_counted(site):
    quota(site, configmaps="1", count__deployments_apps="0")
    site.create(CONFIG_MAPS, "a")
    why = "exceeded quota: q, requested: configmaps=1, used: configmaps=1, limited: configmaps=1"
    assert refused(site.create, CONFIG_MAPS, "b") == why
    template = {
        "metadata": {"labels": {"a": "b"}},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    }
    why = (
        "exceeded quota: q, requested: count/deployments.apps=1, used: "
        "count/deployments.apps=0, limited: count/deployments.apps=0"
    )
    spec = {"selector": {"matchLabels": {"a": "b"}}, "template": template}
    assert refused(site.create, DEPLOYMENTS, "d", spec=spec) == why


def test_claims_are_counted_by_size_and_class(site):
    quota(
        site,
        requests_storage="3Gi",
        persistentvolumeclaims="5",
        **{"gold.storageclass.storage.k8s.io__requests.storage": "1Gi"},
    )

    def claim(name, size, **spec):
        spec = {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": size}},
            **spec,
        }
        return site.create(PERSISTENT_VOLUME_CLAIMS, name, spec=spec)

    claim("a", "2Gi")
    assert refused(claim, "b", "2Gi") == (
        "exceeded quota: q, requested: requests.storage=2Gi, used: requests.storage=2Gi, "
        "limited: requests.storage=3Gi"
    )
    gold = "gold.storageclass.storage.k8s.io/requests.storage"
    claim("c", "1Gi", storageClassName="gold")
    assert used(site)[gold] == "1Gi"
    assert gold in refused(claim, "d", "1", storageClassName="gold")


def test_services_are_counted_by_type_and_ports(site):
    quota(site, services_nodeports="1", services_loadbalancers="0")
    ports = [{"name": name, "port": port} for name, port in (("a", 80), ("b", 81))]
    why = (
        "exceeded quota: q, requested: services.nodeports=2, used: services.nodeports=0, "
        "limited: services.nodeports=1"
    )
    assert refused(site.create, SERVICES, "s", spec={"type": "NodePort", "ports": ports}) == why
    site.create(SERVICES, "s", spec={"ports": ports[:1]})
    assert refused(site.patch, SERVICES, "s", {"spec": {"type": "LoadBalancer"}}).startswith(
        "exceeded quota: q, requested: services.loadbalancers=1, used: services.loadbalancers=0"
    )


def test_quota_scopes_select_pods(site):
    quota(site, "best", scopes=["BestEffort"], pods="0")
    critical = {"scopeName": "PriorityClass", "operator": "In", "values": ["system-node-critical"]}
    quota(site, "critical", selector={"matchExpressions": [critical]}, pods="1")
    quota(site, "short", scopes=["Terminating"], pods="0")
    assert refused(pod, site, "a").startswith("exceeded quota: best")
    pod(site, "a", requests={"cpu": "1"})
    pod(site, "b", requests={"cpu": "1"}, priorityClassName="system-node-critical")
    assert refused(
        pod, site, "c", requests={"cpu": "1"}, priorityClassName="system-node-critical"
    ).startswith("exceeded quota: critical")
    assert refused(pod, site, "d", requests={"cpu": "1"}, activeDeadlineSeconds=5).startswith(
        "exceeded quota: short"
    )
    assert refused(site.patch, PODS, "a", {"spec": {"activeDeadlineSeconds": 5}}).startswith(
        "exceeded quota: short"
    )
    assert [used(site, name) for name in ("best", "critical", "short")] == [
        None,
        {"pods": "1"},
        None,
    ]


def test_refusal_keeps_quota_usage(site):
    quota(site, "a", pods="5")
    quota(site, "b", pods="0")
    assert refused(pod, site, "p").startswith("exceeded quota: b")
    assert used(site, "a") is None


def test_update_is_charged_for_difference(site, monkeypatch):
    quota(site, pods="100")
    for number in range(20):
        pod(site, f"p{number}")
    weighed = []
    charge = usage.METERS["", "pods"].charge
    meter = usage.METERS["", "pods"]._replace(
        charge=lambda obj, now: weighed.append(obj) or charge(obj, now)
    )
    monkeypatch.setitem(usage.METERS, ("", "pods"), meter)
    site.patch(RESOURCE_QUOTAS, "q", {"spec": {"hard": {"pods": "200"}}})
    pod(site, "first")
    weighed.clear()
    pod(site, "next")
    assert len(weighed) == 2


ALTER = ["create", "end", "delete", "force", "requota", "compact", "wait"]
STEPS = st.lists(st.tuples(st.sampled_from(ALTER), st.integers(0, 3)), max_size=15)


def alter(site, step, number):
    name = f"p{number}"
    match step:
        case "create":
            pod(site, name, requests={"cpu": "700m"})
        case "end":
            site.patch(PODS, name, {"status": {"phase": "Succeeded"}}, subresource="status")
        case "requota":
            site.patch(RESOURCE_QUOTAS, "q", {"spec": {"hard": {"pods": str(100 + number)}}})
        case "compact":
            site.server.core.store.compact()
        case "wait":
            site.runner.advance(10)
        case _:
            site.delete(PODS, name, grace_period=0 if step == "force" else 15)


@settings(
    max_examples=40,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(STEPS)
def test_incremental_usage_equals_recount(site, steps):
    runner = VirtualRunner()
    fresh = type(site)(runner)
    quota(fresh, pods="100", count__pods="100", requests_cpu="100")
    for turn, (step, number) in enumerate(steps):
        with contextlib.suppress(ApiError):
            alter(fresh, step, number)
        pod(fresh, f"probe{turn}", requests={"cpu": "1m"})
        counted = fresh.server.core.store.all("", "pods", "n")
        hard = fresh.get(RESOURCE_QUOTAS, "q")
        assert used(fresh) == usage.used(
            hard, usage.meter_of("", "pods"), counted, runner.clock.now()
        )
    runner.close()
