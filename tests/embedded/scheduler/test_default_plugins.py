import pytest
from plugin_harness import GI, MI, PluginHarness, node, pod

from pytest_kscen.embedded.scheduler.event_handlers import node_changes
from pytest_kscen.embedded.scheduler.plugins.image_locality import ImageLocality
from pytest_kscen.embedded.scheduler.plugins.node_affinity import NodeAffinity
from pytest_kscen.embedded.scheduler.plugins.node_filters import (
    NodeDeclaredFeatures,
    NodeName,
    NodePorts,
    NodeUnschedulable,
)
from pytest_kscen.embedded.scheduler.plugins.node_resources import (
    NodeResourcesBalancedAllocation,
    NodeResourcesFit,
)
from pytest_kscen.embedded.scheduler.plugins.queueing_and_binding import SchedulingGates
from pytest_kscen.embedded.scheduler.plugins.taint_toleration import TaintToleration
from pytest_kscen.scheduler import SKIP, unresolvable

RESTARTS = {
    "restartPolicyRules": [
        {"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [1]}}
    ]
}
HARD = {"key": "k", "value": "v", "effect": "NoSchedule"}
SOFT = {"key": "k", "value": "v", "effect": "PreferNoSchedule"}


def required(*expressions, fields=()):
    term = {"matchExpressions": list(expressions), "matchFields": list(fields)}
    return {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}
        }
    }


