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


class TestWhatIsNeeded:
    def test_who_wants_nothing_is_not_asked_about(self, rig, affinity):
        rig.pod("db", "a1", labels={"app": "db"})
        assert set(rig.filtered(affinity, rig.pod()).values()) == {"skipped"}

    def test_a_pod_near_another(self, rig, affinity):
        rig.pod("db", "a1", labels={"app": "db"})
        said = rig.filtered(affinity, rig.pod(**near(term())))
        assert said == {"a1": "", "a2": "", "b1": NOT_NEAR, "b2": NOT_NEAR, "loose": NOT_NEAR}

    def test_the_first_of_its_kind_may_be_wherever_there_is_such_a_topology(self, rig, affinity):
        assert rig.passed(affinity, rig.pod(labels={"app": "db"}, **near(term()))) == "a1 a2 b1 b2"
        assert rig.passed(affinity, rig.pod(labels={"app": "web"}, **near(term()))) == ""

    def test_the_first_of_its_kind_must_be_in_the_right_namespace(self, rig, affinity):
        assert (
            rig.passed(affinity, rig.pod(labels={"app": "db"}, **near(term(namespaces=["other"]))))
            == ""
        )

    def test_one_pod_must_meet_all_terms(self, rig, affinity):
        rig.pod("db", "a1", labels={"app": "db"})
        rig.pod("big", "a1", labels={"size": "big"})
        both = near(term(), term(labels={"size": "big"}))
        assert rig.passed(affinity, rig.pod(**both)) == ""
        rig.pod("big-db", "b1", labels={"app": "db", "size": "big"})
        assert rig.passed(affinity, rig.pod(**both)) == "b1 b2"

    def test_in_two_topologies_at_once(self, rig, affinity):
        rig.pod("db", "a1", labels={"app": "db"})
        assert rig.passed(affinity, rig.pod(**near(term("host"), term("zone")))) == "a1"

    def test_a_pod_that_is_going_still_counts(self, rig, affinity):
        rig.pod("db", "a1", labels={"app": "db"}, going=True)
        assert rig.passed(affinity, rig.pod(**near(term()))) == "a1 a2"

    def test_a_pod_whose_node_is_not_there_does_not(self, rig, affinity):
        rig.pod("db", "gone", labels={"app": "db"})
        assert rig.passed(affinity, rig.pod(**near(term()))) == ""

    def test_a_selector_that_is_missing_means_nobody_and_one_that_is_empty_everybody(
        self, rig, affinity
    ):
        rig.pod("db", "a1", labels={"app": "db"})
        assert rig.passed(affinity, rig.pod(**near({"topologyKey": "zone"}))) == ""
        assert (
            rig.passed(affinity, rig.pod(**near({"topologyKey": "zone", "labelSelector": {}})))
            == "a1 a2"
        )


class TestWhatIsForbidden:
    def test_by_the_pod(self, rig, affinity):
        rig.pod("db", "a1", labels={"app": "db"})
        said = rig.filtered(affinity, rig.pod(**far(term())))
        assert said == {"a1": TOO_NEAR, "a2": TOO_NEAR, "b1": "", "b2": "", "loose": ""}

    def test_by_those_that_are_there(self, rig, affinity):
        rig.pod("hermit", "b1", **far(term()))
        said = rig.filtered(affinity, rig.pod(labels={"app": "db"}))
        assert said == {"a1": "", "a2": "", "b1": UNWELCOME, "b2": UNWELCOME, "loose": ""}
        assert set(rig.filtered(affinity, rig.pod(labels={"app": "web"})).values()) == {"skipped"}

    def test_each_term_for_itself(self, rig, affinity):
        rig.pod("db", "a1", labels={"app": "db"})
        rig.pod("big", "b1", labels={"size": "big"})
        assert (
            rig.passed(affinity, rig.pod(**far(term("host"), term(labels={"size": "big"}))))
            == "a2 loose"
        )

    def test_what_cannot_be_cured(self, rig, affinity):
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
    def test_of_those_that_it_wants(self, rig, affinity, where, nodes):
        assert rig.passed(affinity, rig.pod(**near(term(**where)))) == nodes

    def test_of_those_that_do_not_want_it(self, rig, affinity):
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


