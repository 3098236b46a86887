import math

import pytest

from pytest_kscen.embedded.scheduler.framework.status import Code
from pytest_kscen.embedded.scheduler.plugins.pod_topology_spread import PodTopologySpread
from pytest_kscen.objects.resources import NODES, REPLICA_SETS, SERVICES

UNEVEN = "node(s) didn't match pod topology spread constraints"
NOWHERE = f"{UNEVEN} (missing required label)"
WEB = {"app": "web"}


def constraint(key="zone", skew=1, *, soft=False, labels=WEB, **rest):
    action = "ScheduleAnyway" if soft else "DoNotSchedule"
    selector = {} if labels is None else {"labelSelector": {"matchLabels": labels}}
    return {"topologyKey": key, "maxSkew": skew, "whenUnsatisfiable": action, **selector, **rest}


def spread(*constraints):
    return {"labels": WEB, "topologySpreadConstraints": list(constraints)}


def weighed(count, domains, skew=1):
    return count * math.log(domains + 2) + skew - 1


@pytest.fixture
def spreading(rig):
    return rig.make(PodTopologySpread, defaultingType="List")


def webs(rig, *nodes, labels=WEB, **parts):
    for number, node in enumerate(nodes):
        rig.pod(f"{node}-{number}", node, labels=labels, **parts)


class TestFilter:
    def test_pods_without_constraints_are_skipped(self, rig, spreading):
        rig.zones(a=1)
        assert rig.filtered(spreading, rig.pod(labels=WEB)) == {"a1": "skipped"}
        assert rig.filtered(spreading, rig.pod(**spread(constraint(soft=True)))) == {
            "a1": "skipped"
        }

    @pytest.mark.parametrize(("skew", "nodes"), [(1, "c1"), (2, "b1 b2 c1"), (3, "a1 b1 b2 c1")])
    def test_max_skew(self, rig, spreading, skew, nodes):
        """Zones have 2, 1 and 0 pods: with this one 3, 2 or 1, over the least, which is 0."""
        rig.zones(a=1, b=2, c=1)
        webs(rig, "a1", "a1", "b2")
        assert rig.passed(spreading, rig.pod(**spread(constraint(skew=skew)))) == nodes

    def test_non_matching_pod_adds_nothing(self, rig, spreading):
        rig.zones(a=1, b=1)
        webs(rig, "a1")
        pod = rig.pod(labels={"app": "other"}, topologySpreadConstraints=[constraint()])
        assert rig.passed(spreading, pod) == "a1 b1"

    def test_only_live_pods_of_namespace_count(self, rig, spreading):
        rig.zones(a=1, b=1)
        webs(rig, "a1", going=True)
        webs(rig, "a1", namespace="other")
        webs(rig, "b1", labels={"app": "db"})
        assert rig.passed(spreading, rig.pod(**spread(constraint()))) == "a1 b1"
        webs(rig, "a1")
        assert rig.passed(spreading, rig.pod(**spread(constraint()))) == "b1"

    def test_node_without_topology_label(self, rig, spreading):
        rig.zones(a=1)
        rig.node("loose")
        pod = rig.pod(**spread(constraint()))
        assert rig.filtered(spreading, pod) == {"a1": "", "loose": NOWHERE}
        state = {}
        spreading.pre_filter(state, pod, rig.snapshot.nodes)
        assert spreading.filter(state, pod, rig.snapshot.get("loose")).code is Code.UNRESOLVABLE

    def test_two_constraints(self, rig, spreading):
        rig.zones(a=2, b=2)
        webs(rig, "a1", "b1", "b2")
        said = rig.filtered(spreading, rig.pod(**spread(constraint(), constraint("host"))))
        assert said == {"a1": UNEVEN, "a2": "", "b1": UNEVEN, "b2": UNEVEN}

    def test_nodes_lacking_a_topology_are_ignored(self, rig, spreading):
        rig.zones(a=1, b=1)
        rig.node("b2", zone="b", rack="1")
        rig.node("a2", zone="a", rack="2")
        webs(rig, "a1", "a1")
        assert rig.passed(spreading, rig.pod(**spread(constraint(), constraint("rack")))) == "a2 b2"

    @pytest.mark.parametrize(("least", "nodes"), [(2, "a1 b1"), (3, "")])
    def test_min_domains(self, rig, spreading, least, nodes):
        """Both have 1; with fewer domains than there must be, the least is taken for 0."""
        rig.zones(a=1, b=1)
        webs(rig, "a1", "b1")
        assert rig.passed(spreading, rig.pod(**spread(constraint(minDomains=least)))) == nodes

    def test_no_domains(self, rig, spreading):
        rig.zones(a=1)
        pod = rig.pod(nodeSelector={"disk": "none"}, **spread(constraint()))
        assert rig.passed(spreading, pod) == "a1"

    def test_missing_and_empty_selectors(self, rig, spreading):
        rig.zones(a=1, b=1)
        webs(rig, "a1", "a1", "a1")
        assert rig.passed(spreading, rig.pod(**spread(constraint(labels=None)))) == "a1 b1"
        assert rig.passed(spreading, rig.pod(**spread(constraint(labels={})))) == "a1 b1"

    def test_match_label_keys(self, rig, spreading):
        rig.zones(a=1, b=1)
        webs(rig, "a1", labels={**WEB, "version": "1"})
        webs(rig, "b1", labels={**WEB, "version": "2"})
        labels = {**WEB, "version": "2"}
        pod = rig.pod(
            labels=labels,
            topologySpreadConstraints=[constraint(matchLabelKeys=["version", "none"])],
        )
        assert rig.passed(spreading, pod) == "a1"


