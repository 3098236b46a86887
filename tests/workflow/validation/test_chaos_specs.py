"""Specs of each chaos kind: accepted and refused as by its webhook."""

from __future__ import annotations

import pytest

from pytest_kscen.objects.chaos_mesh import KINDS
from pytest_kscen.workflow.validation import ERROR, WARNING, validate
from tests.workflow.validation.drafts import PODS, SELECTOR, chaos, workflow

LOSS = {"loss": {"loss": "25", "correlation": "0"}}
DELAY = {"delay": {"latency": "90ms", "jitter": "1.5ms", "correlation": "25"}}
BANDWIDTH = {"rate": "1mbps", "limit": 20971520, "buffer": 10000}
FILES = {
    "volumePath": "/data",
    "path": "/data/**/*",
    "percent": 50,
    "methods": ["read", "WRITE"],
    **PODS,
}
JAVA = {"class": "Main", "method": "sayHello", **PODS}
MACHINE = {"mode": "all", "address": ["10.0.0.1:31767"]}
EC2 = {"awsRegion": "us-east-2", "ec2Instance": "i-1", "secretName": "s"}
VM = {"subscriptionID": "s", "resourceGroupName": "g", "vmName": "v"}
GCE = {"project": "p", "zone": "z", "instance": "i"}

GOOD = [
    ("NetworkChaos", {"action": "partition", **PODS, "direction": "both", "target": PODS}),
    (
        "NetworkChaos",
        {
            "action": "partition",
            **PODS,
            "direction": "from",
            "externalTargets": ["1.2.3.4", "a.com"],
        },
    ),
    (
        "NetworkChaos",
        {
            "action": "delay",
            **PODS,
            **DELAY,
            "device": "eth0",
            "direction": "to",
            "externalTargets": ["a.com"],
        },
    ),
    (
        "NetworkChaos",
        {
            "action": "delay",
            **PODS,
            "delay": {
                "latency": "1s",
                "reorder": {"reorder": "0.5", "correlation": "50", "gap": 5},
            },
        },
    ),
    ("NetworkChaos", {"action": "loss", **PODS, **LOSS}),
    ("NetworkChaos", {"action": "netem", **PODS, **LOSS, **DELAY}),
    ("NetworkChaos", {"action": "duplicate", **PODS, "duplicate": {"duplicate": "40"}}),
    ("NetworkChaos", {"action": "corrupt", **PODS, "corrupt": {"corrupt": "100"}}),
    ("NetworkChaos", {"action": "bandwidth", **PODS, "bandwidth": BANDWIDTH}),
    ("PodChaos", {"action": "pod-kill", **PODS, "gracePeriod": 0}),
    ("PodChaos", {"action": "pod-failure", "mode": "fixed", "value": "2", "selector": SELECTOR}),
    (
        "PodChaos",
        {
            "action": "container-kill",
            "mode": "fixed-percent",
            "value": "100",
            "selector": {},
            "containerNames": ["c"],
        },
    ),
    (
        "StressChaos",
        {**PODS, "stressors": {"cpu": {"workers": 1, "load": 20, "options": ["--cpu 1"]}}},
    ),
    (
        "StressChaos",
        {**PODS, "stressors": {"memory": {"workers": 4, "size": "256MB"}}, "containerNames": ["c"]},
    ),
    (
        "StressChaos",
        {**PODS, "stressors": {"memory": {"workers": 4, "size": "50%", "oomScoreAdj": -1000}}},
    ),
    ("StressChaos", {**PODS, "stressngStressors": "--cpu 1"}),
    ("IOChaos", {"action": "latency", "delay": "100ms", **FILES}),
    ("IOChaos", {"action": "fault", "errno": 5, **FILES}),
    (
        "IOChaos",
        {"action": "attrOverride", "attr": {"perm": 72, "atime": {"sec": 1, "nsec": 0}}, **FILES},
    ),
    (
        "IOChaos",
        {
            "action": "mistake",
            "mistake": {"filling": "zero", "maxOccurrences": 1, "maxLength": 1},
            **FILES,
        },
    ),
    (
        "TimeChaos",
        {
            "timeOffset": "-10m100ns",
            **PODS,
            "clockIds": ["CLOCK_REALTIME"],
            "containerNames": ["c"],
        },
    ),
    (
        "DNSChaos",
        {"action": "error", **PODS, "patterns": ["google.com", "chaos-mesh.*", "github.?om"]},
    ),
    (
        "HTTPChaos",
        {"target": "Request", "port": 80, "method": "GET", "path": "/api", "abort": True, **PODS},
    ),
    (
        "HTTPChaos",
        {"target": "Response", "port": 80, "replace": {"code": 404, "headers": {"a": "b"}}, **PODS},
    ),
    (
        "JVMChaos",
        {"action": "exception", "exception": "java.io.IOException()", "port": 9277, **JAVA},
    ),
    ("JVMChaos", {"action": "return", "returnValue": "9", **JAVA}),
    ("JVMChaos", {"action": "latency", "latency": 3000, **JAVA}),
    ("JVMChaos", {"action": "stress", "cpuCount": 1, **PODS}),
    ("JVMChaos", {"action": "gc", **PODS}),
    ("JVMChaos", {"action": "ruleData", "ruleData": "RULE a", **PODS}),
    (
        "JVMChaos",
        {
            "action": "mysql",
            "mysqlConnectorVersion": "8",
            "latency": 1000,
            "sqlType": "select",
            **PODS,
        },
    ),
    (
        "KernelChaos",
        {
            "failKernRequest": {
                "failtype": 0,
                "callchain": [{"funcname": "__x64_sys_mount"}],
                "times": 1,
            },
            **PODS,
        },
    ),
    ("BlockChaos", {"action": "delay", "volumeName": "v", "delay": {"latency": "1s"}, **PODS}),
    ("AWSChaos", {"action": "ec2-stop", **EC2}),
    ("AWSChaos", {"action": "detach-volume", "volumeID": "v", "deviceName": "/dev/sdf", **EC2}),
    ("AzureChaos", {"action": "vm-stop", **VM}),
    ("AzureChaos", {"action": "disk-detach", "diskName": "d", "lun": 0, **VM}),
    ("GCPChaos", {"action": "node-reset", **GCE}),
    ("GCPChaos", {"action": "disk-loss", "deviceNames": ["d"], **GCE}),
    ("PhysicalMachineChaos", {"action": "stress-mem", "stress-mem": {"size": "10MB"}, **MACHINE}),
    (
        "PhysicalMachineChaos",
        {
            "action": "clock",
            "clock": {"pid": 1},
            "mode": "one",
            "selector": {"physicalMachines": {"a": ["m"]}},
        },
    ),
]


