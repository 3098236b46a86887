import pytest

from pytest_kscen.embedded.scheduler.framework.status import Code
from pytest_kscen.embedded.scheduler.plugins.inter_pod_affinity import InterPodAffinity
from pytest_kscen.objects.resources import NODES

HARD, SOFT = (
    "requiredDuringSchedulingIgnoredDuringExecution",
    "preferredDuringSchedulingIgnoredDuringExecution",
)
NOT_NEAR = "node(s) didn't match pod affinity rules"
TOO_NEAR = "node(s) didn't match pod anti-affinity rules"
UNWELCOME = "node(s) didn't satisfy existing pods anti-affinity rules"


def term(key="zone", labels=None, **rest):
    return {"topologyKey": key, "labelSelector": {"matchLabels": labels or {"app": "db"}}, **rest}


def near(*terms):
    return {"affinity": {"podAffinity": {HARD: list(terms)}}}


def far(*terms):
    return {"affinity": {"podAntiAffinity": {HARD: list(terms)}}}


def preferred(*weighted):
    return {
        "affinity": {
            "podAffinity": {
                SOFT: [{"weight": weight, "podAffinityTerm": one} for weight, one in weighted]
            }
        }
    }


def shuns(*weighted):
    return {
        "affinity": {
            "podAntiAffinity": {
                SOFT: [{"weight": weight, "podAffinityTerm": one} for weight, one in weighted]
            }
        }
    }


@pytest.fixture
def affinity(rig):
    rig.zones(a=2, b=2)
    rig.node("loose")
    return rig.make(InterPodAffinity)


class TestRequiredAffinity:
    def test_pods_without_affinity_are_skipped(self, rig, affinity):
        rig.pod("db", "a1", labels={"app": "db"})
        assert set(rig.filtered(affinity, rig.pod()).values()) == {"skipped"}

    def test_affinity_to_pod(self, rig, affinity):
        rig.pod("db", "a1", labels={"app": "db"})
        said = rig.filtered(affinity, rig.pod(**near(term())))
        assert said == {"a1": "", "a2": "", "b1": NOT_NEAR, "b2": NOT_NEAR, "loose": NOT_NEAR}

    def test_first_matching_pod_needs_topology_only(self, rig, affinity):
        assert rig.passed(affinity, rig.pod(labels={"app": "db"}, **near(term()))) == "a1 a2 b1 b2"
        assert rig.passed(affinity, rig.pod(labels={"app": "web"}, **near(term()))) == ""

    def test_first_matching_pod_must_match_namespace(self, rig, affinity):
        assert (
            rig.passed(affinity, rig.pod(labels={"app": "db"}, **near(term(namespaces=["other"]))))
            == ""
        )

    def test_all_terms_must_match_one_pod(self, rig, affinity):
        rig.pod("db", "a1", labels={"app": "db"})
        rig.pod("big", "a1", labels={"size": "big"})
        both = near(term(), term(labels={"size": "big"}))
        assert rig.passed(affinity, rig.pod(**both)) == ""
        rig.pod("big-db", "b1", labels={"app": "db", "size": "big"})
        assert rig.passed(affinity, rig.pod(**both)) == "b1 b2"

    def test_two_topologies(self, rig, affinity):
        rig.pod("db", "a1", labels={"app": "db"})
        assert rig.passed(affinity, rig.pod(**near(term("host"), term("zone")))) == "a1"

    def test_terminating_pod_counts(self, rig, affinity):
        rig.pod("db", "a1", labels={"app": "db"}, going=True)
        assert rig.passed(affinity, rig.pod(**near(term()))) == "a1 a2"

    def test_pod_of_missing_node_is_ignored(self, rig, affinity):
        rig.pod("db", "gone", labels={"app": "db"})
        assert rig.passed(affinity, rig.pod(**near(term()))) == ""

    def test_missing_selector_matches_none_and_empty_matches_all(self, rig, affinity):
        rig.pod("db", "a1", labels={"app": "db"})
        assert rig.passed(affinity, rig.pod(**near({"topologyKey": "zone"}))) == ""
        assert (
            rig.passed(affinity, rig.pod(**near({"topologyKey": "zone", "labelSelector": {}})))
            == "a1 a2"
        )


