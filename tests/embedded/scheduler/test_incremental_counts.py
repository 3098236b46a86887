"""Incrementally kept counts equal a recount."""

from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_kscen.embedded.scheduler.framework.pods_and_nodes import PodInfo
from pytest_kscen.embedded.scheduler.framework.snapshot import Snapshot
from pytest_kscen.embedded.scheduler.plugins import topology_counts
from pytest_kscen.embedded.scheduler.plugins.affinity_terms import AffinityTermCounts, terms_of
from pytest_kscen.embedded.scheduler.plugins.pod_counts import (
    MatchingPodCounts,
    PodSelector,
    selector_requirements,
)
from pytest_kscen.embedded.scheduler.plugins.topology_counts import sum_by_domain

HARD, SOFT = (
    "requiredDuringSchedulingIgnoredDuringExecution",
    "preferredDuringSchedulingIgnoredDuringExecution",
)
NODES, ZONES, APPS, SPACES = ["n1", "n2", "n3", "n4"], ["a", "b", ""], ["db", "web", ""], ["x", "y"]
labels = st.builds(
    lambda app, size: {**({"app": app} if app else {}), **({"size": size} if size else {})},
    *[st.sampled_from(APPS)] * 2,
)
parts = st.one_of(
    st.builds(
        lambda values: {"key": "app", "operator": "In", "values": values},
        st.sets(st.sampled_from(APPS), min_size=1).map(sorted),
    ),
    st.builds(
        lambda value: {"key": "size", "operator": "NotIn", "values": [value]}, st.sampled_from(APPS)
    ),
    st.sampled_from(
        [{"key": "app", "operator": "Exists"}, {"key": "size", "operator": "DoesNotExist"}]
    ),
)
selectors = st.one_of(
    st.none(),
    st.builds(
        lambda equal, more: {"matchLabels": equal, "matchExpressions": more},
        labels,
        st.lists(parts, max_size=2),
    ),
)
namespace_selector = st.one_of(st.none(), st.frozensets(st.sampled_from(SPACES)))
choices = st.builds(
    lambda names, selector, excludes_terminating: PodSelector(
        names, selector_requirements(selector), excludes_terminating
    ),
    namespace_selector,
    selectors,
    st.booleans(),
)


def affinity_of(terms):
    kinds = {"podAffinity": {HARD: [], SOFT: []}, "podAntiAffinity": {HARD: [], SOFT: []}}
    for kind, weight, key, selector, namespace_labels in terms:
        term = {
            "topologyKey": key,
            "labelSelector": selector,
            **({"namespaceSelector": namespace_labels} if namespace_labels is not None else {}),
        }
        kinds[kind][SOFT if weight else HARD].append(
            {"weight": weight, "podAffinityTerm": term} if weight else term
        )
    return kinds


term = st.tuples(
    st.sampled_from(["podAffinity", "podAntiAffinity"]),
    st.integers(0, 2),
    st.sampled_from(["zone", "rack"]),
    selectors,
    st.sampled_from([None, {}, {"matchLabels": {"tier": "1"}}]),
)
pods = st.builds(
    lambda uid, own, namespace_labels, going, terms: PodInfo(
        {
            "metadata": {
                "name": uid,
                "uid": uid,
                "namespace": namespace_labels,
                "labels": own,
                **({"deletionTimestamp": "now"} if going else {}),
            },
            "spec": {"containers": [], "affinity": affinity_of(terms)},
        }
    ),
    st.integers(1, 6).map(str),
    labels,
    st.sampled_from(SPACES),
    st.booleans(),
    st.lists(term, max_size=2),
)
steps = st.one_of(
    st.tuples(st.just("put"), pods, st.sampled_from(NODES)),
    st.tuples(st.just("take"), st.integers(1, 6).map(str)),
    st.tuples(
        st.just("node"), st.sampled_from(NODES), st.sampled_from(ZONES), st.sampled_from(ZONES)
    ),
    st.tuples(st.just("no node"), st.sampled_from(NODES)),
    st.tuples(st.just("ask"), st.lists(choices, min_size=1, max_size=2)),
    st.tuples(st.just("refresh")),
)


