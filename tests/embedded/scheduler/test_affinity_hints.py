"""Changes after which a pod rejected by affinity or topology spread is retried."""

import pytest

from pytest_kscen.embedded.scheduler.plugins.inter_pod_affinity import InterPodAffinity
from pytest_kscen.embedded.scheduler.plugins.pod_topology_spread import PodTopologySpread
from pytest_kscen.scheduler import NODE, POD

DB, WEB = {"app": "db"}, {"app": "web"}
TERM = {"topologyKey": "zone", "labelSelector": {"matchLabels": DB}}
HARD = "requiredDuringSchedulingIgnoredDuringExecution"
NEAR, FAR = (
    {"affinity": {"podAffinity": {HARD: [TERM]}}},
    {"affinity": {"podAntiAffinity": {HARD: [TERM]}}},
)
TAINTS = [{"key": "k", "effect": "NoSchedule"}]


def hint(plugin, resource):
    return next(interest.hint for interest in plugin.events() if interest.resource == resource)


def other(labels=None, *, on="n1", namespace="default", uid="other", nominated="", **spec):
    metadata = {"name": "other", "namespace": namespace, "uid": uid, "labels": labels or {}}
    spec = {"containers": [], **({"nodeName": on} if on else {}), **spec}
    return {
        "metadata": metadata,
        "spec": spec,
        "status": {"nominatedNodeName": nominated} if nominated else {},
    }


def node(taints=(), **labels):
    return {"metadata": {"name": "n", "labels": labels}, "spec": {"taints": list(taints)}}


class TestAffinity:
    @pytest.mark.parametrize(
        ("spec", "old", "new", "helps"),
        [
            (NEAR, None, other(DB), True),
            (NEAR, None, other(WEB), False),
            (NEAR, None, other(DB, on=""), False),
            (NEAR, None, other(DB, on="", nominated="n1"), True),
            (NEAR, None, other(DB, namespace="x"), False),
            (NEAR, other(WEB), other(DB), True),
            (NEAR, other(DB), other({**DB, "more": "x"}), False),
            (NEAR, other(DB), None, False),
            (FAR, None, other(DB), False),
            (FAR, other(DB), other(WEB), True),
            (FAR, other(DB), None, True),
            (FAR, other(WEB), None, False),
            ({}, other(**FAR), None, True),
            ({}, other(**NEAR), None, False),
            ({}, other(WEB, on="", uid="default/p"), other(DB, on="", uid="default/p"), True),
        ],
    )
    def test_pods(self, rig, spec, old, new, helps):
        pod = rig.pod(labels=DB, **spec)
        assert hint(rig.make(InterPodAffinity), POD)(pod, old, new) is helps

    @pytest.mark.parametrize(
        ("spec", "old", "new", "helps"),
        [
            (NEAR, None, node(zone="a"), True),
            (NEAR, None, node(), False),
            (NEAR, node(), node(zone="a"), True),
            (NEAR, node(zone="a"), node(zone="b"), True),
            (NEAR, node(zone="a"), node(zone="a", more="x"), False),
            (NEAR, node(zone="a"), node(), False),
            (FAR, None, node(), True),
            (FAR, node(zone="a"), node(), True),
            (FAR, node(zone="a"), node(zone="b"), True),
            (FAR, node(), node(zone="a"), False),
        ],
    )
    def test_nodes(self, rig, spec, old, new, helps):
        assert hint(rig.make(InterPodAffinity), NODE)(rig.pod(labels=DB, **spec), old, new) is helps


class TestSpreading:
    @pytest.fixture
    def hints(self, rig):
        plugin = rig.make(PodTopologySpread)
        return {resource: hint(plugin, resource) for resource in (POD, NODE)}

    def pod(self, rig, **more):
        skew = {
            "maxSkew": 1,
            "topologyKey": "zone",
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": DB},
        }
        return rig.pod(labels=DB, topologySpreadConstraints=[{**skew, **more}])

    @pytest.mark.parametrize(
        ("old", "new", "helps"),
        [
            (None, other(DB), True),
            (None, other(WEB), False),
            (None, other(DB, on=""), False),
            (None, other(DB, namespace="x"), False),
            (other(DB), None, True),
            (other(WEB), None, False),
            (other(DB), other(WEB), True),
            (other(WEB), other({**WEB, "more": "x"}), False),
        ],
    )
    def test_pods(self, rig, hints, old, new, helps):
        assert hints[POD](self.pod(rig), old, new) is helps

    @pytest.mark.parametrize(("policy", "helps"), [("Honor", True), ("Ignore", False)])
    def test_a_toleration(self, rig, hints, policy, helps):
        before = other(DB, on="", uid="default/p")
        after = other(DB, on="", uid="default/p", tolerations=[{"operator": "Exists"}])
        assert hints[POD](self.pod(rig, nodeTaintsPolicy=policy), before, after) is helps

    @pytest.mark.parametrize(
        ("old", "new", "helps"),
        [
            (None, node(zone="a"), True),
            (None, node(), False),
            (node(zone="a"), None, True),
            (node(), None, False),
            (node(), node(zone="a"), True),
            (node(zone="a"), node(), True),
            (node(zone="a"), node(zone="b"), True),
            (node(zone="a"), node(zone="a", more="x"), False),
            (node(zone="a"), node(TAINTS, zone="a"), True),
            (node(), node(TAINTS), False),
        ],
    )
    def test_nodes(self, rig, hints, old, new, helps):
        assert hints[NODE](self.pod(rig), old, new) is helps