class TestRequiredAntiAffinity:
    def test_own_anti_affinity(self, rig, affinity):
        rig.pod("db", "a1", labels={"app": "db"})
        said = rig.filtered(affinity, rig.pod(**far(term())))
        assert said == {"a1": TOO_NEAR, "a2": TOO_NEAR, "b1": "", "b2": "", "loose": ""}

    def test_anti_affinity_of_existing_pods(self, rig, affinity):
        rig.pod("hermit", "b1", **far(term()))
        said = rig.filtered(affinity, rig.pod(labels={"app": "db"}))
        assert said == {"a1": "", "a2": "", "b1": UNWELCOME, "b2": UNWELCOME, "loose": ""}
        assert set(rig.filtered(affinity, rig.pod(labels={"app": "web"})).values()) == {"skipped"}

    def test_terms_are_independent(self, rig, affinity):
        rig.pod("db", "a1", labels={"app": "db"})
        rig.pod("big", "b1", labels={"size": "big"})
        assert (
            rig.passed(affinity, rig.pod(**far(term("host"), term(labels={"size": "big"}))))
            == "a2 loose"
        )

    def test_unresolvable_nodes(self, rig, affinity):
        rig.pod("db", "a1", labels={"app": "db"})
        state = {}
        rig.snapshot.refresh()
        pod = rig.pod(affinity={**near(term())["affinity"], **far(term("host"))["affinity"]})
        affinity.pre_filter(state, pod, rig.snapshot.nodes)
        codes = {
            node.name: status.code
            for node in rig.snapshot.nodes
            if (status := affinity.filter(state, pod, node))
        }
        expected = {
            "a1": Code.UNSCHEDULABLE,
            "b1": Code.UNRESOLVABLE,
            "b2": Code.UNRESOLVABLE,
            "loose": Code.UNRESOLVABLE,
        }
        assert codes == expected


class TestNamespaces:
    @pytest.fixture(autouse=True)
    def namespace_selector(self, rig, affinity):
        rig.namespace("prod", tier="gold")
        rig.namespace("test", tier="tin")
        rig.pod("db", "a1", labels={"app": "db"}, namespace="prod")
        rig.pod("db", "b1", labels={"app": "db"}, namespace="test")

    @pytest.mark.parametrize(
        ("where", "nodes"),
        [
            ({}, ""),
            ({"namespaces": ["prod"]}, "a1 a2"),
            ({"namespaces": ["prod", "test"]}, "a1 a2 b1 b2"),
            ({"namespaceSelector": {"matchLabels": {"tier": "tin"}}}, "b1 b2"),
            (
                {"namespaceSelector": {"matchLabels": {"tier": "tin"}}, "namespaces": ["prod"]},
                "a1 a2 b1 b2",
            ),
            ({"namespaceSelector": {}}, "a1 a2 b1 b2"),
            ({"namespaceSelector": {"matchLabels": {"tier": "none"}}}, ""),
        ],
    )
    def test_namespaces_of_affinity(self, rig, affinity, where, nodes):
        assert rig.passed(affinity, rig.pod(**near(term(**where)))) == nodes

    def test_namespaces_of_existing_anti_affinity(self, rig, affinity):
        rig.pod(
            "hermit",
            "loose",
            **far(term("host", namespaceSelector={"matchLabels": {"tier": "gold"}})),
        )
        assert (
            rig.filtered(affinity, rig.pod(labels={"app": "db"}, namespace="prod"))["loose"]
            == UNWELCOME
        )
        assert (
            rig.filtered(affinity, rig.pod(labels={"app": "db"}, namespace="test"))["loose"]
            == "skipped"
        )