def add_pod(snapshot, step):
    match step:
        case "put", pod, node:
            snapshot.assign_pod(pod, node)
        case "take", uid:
            snapshot.unassign_pod(uid)
        case "node", name, zone, rack:
            own = {key: value for key, value in (("zone", zone), ("rack", rack)) if value}
            snapshot.update_node(
                name, {"metadata": {"name": name, "labels": own}, "spec": {}, "status": {}}
            )
        case "no node", name:
            snapshot.update_node(name, None)
        case ("refresh",):
            snapshot.refresh()


def placed(snapshot):
    return [(pod, node) for pod, node in snapshot._placed.values()]


def recounted(snapshot, key, matches):
    found = {}
    for pod, node in placed(snapshot):
        if matches(pod) and node.obj is not None and key in node.labels:
            found[node.labels[key]] = found.get(node.labels[key], 0) + 1
    return found


def kept(snapshot, key, tally):
    few, found = topology_counts.MAX_NODES_ONE_BY_ONE, []
    for topology_counts.MAX_NODES_ONE_BY_ONE in (few, -1):
        sums = sum_by_domain(key, [(tally, 1)], snapshot.table)
        found.append({zone: count for zone in ZONES if zone and (count := sums.get(zone))})
        assert sums.total == sum(found[-1].values())
    topology_counts.MAX_NODES_ONE_BY_ONE = few
    assert found[0] == found[1]
    return found[0]


@settings(max_examples=300, deadline=None)
@given(
    st.lists(steps, max_size=30),
    st.lists(choices, min_size=1, max_size=2),
    st.sampled_from([1, 64]),
)
def test_pod_counts_by_selector(history, last, large):
    snapshot = Snapshot(large)
    crowd = snapshot.shared(MatchingPodCounts)
    crowd._max_counts = 2
    for step in history:
        add_pod(snapshot, step)
        if step[0] == "ask":
            crowd.tally(*step[1])
    snapshot.refresh()
    for asked in [last, *(step[1] for step in history if step[0] == "ask")]:
        for key in ("zone", "rack"):

            def matches(pod, asked=asked):
                going = "deletionTimestamp" in pod.obj["metadata"]
                return all(
                    choice.matches(pod.namespace, pod.labels, terminating=going) for choice in asked
                )

            assert kept(snapshot, key, crowd.tally(*asked)) == recounted(snapshot, key, matches)
    assert len(crowd._tallies) <= 2


@settings(max_examples=300, deadline=None)
@given(
    st.lists(steps, max_size=30),
    pods,
    st.sampled_from([{}, {"tier": "1"}]),
    st.sampled_from([1, 64]),
)
def test_affinity_counts_of_pod(history, pod, namespace_labels, large):
    snapshot = Snapshot(large)
    standing = snapshot.shared(AffinityTermCounts)
    for step in history:
        add_pod(snapshot, step)
    snapshot.refresh()
    found = {
        term: kept(snapshot, term.key, tally)
        for term, tally in standing.candidates(pod, namespace_labels)
    }
    expected = {}
    for other, node in placed(snapshot):
        for terms in terms_of(other):
            for one in terms:
                if one.matches(pod.namespace, pod.labels, namespace_labels):
                    counts = expected.setdefault(one, {})
                    if node.obj is not None and one.key in node.labels:
                        value = node.labels[one.key]
                        counts[value] = counts.get(value, 0) + 1
    assert found == expected


def test_removed_pods_leave_no_counts():
    snapshot = Snapshot()
    crowd, standing = snapshot.shared(MatchingPodCounts), snapshot.shared(AffinityTermCounts)
    spec = {
        "containers": [],
        "affinity": affinity_of([("podAffinity", 0, "zone", {"matchLabels": {"app": "db"}}, None)]),
    }
    pod = PodInfo({"metadata": {"name": "p", "uid": "p", "labels": {"app": "db"}}, "spec": spec})
    snapshot.assign_pod(pod, "n1")
    crowd.tally(PodSelector(None, selector_requirements({"matchLabels": {"app": "db"}})))
    snapshot.unassign_pod("p")
    assert not crowd._groups
    assert not crowd._by_labels
    assert not standing._tallies
    assert not standing._terms._by_label
