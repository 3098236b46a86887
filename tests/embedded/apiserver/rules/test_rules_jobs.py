import pytest

from pytest_kscen.objects.resources import CRON_JOBS, JOBS


def template(labels=None, **spec):
    spec = {"containers": [{"name": "c", "image": "i"}], "restartPolicy": "Never", **spec}
    return {"metadata": {"labels": labels} if labels else {}, "spec": spec}


def job(name="j", given=None, **spec):
    return {"metadata": {"name": name}, "spec": {"template": given or template(), **spec}}


def cron_job(name="c", given=None, **spec):
    return {
        "metadata": {"name": name},
        "spec": {
            "schedule": "* * * * *",
            "jobTemplate": {"spec": given or {"template": template()}},
            **spec,
        },
    }


@pytest.mark.parametrize(
    ("given", "filled"),
    [
        (
            {},
            {
                "parallelism": 1,
                "completions": 1,
                "backoffLimit": 6,
                "manualSelector": False,
                "completionMode": "NonIndexed",
                "suspend": False,
                "podReplacementPolicy": "TerminatingOrFailed",
            },
        ),
        (
            {"completions": 3},
            {
                "parallelism": 1,
                "completions": 3,
                "backoffLimit": 6,
                "manualSelector": False,
                "completionMode": "NonIndexed",
                "suspend": False,
                "podReplacementPolicy": "TerminatingOrFailed",
            },
        ),
        (
            {"parallelism": 3},
            {
                "parallelism": 3,
                "backoffLimit": 6,
                "manualSelector": False,
                "completionMode": "NonIndexed",
                "suspend": False,
                "podReplacementPolicy": "TerminatingOrFailed",
            },
        ),
        (
            {"completionMode": "Indexed", "completions": 3, "backoffLimitPerIndex": 1},
            {
                "parallelism": 1,
                "completions": 3,
                "backoffLimit": 2147483647,
                "backoffLimitPerIndex": 1,
                "manualSelector": False,
                "completionMode": "Indexed",
                "suspend": False,
                "podReplacementPolicy": "TerminatingOrFailed",
            },
        ),
        (
            {
                "podFailurePolicy": {
                    "rules": [
                        {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}
                    ]
                }
            },
            {
                "parallelism": 1,
                "completions": 1,
                "podFailurePolicy": {
                    "rules": [
                        {
                            "action": "Ignore",
                            "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}],
                        }
                    ]
                },
                "backoffLimit": 6,
                "manualSelector": False,
                "completionMode": "NonIndexed",
                "suspend": False,
                "podReplacementPolicy": "Failed",
            },
        ),
    ],
)
def test_defaults(judge, given, filled):
    made = judge.made(JOBS, job(**given))
    assert {
        name: value for name, value in made["spec"].items() if name not in {"selector", "template"}
    } == filled
    assert made["status"] == {}


def test_selector_and_labels_are_generated(judge):
    made = judge.made(JOBS, job(given=template({"a": "b"})))
    uid = made["metadata"]["uid"]
    labels = {
        "a": "b",
        "batch.kubernetes.io/controller-uid": uid,
        "batch.kubernetes.io/job-name": "j",
        "controller-uid": uid,
        "job-name": "j",
    }
    assert made["spec"]["selector"] == {"matchLabels": {"batch.kubernetes.io/controller-uid": uid}}
    assert made["spec"]["template"]["metadata"]["labels"] == labels
    assert made["metadata"]["labels"] == labels


@pytest.mark.parametrize("own", [{"a": "b"}, {"c": "d"}])
def test_job_labels_are_kept(judge, own):
    made = judge.made(
        JOBS, {**job(given=template({"a": "b"})), "metadata": {"name": "j", "labels": own}}
    )
    assert made["metadata"]["labels"] == own
    assert made["spec"]["template"]["metadata"]["labels"]["job-name"] == "j"


