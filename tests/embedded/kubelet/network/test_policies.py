import itertools
import pathlib

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from pytest_kscen.models.cilium.policies import (
    NAMESPACE_LABELS,
    ExternalParty,
    Pod,
    may_pass,
    policies_of,
)
from pytest_kscen.objects.virtualization import VM_LABEL

NS = "vms"
SEED = pathlib.Path(__file__).with_name("deny_between_two.yaml")


def vm(name, namespace=NS, **labels):
    return Pod.of(namespace, {VM_LABEL: name, **labels}, {"team": "storage"})


A, B, C = vm("a", tier="one"), vm("b"), vm("c")
OTHER = vm("b", "elsewhere")
WORLD, HOST, NODE = (
    ExternalParty("world", "192.0.2.7"),
    ExternalParty("host"),
    ExternalParty("remote-node"),
)


def named(*names):
    return {"matchExpressions": [{"key": VM_LABEL, "operator": "In", "values": list(names)}]}


def policy(name="a", **spec):
    return {
        "metadata": {"name": "p", "namespace": NS},
        "spec": {"endpointSelector": named(name), **spec},
    }


def lets(source, target, *objs, protocol="TCP", port=7000):
    return may_pass(
        [one for obj in objs for one in policies_of(obj)], source, target, protocol, port
    )


def tcp(port, **more):
    return {"toPorts": [{"ports": [{"port": str(port), "protocol": "TCP", **more}]}]}


def peers(*selectors):
    return {"fromEndpoints": list(selectors)}


def labelled(key, value):
    return peers({"matchLabels": {key: value}})


# what stands in ingress (or another field) of a policy for `a`; who speaks to it; whether it passes
INGRESS = {
    "no policy": ({}, B, True),
    "no list is no rule": ({"ingress": []}, B, True),
    (
"the policy selects somebody "
"else"
): ({"endpointSelector": named("c"), "ingress": [{}]}, B, True),
    (
"an empty selector selects all "
"of the namespace"
): ({"endpointSelector": {}, "ingress": [{}]}, B, False),
    "an empty rule lets nobody in": ({"ingress": [{}]}, B, False),
    "an empty peer is all of the namespace": ({"ingress": [peers({})]}, B, True),
    "and of no other": ({"ingress": [peers({})]}, OTHER, False),
    "an empty list of peers is nobody": ({"ingress": [peers()]}, B, False),
    "a peer by its label": ({"ingress": [peers(named("b"))]}, B, True),
    "another peer": ({"ingress": [peers(named("b"))]}, C, False),
    "selectors are ored": ({"ingress": [peers(named("c"), named("b"))]}, B, True),
    "rules are ored": ({"ingress": [peers(named("c")), peers(named("b"))]}, B, True),
    "parts of a selector are anded": ({"ingress": [peers({"matchLabels": {"tier": "one"}, **named("b")})]}, B, False),
    "a namespace by its name": ({"ingress": [labelled("io.kubernetes.pod.namespace", "elsewhere")]}, OTHER, True),
    "with the labels' source": ({"ingress": [labelled("k8s:io.kubernetes.pod.namespace", "elsewhere")]}, OTHER, True),
    "a namespace by its labels": ({"ingress": [labelled(NAMESPACE_LABELS + "team", "storage")]}, OTHER, True),
    "any namespace": (
        {"ingress": [peers({"matchExpressions": [{"key": "io.kubernetes.pod.namespace", "operator": "Exists"}]})]}, OTHER, True
    ),
    "NotIn holds without the label": (
        {"ingress": [peers({"matchExpressions": [{"key": "tier", "operator": "NotIn", "values": ["one"]}]})]}, B, True
    ),
    "DoesNotExist": ({"ingress": [peers({"matchExpressions": [{"key": VM_LABEL, "operator": "DoesNotExist"}]})]}, B, False),
    "a port": ({"ingress": [tcp(7000)]}, B, True),
    "another port": ({"ingress": [tcp(7001)]}, B, False),
    "within a range": ({"ingress": [tcp(6000, endPort=7000)]}, B, True),
    "beyond a range": ({"ingress": [tcp(6000, endPort=6999)]}, B, False),
    "port 0 is every port": ({"ingress": [tcp(0)]}, B, True),
    "a named port is none of theirs": ({"ingress": [tcp("http")]}, B, False),
    "fields are anded": ({"ingress": [{**peers(named("c")), **tcp(7000)}]}, B, False),
    "peer and port": ({"ingress": [{**peers(named("b")), **tcp(7000)}]}, B, True),
    "entity all": ({"ingress": [{"fromEntities": ["all"]}]}, WORLD, True),
    "entity cluster has the pods": ({"ingress": [{"fromEntities": ["world", "cluster"]}]}, B, True),
    "and the nodes": ({"ingress": [{"fromEntities": ["cluster"]}]}, NODE, True),
    "but not the world": ({"ingress": [{"fromEntities": ["cluster"]}]}, WORLD, False),
    "entity world has no pods": ({"ingress": [{"fromEntities": ["world"]}]}, B, False),
    "entity none": ({"ingress": [{"fromEntities": ["none"]}]}, B, False),
    "the local host is always let in": ({"ingress": [{}]}, HOST, True),
    "even past a denial": ({"ingressDeny": [{"fromEntities": ["all"]}]}, HOST, True),
    "other nodes are not": ({"ingress": [peers({})]}, NODE, False),
    "networks": ({"ingress": [{"fromCIDR": ["192.0.2.0/24"]}]}, WORLD, True),
    "and exceptions": ({"ingress": [{"fromCIDRSet": [{"cidr": "192.0.0.0/16", "except": ["192.0.2.0/24"]}]}]}, WORLD, False),
    "networks are not for pods": ({"ingress": [{"fromCIDR": ["0.0.0.0/0"]}]}, B, False),
    "deny wins over allow": ({"ingress": [peers({})], "ingressDeny": [peers(named("b"))]}, B, False),
    (
"whom it does not deny is let "
"in"
): ({"ingress": [peers({})], "ingressDeny": [peers(named("b"))]}, C, True),
    "a denial alone closes the rest": ({"ingressDeny": [peers(named("b"))]}, C, False),
    "an empty denial denies nobody more": ({"ingress": [peers({})], "ingressDeny": [{}]}, B, True),
    "unless default-deny is off": (
        {"enableDefaultDeny": {"ingress": False}, "ingressDeny": [peers(named("b"))]}, C, True
    ),
    "a denial holds with default-deny off": (
        {"enableDefaultDeny": {"ingress": False}, "ingressDeny": [peers(named("b"))]}, B, False
    ),
    "default-deny is per direction": ({"egress": [{"toEndpoints": []}]}, B, True),
    "a denial of another port": ({"ingress": [peers({})], "ingressDeny": [{**peers(named("b")), **tcp(7001)}]}, B, True),
    "a denial of this port": ({"ingress": [peers({})], "ingressDeny": [{**peers(named("b")), **tcp(7000)}]}, B, False),
}  # fmt: skip


