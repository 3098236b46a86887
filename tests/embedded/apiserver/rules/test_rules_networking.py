import pytest

from pytest_kscen.objects import names
from pytest_kscen.objects.resources import ENDPOINT_SLICES, ENDPOINTS, Resource

LABEL = names.dns1123_label("-")[0]
SUBDOMAIN = names.dns1123_subdomain("-")[0]
KEY = names.label_key("-")[0]
GROUP = "networking.k8s.io"
INGRESSES = Resource(GROUP, "v1", "ingresses", "Ingress")
CLASSES = Resource(GROUP, "v1", "ingressclasses", "IngressClass", namespaced=False)
POLICIES = Resource(GROUP, "v1", "networkpolicies", "NetworkPolicy")
ADDRESSES = Resource(GROUP, "v1", "ipaddresses", "IPAddress", namespaced=False)
RANGES = Resource(GROUP, "v1", "servicecidrs", "ServiceCIDR", namespaced=False)
BACKEND = {"service": {"name": "s", "port": {"number": 80}}}


def named(name="rules-x", **content):
    return {"metadata": {"name": name}, **content}


def rule(path="/", kind="Prefix"):
    return {"http": {"paths": [{"path": path, "pathType": kind, "backend": BACKEND}]}}


@pytest.mark.parametrize(
    ("spec", "wrong"),
    [
        ({"rules": [{"host": "*.example.com", **rule()}], "ingressClassName": "a"}, []),
        ({}, ["spec: Invalid value: null: either `defaultBackend` or `rules` must be specified"]),
        (
            {"rules": [{"host": "A_"}, {"host": "1.2.3.4"}]},
            [
                f'spec.rules[0].host: Invalid value: "A_": {SUBDOMAIN}',
                (
                    'spec.rules[1].host: Invalid value: "1.2.3.4": must be a DNS name, not '
                    "an IP address"
                ),
            ],
        ),
        ({"rules": [{"http": {"paths": []}}]}, ["spec.rules[0].http.paths: Required value"]),
        (
            {"rules": [rule("a")]},
            ['spec.rules[0].http.paths[0].path: Invalid value: "a": must be an absolute path'],
        ),
        (
            {"rules": [rule("", "Exact")]},
            ['spec.rules[0].http.paths[0].path: Invalid value: "": must be an absolute path'],
        ),
        (
            {"rules": [rule("//a"), rule("/a/../b"), rule("/a%2fb")]},
            [
                "spec.rules[0].http.paths[0].path: Invalid value: \"//a\": must not contain '//'",
                (
                    'spec.rules[1].http.paths[0].path: Invalid value: "/a/../b": must not '
                    "contain '/../'"
                ),
                (
                    'spec.rules[2].http.paths[0].path: Invalid value: "/a%2fb": must not '
                    "contain '%2f'"
                ),
            ],
        ),
        (
            {"rules": [rule(kind="X")]},
            [
                (
                    'spec.rules[0].http.paths[0].pathType: Unsupported value: "X": '
                    'supported values: "Exact", '
                    '"ImplementationSpecific", "Prefix"'
                )
            ],
        ),
        (
            {"defaultBackend": {}},
            ['spec.defaultBackend: Invalid value: "": resource or service backend is required'],
        ),
        (
            {"defaultBackend": {"service": {"name": "A", "port": {}}}},
            [
                f'spec.defaultBackend.service.name: Invalid value: "A": {LABEL}',
                "spec.defaultBackend: Required value: port name or number is required",
            ],
        ),
        (
            {"defaultBackend": {"service": {"name": "a", "port": {"name": "A", "number": 3}}}},
            ['spec.defaultBackend: Invalid value: "": cannot set both port name & port number'],
        ),
        (
            {"defaultBackend": {"service": {"name": "a", "port": {"number": 70000}}}},
            [
                (
                    "spec.defaultBackend.service.port.number: Invalid value: 70000: must be "
                    "between 1 and 65535, inclusive"
                )
            ],
        ),
        (
            {"defaultBackend": {"resource": {"kind": "", "name": "a/b"}}},
            [
                "spec.defaultBackend.resource.kind: Required value",
                "spec.defaultBackend.resource.name: Invalid value: \"a/b\": may not contain '/'",
            ],
        ),
        (
            {"defaultBackend": BACKEND, "tls": [{"hosts": ["A_"], "secretName": "A_"}]},
            [
                f'spec.tls[0].hosts[0]: Invalid value: "A_": {SUBDOMAIN}',
                f'spec.tls[0].secretName: Invalid value: "A_": {SUBDOMAIN}',
            ],
        ),
        (
            {"defaultBackend": BACKEND, "ingressClassName": "A_"},
            [f'spec.ingressClassName: Invalid value: "A_": {SUBDOMAIN}'],
        ),
    ],
)
def test_ingresses(judge, spec, wrong):
    assert judge.create(INGRESSES, named(spec={"ingressClassName": "a", **spec})) == wrong


