from __future__ import annotations

import pytest

from pytest_kscen.embedded.apiserver.admission.plugins import SYSTEM_CLASSES
from pytest_kscen.objects.errors import Forbidden, NotFound
from pytest_kscen.objects.resources import (
    CONFIG_MAPS,
    LIMIT_RANGES,
    NAMESPACES,
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    PODS,
    PRIORITY_CLASSES,
    SERVICE_ACCOUNTS,
    STORAGE_CLASSES,
)

DEFAULT = {"storageclass.kubernetes.io/is-default-class": "true"}


def pod(site, name="p", *, metadata=None, dry_run=False, **spec):
    spec = {"containers": [{"name": "c", "image": "i"}], **spec}
    return site.create(PODS, name, metadata=metadata, dry_run=dry_run, spec=spec)


def container(requests=None, limits=None):
    return [
        {
            "name": "c",
            "image": "i",
            "resources": {"requests": requests or {}, "limits": limits or {}},
        }
    ]


def claim(site, name="c", size="1Gi", **spec):
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}, **spec}
    return site.create(PERSISTENT_VOLUME_CLAIMS, name, spec=spec)


def refused(action, *arguments, **more):
    with pytest.raises(Forbidden) as refusal:
        action(*arguments, **more)
    return refusal.value.message


# --- namespaces ---


def test_creation_in_missing_namespace_is_refused(site):
    with pytest.raises(NotFound) as refusal:
        site.create(CONFIG_MAPS, "c", namespace="nowhere")
    assert refusal.value.message == 'namespaces "nowhere" not found'
    assert refusal.value.status["details"] == {"name": "nowhere", "kind": "namespaces"}


def test_creation_in_terminating_namespace_is_refused(site):
    site.create(CONFIG_MAPS, "old", metadata={"finalizers": ["x.y/z"]})
    site.delete(NAMESPACES, "n")
    with pytest.raises(Forbidden) as refusal:
        site.create(CONFIG_MAPS, "new")
    why = "unable to create new content in namespace n because it is being terminated"
    assert refusal.value.message == f'configmaps "new" is forbidden: {why}'
    assert refusal.value.status["details"]["causes"] == [
        {
            "reason": "NamespaceTerminating",
            "message": "namespace n is being terminated",
            "field": "metadata.namespace",
        }
    ]
    assert site.patch(CONFIG_MAPS, "old", {"data": {"a": "1"}})["data"] == {"a": "1"}


@pytest.mark.parametrize("name", ["default", "kube-system", "kube-public"])
def test_system_namespaces_cannot_be_deleted(site, name):
    site.create(NAMESPACES, name)
    message = refused(site.delete, NAMESPACES, name)
    assert message == f'namespaces "{name}" is forbidden: this namespace may not be deleted'


# --- pods and nodes ---


def test_pod_uses_default_account_and_token(site):
    spec = pod(site, initContainers=[{"name": "i", "image": "i"}])["spec"]
    assert (spec["serviceAccountName"], spec["serviceAccount"]) == ("default", "default")
    (volume,) = spec["volumes"]
    assert volume["name"].startswith("kube-api-access-")
    assert [list(source) for source in volume["projected"]["sources"]] == [
        ["serviceAccountToken"],
        ["configMap"],
        ["downwardAPI"],
    ]
    mount = {
        "name": volume["name"],
        "readOnly": True,
        "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount",
    }
    assert [each["volumeMounts"] for each in [*spec["containers"], *spec["initContainers"]]] == [
        [mount],
        [mount],
    ]


def test_pod_without_automount_has_no_token(site):
    assert "volumes" not in pod(site, automountServiceAccountToken=False)["spec"]
    site.patch(
        SERVICE_ACCOUNTS,
        "default",
        {"automountServiceAccountToken": False, "imagePullSecrets": [{"name": "s"}]},
    )
    spec = pod(site, "q")["spec"]
    assert "volumes" not in spec
    assert spec["imagePullSecrets"] == [{"name": "s"}]


def test_missing_service_account_is_refused_except_default(site):
    site.delete(SERVICE_ACCOUNTS, "default")
    assert pod(site)["spec"]["serviceAccountName"] == "default"
    message = refused(pod, site, "q", serviceAccountName="other")
    assert message == (
        'pods "q" is forbidden: error looking up service account n/other: serviceaccount '
        '"other" not found'
    )


