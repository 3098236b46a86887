import pytest

from pytest_kscen.objects import names
from pytest_kscen.objects.resources import SERVICES

SUBDOMAIN = names.dns1123_subdomain("-")[0]
PORTS = [{"port": 80}]


def service(**spec):
    return {"metadata": {"name": "s"}, "spec": {"clusterIP": "10.0.0.220", **spec}}


@pytest.mark.parametrize(
    ("given", "filled"),
    [
        (
            {"ports": PORTS},
            {
                "ports": [{"protocol": "TCP", "port": 80, "targetPort": 80}],
                "clusterIP": "10.0.0.220",
                "clusterIPs": ["10.0.0.220"],
                "type": "ClusterIP",
                "sessionAffinity": "None",
                "ipFamilies": ["IPv4"],
                "ipFamilyPolicy": "SingleStack",
                "internalTrafficPolicy": "Cluster",
            },
        ),
        (
            {
                "ports": [{"port": 80, "targetPort": "http", "protocol": "UDP"}],
                "sessionAffinity": "ClientIP",
            },
            {
                "ports": [{"protocol": "UDP", "port": 80, "targetPort": "http"}],
                "clusterIP": "10.0.0.220",
                "clusterIPs": ["10.0.0.220"],
                "type": "ClusterIP",
                "sessionAffinity": "ClientIP",
                "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 10800}},
                "ipFamilies": ["IPv4"],
                "ipFamilyPolicy": "SingleStack",
                "internalTrafficPolicy": "Cluster",
            },
        ),
        (
            {"ports": [{"port": 80, "nodePort": 30217}], "type": "NodePort"},
            {
                "ports": [{"protocol": "TCP", "port": 80, "targetPort": 80, "nodePort": 30217}],
                "clusterIP": "10.0.0.220",
                "clusterIPs": ["10.0.0.220"],
                "type": "NodePort",
                "sessionAffinity": "None",
                "externalTrafficPolicy": "Cluster",
                "ipFamilies": ["IPv4"],
                "ipFamilyPolicy": "SingleStack",
                "internalTrafficPolicy": "Cluster",
            },
        ),
        (
            {"ports": [{"port": 80, "nodePort": 30217}], "type": "LoadBalancer"},
            {
                "ports": [{"protocol": "TCP", "port": 80, "targetPort": 80, "nodePort": 30217}],
                "clusterIP": "10.0.0.220",
                "clusterIPs": ["10.0.0.220"],
                "type": "LoadBalancer",
                "sessionAffinity": "None",
                "externalTrafficPolicy": "Cluster",
                "ipFamilies": ["IPv4"],
                "ipFamilyPolicy": "SingleStack",
                "allocateLoadBalancerNodePorts": True,
                "internalTrafficPolicy": "Cluster",
            },
        ),
        (
            {"ports": PORTS, "type": "LoadBalancer", "allocateLoadBalancerNodePorts": False},
            {
                "ports": [{"protocol": "TCP", "port": 80, "targetPort": 80}],
                "clusterIP": "10.0.0.220",
                "clusterIPs": ["10.0.0.220"],
                "type": "LoadBalancer",
                "sessionAffinity": "None",
                "externalTrafficPolicy": "Cluster",
                "ipFamilies": ["IPv4"],
                "ipFamilyPolicy": "SingleStack",
                "allocateLoadBalancerNodePorts": False,
                "internalTrafficPolicy": "Cluster",
            },
        ),
        (
            {"clusterIP": "None", "selector": {"a": "b"}},
            {
                "selector": {"a": "b"},
                "clusterIP": "None",
                "clusterIPs": ["None"],
                "type": "ClusterIP",
                "sessionAffinity": "None",
                "ipFamilies": ["IPv4"],
                "ipFamilyPolicy": "SingleStack",
                "internalTrafficPolicy": "Cluster",
            },
        ),
        (
            {"clusterIP": "None"},
            {
                "clusterIP": "None",
                "clusterIPs": ["None"],
                "type": "ClusterIP",
                "sessionAffinity": "None",
                "ipFamilies": ["IPv4", "IPv6"],
                "ipFamilyPolicy": "RequireDualStack",
                "internalTrafficPolicy": "Cluster",
            },
        ),
        (
            {"clusterIP": None, "type": "ExternalName", "externalName": "example.com"},
            {"type": "ExternalName", "sessionAffinity": "None", "externalName": "example.com"},
        ),
        (
            {"ports": PORTS, "externalIPs": ["1.2.3.4"]},
            {
                "ports": [{"protocol": "TCP", "port": 80, "targetPort": 80}],
                "clusterIP": "10.0.0.220",
                "clusterIPs": ["10.0.0.220"],
                "type": "ClusterIP",
                "externalIPs": ["1.2.3.4"],
                "sessionAffinity": "None",
                "externalTrafficPolicy": "Cluster",
                "ipFamilies": ["IPv4"],
                "ipFamilyPolicy": "SingleStack",
                "internalTrafficPolicy": "Cluster",
            },
        ),
        (
            {
                "clusterIP": None,
                "type": "ExternalName",
                "externalName": "example.com",
                "ports": PORTS,
            },
            {
                "ports": [{"protocol": "TCP", "port": 80, "targetPort": 80}],
                "type": "ExternalName",
                "sessionAffinity": "None",
                "externalName": "example.com",
            },
        ),
    ],
)
def test_defaults(judge, given, filled):
    made = judge.made(SERVICES, service(**given))
    assert (made["spec"], made["status"]) == (filled, {"loadBalancer": {}})