@pytest.mark.parametrize(
    ("ingress", "wrong"),
    [
        ([{"ip": "1.2.3.4"}, {"hostname": "a.b"}], []),
        (
            [{"ip": "x"}],
            [
                (
                    'status.loadBalancer.ingress[0].ip: Invalid value: "x": must be a '
                    "valid IP address, (e.g. 10.9.8.7 "
                    "or 2001:db8::ffff)"
                )
            ],
        ),
        (
            [{"hostname": "1.2.3.4"}],
            [
                (
                    'status.loadBalancer.ingress[0].hostname: Invalid value: "1.2.3.4": must '
                    "be a DNS name, not an IP address"
                )
            ],
        ),
        ([{"hostname": "a.b", "ports": [{"port": 0, "protocol": "X", "error": "a b"}]}], []),
    ],
)
def test_ingress_status(judge, ingress, wrong):
    judge.made(INGRESSES, named(spec={"defaultBackend": BACKEND}))
    assert (
        judge.change(
            INGRESSES, "rules-x", {"status": {"loadBalancer": {"ingress": ingress}}}, "status"
        )
        == wrong
    )


@pytest.mark.parametrize(
    ("spec", "wrong"),
    [
        ({"controller": "a.b/c", "parameters": {"kind": "X", "name": "a"}}, []),
        ({}, ["spec.controller: Required value"]),
        (
            {"controller": "a"},
            [
                (
                    'spec.controller: Invalid value: "a": must be a domain-prefixed path '
                    '(such as "acme.io/foo")'
                )
            ],
        ),
        (
            {"controller": "a.b/c", "parameters": {"kind": "X", "name": "a", "scope": "Namespace"}},
            ["spec.parameters.namespace: Required value: `parameters.scope` is set to 'Namespace'"],
        ),
        (
            {
                "controller": "a.b/c",
                "parameters": {"kind": "X", "name": "a", "scope": "Cluster", "namespace": "q"},
            },
            ["spec.parameters.namespace: Forbidden: `parameters.scope` is set to 'Cluster'"],
        ),
    ],
)
def test_ingress_classes(judge, spec, wrong):
    assert judge.create(CLASSES, named(spec=spec)) == wrong


def test_ingress_class_controller_is_immutable(judge):
    judge.made(CLASSES, named(spec={"controller": "a.b/c"}))
    wrong = judge.change(CLASSES, "rules-x", {"spec": {"controller": "a.b/d"}})
    assert wrong == ['spec.controller: Invalid value: "a.b/d": field is immutable']


@pytest.mark.parametrize(
    ("spec", "types"),
    [
        ({}, ["Ingress"]),
        ({"egress": [{}]}, ["Ingress", "Egress"]),
        ({"policyTypes": ["Egress"]}, ["Egress"]),
    ],
)
def test_network_policy_types_are_defaulted(judge, spec, types):
    assert (
        judge.made(POLICIES, named(spec={"podSelector": {}, **spec}))["spec"]["policyTypes"]
        == types
    )