class TestInclusionPolicies:
    @pytest.fixture(autouse=True)
    def laid_out(self, rig):
        rig.node("a1", zone="a", disk="ssd")
        rig.node("b1", zone="b", disk="ssd")
        rig.node("c1", zone="c")
        rig.node("d1", zone="d", disk="ssd", taints=[{"key": "full", "effect": "NoSchedule"}])
        webs(rig, "a1", "d1")

    @pytest.mark.parametrize(("policy", "nodes"), [("Honor", "a1 b1 c1 d1"), ("Ignore", "c1")])
    def test_affinity(self, rig, spreading, policy, nodes):
        """c counts only if affinity is ignored, and then with its 0; on it, the pod would be the
        first in any case.
        """
        webs(rig, "b1")
        pod = rig.pod(nodeSelector={"disk": "ssd"}, **spread(constraint(nodeAffinityPolicy=policy)))
        assert rig.passed(spreading, pod) == nodes

    @pytest.mark.parametrize(("policy", "nodes"), [("Honor", "a1 b1 c1 d1"), ("Ignore", "d1")])
    def test_taints(self, rig, spreading, policy, nodes):
        """All have one but d, where the pod may not be: if it counts, it must be the next."""
        rig.snapshot.unassign_pod("default/d1-1")
        webs(rig, "b1", "c1")
        assert (
            rig.passed(spreading, rig.pod(**spread(constraint(nodeTaintsPolicy=policy)))) == nodes
        )
        bears = [{"key": "full", "operator": "Exists"}]
        assert (
            rig.passed(
                spreading, rig.pod(tolerations=bears, **spread(constraint(nodeTaintsPolicy=policy)))
            )
            == "d1"
        )