def test_manual_selector_is_kept(judge):
    made = judge.made(
        JOBS,
        job(given=template({"a": "b"}), manualSelector=True, selector={"matchLabels": {"a": "b"}}),
    )
    assert made["spec"]["selector"] == {"matchLabels": {"a": "b"}}
    assert made["spec"]["template"]["metadata"]["labels"] == {"a": "b"}


@pytest.mark.parametrize(
    ("given", "wrong"),
    [
        (
            job(given=template(restartPolicy="Always")),
            [
                (
                    "spec.template.spec.restartPolicy: Required value: valid values: "
                    '"OnFailure", "Never"'
                )
            ],
        ),
        (
            job(given=template(restartPolicy="X")),
            [
                (
                    'spec.template.spec.restartPolicy: Unsupported value: "X": supported '
                    'values: "Always", "OnFailure", "Never"'
                ),
                (
                    'spec.template.spec.restartPolicy: Unsupported value: "X": supported '
                    'values: "OnFailure", "Never"'
                ),
            ],
        ),
        (
            job(
                completions=-1,
                parallelism=-1,
                backoffLimit=-1,
                activeDeadlineSeconds=-1,
                ttlSecondsAfterFinished=-1,
            ),
            [
                "spec.parallelism: Invalid value: -1: must be greater than or equal to 0",
                "spec.completions: Invalid value: -1: must be greater than or equal to 0",
                "spec.activeDeadlineSeconds: Invalid value: -1: must be greater than or equal to 0",
                "spec.backoffLimit: Invalid value: -1: must be greater than or equal to 0",
                (
                    "spec.ttlSecondsAfterFinished: Invalid value: -1: must be greater than "
                    "or equal to 0"
                ),
            ],
        ),
        (job(completionMode="Indexed"), []),
        (
            job(completionMode="X"),
            [
                (
                    'spec.completionMode: Unsupported value: "X": supported values: '
                    '"NonIndexed", "Indexed"'
                )
            ],
        ),
        (
            job("a.b", completionMode="Indexed", completions=3),
            [
                (
                    'metadata.name: Invalid value: "a.b": will not able to create pod with '
                    "invalid DNS label: a.b-2"
                )
            ],
        ),
        (
            job(maxFailedIndexes=5),
            [
                "spec.backoffLimitPerIndex: Required value: when maxFailedIndexes is specified",
                "spec.maxFailedIndexes: Invalid value: 5: requires indexed completion mode",
            ],
        ),
        (
            job(manualSelector=True),
            [
                "spec.selector: Required value",
                (
                    "spec.template.metadata.labels: Invalid value: null: `selector` does not "
                    "match template `labels`"
                ),
            ],
        ),
        (
            job(
                manualSelector=True,
                given=template({"a": "b"}),
                selector={"matchLabels": {"a": "c"}},
            ),
            [
                (
                    'spec.template.metadata.labels: Invalid value: {"a":"b"}: `selector` '
                    "does not match template `labels`"
                )
            ],
        ),
        (
            job(podFailurePolicy={"rules": [{}]}),
            [
                (
                    "spec.podFailurePolicy.rules[0].action: Required value: valid values: "
                    '["Count" "FailIndex" "FailJob" "Ignore"]'
                ),
                (
                    "spec.podFailurePolicy.rules[0]: Invalid value: specifying one of "
                    "OnExitCodes and OnPodConditions is required"
                ),
            ],
        ),
        (
            job(
                podFailurePolicy={
                    "rules": [
                        {
                            "action": "Count",
                            "onExitCodes": {"operator": "In", "values": [2, 1, 1, 0]},
                        }
                    ]
                }
            ),
            [
                "spec.podFailurePolicy.rules[0].onExitCodes.values[2]: Duplicate value: 1",
                (
                    "spec.podFailurePolicy.rules[0].onExitCodes.values[3]: Invalid value: 0: "
                    "must not be 0 for the In operator"
                ),
                (
                    "spec.podFailurePolicy.rules[0].onExitCodes.values: Invalid value: "
                    "[2,1,1,0]: must be ordered"
                ),
            ],
        ),
        (
            job(
                podFailurePolicy={
                    "rules": [
                        {"action": "FailIndex", "onExitCodes": {"operator": "In", "values": [1]}}
                    ]
                }
            ),
            [
                (
                    'spec.podFailurePolicy.rules[0].action: Invalid value: "FailIndex": '
                    "requires the backoffLimitPerIndex to be set"
                )
            ],
        ),
        (
            job(completionMode="Indexed", completions=3, successPolicy={"rules": []}),
            [
                (
                    "spec.successPolicy.rules: Required value: at least one rules must "
                    "be specified when the "
                    "successPolicy is specified"
                )
            ],
        ),
        (
            job(
                completionMode="Indexed",
                completions=3,
                successPolicy={"rules": [{"succeededIndexes": "5"}, {"succeededCount": 9}]},
            ),
            [
                (
                    'spec.successPolicy.rules[0].succeededIndexes: Invalid value: "5": '
                    "error parsing succeededIndexes: "
                    'too large index: "5"'
                ),
                (
                    "spec.successPolicy.rules[1].succeededCount: Invalid value: 9: must "
                    "be less than or equal to 3 (the "
                    "number of specified completions)"
                ),
            ],
        ),
        (
            job(podReplacementPolicy="TerminatingOrFailed", podFailurePolicy={"rules": []}),
            [
                (
                    'spec.podReplacementPolicy: Unsupported value: "TerminatingOrFailed": '
                    'supported values: "Failed"'
                )
            ],
        ),
        (
            job(managedBy="x"),
            [
                (
                    'spec.managedBy: Invalid value: "x": must be a domain-prefixed path '
                    '(such as "acme.io/foo")'
                )
            ],
        ),
    ],
)
def test_refused(judge, given, wrong):
    assert judge.create(JOBS, given) == wrong