@pytest.mark.parametrize(
    ("spec", "wrong"),
    [
        (
            {
                "ingress": [
                    {
                        "from": [{"podSelector": {}, "namespaceSelector": {}}],
                        "ports": [{"port": 80, "endPort": 90}],
                    }
                ]
            },
            [],
        ),
        (
            {"policyTypes": ["X"]},
            ['spec.policyTypes[0]: Unsupported value: "X": supported values: "Ingress", "Egress"'],
        ),
        (
            {"policyTypes": ["Ingress", "Egress", "Ingress"]},
            [
                (
                    'spec.policyTypes: Invalid value: ["Ingress","Egress","Ingress"]: may '
                    "not specify more than two policyTypes"
                )
            ],
        ),
        (
            {"ingress": [{"from": [{}]}]},
            ["spec.ingress[0].from[0]: Required value: must specify a peer"],
        ),
        (
            {"ingress": [{"from": [{"ipBlock": {"cidr": "x", "except": ["y"]}}]}]},
            [
                (
                    'spec.ingress[0].from[0].ipBlock.cidr: Invalid value: "x": must be a '
                    "valid CIDR value, (e.g. "
                    "10.9.8.0/24 or 2001:db8::/64)"
                )
            ],
        ),
        (
            {
                "ingress": [
                    {"from": [{"ipBlock": {"cidr": "10.0.0.0/8", "except": ["11.1.0.0/16"]}}]}
                ]
            },
            [
                (
                    "spec.ingress[0].from[0].ipBlock.except[0]: Invalid value: "
                    '"11.1.0.0/16": must be a strict subset of `cidr`'
                )
            ],
        ),
        (
            {"ingress": [{"from": [{"ipBlock": {"cidr": "10.0.0.0/8"}, "podSelector": {}}]}]},
            ["spec.ingress[0].from[0]: Forbidden: may not specify both ipBlock and another peer"],
        ),
        (
            {
                "egress": [
                    {
                        "ports": [
                            {"port": "A_"},
                            {"protocol": "X"},
                            {"port": 80, "endPort": 70},
                            {"endPort": 70},
                        ]
                    }
                ]
            },
            [
                (
                    'spec.egress[0].ports[0].port: Invalid value: "A_": must contain '
                    "only alpha-numeric characters (a-z, "
                    "0-9), and hyphens (-)"
                ),
                (
                    'spec.egress[0].ports[0].port: Invalid value: "A_": must contain at '
                    "least one letter (a-z)"
                ),
                (
                    'spec.egress[0].ports[1].protocol: Unsupported value: "X": supported '
                    'values: "TCP", "UDP", "SCTP"'
                ),
                (
                    "spec.egress[0].ports[2].endPort: Invalid value: 80: must be greater "
                    "than or equal to `port`"
                ),
                (
                    "spec.egress[0].ports[3].endPort: Invalid value: 70: may not be "
                    "specified when `port` is not specified"
                ),
            ],
        ),
        (
            {"podSelector": {"matchLabels": {"a b": "c"}}},
            [f'spec.podSelector.matchLabels: Invalid value: "a b": {KEY}'],
        ),
    ],
)
def test_network_policies(judge, spec, wrong):
    assert judge.create(POLICIES, named(spec={"podSelector": {}, **spec})) == wrong


@pytest.mark.parametrize(
    ("name", "parent", "wrong"),
    [
        ("10.9.9.9", {"resource": "services", "name": "a", "namespace": "b"}, []),
        (
            "x",
            {"resource": "services", "name": "a"},
            [
                (
                    'metadata.name: Invalid value: "x": must be a valid IP address, (e.g. '
                    "10.9.8.7 or 2001:db8::ffff)"
                )
            ],
        ),
        (
            "010.9.9.9",
            {"resource": "services", "name": "a"},
            ['metadata.name: Invalid value: "010.9.9.9": must not have leading 0s'],
        ),
        ("10.9.9.9", None, ["spec.parentRef: Required value"]),
        (
            "10.9.9.9",
            {"resource": "", "name": "a/b", "group": "A_"},
            [
                f'spec.parentRef.group: Invalid value: "A_": {SUBDOMAIN}',
                "spec.parentRef.resource: Required value",
                "spec.parentRef.name: Invalid value: \"a/b\": may not contain '/'",
            ],
        ),
    ],
)
def test_ip_addresses(judge, name, parent, wrong):
    assert (
        judge.create(ADDRESSES, named(name, spec={"parentRef": parent} if parent else {})) == wrong
    )


@pytest.mark.parametrize(
    ("blocks", "wrong"),
    [
        (["10.5.0.0/24"], []),
        ([], ["spec.cidrs: Required value: at least one CIDR required"]),
        (
            ["x"],
            [
                (
                    'spec.cidrs[0]: Invalid value: "x": must be a valid CIDR value, (e.g. '
                    "10.9.8.0/24 or 2001:db8::/64)"
                )
            ],
        ),
        (
            ["10.5.0.1/24"],
            [
                (
                    'spec.cidrs[0]: Invalid value: "10.5.0.1/24": must not have bits set '
                    "beyond the prefix length"
                )
            ],
        ),
        (
            ["10.5.0.0/24", "10.6.0.0/24"],
            [
                (
                    'spec.cidrs: Invalid value: ["10.5.0.0/24","10.6.0.0/24"]: may '
                    "specify no more than one IP for each "
                    "IP family, i.e 192.168.0.0/24 and 2001:db8::/64"
                )
            ],
        ),
    ],
)
def test_service_ranges(judge, blocks, wrong):
    assert judge.create(RANGES, named(spec={"cidrs": blocks})) == wrong


