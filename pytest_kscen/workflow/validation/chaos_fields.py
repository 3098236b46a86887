"""Fields of each chaos kind's spec, as Chaos Mesh's definitions have them.

Called by `chaos`, which adds the rules between fields. Data only: no kind is treated specially.
"""

from __future__ import annotations

import re

from pytest_kscen.objects.arguments import nearest
from pytest_kscen.workflow.validation.chaos_selectors import MACHINE_SELECTOR, SELECTED
from pytest_kscen.workflow.validation.value_checks import (
    DURATION,
    NAME,
    PERCENT,
    TEXT,
    Shape,
    a_list,
    a_map,
    a_record,
    amount_or_percent,
    anything,
    duration,
    one_of,
    rate,
    shown,
    text,
    whole,
    yes_or_no,
)

PORT = whole(1, 65535)
COUNT = whole(0)
EXTRA: dict[str, Shape] = {"duration": DURATION, "remoteCluster": TEXT}
IN_PODS = {**EXTRA, **SELECTED}
IN_CONTAINERS = {**IN_PODS, "containerNames": a_list(NAME)}
CLOUD = {**EXTRA, "secretName": TEXT}
CLOCKS = (
    "CLOCK_REALTIME", "CLOCK_MONOTONIC", "CLOCK_PROCESS_CPUTIME_ID", "CLOCK_THREAD_CPUTIME_ID",
    "CLOCK_MONOTONIC_RAW", "CLOCK_REALTIME_COARSE", "CLOCK_MONOTONIC_COARSE", "CLOCK_BOOTTIME",
    "CLOCK_REALTIME_ALARM", "CLOCK_BOOTTIME_ALARM",
)  # fmt: skip
FILE_CALLS = (
    "lookup", "forget", "getattr", "setattr", "readlink", "mknod", "mkdir", "unlink", "rmdir",
    "symlink", "rename", "link", "open", "read", "write", "flush", "release", "fsync",
    "opendir", "readdir", "releasedir", "fsyncdir", "statfs", "setxattr", "getxattr",
    "listxattr", "removexattr", "access", "create", "getlk", "setlk", "bmap",
)  # fmt: skip


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

JVM_TEXTS = (
    "class", "database", "exception", "memType", "method", "mysqlConnectorVersion", "name",
    "returnValue", "ruleData", "sqlType", "table",
)  # fmt: skip

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
            **dict.fromkeys(JVM_TEXTS, TEXT),
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