@pytest.mark.parametrize(
    ("patch", "wrong"),
    [
        ({"parallelism": 3}, []),
        ({"suspend": True, "ttlSecondsAfterFinished": 3, "backoffLimit": 9}, []),
        ({"completions": 3}, ["spec.completions: Invalid value: 3: field is immutable"]),
        (
            {"completionMode": "Indexed"},
            ['spec.completionMode: Invalid value: "Indexed": field is immutable'],
        ),
        ({"podReplacementPolicy": "Failed"}, []),
        ({"managedBy": "a.b/c"}, ['spec.managedBy: Invalid value: "a.b/c": field is immutable']),
    ],
)
def test_changes(judge, patch, wrong):
    judge.made(JOBS, job())
    assert judge.change(JOBS, "j", {"spec": patch}) == wrong


def test_template_is_immutable(judge):
    judge.made(JOBS, job())
    (wrong,) = judge.change(
        JOBS, "j", {"spec": {"template": {"spec": {"nodeSelector": {"a": "b"}}}}}
    )
    assert wrong.startswith("spec.template: Invalid value: ")
    assert wrong.endswith(": field is immutable")


def test_suspended_job_allows_scheduling_changes(judge):
    judge.made(JOBS, job(suspend=True, completionMode="Indexed", completions=3))
    assert (
        judge.change(JOBS, "j", {"spec": {"template": {"spec": {"nodeSelector": {"a": "b"}}}}})
        == []
    )
    assert judge.change(JOBS, "j", {"spec": {"completions": 4, "parallelism": 4}}) == []