@pytest.mark.parametrize(("kind", "spec"), GOOD)
def test_specs_admitted_by_the_webhook_are_valid(kind, spec):
    assert validate(workflow(chaos(kind, **spec))) == []


def test_every_kind_is_covered():
    assert {kind for kind, _ in GOOD} == set(KINDS)


NETWORK = {"action": "partition", **PODS}
BAD = [
    *((kind, {}, "is missing") for kind in KINDS),
    # whom it is for
    (
        "PodChaos",
        {"action": "pod-kill", "selector": SELECTOR},
        "podChaos: template 'hurt': mode is missing",
    ),
    (
        "PodChaos",
        {"action": "pod-kill", "mode": "some", "selector": {}},
        "podChaos.mode: template 'hurt': 'some' is none of one, all,",
    ),
    (
        "PodChaos",
        {"action": "pod-kill", "mode": "fixed", "selector": {}},
        "mode: template 'hurt': the mode fixed needs a value",
    ),
    (
        "PodChaos",
        {"action": "pod-kill", "mode": "fixed", "value": "0", "selector": {}},
        "'0' does not fit the mode fixed",
    ),
    (
        "PodChaos",
        {"action": "pod-kill", "mode": "fixed", "value": 2, "selector": {}},
        "value: template 'hurt': 2 is not a string: put it in",
    ),
    (
        "PodChaos",
        {"action": "pod-kill", "mode": "fixed-percent", "value": "101", "selector": {}},
        "whole number from 1 to 100",
    ),
    (
        "PodChaos",
        {"action": "pod-kill", "mode": "random-max-percent", "value": "5%", "selector": {}},
        "'5%' does not fit the mode random",
    ),
    (
        "PodChaos",
        {"action": "pod-kill", "mode": "all"},
        "podChaos: template 'hurt': selector is missing",
    ),
    (
        "PodChaos",
        {"action": "pod-kill", "mode": "all", "selector": {"namespaces": "default"}},
        "namespaces: template 'hurt': 'default' is not a list",
    ),
    (
        "PodChaos",
        {"action": "pod-kill", "mode": "all", "selector": {"labelSelectors": {"a b": "c"}}},
        "'a b' is not a label's key",
    ),
    (
        "PodChaos",
        {"action": "pod-kill", "mode": "all", "selector": {"labelSelectors": {"a": "b c"}}},
        "'b c' is not a label's value",
    ),
    (
        "PodChaos",
        {"action": "pod-kill", "mode": "all", "selector": {"pods": ["a"]}},
        "selector.pods: template 'hurt': ['a'] is not a map",
    ),
    (
        "PodChaos",
        {"action": "pod-kill", "mode": "all", "selector": {"podPhaseSelectors": ["On"]}},
        "'On' is none of Pending, Running",
    ),
    *(
        (
            "PodChaos",
            {
                "action": "pod-kill",
                "mode": "all",
                "selector": {"expressionSelectors": [{"key": "a", **one}]},
            },
            words,
        )
        for one, words in [
            ({"operator": "Is"}, "'Is' is none of In, NotIn, Exists, DoesNotExist"),
            ({"operator": "In"}, "the operator In needs values to compare with"),
            ({"operator": "Exists", "values": ["a"]}, "the operator Exists takes no values"),
        ]
    ),
    # what it does
    (
        "PodChaos",
        {"action": "pod-kil", **PODS},
        "'pod-kil' is none of pod-kill, pod-failure, container-kill (did you mean 'pod-kill'?)",
    ),
    (
        "PodChaos",
        {"action": "container-kill", **PODS},
        "podChaos: template 'hurt': the action container-kill needs containerNames",
    ),
    (
        "PodChaos",
        {"action": "pod-kill", **PODS, "gracePeriod": -1},
        "gracePeriod: template 'hurt': -1 is too small: the minimum is 0",
    ),
    (
        "NetworkChaos",
        {**NETWORK, "direction": "both"},
        "the direction both needs a target: set target or externalTargets",
    ),
    ("NetworkChaos", {**NETWORK, "direction": "up"}, "'up' is none of to, from, both"),
    (
        "NetworkChaos",
        {**NETWORK, "direction": "both", "target": {"mode": "fixed", "selector": {}}},
        "target.mode: template 'hurt': the mode",
    ),
    (
        "NetworkChaos",
        {**NETWORK, "target": {"mode": "all"}},
        "networkChaos.target: template 'hurt': selector is missing",
    ),
    (
        "NetworkChaos",
        {**LOSS, "action": "loss", **PODS, "direction": "from", "externalTargets": ["a"]},
        "externalTargets cannot be used with",
    ),
    *(
        ("NetworkChaos", {"action": each, **PODS}, f"the action {each} needs {each}")
        for each in ("delay", "loss", "duplicate", "corrupt", "bandwidth")
    ),
    (
        "NetworkChaos",
        {"action": "netem", **PODS},
        "the action netem needs one of delay, loss, duplicate, corrupt, rate, bandwidth",
    ),
    (
        "NetworkChaos",
        {"action": "loss", **PODS, "loss": {"loss": 25}},
        "loss.loss: template 'hurt': 25 is not a string: put it in quotes",
    ),
    (
        "NetworkChaos",
        {"action": "loss", **PODS, "loss": {"loss": "25%"}},
        "'25%' is not a percentage: write a number from 0 to 100",
    ),
    (
        "NetworkChaos",
        {"action": "loss", **PODS, "loss": {"loss": "101"}},
        "'101' is not a percentage",
    ),
    (
        "NetworkChaos",
        {"action": "loss", **PODS, "loss": {"loss": "1", "correlation": "-1"}},
        "'-1' is not a percentage",
    ),
    (
        "NetworkChaos",
        {"action": "delay", **PODS, "delay": {"latency": "soon"}},
        "'soon' is not a duration",
    ),
    (
        "NetworkChaos",
        {"action": "delay", **PODS, "delay": {"latency": "1m30s"}},
        "'1m30s' is more than a number and a unit: write it",
    ),
    (
        "NetworkChaos",
        {"action": "bandwidth", **PODS, "bandwidth": {**BANDWIDTH, "rate": "1mbit"}},
        "'1mbit' is not a rate",
    ),
    (
        "NetworkChaos",
        {"action": "bandwidth", **PODS, "bandwidth": {**BANDWIDTH, "limit": 0}},
        "0 is too small: the minimum is 1",
    ),
    ("StressChaos", PODS, "StressChaos needs one of stressors, stressngStressors"),
    (
        "StressChaos",
        {**PODS, "stressors": {"cpu": None}},
        "stressors has neither cpu nor memory: nothing is stressed",
    ),
    (
        "StressChaos",
        {**PODS, "stressors": {"cpu": {"workers": 0}}},
        "cpu has no workers: nothing is stressed",
    ),
    (
        "StressChaos",
        {**PODS, "stressors": {"cpu": {"workers": 1, "load": 101}}},
        "101 is too large: the maximum is 100",
    ),
    (
        "StressChaos",
        {**PODS, "stressors": {"memory": {"workers": 1, "size": "much"}}},
        "'much' is not an amount of memory",
    ),
    ("IOChaos", {"action": "latency", **FILES}, "the action latency needs delay"),
    ("IOChaos", {"action": "fault", "errno": 0, **FILES}, "the action fault needs errno"),
    ("IOChaos", {"action": "attrOverride", **FILES}, "the action attrOverride needs attr"),
    ("IOChaos", {"action": "mistake", **FILES}, "the action mistake needs mistake"),
    (
        "IOChaos",
        {"action": "fault", "errno": 5, **FILES, "methods": ["reed"]},
        "methods[0]: template 'hurt': 'reed' is none of",
    ),
    (
        "IOChaos",
        {"action": "fault", "errno": 5, **FILES, "percent": 101},
        "101 is too large: the maximum is 100",
    ),
    ("TimeChaos", {"timeOffset": "late", **PODS}, "'late' is not a duration"),
    (
        "TimeChaos",
        {"timeOffset": "1h", "clockIds": ["REALTIME"], **PODS},
        "'REALTIME' is none of CLOCK_REALTIME",
    ),
    (
        "DNSChaos",
        {"action": "error", **PODS, "patterns": ["*.com"]},
        "'*.com' has a * before its end: only the last character may be one",
    ),
    (
        "HTTPChaos",
        {"target": "Request", "abort": True, **PODS},
        "port is missing: it selects the traffic",
    ),
    (
        "HTTPChaos",
        {"target": "Request", "port": 80, **PODS},
        "HTTPChaos needs one of abort, delay, replace, patch",
    ),
    (
        "HTTPChaos",
        {"target": "Request", "port": 80, "method": "get", "abort": True, **PODS},
        "'get' is none of GET, POST",
    ),
    ("JVMChaos", {"action": "return", **JAVA}, "the action return needs returnValue"),
    (
        "JVMChaos",
        {"action": "return", "value": "9999", **JAVA},
        "the action return needs returnValue (did you mean returnValue instead of value?)",
    ),
    ("JVMChaos", {"action": "latency", "latency": 1, **PODS}, "the action latency needs class"),
    ("JVMChaos", {"action": "stress", **PODS}, "the action stress needs one of cpuCount, memType"),
    (
        "JVMChaos",
        {"action": "stress", "cpuCount": 1, "memType": "heap", **PODS},
        "JVMChaos cannot have cpuCount and memType",
    ),
    (
        "JVMChaos",
        {"action": "mysql", "mysqlConnectorVersion": "7", "latency": 1, **PODS},
        "'7' is none of '5', '8'",
    ),
    (
        "KernelChaos",
        {"failKernRequest": {"failtype": 3}, **PODS},
        "3 is too large: the maximum is 2",
    ),
    ("AWSChaos", {"action": "detach-volume", **EC2}, "the action detach-volume needs volumeID"),
    (
        "AzureChaos",
        {"action": "disk-detach", "diskName": "d", **VM},
        "the action disk-detach needs lun",
    ),
    (
        "GCPChaos",
        {"action": "disk-loss", "deviceNames": [], **GCE},
        "the action disk-loss needs deviceNames",
    ),
    ("PhysicalMachineChaos", {"action": "clock", **MACHINE}, "the action clock needs clock"),
    (
        "PhysicalMachineChaos",
        {"action": "clock", "clock": {"pid": 1}, "mode": "all"},
        "needs one of address, selector",
    ),
    (
        "PhysicalMachineChaos",
        {"action": "clock", "clock": {"pid": 1}, **MACHINE, "selector": SELECTOR},
        "cannot have address and selector",
    ),
]


@pytest.mark.parametrize(("kind", "spec", "words"), BAD)
def test_specs_refused_by_the_webhook_are_errors(kind, spec, words):
    reported = [
        str(fault) for fault in validate(workflow(chaos(kind, **spec))) if fault.severity == ERROR
    ]
    assert any(words in line for line in reported), reported


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"value": "1"}, "podChaos.value: template 'hurt': value is ignored with the mode all"),
        (
            {"gracePeroid": 1},
            (
                "gracePeroid: template 'hurt': unknown field 'gracePeroid' (did you "
                "mean 'gracePeriod'?)"
            ),
        ),
        (
            {"selector": {"namespace": ["a"]}},
            "unknown field 'namespace' (did you mean 'namespaces'?)",
        ),
    ],
)
def test_questionable_spec_is_a_warning(more, words):
    (reported,) = validate(workflow(chaos("PodChaos", **{"action": "pod-kill", **PODS, **more})))
    assert reported.severity == WARNING
    assert words in str(reported)