@pytest.mark.parametrize(("spec", "peer", "passes"), INGRESS.values(), ids=INGRESS)
def test_ingress(spec, peer, passes):
    assert lets(peer, A, policy(**spec)) is passes


TURNED = {
    "ingress": "egress",
    "ingressDeny": "egressDeny",
    "fromEndpoints": "toEndpoints",
    "fromEntities": "toEntities",
}
TURNED |= {
    "fromCIDR": "toCIDR",
    "fromCIDRSet": "toCIDRSet",
    "egress": "ingress",
    "toEndpoints": "fromEndpoints",
}


def turned(part):
    if isinstance(part, dict):
        return {TURNED.get(key, key): turned(value) for key, value in part.items()}
    return [turned(one) for one in part] if isinstance(part, list) else part


@pytest.mark.parametrize(("spec", "peer", "passes"), INGRESS.values(), ids=INGRESS)
def test_egress_mirrors_ingress(spec, peer, passes):
    assert lets(A, peer, policy(**turned(spec))) is passes


@pytest.mark.parametrize(
    ("given_", "flow", "matches"),
    [
        ("TCP", "TCP", True),
        ("TCP", "UDP", False),
        ("UDP", "UDP", True),
        ("ANY", "TCP", True),
        ("ANY", "UDP", True),
        (None, "UDP", True),
        ("ANY", "ICMP", False),
        ("TCP", "ICMP", False),
    ],
)
def test_protocols(given_, flow, matches):
    ports = {"port": "7000", **({"protocol": given_} if given_ else {})}
    assert lets(B, A, policy(ingress=[{"toPorts": [{"ports": [ports]}]}]), protocol=flow) is matches


@pytest.mark.parametrize(
    ("rule", "tcp_", "icmp"),
    [(peers({}), True, True), ({"icmps": [{"fields": [{"type": 8}]}]}, False, True)],
)
def test_icmp(rule, tcp_, icmp):
    assert (
        lets(B, A, policy(ingress=[rule])),
        lets(B, A, policy(ingress=[rule]), protocol="ICMP"),
    ) == (tcp_, icmp)


def test_both_ends_must_allow():
    assert not lets(A, B, policy(egress=[{}]))
    assert not lets(A, B, policy("b", ingress=[{}]))
    assert lets(A, B, policy("b", egress=[{}]), policy(ingress=[{}]))


def test_policies_of_other_namespaces_are_ignored():
    foreign = policy(ingress=[{}])
    foreign["metadata"]["namespace"] = "elsewhere"
    assert lets(B, A, foreign)


def test_allowances_add_up_and_denials_win():
    closed, opened, denied = (
        policy(ingress=[{}]),
        policy(ingress=[peers(named("b"))]),
        policy(ingressDeny=[peers(named("b"))]),
    )
    assert not lets(B, A, closed)
    assert lets(B, A, closed, opened)
    assert not lets(B, A, closed, opened, denied)