class TestScore:
    def test_pods_without_constraints_are_skipped(self, rig, spreading):
        rig.zones(a=1)
        assert rig.scored(spreading, rig.pod(**spread(constraint()))) == "skipped"

    def test_score_by_zone(self, rig, spreading):
        """2, 1 and 0 pods, times ln 5: 3.22, 1.61 and 0."""
        rig.zones(a=1, b=2, c=1)
        webs(rig, "a1", "a1", "b2")
        scored = rig.scored(spreading, rig.pod(**spread(constraint(soft=True))))
        assert scored == {"a1": (3, 0), "b1": (2, 33), "b2": (2, 33), "c1": (0, 100)}

    def test_score_by_host_and_zone(self, rig):
        """Hosts are as many domains as nodes, ln 5; of zones there are two, ln 4, and half is
        rounded up.
        """
        for zone, name in (("a", "h1"), ("a", "h2"), ("b", "h3")):
            rig.node(name, kubernetes_io__hostname=name, topology_kubernetes_io__zone=zone)
        webs(rig, "h1", "h1", "h3")
        both = spread(
            constraint("kubernetes.io/hostname", 2, soft=True),
            constraint("topology.kubernetes.io/zone", 3, soft=True),
        )
        raw = {
            "h1": weighed(2, 3, 2) + weighed(2, 2, 3),
            "h2": weighed(0, 3, 2) + weighed(2, 2, 3),
            "h3": weighed(1, 3, 2) + weighed(1, 2, 3),
        }
        assert {name: round(score, 3) for name, score in raw.items()} == {
            "h1": 8.991,
            "h2": 5.773,
            "h3": 5.996,
        }
        scored = rig.scored(rig.make(PodTopologySpread), rig.pod(**both))
        assert scored == {"h1": (9, 66), "h2": (6, 100), "h3": (6, 100)}

    def test_without_existing_pods(self, rig, spreading):
        rig.zones(a=1, b=1)
        assert rig.scored(spreading, rig.pod(**spread(constraint(soft=True)))) == {
            "a1": (0, 100),
            "b1": (0, 100),
        }

    def test_nodes_without_label_score_zero(self, rig, spreading):
        rig.zones(a=1, b=1)
        rig.node("loose")
        webs(rig, "a1")
        scored = rig.scored(spreading, rig.pod(**spread(constraint(soft=True))))
        assert scored == {"a1": (1, 0), "b1": (0, 100), "loose": (0, 0)}

    def test_weight_counts_feasible_domains(self, rig, spreading):
        """One domain: ln 3 and three pods there, of nodes as well that will not do."""
        rig.zones(a=2, b=1)
        webs(rig, "a1", "a2", "a2", "b1")
        assert rig.scored(spreading, rig.pod(**spread(constraint(soft=True))), "a1") == {
            "a1": (3, 100)
        }

    def test_pods_on_excluded_nodes_are_ignored(self, rig, spreading):
        rig.node("a1", zone="a", disk="ssd")
        rig.node("a2", zone="a")
        rig.node("b1", zone="b", disk="ssd")
        webs(rig, "a2", "a2", "b1")
        pod = rig.pod(nodeSelector={"disk": "ssd"}, **spread(constraint(soft=True)))
        assert rig.scored(spreading, pod, "a1 b1") == {"a1": (0, 100), "b1": (1, 0)}
        ignoring = rig.pod(
            nodeSelector={"disk": "ssd"},
            **spread(constraint(soft=True, nodeAffinityPolicy="Ignore")),
        )
        assert rig.scored(spreading, ignoring, "a1 b1") == {"a1": (3, 33), "b1": (1, 100)}