def preferred(*weighed):
    terms = [
        {"weight": weight, "preference": {"matchExpressions": [expression]}}
        for weight, expression in weighed
    ]
    return {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": terms}}


def on(key, operator, *values):
    return {"key": key, "operator": operator, "values": list(values)}


def names(*values):
    return [{"key": "metadata.name", "operator": "In", "values": list(values)}]


class TestNodeUnschedulable:
    def test_unschedulable_node_is_filtered(self):
        context = PluginHarness(NodeUnschedulable, node("n1", unschedulable=True), node("n2"))
        assert context.verdicts(pod()) == ["node(s) were unschedulable", None]

    def test_tolerating_pod_is_accepted(self):
        context = PluginHarness(NodeUnschedulable, node("n1", unschedulable=True))
        tolerant = pod(
            tolerations=[{"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}]
        )
        assert context.verdicts(tolerant) == [None]


class TestNodeName:
    def test_only_named_node_is_accepted(self):
        context = PluginHarness(NodeName, node("n1"), node("n2"))
        assert context.verdicts(pod(nodeName="n2")) == [
            "node(s) didn't match the requested node name",
            None,
        ]
        assert context.verdicts(pod()) == [None, None]


class TestNodeDeclaredFeatures:
    LACKING = "node(s) didn't match Pod's required features"

    def declaring(self, name, *features):
        one = node(name)
        return {**one, "status": {**one["status"], "declaredFeatures": list(features)}}

    @pytest.mark.parametrize(
        ("needy", "feature"),
        [
            (pod(container=RESTARTS), "RestartAllContainersOnContainerExits"),
            (
                pod(initContainers=[{"name": "i", **RESTARTS}]),
                "RestartAllContainersOnContainerExits",
            ),
            (pod(hostNetwork=True, hostUsers=False), "UserNamespacesHostNetworkSupport"),
        ],
    )
    def test_only_nodes_with_declared_features_are_accepted(self, needy, feature):
        context = PluginHarness(
            NodeDeclaredFeatures, node("n1"), self.declaring("n2", "Another", feature)
        )
        assert context.verdicts(needy) == [self.LACKING, None]
        assert context.plugin.filter({}, needy, context.snapshot.nodes[0]) == unresolvable(
            self.LACKING
        ).by("NodeDeclaredFeatures")

    @pytest.mark.parametrize(
        "plain",
        [pod(), pod(hostNetwork=True), pod(hostNetwork=True, hostUsers=True), pod(hostUsers=False)],
    )
    def test_pods_without_requirements_are_skipped(self, plain):
        assert PluginHarness(NodeDeclaredFeatures, node("n1")).verdicts(plain) is SKIP

    def test_feature_change_requeues_pods(self):
        [interest] = PluginHarness(NodeDeclaredFeatures).plugin.events()
        plain, able = node("n1"), self.declaring("n1", "Another")
        assert [interest.covers(event) for event in node_changes(able, plain)] == [True]
        assert [
            interest.hint(pod(), old, new)
            for old, new in ((None, plain), (plain, able), (able, able))
        ] == [True, True, False]


class TestSchedulingGates:
    def test_gated_pod_is_held_back(self):
        gated = pod(schedulingGates=[{"name": "a"}, {"name": "b"}])
        assert (
            PluginHarness(SchedulingGates).plugin.pre_enqueue(gated).message
            == "waiting for scheduling gates: [a b]"
        )
        assert PluginHarness(SchedulingGates).plugin.pre_enqueue(pod()) is None


class TestTaintToleration:
    def test_untolerated_taint_is_filtered(self):
        context = PluginHarness(
            TaintToleration, node("n1", taints=[HARD]), node("n2"), node("n3", taints=[SOFT])
        )
        assert context.verdicts(pod()) == ["node(s) had untolerated taint(s)", None, None]
        assert context.verdicts(pod(tolerations=[{"operator": "Exists"}])) == [None, None, None]

    def test_fewer_prefer_no_schedule_taints_score_higher(self):
        two = [SOFT, {**SOFT, "key": "l"}]
        context = PluginHarness(
            TaintToleration, node("n1"), node("n2", taints=[SOFT]), node("n3", taints=two)
        )
        assert context.scores(pod()) == [100, 50, 0]
        assert context.scores(pod(tolerations=[{"key": "k", "operator": "Exists"}])) == [
            100,
            100,
            0,
        ]

    def test_toleration_of_other_effect_is_ignored(self):
        context = PluginHarness(TaintToleration, node("n1"), node("n2", taints=[SOFT]))
        assert context.scores(
            pod(tolerations=[{"key": "k", "operator": "Exists", "effect": "NoExecute"}])
        ) == [100, 0]

    def test_untainted_nodes_score_maximum(self):
        assert PluginHarness(TaintToleration, node("n1"), node("n2")).scores(pod()) == [100, 100]


class TestNodeAffinity:
    NODES = (
        node("n1", labels={"disk": "fast", "speed": "10"}),
        node("n2", labels={"disk": "slow", "speed": "x"}),
        node("n3"),
    )
    NO = "node(s) didn't match Pod's node affinity/selector"

    def test_pods_without_affinity_are_skipped(self):
        context = PluginHarness(NodeAffinity, *self.NODES)
        assert context.verdicts(pod()) is SKIP
        assert context.scores(pod()) is SKIP

    @pytest.mark.parametrize(
        ("expression", "fits"),
        [
            (on("disk", "In", "fast", "faster"), [True, False, False]),
            (on("disk", "NotIn", "fast"), [False, True, True]),
            (on("disk", "Exists"), [True, True, False]),
            (on("disk", "DoesNotExist"), [False, False, True]),
            (on("speed", "Gt", "5"), [True, False, False]),
            (on("speed", "Lt", "11"), [True, False, False]),
            (on("speed", "Gt", "0_5"), [False, False, False]),
        ],
    )
    def test_expressions(self, expression, fits):
        verdicts = PluginHarness(NodeAffinity, *self.NODES).verdicts(
            pod(affinity=required(expression))
        )
        assert verdicts == [None if fit else self.NO for fit in fits]

    def test_selector_and_affinity_are_combined(self):
        wanting = pod(nodeSelector={"disk": "fast"}, affinity=required(on("speed", "Exists")))
        assert PluginHarness(NodeAffinity, *self.NODES).verdicts(wanting) == [
            None,
            self.NO,
            self.NO,
        ]

    def test_name_terms_limit_candidates(self):
        context = PluginHarness(NodeAffinity, *self.NODES)
        assert context.verdicts(pod(affinity=required(fields=names("n1", "n2")))) == {"n1", "n2"}
        nowhere = context.verdicts(pod(affinity=required(fields=[*names("n1"), *names("n2")])))
        assert nowhere.message == "pod affinity terms conflict"

    def test_preferences_are_normalized_by_maximum(self):
        wanting = pod(
            affinity=preferred((30, on("disk", "Exists")), (20, on("disk", "In", "fast")))
        )
        assert PluginHarness(NodeAffinity, *self.NODES).scores(wanting) == [100, 60, 0]

    def test_added_affinity_applies_to_all_pods(self):
        term = {"matchExpressions": [on("disk", "Exists")]}
        added = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
        context = PluginHarness(NodeAffinity, *self.NODES, args={"addedAffinity": added})
        enforced = "node(s) didn't match scheduler-enforced node affinity"
        assert context.verdicts(pod()) == [None, None, enforced]
        assert context.verdicts(pod(nodeSelector={"disk": "slow"})) == [self.NO, None, enforced]


class TestNodePorts:
    def listening(self, name, **port):
        return pod(name, container={"ports": [{"containerPort": 80, "hostPort": 80, **port}]})

    def test_host_port_is_exclusive(self):
        context = PluginHarness(NodePorts, node("n1"), node("n2")).put(
            "n1", self.listening("other")
        )
        assert context.verdicts(self.listening("p")) == [
            "node(s) didn't have free ports for the requested pod ports",
            None,
        ]
        assert context.verdicts(self.listening("p", protocol="UDP")) == [None, None]
        assert context.verdicts(pod()) is SKIP


class TestNodeResourcesFit:
    def test_all_insufficient_resources_are_named(self):
        context = PluginHarness(
            NodeResourcesFit, node("n1", cpu="1", memory="1Gi", pods="0"), node("n2")
        )
        wanting = pod(requests={"cpu": "2", "memory": "2Gi", "example.com/card": "1"})
        assert context.verdicts(wanting) == [
            "Too many pods, Insufficient cpu, Insufficient memory, Insufficient example.com/card",
            "Insufficient example.com/card",
        ]

    def test_ignored_resources(self):
        for args in (
            {"ignoredResources": ["example.com/card"]},
            {"ignoredResourceGroups": ["example.com"]},
        ):
            context = PluginHarness(NodeResourcesFit, node("n1"), args=args)
            assert context.verdicts(pod(requests={"example.com/card": "1"})) == [None]

    def test_least_allocated(self):
        """(4000-1000)/4000 = 75 and (8-2)/8 = 75; with a pod there (4000-2000)/4000 = 50 and
        (8-3)/8 = 62.
        """
        context = PluginHarness(NodeResourcesFit, node("n1"), node("n2")).put(
            "n2", pod("other", requests={"cpu": "1", "memory": "1Gi"})
        )
        assert context.scores(pod(requests={"cpu": "1", "memory": "2Gi"})) == [75, 56]

    def test_missing_requests_have_score_defaults(self):
        """(4000-100)*100/4000 = 97, (8192-200)*100/8192 = 97."""
        assert PluginHarness(NodeResourcesFit, node("n1")).scores(pod()) == [97]

    def test_most_allocated(self):
        context = PluginHarness(
            NodeResourcesFit,
            node("n1"),
            node("n2"),
            args={"scoringStrategy": {"type": "MostAllocated"}},
        )
        context.put("n2", pod("other", requests={"cpu": "3500m", "memory": "1Gi"}))
        assert context.scores(pod(requests={"cpu": "1", "memory": "2Gi"})) == [25, (100 + 37) // 2]

    def test_weights(self):
        resources = [{"name": "cpu", "weight": 3}, {"name": "memory", "weight": 1}]
        context = PluginHarness(
            NodeResourcesFit,
            node("n1"),
            args={"scoringStrategy": {"type": "LeastAllocated", "resources": resources}},
        )
        assert context.scores(pod(requests={"cpu": "3", "memory": "2Gi"})) == [(3 * 25 + 75) // 4]

    def test_requested_to_capacity_ratio(self):
        shape = [
            {"utilization": 0, "score": 0},
            {"utilization": 50, "score": 10},
            {"utilization": 100, "score": 4},
        ]
        strategy = {
            "type": "RequestedToCapacityRatio",
            "requestedToCapacityRatio": {"shape": shape},
        }
        context = PluginHarness(
            NodeResourcesFit,
            node("n1"),
            node("n2", cpu="2", memory="4Gi"),
            args={"scoringStrategy": strategy},
        )
        assert context.scores(pod(requests={"cpu": "1", "memory": "2Gi"})) == [50, 100]
        assert context.scores(pod(requests={"cpu": "1500m", "memory": "3Gi"})) == [74, 70]

    def test_extended_resource_counts_if_present_and_requested(self):
        resources = [{"name": "example.com/card", "weight": 1}, {"name": "cpu", "weight": 1}]
        args = {"scoringStrategy": {"type": "LeastAllocated", "resources": resources}}
        context = PluginHarness(
            NodeResourcesFit, node("n1", more={"example.com/card": "4"}), node("n2"), args=args
        )
        assert context.scores(pod(requests={"cpu": "1", "example.com/card": "2"})) == [
            (50 + 75) // 2,
            75,
        ]
        assert context.scores(pod(requests={"cpu": "1"})) == [75, 75]


class TestBalancedAllocation:
    def test_balanced_nodes_score_higher(self):
        """Empty: 100. n1 after: |0.25-0.25|/2 = 0, 50+50/2 = 75. n2 before: |0.5-0|/2, 75;
        after: |0.75-0.25|/2, 75.
        """
        context = PluginHarness(NodeResourcesBalancedAllocation, node("n1"), node("n2"))
        context.put("n2", pod("other", requests={"cpu": "2"}))
        assert context.scores(pod(requests={"cpu": "1", "memory": "2Gi"})) == [75, 75]
        assert context.scores(pod(requests={"memory": "4Gi"})) == [
            50 + (50 + 75 - 100) // 2,
            50 + (50 + 100 - 75) // 2,
        ]

    def test_pods_without_requests_are_skipped(self):
        assert PluginHarness(NodeResourcesBalancedAllocation, node("n1")).scores(pod()) is SKIP

    def test_three_resources(self):
        """Fractions 0.5, 0.25, 0: mean 0.25, deviation sqrt(0.125/3) = 0.204, so 79 after and
        100 before.
        """
        args = {"resources": [{"name": name} for name in ("cpu", "memory", "ephemeral-storage")]}
        context = PluginHarness(
            NodeResourcesBalancedAllocation,
            node("n1", more={"ephemeral-storage": "10Gi"}),
            node("n2"),
            args=args,
        )
        assert context.scores(pod(requests={"cpu": "2", "memory": "2Gi"})) == [
            50 + (50 + 79 - 100) // 2,
            50 + (50 + 87 - 100) // 2,
        ]


class TestImageLocality:
    def test_present_large_images_score_higher(self):
        """One of two nodes has 500 MB: 250 MB count, (250-23)/(1000-23) = 23 %."""
        context = PluginHarness(
            ImageLocality, node("n1", images=[("app:latest", 500 * MI)]), node("n2")
        )
        assert context.scores(pod()) == [23, 0]

    def test_image_score_limit_per_container(self):
        context = PluginHarness(
            ImageLocality, node("n1", images=[("app:1", 5 * GI), ("app:2", 5 * GI)])
        )
        containers = [{"name": "a", "image": "app:1"}, {"name": "b", "image": "app:2"}]
        assert context.scores(pod(containers=containers)) == [100]
        assert context.scores(pod(containers=[*containers, {"name": "c", "image": "none"}])) == [
            100
        ]

    def test_removed_image_lowers_score(self):
        stage = PluginHarness(
            ImageLocality, node("n1", images=[("app:latest", 500 * MI)]), node("n2")
        )
        stage.scores(pod())
        stage.snapshot.update_node("n1", node("n1"))
        assert stage.scores(pod()) == [0, 0]