@pytest.mark.parametrize(
    ("given", "wrong"),
    [
        ({}, ["spec.ports: Required value"]),
        (
            {"ports": PORTS, "type": "X"},
            [
                (
                    'spec.type: Unsupported value: "X": supported values: "ClusterIP", '
                    '"ExternalName", "LoadBalancer", "NodePort"'
                )
            ],
        ),
        (
            {"type": "ExternalName", "externalName": "A_b"},
            [
                "spec.clusterIPs: Forbidden: may not be set for ExternalName services",
                f'spec.externalName: Invalid value: "A_b": {SUBDOMAIN}',
            ],
        ),
        ({"clusterIP": "", "type": "ExternalName"}, ["spec.externalName: Required value"]),
        (
            {"ports": PORTS, "clusterIP": "x"},
            [
                (
                    'spec.clusterIPs[0]: Invalid value: "x": must be a valid IP address, '
                    "(e.g. 10.9.8.7 or 2001:db8::ffff)"
                )
            ],
        ),
        (
            {"ports": PORTS, "clusterIP": "10.1.0.1"},
            [
                (
                    'spec.clusterIPs: Invalid value: ["10.1.0.1"]: failed to allocate IP '
                    "10.1.0.1: the provided IP "
                    "(10.1.0.1) is not in the valid range. The range of valid IPs is 10.0.0.0/24"
                )
            ],
        ),
        (
            {"ports": PORTS, "clusterIP": "10.0.0.0"},
            [
                (
                    'spec.clusterIPs: Invalid value: ["10.0.0.0"]: failed to allocate IP '
                    "10.0.0.0: the provided IP "
                    "(10.0.0.0) is not in the valid range. The range of valid IPs is 10.0.0.0/24"
                )
            ],
        ),
        (
            {"ports": PORTS, "clusterIP": "fd00::1"},
            [
                (
                    'spec.clusterIPs[0]: Invalid value: ["fd00::1"]: IPv6 is not configured '
                    "on this cluster"
                )
            ],
        ),
        (
            {"ports": PORTS, "clusterIPs": ["10.0.0.221"]},
            ['spec.clusterIPs: Invalid value: ["10.0.0.221"]: first value must match `clusterIP`'],
        ),
        (
            {"ports": PORTS, "clusterIPs": ["10.0.0.220", "10.0.0.221"]},
            [
                (
                    'spec.clusterIPs: Invalid value: ["10.0.0.220","10.0.0.221"]: may '
                    "specify no more than one IP for each IP family"
                )
            ],
        ),
        (
            {"ports": PORTS, "clusterIP": "None", "type": "NodePort"},
            [
                (
                    "spec.clusterIPs[0]: Invalid value: \"None\": may not be set to 'None' "
                    "for NodePort services"
                )
            ],
        ),
        (
            {"ports": PORTS, "ipFamilies": ["IPv6"]},
            [
                (
                    'spec.clusterIPs[0]: Invalid value: "10.0.0.220": expected an IPv6 value '
                    "as indicated by `ipFamilies[0]`"
                )
            ],
        ),
        (
            {"ports": PORTS, "ipFamilies": ["IPv4", "IPv4"]},
            ['spec.ipFamilies[1]: Duplicate value: "IPv4"'],
        ),
        (
            {"ports": PORTS, "ipFamilyPolicy": "RequireDualStack"},
            [
                (
                    'spec.ipFamilyPolicy: Invalid value: "RequireDualStack": this cluster is '
                    "not configured for dual-stack services"
                )
            ],
        ),
        (
            {"ports": [{"port": 0}, {"port": 81}]},
            [
                "spec.ports[0].name: Required value",
                "spec.ports[0].port: Invalid value: 0: must be between 1 and 65535, inclusive",
                (
                    "spec.ports[0].targetPort: Invalid value: 0: must be between 1 and "
                    "65535, inclusive"
                ),
                "spec.ports[1].name: Required value",
            ],
        ),
        (
            {"ports": [{"port": 80, "name": "a"}, {"port": 80, "name": "b"}]},
            [
                (
                    "spec.ports[1]: Duplicate value: "
                    '{"Name":"","Protocol":"TCP","AppProtocol":null,"Port":80,"TargetPort":0,"NodePort":0}'
                )
            ],
        ),
        (
            {"ports": [{"port": 80, "name": "a"}, {"port": 81, "name": "a", "protocol": "X"}]},
            [
                'spec.ports[1].name: Duplicate value: "a"',
                (
                    'spec.ports[1].protocol: Unsupported value: "X": supported values: '
                    '"SCTP", "TCP", "UDP"'
                ),
            ],
        ),
        (
            {"ports": [{"port": 80, "targetPort": 70000, "appProtocol": "a/b/c"}]},
            [
                (
                    "spec.ports[0].targetPort: Invalid value: 70000: must be between 1 and "
                    "65535, inclusive"
                ),
                (
                    'spec.ports[0].appProtocol: Invalid value: "a/b/c": a valid label '
                    "key must consist of alphanumeric "
                    "characters, '-', '_' or '.', and must start and end with an "
                    "alphanumeric character (e.g. 'MyName',  "
                    "or 'my.name',  or '123-abc', regex used for validation is "
                    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]') with an optional DNS "
                    "subdomain prefix and '/' (e.g. "
                    "'example.com/MyName')"
                ),
            ],
        ),
        (
            {"ports": [{"port": 80, "nodePort": 30003}]},
            ["spec.ports[0].nodePort: Forbidden: may not be used when `type` is 'ClusterIP'"],
        ),
        (
            {
                "ports": PORTS,
                "sessionAffinity": "ClientIP",
                "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 0}},
            },
            [
                (
                    "spec.sessionAffinityConfig.clientIP.timeoutSeconds: Invalid value: 0: "
                    "must be greater than 0 and less than 86400"
                )
            ],
        ),
        (
            {"ports": PORTS, "externalTrafficPolicy": "Local", "internalTrafficPolicy": "X"},
            [
                (
                    'spec.externalTrafficPolicy: Invalid value: "Local": may only be set for '
                    "externally-accessible services"
                ),
                (
                    'spec.internalTrafficPolicy: Unsupported value: "X": supported values: '
                    '"Cluster", "Local"'
                ),
            ],
        ),
        (
            {"ports": PORTS, "externalIPs": ["x", "127.0.0.1", "0.0.0.0", "01.2.3.4"]},
            [
                (
                    'spec.externalIPs[0]: Invalid value: "x": must be a valid IP address, '
                    "(e.g. 10.9.8.7 or 2001:db8::ffff)"
                ),
                (
                    'spec.externalIPs[1]: Invalid value: "127.0.0.1": may not be in the '
                    "loopback range (127.0.0.0/8, ::1/128)"
                ),
                'spec.externalIPs[2]: Invalid value: "0.0.0.0": may not be unspecified (0.0.0.0)',
                'spec.externalIPs[3]: Invalid value: "01.2.3.4": must not have leading 0s',
            ],
        ),
        (
            {"ports": PORTS, "healthCheckNodePort": 31000, "loadBalancerClass": "a"},
            [
                "spec.loadBalancerClass: Forbidden: may only be used when `type` is 'LoadBalancer'",
                (
                    "spec.healthCheckNodePort: Invalid value: 31000: may only be set "
                    "when `type` is 'LoadBalancer' and "
                    "`externalTrafficPolicy` is 'Local'"
                ),
            ],
        ),
        (
            {"ports": PORTS, "type": "LoadBalancer", "loadBalancerSourceRanges": ["x"]},
            [
                (
                    'spec.LoadBalancerSourceRanges[0]: Invalid value: "x": must be a '
                    "valid CIDR value, (e.g. 10.9.8.0/24 "
                    "or 2001:db8::/64)"
                )
            ],
        ),
        (
            {"ports": PORTS, "allocateLoadBalancerNodePorts": True, "trafficDistribution": "X"},
            [
                (
                    "spec.allocateLoadBalancerNodePorts: Forbidden: may only be used when "
                    "`type` is 'LoadBalancer'"
                ),
                (
                    'spec.trafficDistribution: Unsupported value: "X": supported values: '
                    '"PreferClose", '
                    '"PreferSameZone", "PreferSameNode"'
                ),
            ],
        ),
    ],
)
def test_refused(judge, given, wrong):
    assert judge.create(SERVICES, service(**given)) == wrong