class TestWhatIsLiked:
    def test_nobody_has_an_opinion(self, rig, affinity):
        rig.pod("db", "a1", labels={"app": "db"})
        assert rig.scored(affinity, rig.pod()) == "skipped"
        assert (
            rig.scored(affinity, rig.pod(**preferred((5, term(labels={"app": "none"})))))
            == "skipped"
        )

    def test_the_weights_of_its_own_terms(self, rig, affinity):
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

    def test_what_it_shuns_counts_against(self, rig, affinity):
        rig.pod("db", "a1", labels={"app": "db"})
        scored = rig.scored(affinity, rig.pod(**shuns((10, term()), (3, term("host")))))
        assert scored == {
            "a1": (-13, 0),
            "a2": (-10, 23),
            "b1": (0, 100),
            "b2": (0, 100),
            "loose": (0, 100),
        }

    def test_those_that_are_there_have_a_say(self, rig, affinity):
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

    def test_how_much_a_need_weighs(self, rig):
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

    def test_the_opinions_of_others_may_be_ignored_by_those_that_have_none(self, rig):
        rig.zones(a=1, b=1)
        rig.pod("fan", "a1", **preferred((7, term())))
        deaf = rig.make(InterPodAffinity, ignorePreferredTermsOfExistingPods=True)
        assert rig.scored(deaf, rig.pod(labels={"app": "db"})) == "skipped"
        own = rig.pod(labels={"app": "db"}, **preferred((1, term("host", {"app": "none"}))))
        assert rig.scored(deaf, own) == {"a1": (7, 100), "b1": (0, 0)}

    def test_where_all_are_alike(self, rig, affinity):
        for node in ("a1", "b1"):
            rig.pod(f"db-{node}", node, labels={"app": "db"})
        assert rig.scored(affinity, rig.pod(**preferred((10, term()))), "a1 b1") == {
            "a1": (10, 0),
            "b1": (10, 0),
        }


class TestWhatIsOnlyThoughtOf:
    def test_a_pod_that_would_be_gone(self, rig, affinity):
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


class TestInTheScheduler:
    def test_a_pod_goes_where_its_friend_is_once_it_is_there(self, hall):
        for name, zone in (("n1", "a"), ("n2", "b")):
            hall.node(name, labels={"zone": zone})
        assert hall.pod("web", **near(term())) is None
        assert hall.why("web").startswith(f"0/2 nodes are available: 2 {NOT_NEAR}. ")
        home = hall.pod("db", labels={"app": "db"})
        hall.advance(20)
        assert hall.where("web") == home

    def test_a_pod_waits_until_its_foe_is_gone(self, hall):
        hall.node("n1", labels={"zone": "a"})
        hall.pod("db", labels={"app": "db"})
        assert hall.pod("web", **far(term())) is None
        hall.delete("db")
        hall.advance(20)
        assert hall.where("web") == "n1"

    def test_a_node_that_moves_to_another_zone(self, hall):
        hall.node("n1", labels={"zone": "a"})
        hall.node("n2", labels={"zone": "a"})
        hall.pod("db", labels={"app": "db"}, nodeName="n1")
        assert hall.pod("web", **far(term())) is None
        hall.ask(hall.api.patch(NODES, "n2", {"metadata": {"labels": {"zone": "b"}}}))
        hall.advance(20)
        assert hall.where("web") == "n2"

    def test_own_labels_chosen_by_key(self, hall):
        """Of the two versions, only the own one is to be near."""
        for name in ("n1", "n2"):
            hall.node(name, labels={"host": name})
        for version in ("1", "2"):
            hall.pod(
                f"v{version}", labels={"app": "db", "version": version}, nodeName=f"n{version}"
            )
        one = near(term("host", matchLabelKeys=["version"]))
        assert hall.pod("near", labels={"app": "db", "version": "2"}, **one) == "n2"
        other = near(term("host", mismatchLabelKeys=["version"]))
        assert hall.pod("far", labels={"app": "db", "version": "2"}, **other) == "n1"