@pytest.mark.parametrize(
    ("status", "wrong"),
    [
        ({"active": -1}, ["status.active: Invalid value: -1: must be greater than or equal to 0"]),
        (
            {"succeeded": 0},
            ["status.succeeded: Invalid value: 0: cannot decrease the succeeded counter"],
        ),
        (
            {"startTime": "2026-01-02T00:00:00Z"},
            [
                (
                    'status.startTime: Invalid value: "2026-01-02T00:00:00Z": field is '
                    "immutable for unsuspended job once set"
                )
            ],
        ),
        (
            {"conditions": [{"type": "Complete", "status": "True"}]},
            [
                (
                    "status.completionTime: Required value: completionTime is required for "
                    "Complete jobs"
                ),
                (
                    "status.conditions: Invalid value: cannot set Complete=True "
                    "condition without the "
                    "SuccessCriteriaMet=true condition"
                ),
            ],
        ),
        (
            {"conditions": [{"type": "Failed", "status": "True"}]},
            [
                (
                    "status.conditions: Invalid value: cannot set Failed=True condition "
                    "without the FailureTarget=true condition"
                )
            ],
        ),
        (
            {"completionTime": "2026-01-02T00:00:00Z"},
            [
                (
                    'status.completionTime: Invalid value: "2026-01-02T00:00:00Z": '
                    "cannot set completionTime when there "
                    "is no Complete=True condition"
                )
            ],
        ),
        (
            {
                "conditions": [{"type": "SuccessCriteriaMet", "status": "True"}],
                "uncountedTerminatedPods": {"succeeded": ["a", "a"]},
            },
            ['status.uncountedTerminatedPods.succeeded[1]: Duplicate value: "a"'],
        ),
        (
            {"completedIndexes": "1"},
            [
                (
                    'status.completedIndexes: Invalid value: "1": error parsing '
                    'completedIndexes: too large index: "1"'
                ),
                (
                    'status.completedIndexes: Invalid value: "1": cannot set non-empty '
                    "completedIndexes when non-indexed "
                    "completion mode"
                ),
            ],
        ),
        (
            {"ready": 3, "active": 2},
            ["status.ready: Invalid value: 3: cannot set more ready pods than active"],
        ),
        (
            {
                "active": 2,
                "completionTime": "2025-01-01T00:00:00Z",
                "conditions": [
                    {"type": name, "status": "True"} for name in ("SuccessCriteriaMet", "Complete")
                ],
            },
            [
                (
                    'status.completionTime: Invalid value: "2025-01-01T00:00:00Z": must be '
                    "equal to or after `startTime`"
                ),
                "status.active: Invalid value: 2: active>0 is invalid for finished job",
            ],
        ),
    ],
)
def test_status(judge, status, wrong):
    judge.made(JOBS, job())
    judge.changed(
        JOBS, "j", {"status": {"startTime": "2026-01-01T00:00:00Z", "succeeded": 1}}, "status"
    )
    assert judge.change(JOBS, "j", {"status": status}, "status") == wrong


def test_cron_job_defaults(judge):
    made = judge.made(CRON_JOBS, cron_job())
    rest = {name: value for name, value in made["spec"].items() if name != "jobTemplate"}
    assert rest == {
        "schedule": "* * * * *",
        "concurrencyPolicy": "Allow",
        "suspend": False,
        "successfulJobsHistoryLimit": 3,
        "failedJobsHistoryLimit": 1,
    }
    assert set(made["spec"]["jobTemplate"]["spec"]) == {"template"}
    assert (
        made["spec"]["jobTemplate"]["spec"]["template"]["spec"]["schedulerName"]
        == "default-scheduler"
    )