class TestDefaultConstraints:
    @pytest.fixture
    def hosts(self, rig):
        for zone, name in (("a", "h1"), ("a", "h2"), ("", "h3")):
            rig.node(
                name,
                kubernetes_io__hostname=name,
                **({"topology_kubernetes_io__zone": zone} if zone else {}),
            )

    def service(self, rig, selector):
        spec = {"selector": selector, "ports": [{"port": 80}]}
        rig.create(
            SERVICES,
            {
                "apiVersion": "v1",
                "kind": "Service",
                "metadata": {"name": "s", "namespace": "default"},
                "spec": spec,
            },
        )

    def replica_set(self, rig, selector):
        template = {
            "metadata": {"labels": WEB},
            "spec": {"containers": [{"name": "c", "image": "app:1"}]},
        }
        spec = {"selector": {"matchLabels": selector}, "template": template}
        metadata = {"name": "rs", "namespace": "default"}
        rig.create(
            REPLICA_SETS,
            {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": metadata, "spec": spec},
        )
        return {
            "ownerReferences": [
                {
                    "apiVersion": "apps/v1",
                    "kind": "ReplicaSet",
                    "name": "rs",
                    "uid": "u",
                    "controller": True,
                }
            ]
        }

    def test_pods_without_owner_or_service(self, rig, hosts):
        assert rig.scored(rig.make(PodTopologySpread), rig.pod(labels=WEB)) == "skipped"

    @pytest.mark.parametrize("kin", ["service", "replica set"])
    def test_system_default_constraints(self, rig, hosts, kin):
        """Hosts: ln 5 and a skew of 3; zones, of which having none is one: ln 4 and a skew of 5."""
        system = rig.make(PodTopologySpread)
        meta = self.replica_set(rig, WEB) if kin == "replica set" else self.service(rig, WEB)
        webs(rig, "h1", "h1", "h3", labels={**WEB, "more": "x"})
        raw = [
            weighed(2, 3, 3) + weighed(2, 2, 5),
            weighed(0, 3, 3) + weighed(2, 2, 5),
            weighed(1, 3, 3),
        ]
        assert [round(score, 3) for score in raw] == [11.991, 8.773, 3.609]
        pod = rig.pod(labels=WEB, meta=meta)
        assert rig.scored(system, pod) == {"h1": (12, 33), "h2": (9, 58), "h3": (4, 100)}
        assert set(rig.filtered(system, pod).values()) == {"skipped"}

    def test_service_and_owner_selectors_are_combined(self, rig, hosts):
        system = rig.make(PodTopologySpread)
        meta = self.replica_set(rig, WEB)
        self.service(rig, {"tier": "1"})
        webs(rig, "h1")
        webs(rig, "h2", "h2", labels={**WEB, "tier": "1"})
        pod = rig.pod(labels={**WEB, "tier": "1"}, meta=meta)
        assert {name: raw for name, (raw, _) in rig.scored(system, pod, "h1 h2").items()} == {
            "h1": 8,
            "h2": 11,
        }

    def test_configured_default_constraints(self, rig, hosts):
        zones = {
            "topologyKey": "topology.kubernetes.io/zone",
            "maxSkew": 1,
            "whenUnsatisfiable": "DoNotSchedule",
        }
        own = rig.make(PodTopologySpread, defaultingType="List", defaultConstraints=[zones])
        self.service(rig, WEB)
        assert rig.filtered(own, rig.pod(labels=WEB)) == {"h1": "", "h2": "", "h3": NOWHERE}
        assert set(rig.filtered(own, rig.pod(labels={"app": "db"})).values()) == {"skipped"}

    def test_empty_default_constraints(self, rig, hosts):
        self.service(rig, WEB)
        assert (
            rig.scored(rig.make(PodTopologySpread, defaultingType="List"), rig.pod(labels=WEB))
            == "skipped"
        )


class TestHypotheticalPods:
    def test_removed_and_added_pods(self, rig, spreading):
        rig.zones(a=1, b=1, c=1)
        webs(rig, "a1", "a1", "b1", "c1")
        pod = rig.pod(**spread(constraint()))
        rig.snapshot.refresh()
        state = {}
        spreading.pre_filter(state, pod, rig.snapshot.nodes)
        a1, b1, other = (
            rig.snapshot.get("a1"),
            rig.snapshot.get("b1"),
            {"PodTopologySpread": state["PodTopologySpread"].clone()},
        )
        assert spreading.filter(state, pod, a1).message == UNEVEN
        spreading.remove_pod(other, pod, rig.snapshot.pod("default/a1-0"), a1)
        assert spreading.filter(other, pod, a1) is None
        spreading.remove_pod(other, pod, rig.snapshot.pod("default/b1-2"), b1)
        assert spreading.filter(other, pod, a1).message == UNEVEN
        spreading.add_pod(other, pod, rig.pod("x", labels=WEB), b1)
        spreading.add_pod(other, pod, rig.pod("y", labels=WEB, namespace="other"), a1)
        assert spreading.filter(other, pod, a1) is None
        assert spreading.filter(state, pod, a1).message == UNEVEN


class TestScheduling:
    def test_deployment_is_spread(self, cluster):
        for number in range(6):
            cluster.node(f"n{number}", cpu=str(2 + number), labels={"zone": "abc"[number % 3]})
        places = [cluster.pod(f"w{number}", **spread(constraint())) for number in range(9)]
        zones = ["abc"[int(place[1:]) % 3] for place in places]
        assert all(sorted(zones[start : start + 3]) == ["a", "b", "c"] for start in (0, 3, 6))

    def test_deleted_pod_makes_room(self, cluster):
        for name, zone in (("n1", "a"), ("n2", "b")):
            cluster.node(name, labels={"zone": zone})
        cluster.pod("w1", labels=WEB, nodeName="n1")
        assert (
            cluster.pod(
                "w2", nodeSelector={"zone": "a"}, **spread(constraint(nodeAffinityPolicy="Ignore"))
            )
            is None
        )
        cluster.delete("w1")
        cluster.advance(20)
        assert cluster.where("w2") == "n1"

    def test_node_joining_zone(self, cluster):
        cluster.node("n1", labels={"zone": "a"})
        cluster.node("n2")
        cluster.pod("w1", labels=WEB, nodeName="n1")
        assert cluster.pod("w2", **spread(constraint(minDomains=2))) is None
        cluster.ask(cluster.api.patch(NODES, "n2", {"metadata": {"labels": {"zone": "b"}}}))
        cluster.advance(20)
        assert cluster.where("w2") == "n2"