def test_specs_equal_single_spec():
    several = policy(ingress=[{}])
    several["specs"] = [several.pop("spec"), policy("b", ingress=[peers(named("a"))])["spec"]]
    assert not lets(B, A, several)
    assert lets(A, B, several)
    assert not lets(C, B, several)


@pytest.mark.parametrize(
    ("number", "flow", "passes"),
    [
        (0, ("a", "b", "TCP", 5201), False),
        (0, ("b", "a", "TCP", 5201), False),
        (0, ("a", "b", "TCP", 5202), True),
        (0, ("a", "b", "UDP", 5201), True),
        (0, ("a", "c", "TCP", 5201), True),
        (0, ("c", "d", "TCP", 5201), True),
        (1, ("a", "b", "TCP", 7000), False),
        (1, ("b", "a", "TCP", 1), False),
        (1, ("a", "b", "UDP", 7000), True),
        (1, ("c", "b", "TCP", 7000), True),
    ],
)
def test_handwritten_policies(number, flow, passes):
    source, target, protocol, port = flow
    obj = list(yaml.safe_load_all(SEED.read_text()))[number]
    assert lets(vm(source), vm(target), obj, protocol=protocol, port=port) is passes


def test_policy_listing_all_machines_isolates_all():
    every = ["a", "b", "c"]
    obj = {
        "metadata": {"namespace": NS},
        "spec": {"endpointSelector": named(*every), "ingressDeny": [peers(named(*every))]},
    }
    assert not any(lets(one, other, obj) for one in (A, B, C) for other in (A, B, C))


def test_one_policy_partitions_two_sides():
    rules = {
        "ingress": [peers({})],
        "ingressDeny": [peers(named("c", "d"))],
        "egress": [{"toEndpoints": [{}]}],
    }
    rules["egressDeny"] = [{"toEndpoints": [named("c", "d")]}]
    obj = {"metadata": {"namespace": NS}, "spec": {"endpointSelector": named("a", "b"), **rules}}
    side = {"a": 0, "b": 0, "c": 1, "d": 1}
    for one, other in itertools.product(side, side):
        assert lets(vm(one), vm(other), obj) is (side[one] == side[other])


NAMES = st.sampled_from("abc")
SELECTORS = st.lists(NAMES, max_size=2).map(lambda names: named(*names) if names else {})
PORTS = st.tuples(st.integers(1, 20), st.integers(0, 20), st.sampled_from(["TCP", "UDP", "ANY"]))
RULES = st.fixed_dictionaries(
    {},
    optional={
        "fromEndpoints": st.lists(SELECTORS, max_size=2),
        "toPorts": st.lists(PORTS, max_size=2).map(
            lambda ports: [
                {"ports": [{"port": str(first), "endPort": last, "protocol": protocol}]}
                for first, last, protocol in ports
            ]
        ),
    },
)
SPECS = st.fixed_dictionaries(
    {"endpointSelector": SELECTORS},
    optional={"ingress": st.lists(RULES, max_size=3), "ingressDeny": st.lists(RULES, max_size=2)},
)
OBJS = st.lists(SPECS.map(lambda spec: {"metadata": {"namespace": NS}, "spec": spec}), max_size=3)
FLOWS = st.tuples(NAMES.map(vm), NAMES.map(vm), st.sampled_from(["TCP", "UDP"]), st.integers(1, 20))


@given(OBJS, SPECS, FLOWS)
def test_additional_denial_opens_nothing(objs, spec, flow):
    source, target, protocol, port = flow
    denial = {
        "metadata": {"namespace": NS},
        "spec": {key: value for key, value in spec.items() if key != "ingress"},
    }
    if not lets(source, target, *objs, protocol=protocol, port=port):
        assert not lets(source, target, *objs, denial, protocol=protocol, port=port)


@given(OBJS, SPECS, FLOWS)
def test_additional_allowance_closes_unmatched_traffic_only(objs, spec, flow):
    source, target, protocol, port = flow
    allowance = {
        "metadata": {"namespace": NS},
        "spec": {**spec, "ingressDeny": [], "enableDefaultDeny": {"ingress": False}},
    }
    if lets(source, target, *objs, protocol=protocol, port=port):
        assert lets(source, target, *objs, allowance, protocol=protocol, port=port)


@given(st.permutations(range(3)), st.lists(SPECS, min_size=3, max_size=3), FLOWS)
def test_policy_order_does_not_matter(order, specs, flow):
    objs = [{"metadata": {"namespace": NS}, "spec": spec} for spec in specs]
    source, target, protocol, port = flow
    answer = lets(source, target, *objs, protocol=protocol, port=port)
    assert lets(source, target, *[objs[at] for at in order], protocol=protocol, port=port) is answer
