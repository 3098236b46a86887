import pytest

from pytest_kscen.objects import names
from pytest_kscen.objects.resources import PODS

SUBDOMAIN, KEY = names.dns1123_subdomain("-")[0], names.label_key("-")[0]
ALLOWED = (
    "spec: Forbidden: pod updates may not change fields other than "
    "`spec.containers[*].image`,`spec.initContainers[*].image`,"
    "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)
TOLERATION = {"key": "a", "operator": "Exists"}
STATUS = {"name": "c", "image": "", "imageID": "", "ready": False, "restartCount": 0}


def pod(**spec):
    given = {
        "automountServiceAccountToken": False,
        "serviceAccountName": "default",
        "containers": [{"name": "c", "image": "i"}],
    }
    return {"metadata": {"name": "p"}, "spec": {**given, **spec}}


def container(**more):
    return [{"name": "c", "image": "i", "imagePullPolicy": "Always", "terminationMessagePath": "/dev/termination-log",
             "terminationMessagePolicy": "File", **more}]  # fmt: skip


@pytest.mark.parametrize(
    ("patch", "wrong"),
    [
        ({"containers": container(image="other")}, []),
        (
            {"containers": container(image=" x ")},
            [
                (
                    'spec.containers[0].image: Invalid value: " x ": must not have leading '
                    "or trailing whitespace"
                )
            ],
        ),
        (
            {"containers": [*container(), {"name": "d", "image": "x"}]},
            ["spec.containers: Forbidden: pod updates may not add or remove containers"],
        ),
        ({"activeDeadlineSeconds": 5}, []),
        (
            {"activeDeadlineSeconds": -5},
            [
                (
                    "spec.activeDeadlineSeconds: Invalid value: -5: must be between 1 and "
                    "2147483647, inclusive"
                ),
                (
                    "spec.activeDeadlineSeconds: Invalid value: -5: must be between 0 and "
                    "2147483647, inclusive"
                ),
            ],
        ),
        ({"tolerations": [TOLERATION, {"key": "b", "operator": "Exists"}]}, []),
        (
            {"tolerations": []},
            [
                (
                    "spec.tolerations: Forbidden: existing toleration can not be modified "
                    "except its tolerationSeconds"
                )
            ],
        ),
    ],
)
def test_mutable_fields(judge, patch, wrong):
    judge.made(PODS, pod(tolerations=[TOLERATION]))
    assert judge.change(PODS, "p", {"spec": patch}) == wrong


@pytest.mark.parametrize(
    "patch",
    [
        {"restartPolicy": "Never"},
        {"nodeSelector": {"a": "b"}},
        {"containers": container(command=["x"])},
        {"terminationGracePeriodSeconds": 1},
        {"priority": 5},
        {"hostname": "h"},
    ],
)
def test_immutable_fields(judge, patch):
    judge.made(PODS, pod())
    (wrong,) = judge.change(PODS, "p", {"spec": patch})
    assert wrong.startswith(ALLOWED)
    (field,) = patch
    assert f'"{field}"' in wrong or field == "containers"


@pytest.mark.parametrize(
    ("patch", "wrong"),
    [
        ({"activeDeadlineSeconds": 3}, []),
        (
            {"activeDeadlineSeconds": 6},
            [
                (
                    "spec.activeDeadlineSeconds: Invalid value: 6: must be less than or "
                    "equal to previous value"
                )
            ],
        ),
        (
            {"activeDeadlineSeconds": None},
            [
                (
                    "spec.activeDeadlineSeconds: Invalid value: null: must not update from a "
                    "positive integer to nil value"
                )
            ],
        ),
    ],
)
def test_deadline_can_only_decrease(judge, patch, wrong):
    judge.made(PODS, pod(activeDeadlineSeconds=5))
    assert judge.change(PODS, "p", {"spec": patch}) == wrong


@pytest.mark.parametrize(
    ("patch", "wrong"),
    [
        ({"schedulingGates": None}, []),
        (
            {"schedulingGates": [{"name": "h"}]},
            [
                (
                    "spec.schedulingGates[0].name: Forbidden: only deletion is allowed, but "
                    "found new scheduling gate 'h'"
                )
            ],
        ),
        ({"nodeSelector": {"x": "y", "q": "z"}}, []),
        (
            {"nodeSelector": {"x": "z"}},
            [
                (
                    'spec.nodeSelector: Invalid value: {"x":"z"}: only additions to '
                    "spec.nodeSelector are allowed (no "
                    "mutations or deletions)"
                )
            ],
        ),
    ],
)
def test_gated_pod_allows_scheduling_changes(judge, patch, wrong):
    judge.made(PODS, pod(schedulingGates=[{"name": "g"}], nodeSelector={"x": "y"}))
    assert judge.change(PODS, "p", {"spec": patch}) == wrong


def test_status_requires_subresource(judge):
    judge.made(PODS, pod())
    assert (
        judge.changed(PODS, "p", {"status": {"phase": "Running"}})["status"]["phase"] == "Pending"
    )


@pytest.mark.parametrize(
    ("status", "wrong"),
    [
        ({"phase": "Running", "podIP": "1.2.3.4", "podIPs": [{"ip": "1.2.3.4"}]}, []),
        (
            {"podIPs": [{"ip": "1.2.3.4"}, {"ip": "1.2.3.5"}]},
            [
                (
                    'status.podIPs: Invalid value: [{"IP":"1.2.3.4"},{"IP":"1.2.3.5"}]: '
                    "may specify no more than one IP "
                    "for each IP family"
                )
            ],
        ),
        (
            {"podIP": "x"},
            [
                (
                    'status.podIPs[0]: Invalid value: "x": must be a valid IP address, (e.g. '
                    "10.9.8.7 or 2001:db8::ffff)"
                )
            ],
        ),
        (
            {"hostIP": "1.1.1.1", "hostIPs": [{"ip": "1.1.1.2"}]},
            ['status.hostIPs[0].ip: Invalid value: "1.1.1.2": must be equal to `hostIP`'],
        ),
        (
            {"qosClass": "Guaranteed"},
            ['status.qosClass: Invalid value: "Guaranteed": field is immutable'],
        ),
        (
            {"conditions": [{"type": "a b", "status": "True"}]},
            [f'status.conditions[0].Type: Invalid value: "a b": {KEY}'],
        ),
        (
            {"nominatedNodeName": "A_"},
            [f'status.nominatedNodeName: Invalid value: "A_": {SUBDOMAIN}'],
        ),
        (
            {"resourceClaimStatuses": [{"name": "x"}]},
            [
                (
                    'status.resourceClaimStatuses[0].name: Invalid value: "x": must '
                    "match the name of an entry in "
                    "`spec.resourceClaims`"
                )
            ],
        ),
        (
            {"observedGeneration": -1},
            ["status.observedGeneration: Invalid value: -1: must be a non-negative integer"],
        ),
        (
            {"containerStatuses": [{**STATUS, "state": {"running": {}}}]},
            [
                (
                    "status.containerStatuses[0].state: Forbidden: may not be transitioned "
                    "to non-terminated state"
                )
            ],
        ),
    ],
)
def test_status(judge, status, wrong):
    judge.made(PODS, pod(restartPolicy="Never"))
    judge.changed(
        PODS,
        "p",
        {"status": {"containerStatuses": [{**STATUS, "state": {"terminated": {"exitCode": 1}}}]}},
        "status",
    )
    assert judge.change(PODS, "p", {"status": status}, "status") == wrong


@pytest.mark.parametrize(
    ("given", "filled"),
    [
        ({"podIP": "1.2.3.4"}, {"podIP": "1.2.3.4", "podIPs": [{"ip": "1.2.3.4"}]}),
        ({"podIPs": [{"ip": "1.2.3.4"}]}, {"podIP": "1.2.3.4", "podIPs": [{"ip": "1.2.3.4"}]}),
        (
            {"podIP": "1.2.3.4", "podIPs": [{"ip": "1.2.3.5"}]},
            {"podIP": "1.2.3.4", "podIPs": [{"ip": "1.2.3.4"}]},
        ),
    ],
)
def test_pod_ip_is_first_of_pod_ips(judge, given, filled):
    judge.made(PODS, pod())
    status = judge.changed(PODS, "p", {"status": given}, "status")["status"]
    assert {name: status[name] for name in ("podIP", "podIPs")} == filled


def test_status_write_keeps_other_fields(judge):
    before = judge.made(PODS, pod())
    patch = {
        "metadata": {"labels": {"a": "b"}},
        "spec": {"nodeName": "n"},
        "status": {"phase": "Running"},
    }
    after = judge.changed(PODS, "p", patch, "status")
    assert after["spec"] == before["spec"]
    assert after["metadata"]["labels"] == {"a": "b"}
    assert after["metadata"].get("generation") == before["metadata"].get("generation")


@pytest.mark.parametrize(
    ("containers", "wrong"),
    [
        ([{"name": "e", "image": "x"}], []),
        (
            [],
            [
                (
                    'spec.ephemeralContainers: Forbidden: existing ephemeral containers "e" '
                    "may not be removed\n"
                )
            ],
        ),
        (
            [{"name": "e", "image": "x"}, {"name": "c", "image": "x"}],
            ['spec.ephemeralContainers[1].name: Duplicate value: "c"'],
        ),
        (
            [
                {"name": "e", "image": "x"},
                {
                    "name": "f",
                    "image": "",
                    "ports": [{"containerPort": 1}],
                    "targetContainerName": "z",
                },
            ],
            [
                "spec.ephemeralContainers[1].image: Required value",
                'spec.ephemeralContainers[1].targetContainerName: Not found: "z"',
                (
                    "spec.ephemeralContainers[1].ports: Forbidden: cannot be set for an "
                    "Ephemeral Container"
                ),
            ],
        ),
    ],
)
def test_ephemeral_containers(judge, containers, wrong):
    judge.made(PODS, pod())
    judge.changed(
        PODS,
        "p",
        {"spec": {"ephemeralContainers": [{"name": "e", "image": "x"}]}},
        "ephemeralcontainers",
    )
    assert (
        judge.change(
            PODS, "p", {"spec": {"ephemeralContainers": containers}}, "ephemeralcontainers"
        )
        == wrong
    )


@pytest.mark.parametrize(
    ("resources", "wrong"),
    [
        ({"requests": {"cpu": "2"}}, []),
        ({"requests": {"cpu": "1"}, "limits": {"cpu": "2"}}, []),
        (
            {"requests": {"cpu": "3"}, "limits": {"cpu": "2"}},
            [
                (
                    'spec.containers[0].resources.requests: Invalid value: "3": must be less '
                    "than or equal to cpu limit of 2"
                )
            ],
        ),
        (
            {"requests": {"cpu": "1"}, "limits": {"example.com/x": "2"}},
            ["spec: Forbidden: only cpu and memory resources are mutable"],
        ),
    ],
)
def test_resize(judge, resources, wrong):
    judge.made(
        PODS, pod(containers=[{"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}])
    )
    assert (
        judge.change(PODS, "p", {"spec": {"containers": container(resources=resources)}}, "resize")
        == wrong
    )


def test_resources_change_through_resize_only(judge):
    judge.made(
        PODS, pod(containers=[{"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}])
    )
    patch = {"spec": {"containers": container(image="other", resources={"requests": {"cpu": "2"}})}}
    made = judge.changed(PODS, "p", patch, "resize")["spec"]["containers"][0]
    assert (made["image"], made["resources"]) == ("i", {"requests": {"cpu": "2"}})
    (wrong,) = judge.change(
        PODS, "p", {"spec": {"containers": container(resources={"requests": {"cpu": "3"}})}}
    )
    assert wrong.startswith(ALLOWED)