@pytest.mark.parametrize(
    ("subset", "wrong"),
    [
        ({"addresses": [{"ip": "1.2.3.4"}], "ports": [{"port": 80}]}, []),
        ({}, ["subsets[0]: Required value: must specify `addresses` or `notReadyAddresses`"]),
        (
            {"addresses": [{"ip": "x"}], "ports": [{"port": 0}]},
            [
                (
                    'subsets[0].addresses[0].ip: Invalid value: "x": must be a valid IP '
                    "address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
                ),
                'subsets[0].addresses[0].ip: Invalid value: "x": must be a valid IP address',
                (
                    "subsets[0].ports[0].port: Invalid value: 0: must be between 1 and "
                    "65535, inclusive"
                ),
            ],
        ),
        (
            {"addresses": [{"ip": "127.0.0.1"}], "ports": [{"port": 80}, {"port": 81}]},
            [
                (
                    'subsets[0].addresses[0].ip: Invalid value: "127.0.0.1": may not be in '
                    "the loopback range (127.0.0.0/8, ::1/128)"
                ),
                "subsets[0].ports[0].name: Required value",
                "subsets[0].ports[1].name: Required value",
            ],
        ),
        (
            {
                "addresses": [{"ip": "1.2.3.4", "hostname": "A"}],
                "ports": [{"port": 80, "name": "A", "protocol": "X"}],
            },
            [
                f'subsets[0].addresses[0].hostname: Invalid value: "A": {LABEL}',
                f'subsets[0].ports[0].name: Invalid value: "A": {LABEL}',
                (
                    'subsets[0].ports[0].protocol: Unsupported value: "X": supported values: '
                    '"SCTP", "TCP", "UDP"'
                ),
            ],
        ),
    ],
)
def test_endpoints(judge, subset, wrong):
    assert judge.create(ENDPOINTS, named(subsets=[subset])) == wrong


@pytest.mark.parametrize(
    ("content", "wrong"),
    [
        ({"endpoints": [{"addresses": ["1.2.3.4"]}], "ports": [{"port": 80}]}, []),
        (
            {"addressType": "X"},
            ['addressType: Unsupported value: "X": supported values: "FQDN", "IPv4", "IPv6"'],
        ),
        (
            {"endpoints": [{"addresses": []}]},
            ["endpoints[0].addresses: Required value: must contain at least 1 address"],
        ),
        (
            {"endpoints": [{"addresses": ["x"]}, {"addresses": ["fd00::1"]}]},
            [
                (
                    'endpoints[0].addresses[0]: Invalid value: "x": must be a valid IP '
                    "address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
                ),
                'endpoints[1].addresses: Invalid value: "fd00::1": must be an IPv4 address',
            ],
        ),
        (
            {"endpoints": [{"addresses": ["127.0.0.1"]}]},
            [
                (
                    'endpoints[0].addresses[0]: Invalid value: "127.0.0.1": may not be in '
                    "the loopback range (127.0.0.0/8, ::1/128)"
                )
            ],
        ),
        ({"endpoints": [{"addresses": ["1.2.3.4", "1.2.3.4"]}]}, []),
        (
            {"endpoints": [{"addresses": ["1.2.3.4"], "hostname": "A", "zone": "a b"}]},
            [f'endpoints[0].hostname: Invalid value: "A": {LABEL}'],
        ),
        (
            {"ports": [{"name": "a", "port": 80, "protocol": "X"}, {"name": "a", "port": 70000}]},
            [
                'ports[0].protocol: Unsupported value: "X": supported values: "SCTP", "TCP", "UDP"',
                'ports[1].name: Duplicate value: "a"',
            ],
        ),
        (
            {
                "endpoints": [
                    {
                        "addresses": ["1.2.3.4"],
                        "hints": {"forZones": [{"name": "a"}, {"name": "a"}]},
                    }
                ]
            },
            ['endpoints[0].hints.forZones[1].name: Duplicate value: "a"'],
        ),
    ],
)
def test_endpoint_slices(judge, content, wrong):
    assert (
        judge.create(ENDPOINT_SLICES, named(**{"addressType": "IPv4", "endpoints": [], **content}))
        == wrong
    )


def test_endpoint_slice_address_type_is_immutable(judge):
    judge.made(ENDPOINT_SLICES, named(addressType="IPv4", endpoints=[]))
    wrong = judge.change(ENDPOINT_SLICES, "rules-x", {"addressType": "IPv6"})
    assert wrong == ['addressType: Invalid value: "IPv6": field is immutable']