def test_service_account_restricts_secrets(site):
    enforced = {"kubernetes.io/enforce-mountable-secrets": "true"}
    site.patch(SERVICE_ACCOUNTS, "default", {"metadata": {"annotations": enforced}})
    refusal = "is not allowed because service account default does not reference that"
    message = refused(pod, site, volumes=[{"name": "v", "secret": {"secretName": "s"}}])
    assert message == f'pods "p" is forbidden: volume with secret.secretName="s" {refusal} secret'
    reference = {"name": "A", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}
    message = refused(pod, site, containers=[{"name": "c", "image": "i", "env": [reference]}])
    assert message == (
        'pods "p" is forbidden: container c with envVar A referencing '
        f'secret.secretName="s" {refusal} secret'
    )
    message = refused(pod, site, imagePullSecrets=[{"name": "s"}])
    assert (
        message == f'pods "p" is forbidden: imagePullSecrets[0].name="s" {refusal} imagePullSecret'
    )


def test_pod_tolerates_failing_nodes_for_five_minutes(site):
    keys = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
    usual = [
        {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
        for key in keys
    ]
    assert pod(site)["spec"]["tolerations"] == usual
    own = {"key": keys[0], "operator": "Exists", "effect": "NoExecute"}
    assert pod(site, "q", tolerations=[own])["spec"]["tolerations"] == [own, usual[1]]
    assert pod(site, "r", tolerations=[{"operator": "Exists"}])["spec"]["tolerations"] == [
        {"operator": "Exists"}
    ]


def test_new_node_is_tainted_not_ready(site):
    taint = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}
    assert site.create(NODES, "a")["spec"]["taints"] == [taint]
    other = {"key": "x", "effect": "NoSchedule"}
    assert site.create(NODES, "b", spec={"taints": [other]})["spec"]["taints"] == [other, taint]


# --- priority ---


def priority(made):
    return [
        made["spec"].get(name) for name in ("priorityClassName", "priority", "preemptionPolicy")
    ]


def test_priority_class_sets_pod_priority(site):
    assert priority(pod(site)) == [None, 0, "PreemptLowerPriority"]
    assert priority(pod(site, "q", priorityClassName="system-node-critical")) == [
        "system-node-critical", 2000001000, "PreemptLowerPriority",
    ]  # fmt: skip
    site.create(PRIORITY_CLASSES, "ours", value=7, globalDefault=True, preemptionPolicy="Never")
    assert priority(pod(site, "r")) == ["ours", 7, "Never"]


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ({"priorityClassName": "none"}, "no PriorityClass with name none was found"),
        (
            {"priority": 5},
            (
                "the integer value of priority (5) must not be provided in pod spec; "
                "priority admission controller computed 0 "
                "from the given PriorityClass name"
            ),
        ),
        (
            {"preemptionPolicy": "Never"},
            (
                "the string value of PreemptionPolicy (Never) must not be provided in "
                "pod spec; priority admission controller "
                "computed PreemptLowerPriority from the given PriorityClass name"
            ),
        ),
    ],
)
def test_invalid_priority_is_refused(site, spec, why):
    assert refused(pod, site, **spec) == f'pods "p" is forbidden: {why}'


def test_one_default_class_and_fixed_system_classes(site):
    site.create(PRIORITY_CLASSES, "one", value=1, globalDefault=True)
    message = refused(site.create, PRIORITY_CLASSES, "two", value=2, globalDefault=True)
    why = "PriorityClass one is already marked as default. Only one default can exist"
    assert message == f'priorityclasses.scheduling.k8s.io "two" is forbidden: {why}'
    site.patch(PRIORITY_CLASSES, "one", {"description": "still"})
    for each in SYSTEM_CLASSES:
        site.ask("create", PRIORITY_CLASSES, body=each)
    message = refused(site.delete, PRIORITY_CLASSES, "system-node-critical")
    assert message.endswith("this is a system priority class and cannot be deleted")


# --- limits ---


@pytest.fixture
def limited(site):
    limits = [
        {
            "type": "Container",
            "default": {"cpu": "500m", "memory": "1Gi"},
            "defaultRequest": {"cpu": "100m", "memory": "1Gi"},
            "min": {"cpu": "50m"},
            "max": {"cpu": "1", "memory": "2Gi"},
            "maxLimitRequestRatio": {"cpu": "10"},
        },
        {"type": "Pod", "max": {"cpu": "2"}},
        {"type": "PersistentVolumeClaim", "min": {"storage": "1Gi"}, "max": {"storage": "10Gi"}},
    ]
    site.create(LIMIT_RANGES, "l", spec={"limits": limits})
    return site