class TestPreferred:
    def test_no_preferences(self, rig, affinity):
        rig.pod("db", "a1", labels={"app": "db"})
        assert rig.scored(affinity, rig.pod()) == "skipped"
        assert (
            rig.scored(affinity, rig.pod(**preferred((5, term(labels={"app": "none"})))))
            == "skipped"
        )

    def test_own_weights(self, rig, affinity):
        for number, node in enumerate(("a1", "a1", "b1")):
            rig.pod(f"db{number}", node, labels={"app": "db"})
        scored = rig.scored(affinity, rig.pod(**preferred((10, term()), (3, term("host")))))
        assert scored == {
            "a1": (26, 100),
            "a2": (20, 76),
            "b1": (13, 50),
            "b2": (10, 38),
            "loose": (0, 0),
        }

    def test_preferred_anti_affinity_lowers_score(self, rig, affinity):
        rig.pod("db", "a1", labels={"app": "db"})
        scored = rig.scored(affinity, rig.pod(**shuns((10, term()), (3, term("host")))))
        assert scored == {
            "a1": (-13, 0),
            "a2": (-10, 23),
            "b1": (0, 100),
            "b2": (0, 100),
            "loose": (0, 100),
        }

    def test_preferences_of_existing_pods(self, rig, affinity):
        rig.pod("fan", "a1", **preferred((7, term())))
        rig.pod("foe", "b1", **shuns((2, term("host"))))
        rig.pod("needy", "b2", **near(term("host")))
        scored = rig.scored(affinity, rig.pod(labels={"app": "db"}))
        assert scored == {
            "a1": (7, 100),
            "a2": (7, 100),
            "b1": (-2, 0),
            "b2": (1, 33),
            "loose": (0, 22),
        }

    def test_hard_affinity_weight(self, rig):
        rig.zones(a=1, b=1)
        rig.pod("needy", "a1", **near(term("host")))
        rig.pod("fan", "b1", **preferred((10, term("host"))))
        pod = rig.pod(labels={"app": "db"})
        assert rig.scored(rig.make(InterPodAffinity, hardPodAffinityWeight=40), pod) == {
            "a1": (40, 100),
            "b1": (10, 0),
        }
        assert rig.scored(rig.make(InterPodAffinity, hardPodAffinityWeight=0), pod) == {
            "a1": (0, 0),
            "b1": (10, 100),
        }

    def test_existing_preferences_can_be_ignored(self, rig):
        rig.zones(a=1, b=1)
        rig.pod("fan", "a1", **preferred((7, term())))
        deaf = rig.make(InterPodAffinity, ignorePreferredTermsOfExistingPods=True)
        assert rig.scored(deaf, rig.pod(labels={"app": "db"})) == "skipped"
        own = rig.pod(labels={"app": "db"}, **preferred((1, term("host", {"app": "none"}))))
        assert rig.scored(deaf, own) == {"a1": (7, 100), "b1": (0, 0)}

    def test_equal_scores(self, rig, affinity):
        for node in ("a1", "b1"):
            rig.pod(f"db-{node}", node, labels={"app": "db"})
        assert rig.scored(affinity, rig.pod(**preferred((10, term()))), "a1 b1") == {
            "a1": (10, 0),
            "b1": (10, 0),
        }


class TestHypotheticalPods:
    def test_removed_pod(self, rig, affinity):
        hermit, db = (
            rig.pod("hermit", "b1", **far(term())),
            rig.pod("db", "a1", labels={"app": "db"}),
        )
        pod = rig.pod(labels={"app": "db"}, **far(term()))
        rig.snapshot.refresh()
        state = {}
        affinity.pre_filter(state, pod, rig.snapshot.nodes)
        a2, b2 = rig.snapshot.get("a2"), rig.snapshot.get("b2")
        other = {name: value.clone() for name, value in state.items()}
        affinity.remove_pod(other, pod, hermit, rig.snapshot.get("b1"))
        affinity.remove_pod(other, pod, db, rig.snapshot.get("a1"))
        assert affinity.filter(other, pod, a2) is affinity.filter(other, pod, b2) is None
        affinity.add_pod(other, pod, db, rig.snapshot.get("b1"))
        assert affinity.filter(other, pod, b2).message == TOO_NEAR
        assert affinity.filter(state, pod, a2).message == TOO_NEAR
        assert affinity.filter(state, pod, b2).message == UNWELCOME


class TestScheduling:
    def test_pod_follows_affine_pod(self, cluster):
        for name, zone in (("n1", "a"), ("n2", "b")):
            cluster.node(name, labels={"zone": zone})
        assert cluster.pod("web", **near(term())) is None
        assert cluster.why("web").startswith(f"0/2 nodes are available: 2 {NOT_NEAR}. ")
        home = cluster.pod("db", labels={"app": "db"})
        cluster.advance(20)
        assert cluster.where("web") == home

    def test_pod_waits_for_anti_affine_pod(self, cluster):
        cluster.node("n1", labels={"zone": "a"})
        cluster.pod("db", labels={"app": "db"})
        assert cluster.pod("web", **far(term())) is None
        cluster.delete("db")
        cluster.advance(20)
        assert cluster.where("web") == "n1"

    def test_node_zone_change(self, cluster):
        cluster.node("n1", labels={"zone": "a"})
        cluster.node("n2", labels={"zone": "a"})
        cluster.pod("db", labels={"app": "db"}, nodeName="n1")
        assert cluster.pod("web", **far(term())) is None
        cluster.ask(cluster.api.patch(NODES, "n2", {"metadata": {"labels": {"zone": "b"}}}))
        cluster.advance(20)
        assert cluster.where("web") == "n2"

    def test_match_label_keys(self, cluster):
        """Of the two versions, only the own one is to be near."""
        for name in ("n1", "n2"):
            cluster.node(name, labels={"host": name})
        for version in ("1", "2"):
            cluster.pod(
                f"v{version}", labels={"app": "db", "version": version}, nodeName=f"n{version}"
            )
        one = near(term("host", matchLabelKeys=["version"]))
        assert cluster.pod("near", labels={"app": "db", "version": "2"}, **one) == "n2"
        other = near(term("host", mismatchLabelKeys=["version"]))
        assert cluster.pod("far", labels={"app": "db", "version": "2"}, **other) == "n1"