@pytest.mark.parametrize(
    ("given", "patch", "wrong"),
    [
        (
            {"ports": PORTS},
            {"clusterIP": "10.0.0.99"},
            ['spec.clusterIPs[0]: Invalid value: ["10.0.0.99"]: may not change once set'],
        ),
        (
            {"ports": PORTS},
            {"clusterIP": "None"},
            ['spec.clusterIPs[0]: Invalid value: ["None"]: may not change once set'],
        ),
        ({"ports": PORTS}, {"clusterIP": None}, []),
        (
            {"ports": PORTS},
            {"ipFamilies": ["IPv6"]},
            [
                (
                    'spec.clusterIPs[0]: Invalid value: "10.0.0.220": expected an IPv6 value '
                    "as indicated by `ipFamilies[0]`"
                )
            ],
        ),
        ({"ports": PORTS}, {"ports": None}, ["spec.ports: Required value"]),
        ({"ports": PORTS}, {"type": "ExternalName"}, ["spec.externalName: Required value"]),
        ({"ports": PORTS}, {"type": "ExternalName", "externalName": "example.com"}, []),
        (
            {"ports": PORTS, "type": "LoadBalancer"},
            {"loadBalancerClass": "example.com/a"},
            ['spec.loadBalancerClass: Invalid value: "example.com/a": may not change once set'],
        ),
        (
            {"clusterIP": "None", "ports": PORTS},
            {"clusterIP": "10.0.0.99"},
            [
                (
                    'spec.ipFamilyPolicy: Invalid value: "RequireDualStack": this cluster is '
                    "not configured for dual-stack services"
                ),
                'spec.ipFamilies[1]: Invalid value: "IPv6": not configured on this cluster',
            ],
        ),
        (
            {"clusterIP": None, "type": "ExternalName", "externalName": "a.b"},
            {"clusterIP": "10.0.0.99"},
            ["spec.clusterIPs: Forbidden: may not be set for ExternalName services"],
        ),
    ],
)
def test_changes(judge, given, patch, wrong):
    judge.made(SERVICES, service(**given))
    assert judge.change(SERVICES, "s", {"spec": patch}) == wrong