def test_limit_range_sets_container_defaults(limited):
    made = pod(limited, containers=container(limits={"cpu": "300m"}))
    resources = made["spec"]["containers"][0]["resources"]
    assert resources == {
        "limits": {"cpu": "300m", "memory": "1Gi"},
        "requests": {"cpu": "300m", "memory": "1Gi"},
    }
    assert made["metadata"]["annotations"] == {
        "kubernetes.io/limit-ranger": (
            "LimitRanger plugin set: memory request for container c; memory limit for container c"
        )
    }


@pytest.mark.parametrize(
    ("requests", "limits", "why"),
    [
        (
            {"cpu": "10m"},
            {},
            (
                "[minimum cpu usage per Container is 50m, but request is 10m, "
                "cpu max limit to request ratio per Container is 10, but provided ratio "
                "is 50.000000]"
            ),
        ),
        (
            {"cpu": "100m"},
            {"cpu": "2"},
            (
                "[maximum cpu usage per Container is 1, but limit is 2, "
                "cpu max limit to request ratio per Container is 10, but provided ratio "
                "is 20.000000]"
            ),
        ),
        (
            {"memory": "3Gi"},
            {"memory": "3Gi"},
            "maximum memory usage per Container is 2Gi, but limit is 3Gi",
        ),
        (
            {"cpu": "0"},
            {"cpu": "500m"},
            (
                "[minimum cpu usage per Container is 50m, but request is 0, "
                "cpu max limit to request ratio per Container is 10, but no request is "
                "specified or request is 0]"
            ),
        ),
    ],
)
def test_container_outside_limits_is_refused(limited, requests, limits, why):
    assert (
        refused(pod, limited, containers=container(requests, limits))
        == f'pods "p" is forbidden: {why}'
    )


def test_pod_totals_are_limited(limited):
    containers = [{**container(limits={"cpu": "1"})[0], "name": name} for name in "abc"]
    message = refused(pod, limited, containers=containers)
    assert message == 'pods "p" is forbidden: maximum cpu usage per Pod is 2, but limit is 3'


def test_claim_sizes_are_limited(limited):
    start = 'persistentvolumeclaims "c" is forbidden: '
    why = "minimum storage usage per PersistentVolumeClaim is 1Gi, but request is 500Mi"
    assert refused(claim, limited, size="500Mi") == start + why
    why = "maximum storage usage per PersistentVolumeClaim is 10Gi, but request is 20Gi"
    assert refused(claim, limited, size="20Gi") == start + why
    claim(limited, size="5Gi")


# --- storage ---


def test_claim_receives_newest_default_class(site):
    assert "storageClassName" not in claim(site, "before")["spec"]
    site.create(STORAGE_CLASSES, "old", metadata={"annotations": DEFAULT}, provisioner="p")
    site.runner.advance(1)
    site.create(STORAGE_CLASSES, "b", metadata={"annotations": DEFAULT}, provisioner="p")
    site.create(STORAGE_CLASSES, "a", metadata={"annotations": DEFAULT}, provisioner="p")
    site.create(STORAGE_CLASSES, "plain", provisioner="p")
    assert claim(site, "after")["spec"]["storageClassName"] == "a"
    assert claim(site, "none", storageClassName="")["spec"]["storageClassName"] == ""
    assert claim(site, "own", storageClassName="plain")["spec"]["storageClassName"] == "plain"


def test_claims_and_volumes_receive_protection_finalizer(site):
    assert claim(site)["metadata"]["finalizers"] == ["kubernetes.io/pvc-protection"]
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "capacity": {"storage": "1Gi"},
        "hostPath": {"path": "/x"},
    }
    volume = site.create(PERSISTENT_VOLUMES, "v", metadata={"finalizers": ["x.y/z"]}, spec=spec)
    assert volume["metadata"]["finalizers"] == ["x.y/z", "kubernetes.io/pv-protection"]


def test_claim_growth_requires_class_permission(site):
    site.create(STORAGE_CLASSES, "s", provisioner="p")
    claim(site, storageClassName="s")
    more = {"spec": {"resources": {"requests": {"storage": "2Gi"}}}}
    site.patch(PERSISTENT_VOLUME_CLAIMS, "c", {"status": {"phase": "Bound"}}, subresource="status")
    why = (
        "only dynamically provisioned pvc can be resized and the storageclass that "
        "provisions the pvc must support resize"
    )
    message = refused(site.patch, PERSISTENT_VOLUME_CLAIMS, "c", more)
    assert message == f'persistentvolumeclaims "c" is forbidden: {why}'
    site.patch(STORAGE_CLASSES, "s", {"allowVolumeExpansion": True})
    assert site.patch(PERSISTENT_VOLUME_CLAIMS, "c", more)["spec"] == {
        **site.get(PERSISTENT_VOLUME_CLAIMS, "c")["spec"],
        **more["spec"],
    }
