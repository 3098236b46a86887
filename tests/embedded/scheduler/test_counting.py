"""What is kept with each change is the same as what is counted anew."""

from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_kscen.embedded.scheduler.framework.pods_and_nodes import PodInfo
from pytest_kscen.embedded.scheduler.framework.snapshot import Snapshot
from pytest_kscen.embedded.scheduler.plugins import topology_counts
from pytest_kscen.embedded.scheduler.plugins.affinity_terms import Standing, terms_of
from pytest_kscen.embedded.scheduler.plugins.pod_counts import Choice, Crowd, labels_of
from pytest_kscen.embedded.scheduler.plugins.topology_counts import by_domain

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
spaces = st.one_of(st.none(), st.frozensets(st.sampled_from(SPACES)))
choices = st.builds(
    lambda names, selector, living: Choice(names, labels_of(selector), living),
    spaces,
    selectors,
    st.booleans(),
)


def affinity_of(terms):
    kinds = {"podAffinity": {HARD: [], SOFT: []}, "podAntiAffinity": {HARD: [], SOFT: []}}
    for kind, weight, key, selector, space in terms:
        term = {
            "topologyKey": key,
            "labelSelector": selector,
            **({"namespaceSelector": space} if space is not None else {}),
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
    lambda uid, own, space, going, terms: PodInfo(
        {
            "metadata": {
                "name": uid,
                "uid": uid,
                "namespace": space,
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


def take(snapshot, step):
    match step:
        case "put", pod, node:
            snapshot.put(pod, node)
        case "take", uid:
            snapshot.take(uid)
        case "node", name, zone, rack:
            own = {key: value for key, value in (("zone", zone), ("rack", rack)) if value}
            snapshot.see_node(
                name, {"metadata": {"name": name, "labels": own}, "spec": {}, "status": {}}
            )
        case "no node", name:
            snapshot.see_node(name, None)
        case ("refresh",):
            snapshot.refresh()


def placed(snapshot):
    return [(pod, node) for pod, node in snapshot._placed.values()]


def anew(snapshot, key, means):
    found = {}
    for pod, node in placed(snapshot):
        if means(pod) and node.obj is not None and key in node.labels:
            found[node.labels[key]] = found.get(node.labels[key], 0) + 1
    return found


def kept(snapshot, key, tally):
    few, found = topology_counts.FEW, []
    for topology_counts.FEW in (few, -1):
        sums = by_domain(key, [(tally, 1)], snapshot.table)
        found.append({zone: count for zone in ZONES if zone and (count := sums.get(zone))})
        assert sums.total == sum(found[-1].values())
    topology_counts.FEW = few
    assert found[0] == found[1]
    return found[0]


@settings(max_examples=300, deadline=None)
@given(
    st.lists(steps, max_size=30),
    st.lists(choices, min_size=1, max_size=2),
    st.sampled_from([1, 64]),
)
def test_pods_by_choice(history, last, large):
    snapshot = Snapshot(large)
    crowd = snapshot.shared(Crowd)
    crowd._most = 2
    for step in history:
        take(snapshot, step)
        if step[0] == "ask":
            crowd.tally(*step[1])
    snapshot.refresh()
    for asked in [last, *(step[1] for step in history if step[0] == "ask")]:
        for key in ("zone", "rack"):

            def means(pod, asked=asked):
                going = "deletionTimestamp" in pod.obj["metadata"]
                return all(choice.means(pod.namespace, pod.labels, going=going) for choice in asked)

            assert kept(snapshot, key, crowd.tally(*asked)) == anew(snapshot, key, means)
    assert len(crowd._tallies) <= 2


@settings(max_examples=300, deadline=None)
@given(
    st.lists(steps, max_size=30),
    pods,
    st.sampled_from([{}, {"tier": "1"}]),
    st.sampled_from([1, 64]),
)
def test_wishes_about_a_pod(history, pod, space, large):
    snapshot = Snapshot(large)
    standing = snapshot.shared(Standing)
    for step in history:
        take(snapshot, step)
    snapshot.refresh()
    found = {term: kept(snapshot, term.key, tally) for term, tally in standing.about(pod, space)}
    expected = {}
    for other, node in placed(snapshot):
        for terms in terms_of(other):
            for one in terms:
                if one.means(pod.namespace, pod.labels, space):
                    counts = expected.setdefault(one, {})
                    if node.obj is not None and one.key in node.labels:
                        value = node.labels[one.key]
                        counts[value] = counts.get(value, 0) + 1
    assert found == expected


def test_nothing_is_left_of_those_that_are_gone():
    snapshot = Snapshot()
    crowd, standing = snapshot.shared(Crowd), snapshot.shared(Standing)
    spec = {
        "containers": [],
        "affinity": affinity_of([("podAffinity", 0, "zone", {"matchLabels": {"app": "db"}}, None)]),
    }
    pod = PodInfo({"metadata": {"name": "p", "uid": "p", "labels": {"app": "db"}}, "spec": spec})
    snapshot.put(pod, "n1")
    crowd.tally(Choice(None, labels_of({"matchLabels": {"app": "db"}})))
    snapshot.take("p")
    assert not crowd._groups
    assert not crowd._by_labels
    assert not standing._tallies
    assert not standing._terms._by_label