@pytest.mark.parametrize(
    ("schedule", "wrong"),
    [
        ("*/5,10 1-3/2 * * *", []),
        ("* * * jan mon-fri", []),
        ("? * * * ?", []),
        ("@daily", []),
        ("@every 1h", []),
        ("", ["spec.schedule: Required value"]),
        (
            "* * * *",
            [
                (
                    'spec.schedule: Invalid value: "* * * *": expected exactly 5 fields, '
                    "found 4: [* * * *]"
                )
            ],
        ),
        (
            "60 * * * *",
            [
                (
                    'spec.schedule: Invalid value: "60 * * * *": end of range (60) above '
                    "maximum (59): 60"
                )
            ],
        ),
        (
            "*/0 * * * *",
            [
                (
                    'spec.schedule: Invalid value: "*/0 * * * *": step of range should be a '
                    "positive number: */0"
                )
            ],
        ),
        (
            "5-1 * * * *",
            [
                (
                    'spec.schedule: Invalid value: "5-1 * * * *": beginning of range (5) '
                    "beyond end of range (1): 5-1"
                )
            ],
        ),
        (
            "1/2/3 * * * *",
            ['spec.schedule: Invalid value: "1/2/3 * * * *": too many slashes: 1/2/3'],
        ),
        (
            "a * * * *",
            [
                (
                    'spec.schedule: Invalid value: "a * * * *": failed to parse int from a: '
                    'strconv.Atoi: parsing "a": invalid syntax'
                )
            ],
        ),
        (
            "* * 0 * *",
            [
                (
                    'spec.schedule: Invalid value: "* * 0 * *": beginning of range (0) below '
                    "minimum (1): 0"
                )
            ],
        ),
        (
            "* * * * 7",
            ['spec.schedule: Invalid value: "* * * * 7": end of range (7) above maximum (6): 7'],
        ),
        ("@foo", ['spec.schedule: Invalid value: "@foo": unrecognized descriptor: @foo']),
        (
            "@every x",
            [
                (
                    'spec.schedule: Invalid value: "@every x": failed to parse duration '
                    '@every x: time: invalid duration "x"'
                )
            ],
        ),
        (
            "TZ=UTC * * * * *",
            [
                (
                    'spec.schedule: Invalid value: "TZ=UTC * * * * *": cannot use TZ or '
                    "CRON_TZ in schedule, use "
                    "timeZone field instead"
                )
            ],
        ),
    ],
)
def test_schedules(judge, schedule, wrong):
    assert judge.create(CRON_JOBS, cron_job(schedule=schedule)) == wrong


@pytest.mark.parametrize(
    ("given", "wrong"),
    [
        (
            cron_job("a" * 53),
            [
                (
                    "metadata.name: Invalid value: "
                    '"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa": must be no '
                    "more than 52 characters"
                )
            ],
        ),
        (cron_job(timeZone="Etc/UTC"), []),
        (
            cron_job(timeZone="Mars/Base"),
            ['spec.timeZone: Invalid value: "Mars/Base": unknown time zone Mars/Base'],
        ),
        (
            cron_job(timeZone="local"),
            [
                (
                    'spec.timeZone: Invalid value: "local": timeZone must be an explicit '
                    "time zone as defined in "
                    "https://www.iana.org/time-zones"
                ),
                'spec.timeZone: Invalid value: "local": unknown time zone local',
            ],
        ),
        (
            cron_job(
                concurrencyPolicy="X", startingDeadlineSeconds=-1, successfulJobsHistoryLimit=-1
            ),
            [
                (
                    "spec.startingDeadlineSeconds: Invalid value: -1: must be greater than "
                    "or equal to 0"
                ),
                (
                    'spec.concurrencyPolicy: Unsupported value: "X": supported values: '
                    '"Allow", "Forbid", "Replace"'
                ),
                (
                    "spec.successfulJobsHistoryLimit: Invalid value: -1: must be greater "
                    "than or equal to 0"
                ),
            ],
        ),
        (
            cron_job(given={"template": template(restartPolicy="Always"), "completions": -1}),
            [
                (
                    "spec.jobTemplate.spec.completions: Invalid value: -1: must be greater "
                    "than or equal to 0"
                ),
                (
                    "spec.jobTemplate.spec.template.spec.restartPolicy: Required value: "
                    'valid values: "OnFailure", "Never"'
                ),
            ],
        ),
        (
            cron_job(
                given={
                    "template": template(),
                    "selector": {"matchLabels": {"a": "b"}},
                    "manualSelector": True,
                }
            ),
            [
                (
                    "spec.jobTemplate.spec.selector: Invalid value: "
                    '{"matchLabels":{"a":"b"}}: `selector` will be auto-generated'
                ),
                (
                    "spec.jobTemplate.spec.manualSelector: Unsupported value: true: "
                    'supported values: "nil", "false"'
                ),
            ],
        ),
    ],
)
def test_cron_jobs_refused(judge, given, wrong):
    assert judge.create(CRON_JOBS, given) == wrong
