"""Fields of each chaos kind's spec, from Chaos Mesh's definitions, and of selectors."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from pytest_kscen.objects.arguments import nearest
from pytest_kscen.workflow.validation.value_checks import (
    DURATION,
    HUNDRED,
    NAME,
    PERCENT,
    TEXT,
    WHOLE,
    Shape,
    ValidationIssue,
    a_label_key,
    a_label_value,
    a_list,
    a_map,
    a_record,
    amount_or_percent,
    anything,
    duration,
    error,
    one_of,
    rate,
    shown,
    text,
    warning,
    whole,
    yes_or_no,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_kscen.objects.documents import Path
    from pytest_kscen.objects.resources import Obj


FIXED, FIXED_PERCENT, RANDOM_MAX_PERCENT = "fixed", "fixed-percent", "random-max-percent"
MODES = ("one", "all", FIXED, FIXED_PERCENT, RANDOM_MAX_PERCENT)
OF_VALUES = ("In", "NotIn")
OPERATORS = (*OF_VALUES, "Exists", "DoesNotExist")
POD_PHASES = ("Pending", "Running", "Succeeded", "Failed", "Unknown")


def labels(value: Any, path: Path) -> Iterator[ValidationIssue]:
    yield from a_map(text(a_label_value))(value, path)
    for key in value if isinstance(value, dict) else ():
        if wrong := a_label_key(str(key)):
            yield error((*path, str(key)), wrong)


def _expression(value: Any, path: Path) -> Iterator[ValidationIssue]:
    fields = {"key": text(a_label_key), "operator": one_of(*OPERATORS), "values": a_list(TEXT)}
    yield from a_record(fields, "key", "operator")(value, path)
    if not isinstance(value, dict) or value.get("operator") not in OPERATORS:
        return
    takes_values = value["operator"] in OF_VALUES
    if takes_values != bool(value.get("values")):
        how = "needs values to compare with" if takes_values else "takes no values"
        yield error(
            (*path, "values") if value.get("values") else path,
            f"the operator {value['operator']} {how}",
        )


ANY_SELECTOR: dict[str, Shape] = {
    "namespaces": a_list(NAME),
    "fieldSelectors": a_map(TEXT),
    "labelSelectors": labels,
    "expressionSelectors": a_list(_expression),
    "annotationSelectors": a_map(TEXT),
}
POD_SELECTOR = a_record(
    {
        **ANY_SELECTOR,
        "nodes": a_list(NAME),
        "pods": a_map(a_list(NAME)),
        "nodeSelectors": labels,
        "podPhaseSelectors": a_list(one_of(*POD_PHASES)),
    }
)
MACHINE_SELECTOR = a_record({**ANY_SELECTOR, "physicalMachines": a_map(a_list(NAME))})

SELECTED: dict[str, Shape] = {"mode": one_of(*MODES), "value": TEXT, "selector": POD_SELECTOR}


def amount(spec: Obj, path: Path) -> Iterator[ValidationIssue]:
    """Yield issues of `value`, the number of selected targets, which some modes require."""
    mode, value = spec.get("mode"), spec.get("value")
    if mode not in MODES or not isinstance(value, str | None):
        return
    if mode not in (FIXED, FIXED_PERCENT, RANDOM_MAX_PERCENT):
        if value:
            yield warning((*path, "value"), f"value is ignored with the mode {mode}")
    elif not value:
        yield error(
            (*path, "mode"),
            (
                f"the mode {mode} needs a value, the number or share of selected targets: write "
                "it in quotes"
            ),
        )
    elif not WHOLE.fullmatch(value) or not int(value) or (mode != FIXED and int(value) > HUNDRED):
        bounds = "above 0" if mode == FIXED else "from 1 to 100"
        yield error(
            (*path, "value"),
            f"{value!r} does not fit the mode {mode}: write a whole number {bounds}, in quotes",
        )


PORT = whole(1, 65535)
COUNT = whole(0)
EXTRA: dict[str, Shape] = {"duration": DURATION, "remoteCluster": TEXT}
IN_PODS = {**EXTRA, **SELECTED}
IN_CONTAINERS = {**IN_PODS, "containerNames": a_list(NAME)}
CLOUD = {**EXTRA, "secretName": TEXT}
CLOCKS = tuple(
    f"CLOCK_{name}"
    for name in (
        *(
            "REALTIME",
            "MONOTONIC",
            "PROCESS_CPUTIME_ID",
            "THREAD_CPUTIME_ID",
            "MONOTONIC_RAW",
            "REALTIME_COARSE",
        ),
        *("MONOTONIC_COARSE", "BOOTTIME", "REALTIME_ALARM", "BOOTTIME_ALARM"),
    )
)
FILE_CALLS = (
    *(
        "lookup",
        "forget",
        "getattr",
        "setattr",
        "readlink",
        "mknod",
        "mkdir",
        "unlink",
        "rmdir",
        "symlink",
        "rename",
        "link",
    ),
    *(
        "open",
        "read",
        "write",
        "flush",
        "release",
        "fsync",
        "opendir",
        "readdir",
        "releasedir",
        "fsyncdir",
        "statfs",
    ),
    *(
        "setxattr",
        "getxattr",
        "listxattr",
        "removexattr",
        "access",
        "create",
        "getlk",
        "setlk",
        "bmap",
    ),
)


FILE_CALL = text(
    # Any case is accepted, as the manual writes READ.
    lambda value: (
        ""
        if value.lower() in FILE_CALLS
        else f"{shown(value)} is none of {', '.join(FILE_CALLS)}"
        f"{nearest(value.lower(), FILE_CALLS)}"
    )
)


PAYLOADS = {
    "stress-cpu": "load workers options",
    "stress-mem": "size options",
    "disk-read-payload": "size path payload-process-num",
    "disk-write-payload": "size path payload-process-num",
    "disk-fill": "size path fill-by-fallocate",
    "network-corrupt": (
        "device hostname ip-address ip-protocol correlation percent egress-port source-port"
    ),
    "network-duplicate": (
        "device hostname ip-address ip-protocol correlation percent egress-port source-port"
    ),
    "network-loss": (
        "device hostname ip-address ip-protocol correlation percent egress-port source-port"
    ),
    "network-delay": (
        "device hostname ip-address ip-protocol accept-tcp-flags correlation egress-port "
        "source-port latency jitter"
    ),
    "network-partition": "device hostname ip-address ip-protocol accept-tcp-flags direction",
    "network-dns": "dns-domain-name dns-ip dns-server",
    "network-bandwidth": "device hostname ip-address rate limit buffer peakrate minburst",
    "network-flood": "duration ip-address port parallel rate",
    "network-down": "device duration",
    "process": "process recoverCmd signal",
    "jvm-exception": "class exception method pid port",
    "jvm-gc": "pid port",
    "jvm-latency": "class latency method pid port",
    "jvm-return": "class method value pid port",
    "jvm-stress": "cpu-count mem-type pid port",
    "jvm-rule-data": "rule-data pid port",
    "jvm-mysql": "database exception latency mysqlConnectorVersion sqlType table pid port",
    "clock": "clock-ids-slice pid time-offset",
    "redis-expiration": "addr expiration key option password",
    "redis-penetration": "addr password requestNum",
    "redis-cacheLimit": "addr cacheSize password percent",
    "redis-restart": "addr conf flushConfig password redisPath",
    "redis-stop": "addr conf flushConfig password redisPath",
    "kafka-fill": "host maxBytes messageSize password port reloadCommand topic username",
    "kafka-flood": "host messageSize password port threads topic username",
    "kafka-io": "configFile nonReadable nonWritable topic",
    "file-create": "dir-name file-name",
    "file-modify": "file-name privilege",
    "file-delete": "dir-name file-name",
    "file-rename": "dest-file source-file",
    "file-append": "count data file-name",
    "file-replace": "dest-string file-name line origin-string",
    "vm": "vm-name",
    "user_defined": "attackCmd recoverCmd",
}
"""Fields of each action on a physical machine.