@pytest.mark.parametrize(
    ("given", "patch", "filled"),
    [
        (
            {"ports": PORTS},
            {"clusterIP": None, "clusterIPs": None},
            {
                "ports": [{"protocol": "TCP", "port": 80, "targetPort": 80}],
                "clusterIP": "10.0.0.220",
                "clusterIPs": ["10.0.0.220"],
                "type": "ClusterIP",
                "sessionAffinity": "None",
                "ipFamilies": ["IPv4"],
                "ipFamilyPolicy": "SingleStack",
                "internalTrafficPolicy": "Cluster",
            },
        ),
        (
            {"ports": [{"port": 80, "nodePort": 30218}], "type": "NodePort"},
            {"type": "ClusterIP"},
            {
                "ports": [{"protocol": "TCP", "port": 80, "targetPort": 80}],
                "clusterIP": "10.0.0.220",
                "clusterIPs": ["10.0.0.220"],
                "type": "ClusterIP",
                "sessionAffinity": "None",
                "ipFamilies": ["IPv4"],
                "ipFamilyPolicy": "SingleStack",
                "internalTrafficPolicy": "Cluster",
            },
        ),
        (
            {"ports": [{"port": 80, "nodePort": 30218}], "type": "NodePort"},
            {"ports": [{"port": 81}]},
            {
                "ports": [{"protocol": "TCP", "port": 81, "targetPort": 81, "nodePort": 30218}],
                "clusterIP": "10.0.0.220",
                "clusterIPs": ["10.0.0.220"],
                "type": "NodePort",
                "sessionAffinity": "None",
                "externalTrafficPolicy": "Cluster",
                "ipFamilies": ["IPv4"],
                "ipFamilyPolicy": "SingleStack",
                "internalTrafficPolicy": "Cluster",
            },
        ),
        (
            {"ports": PORTS},
            {"type": "ExternalName", "externalName": "example.com"},
            {
                "ports": [{"protocol": "TCP", "port": 80, "targetPort": 80}],
                "type": "ExternalName",
                "sessionAffinity": "None",
                "externalName": "example.com",
            },
        ),
        (
            {"ports": [{"port": 80, "nodePort": 30218}], "type": "LoadBalancer"},
            {"type": "NodePort"},
            {
                "ports": [{"protocol": "TCP", "port": 80, "targetPort": 80, "nodePort": 30218}],
                "clusterIP": "10.0.0.220",
                "clusterIPs": ["10.0.0.220"],
                "type": "NodePort",
                "sessionAffinity": "None",
                "externalTrafficPolicy": "Cluster",
                "ipFamilies": ["IPv4"],
                "ipFamilyPolicy": "SingleStack",
                "internalTrafficPolicy": "Cluster",
            },
        ),
    ],
)
def test_type_change_keeps_or_releases_addresses(judge, given, patch, filled):
    judge.made(SERVICES, service(**given))
    assert judge.changed(SERVICES, "s", {"spec": patch})["spec"] == filled


@pytest.mark.parametrize(
    ("kind", "status", "wrong"),
    [
        ("LoadBalancer", {"ip": "1.2.3.4"}, []),
        (
            "LoadBalancer",
            {"ip": "x", "hostname": "1.2.3.4"},
            [
                (
                    'status.loadBalancer.ingress[0].ip: Invalid value: "x": must be a '
                    "valid IP address, (e.g. 10.9.8.7 "
                    "or 2001:db8::ffff)"
                ),
                (
                    'status.loadBalancer.ingress[0].hostname: Invalid value: "1.2.3.4": must '
                    "be a DNS name, not an IP address"
                ),
            ],
        ),
        (
            "LoadBalancer",
            {"hostname": "a.b", "ipMode": "VIP"},
            [
                (
                    "status.loadBalancer.ingress[0].ipMode: Forbidden: may not be specified "
                    "when `ip` is not set"
                )
            ],
        ),
        (
            "ClusterIP",
            {"ip": "1.2.3.4"},
            [
                (
                    "status.loadBalancer.ingress: Forbidden: may only be used when "
                    "`spec.type` is 'LoadBalancer'"
                )
            ],
        ),
    ],
)
def test_status(judge, kind, status, wrong):
    judge.made(SERVICES, service(ports=PORTS, type=kind))
    assert (
        judge.change(SERVICES, "s", {"status": {"loadBalancer": {"ingress": [status]}}}, "status")
        == wrong
    )


def test_type_change_clears_load_balancer_status(judge):
    judge.made(SERVICES, service(ports=PORTS, type="LoadBalancer"))
    judge.changed(
        SERVICES, "s", {"status": {"loadBalancer": {"ingress": [{"ip": "1.2.3.4"}]}}}, "status"
    )
    assert judge.changed(SERVICES, "s", {"spec": {"type": "ClusterIP"}})["status"] == {
        "loadBalancer": {}
    }