Their values are not checked: chaosd does that on the machine.
"""
HTTP_PAYLOADS = {
    "http-abort": "code method path port proxy_ports target",
    "http-config": "file_path",
    "http-delay": "code delay method path port proxy_ports target",
    "http-request": "count enable-conn-pool url",
}
NEEDED = {
    "network-bandwidth": "rate limit buffer",
    "network-flood": "rate duration",
    "http-abort": "proxy_ports target",
    "http-delay": "delay proxy_ports target",
}


LATENCY = text(
    # The shipped definition restricts it to one number and unit.
    lambda value: (
        ""
        if re.fullmatch(r"[0-9]+(\.[0-9]+)?(ns|us|ms|s|m|h)", value)
        else duration(value)
        or f"{value!r} is more than a number and a unit: write it with one, as in 90s"
    )
)
DELAY = {"latency": LATENCY, "jitter": LATENCY, "correlation": PERCENT}
REORDER = a_record({"reorder": PERCENT, "correlation": PERCENT, "gap": whole()}, "reorder", "gap")
BANDWIDTH: dict[str, Shape] = {
    "rate": text(rate),
    "limit": whole(1),
    "buffer": whole(1),
    "peakrate": COUNT,
    "minburst": COUNT,
}
A_TIME = a_record({"sec": whole(), "nsec": whole()}, "sec", "nsec")
PAIRS = a_list(a_list(TEXT))
CPU = a_record(
    {"workers": whole(0, 8192), "load": whole(0, 100), "options": a_list(TEXT)}, "workers"
)
MEMORY = a_record(
    {
        "workers": whole(0, 8192),
        "size": text(amount_or_percent),
        "options": a_list(TEXT),
        "oomScoreAdj": whole(-1000, 1000),
    },
    "workers",
)

BLOCKS: dict[str, Shape] = {
    "AWSChaos": a_record(
        {
            **CLOUD,
            "action": one_of("ec2-stop", "ec2-restart", "detach-volume"),
            "awsRegion": NAME,
            "ec2Instance": NAME,
            "volumeID": TEXT,
            "deviceName": TEXT,
            "endpoint": TEXT,
        },
        *("action", "awsRegion", "ec2Instance"),
    ),
    "AzureChaos": a_record(
        {
            **CLOUD,
            "action": one_of("vm-stop", "vm-restart", "disk-detach"),
            "subscriptionID": NAME,
            "resourceGroupName": NAME,
            "vmName": NAME,
            "diskName": TEXT,
            "lun": whole(),
        },
        *("action", "subscriptionID", "resourceGroupName", "vmName"),
    ),
    "GCPChaos": a_record(
        {
            **CLOUD,
            "action": one_of("node-stop", "node-reset", "disk-loss"),
            "project": NAME,
            "zone": NAME,
            "instance": NAME,
            "deviceNames": a_list(NAME),
        },
        *("action", "project", "zone", "instance"),
    ),
    "BlockChaos": a_record(
        {
            **IN_CONTAINERS,
            "action": one_of("delay"),
            "volumeName": NAME,
            "delay": a_record({"latency": DURATION, "jitter": DURATION, "correlation": PERCENT}),
        },
        *("action", "mode", "selector", "volumeName"),
    ),
    "DNSChaos": a_record(
        {**IN_CONTAINERS, "action": one_of("error", "random"), "patterns": a_list(NAME)},
        "action",
        "mode",
        "selector",
    ),
    "HTTPChaos": a_record(
        {
            **IN_PODS,
            "target": one_of("Request", "Response"),
            "abort": yes_or_no,
            "code": whole(0),
            "delay": DURATION,
            "method": TEXT,
            "path": TEXT,
            "port": PORT,
            "request_headers": a_map(TEXT),
            "response_headers": a_map(TEXT),
            "patch": a_record(
                {
                    "body": a_record({"type": NAME, "value": TEXT}, "type", "value"),
                    "headers": PAIRS,
                    "queries": PAIRS,
                }
            ),
            "replace": a_record(
                {
                    "body": TEXT,
                    "code": whole(100, 599),
                    "headers": a_map(TEXT),
                    "method": TEXT,
                    "path": TEXT,
                    "queries": a_map(TEXT),
                }
            ),
            "tls": a_record(
                dict.fromkeys(
                    ("caName", "certName", "keyName", "secretName", "secretNamespace"), NAME
                ),
                *("certName", "keyName", "secretName", "secretNamespace"),
            ),
        },
        *("mode", "selector", "target"),
    ),
    "IOChaos": a_record(
        {
            **IN_CONTAINERS,
            "action": one_of("latency", "fault", "attrOverride", "mistake"),
            "volumePath": NAME,
            "path": TEXT,
            "methods": a_list(FILE_CALL),
            "percent": whole(0, 100),
            "delay": DURATION,
            "errno": COUNT,
            "attr": a_record(
                {
                    **dict.fromkeys(
                        ("blocks", "gid", "ino", "nlink", "perm", "rdev", "size", "uid"), COUNT
                    ),
                    **dict.fromkeys(("atime", "ctime", "mtime"), A_TIME),
                    "kind": TEXT,
                }
            ),
            "mistake": a_record(
                {
                    "filling": one_of("zero", "random"),
                    "maxLength": whole(1),
                    "maxOccurrences": whole(1),
                }
            ),
        },
        *("action", "mode", "selector", "volumePath"),
    ),
    "JVMChaos": a_record(
        {
            **IN_CONTAINERS,
            "action": one_of("latency", "return", "exception", "stress", "gc", "ruleData", "mysql"),
            **dict.fromkeys(
                (
                    *(
                        "class",
                        "database",
                        "exception",
                        "memType",
                        "method",
                        "mysqlConnectorVersion",
                        "name",
                        "returnValue",
                    ),
                    *("ruleData", "sqlType", "table"),
                ),
                TEXT,
            ),
            **dict.fromkeys(("cpuCount", "latency", "pid"), COUNT),
            "port": whole(0, 65535),
        },
        *("action", "mode", "selector"),
    ),
    "KernelChaos": a_record(
        {
            **IN_CONTAINERS,
            "failKernRequest": a_record(
                {
                    "failtype": whole(0, 2),
                    "callchain": a_list(
                        a_record(dict.fromkeys(("funcname", "parameters", "predicate"), TEXT))
                    ),
                    "headers": a_list(TEXT),
                    "probability": whole(0, 100),
                    "times": COUNT,
                },
                "failtype",
            ),
        },
        *("mode", "selector", "failKernRequest"),
    ),
    "NetworkChaos": a_record(
        {
            **IN_PODS,
            "action": one_of(
                "netem", "delay", "loss", "duplicate", "corrupt", "partition", "bandwidth"
            ),
            "direction": one_of("to", "from", "both"),
            "target": a_record(SELECTED, "mode", "selector"),
            "device": TEXT,
            "targetDevice": TEXT,
            "externalTargets": a_list(NAME),
            "delay": a_record({**DELAY, "reorder": REORDER}, "latency"),
            **{
                name: a_record({name: PERCENT, "correlation": PERCENT}, name)
                for name in ("loss", "duplicate", "corrupt")
            },
            "rate": a_record({"rate": text(rate)}, "rate"),
            "bandwidth": a_record(BANDWIDTH, "rate", "limit", "buffer"),
        },
        *("action", "mode", "selector"),
    ),
    "PhysicalMachineChaos": a_record(
        {
            **EXTRA,
            **SELECTED,
            "selector": MACHINE_SELECTOR,
            "action": one_of(*PAYLOADS),
            "address": a_list(NAME),
            "uid": TEXT,
            **{
                name: a_record(
                    dict.fromkeys(fields.split(), anything), *NEEDED.get(name, "").split()
                )
                for name, fields in (PAYLOADS | HTTP_PAYLOADS).items()
            },
        },
        *("action", "mode"),
    ),
    "PodChaos": a_record(
        {
            **IN_CONTAINERS,
            "action": one_of("pod-kill", "pod-failure", "container-kill"),
            "gracePeriod": COUNT,
        },
        *("action", "mode", "selector"),
    ),
    "StressChaos": a_record(
        {
            **IN_CONTAINERS,
            "stressors": a_record({"cpu": CPU, "memory": MEMORY}),
            "stressngStressors": TEXT,
        },
        *("mode", "selector"),
    ),
    "TimeChaos": a_record(
        {**IN_CONTAINERS, "timeOffset": text(duration), "clockIds": a_list(one_of(*CLOCKS))},
        *("mode", "selector", "timeOffset"),
    ),
}
