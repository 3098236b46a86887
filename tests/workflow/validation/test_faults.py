"""Each validation rule: violations are reported with their path, valid workflows accepted."""

from __future__ import annotations

import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_kscen.objects.chaos_mesh import TYPES
from pytest_kscen.workflow.validation import ERROR, WARNING, validate
from tests.workflow.validation.drafts import (
    PODS,
    chaos,
    parallel,
    schedule,
    serial,
    status_check,
    suspend,
    task,
    without,
    workflow,
)

KILL = chaos("PodChaos", name="kill", deadline="20s", action="pod-kill", **PODS)
PROBE = {
    "name": "up",
    "when": "Start",
    "http": {"url": "http://a", "criteria": {"statusCode": "200"}},
}
CRON = {
    "apiVersion": "workflow.kscen.io/v1alpha1",
    "kind": "CronWorkflow",
    "metadata": {"name": "c"},
}
LEAVES = [suspend(), KILL]
GOOD = {
    "the least": workflow(suspend()),
    "nested": workflow(
        serial("a", "b", "pause", deadline="1h"), parallel("b", "pause", "kill"), *LEAVES
    ),
    "a child not as long as its parent": workflow(serial("a", "pause", deadline="2s"), suspend()),
    "a loop through a branch": workflow(
        serial("a", "ask"), task("ask", ("a", "exitCode != 0"), ("pause", "")), suspend()
    ),
    "a name of 57 characters": workflow({**KILL, "name": "k" * 57}),
    "a Suspend with a longer name": workflow(suspend("s" * 100)),
    "empty blocks of another type": workflow(
        {**suspend(), "children": [], "task": None, "conditionalBranches": None}
    ),
    "the design document's duration": workflow({**without(KILL, "deadline"), "duration": "20s"}),
    "its duration in the block": workflow(
        {**without(KILL, "deadline"), "podChaos": {**KILL["podChaos"], "duration": "20s"}}
    ),
    "both agree": workflow({**KILL, "duration": "0.33333m", "deadline": "19.9998s"}),
    "a status check": workflow(status_check()),
    "a continuous one": workflow(
        {**status_check(mode="Continuous"), "deadline": "1m", "abortWithStatusCheck": True}
    ),
    "a range of codes": workflow(
        status_check(http={"url": "https://a:8", "criteria": {"statusCode": "200-399"}})
    ),
    "a Schedule inside": workflow(
        {
            "name": "s",
            "templateType": "Schedule",
            "deadline": "1m",
            "schedule": schedule()["spec"] | {"concurrencyPolicy": "Allow"},
        }
    ),
    "what is ours": workflow(
        {
            **suspend(),
            "retry": {"limit": 3, "backoff": {"duration": "5s", "factor": 2, "maxDuration": "1m"}},
            "probes": [PROBE],
        },
        suspend("end"),
        onExit="end",
        probes=[PROBE],
        parameters=[
            {
                "name": "length",
                "value": "5s",
                "paths": ["templates[pause].deadline", "templates[1].deadline"],
            }
        ],
    ),
    "a parameter that mends": workflow(
        suspend(deadline="?"),
        parameters=[{"name": "l", "value": "5s", "paths": ["templates[0].deadline"]}],
    ),
    "a generated name": {**workflow(suspend()), "metadata": {"generateName": "w-"}},
    "two hundred levels": workflow(
        *(serial(f"s{n}", f"s{n + 1}") for n in range(199)), suspend("s199")
    ),
    "many children": workflow(parallel("p", *["pause"] * 9_999), suspend()),
    "a Schedule": schedule(
        schedule="*/5 0 1 * * *",
        startingDeadlineSeconds=10,
        historyLimit=1,
        concurrencyPolicy="Allow",
    ),
    "a Schedule of workflows": schedule(
        type="Workflow", workflow=workflow(suspend())["spec"], podChaos=None
    ),
    "a CronWorkflow": {
        **CRON,
        "spec": {"schedule": "@daily", "workflow": workflow(suspend())["spec"]},
    },
    "a Schedule of chaos that lasts": schedule(
        podChaos={"action": "pod-failure", **PODS, "duration": "1m"}
    ),
}


@pytest.mark.parametrize("obj", GOOD.values(), ids=GOOD)
def test_valid_workflow_is_accepted(obj):
    before = copy.deepcopy(obj)
    assert [f"{fault.severity} {fault}" for fault in validate(obj)] == []
    assert obj == before


def changed(obj, **more):
    return {**obj, **more}


def of(name, value, **more):
    """Return a workflow of one Suspend with these fields."""
    return workflow({**suspend(), name: value}, **more)


BAD = [
    # the object
    (
        [1],
        "[1] is not an object: start with apiVersion: chaos-mesh.org/v1alpha1 and kind: Workflow",
    ),
    (
        changed(GOOD["the least"], kind="Workflo"),
        (
            "kind: the kind is 'Workflo': it is none of Workflow, Schedule, CronWorkflow "
            "(did you mean 'Workflow'?)"
        ),
    ),
    (
        changed(GOOD["the least"], apiVersion="v1"),
        "apiVersion: the apiVersion is 'v1': it has to be chaos-mesh.org/v1alpha1 or",
    ),
    (changed(GOOD["the least"], metadata=None), "metadata: metadata.name is missing"),
    (
        changed(GOOD["the least"], metadata={"name": "W"}),
        "metadata.name: 'W' is not a name: a lowercase RFC 1123 subdomain",
    ),
    (
        changed(GOOD["the least"], metadata={"name": "w" * 64}),
        "metadata.name: the name has 64 characters, 63 is the most",
    ),
    (changed(GOOD["the least"], spec=None), "spec: spec is missing"),
    (changed(GOOD["the least"], spec=[]), "spec: [] is not a map"),
    (of("retry", {"limit": 2**70}), "it cannot be written as JSON: "),
    (of("labels", "x" * 1_600_000), "bytes: API servers accept at most 1,500,000"),
    (
        {**CRON, "apiVersion": "chaos-mesh.org/v1alpha1"},
        "apiVersion: the apiVersion is 'chaos-mesh.org/v1alpha1': it has to be wor",
    ),
    (
        {**CRON, "spec": {"schedule": "daily"}},
        "spec: workflow is missing",
        "spec.schedule: 'daily' is not a schedule: ",
    ),
    (
        {**CRON, "spec": {"schedule": "@daily", "workflow": {"entry": "a"}}},
        "spec.workflow.templates: templates is missing",
    ),
    # the spec
    (
        workflow(suspend(), entry=""),
        "spec.entry: entry is missing: it names the first template",
    ),
    (
        workflow(suspend(), entry="paus"),
        "spec.entry: there is no template 'paus' (did you mean 'pause'?)",
    ),
    (workflow(entry="a"), "spec.templates: templates is missing"),
    (
        workflow(suspend(), onExit="paus"),
        "spec.onExit: there is no template 'paus' (did you mean 'pause'?)",
    ),
    (workflow(suspend(), templates={}), "spec.templates: {} is not a list"),
    (workflow(suspend(), templates=["a"]), "spec.templates[0]: 'a' is not a map with name"),
    (workflow(suspend(retry="a")), "retry: template 'pause': 'a' is not a map with limit"),
    (
        workflow(suspend(), suspend()),
        "spec.templates[1].name: template 'pause': another template is named 'pause'",
    ),
    (workflow(suspend(), probes=[{}]), "spec.probes[0].name: name is missing"),
    (
        workflow(suspend(), parameters=[{"name": "a", "paths": []}]),
        "spec.parameters[0]: value is missing",
    ),
    (
        workflow(suspend(), parameters=[{"name": "a", "value": "1s"}]),
        "spec.parameters[0]: paths is missing",
    ),
    *(
        (
            workflow(suspend(), parameters=[{"name": "a", "value": value, "paths": [path]}]),
            f"spec.parameters[0]: parameter 'a': {path}: ",
        )
        for value, path in [
            ("1s", "templates[paus].deadline"),
            ("1s", ".."),
            (1, "templates[pause].deadline"),
        ]
    ),
    (
        workflow(
            suspend(),
            parameters=[{"name": "a", "value": "1", "paths": ["templates[pause].deadline"]}] * 2,
        ),
        "spec.parameters[1].name: another parameter is named 'a'",
        "spec.templates[0].deadline: template 'pause': '1' is not a duration",
    ),
    # templates
    (workflow(without(suspend(), "name"), entry="a"), "spec.templates[0]: name is missing"),
    (
        workflow(suspend("Pause")),
        (
            "spec.templates[0].name: template 'Pause': 'Pause' is not a name: a lowercase RFC "
            "1123 subdomain"
        ),
    ),
    (
        workflow({**KILL, "name": "k" * 58}),
        "the name has 58 characters, 57 is the most: objects of a PodChaos have it as a label",
    ),
    (
        workflow({**suspend(), "templateType": "Suspnd"}),
        "there is no templateType 'Suspnd': there are Serial, Parallel, Suspend",
    ),
    (workflow({**suspend(), "templateType": "Suspnd"}), "(did you mean 'Suspend'?)"),
    (
        workflow(without(suspend(), "templateType")),
        "spec.templates[0]: template 'pause': templateType is missing",
    ),
    (
        workflow(without(suspend(), "deadline")),
        "spec.templates[0]: template 'pause': deadline is missing: without it a Suspend never ends",
    ),
    *(
        (workflow(suspend(deadline=each)), "spec.templates[0].deadline: template 'pause': ", words)
        for each, words in [
            ("90", "'90' is not a duration: write for example 90s"),
            ("soon", "'soon' is not a duration"),
            ("1d", "'1d' is not a duration"),
            (" 5s ", "' 5s ' is not a duration"),
            ("-1m", "'-1m' is negative"),
            ("0s", "'0s' is zero: it must be more"),
            ("9" * 9 + "h", "is longer than any duration"),
            (90, "90 is not a string: put it in quotes"),
        ]
    ),
    (
        of("task", {"container": {}}),
        (
            "spec.templates[0].task: template 'pause': a Suspend has no task: it belongs "
            "into a template of the type Task"
        ),
    ),
    (
        of("children", ["pause"]),
        (
            "children: template 'pause': a Suspend has no children: it belongs into a "
            "template of the type Serial or Parallel"
        ),
    ),
    (
        of("podChaos", {"mode": "one"}),
        "a Suspend has no podChaos: it belongs into a template of the type PodChaos",
    ),
    (
        workflow({**KILL, "timeChaos": {"mode": "one"}}),
        "timeChaos is a second chaos block: it belongs into a template of the type TimeChaos",
    ),
    (
        workflow({"name": "foo", "templateType": "FooChaos", "podChaos": {"mode": "one"}}),
        "fooChaos is missing: a FooChaos is defined there",
        "podChaos is a second chaos block",
        "deadline is missing: without it a FooChaos never ends",
    ),
    (
        workflow(without(KILL, "podChaos")),
        "template 'kill': podChaos is missing: a PodChaos is defined there",
    ),
    (workflow(without(task("t"), "task")), "template 't': task is missing"),
    (
        workflow({**task("t"), "task": {}}),
        "spec.templates[0].task: template 't': container is missing",
    ),
    (
        workflow({**task("t"), "task": {"container": {"name": "A"}}}),
        "container: template 't': image is missing",
        "container.name: template 't': 'A' is not a name",
    ),
    (workflow(without(status_check(), "statusCheck")), "template 'check': statusCheck is missing"),
    (
        workflow({"name": "s", "templateType": "Schedule", "deadline": "1m"}),
        "template 's': schedule is missing",
    ),
    (
        of("retry", {"limit": -1, "backoff": {"factor": 0.5}}),
        "retry.limit: template 'pause': -1 is too small: the minimum is 0",
        "0.5 is too small: 1 is",
    ),
    (
        of("probes", [{"name": "a", "when": "Never", "http": {"url": "x"}}]),
        "spec.templates[0].probes[0].when: template 'pause': when 'Never' is none of",
    ),
    # how long chaos lasts
    (
        workflow(without(KILL, "deadline")),
        (
            "spec.templates[0]: template 'kill': deadline is missing: without it a PodChaos "
            "never ends"
        ),
    ),
    (
        workflow({**KILL, "podChaos": {**KILL["podChaos"], "duration": "30s"}}),
        (
            "podChaos.duration: template 'kill': deadline 20s and podChaos.duration 30s "
            "contradict each other"
        ),
    ),
    (
        workflow({**KILL, "duration": "30s"}),
        "duration: template 'kill': deadline 20s and duration 30s contradict each other",
    ),
    (
        workflow(without(status_check(mode="Continuous"), "deadline")),
        "deadline is missing: without it a continuous StatusCheck never ends",
    ),
    (
        workflow(serial("a", "b"), parallel("b", "kill"), without(KILL, "deadline")),
        "template 'kill': deadline is missing: without it a PodChaos never ends",
    ),
    # the tree
    (
        workflow(serial("a", "pau"), suspend()),
        (
            "spec.templates[0].children[0]: template 'a': there is no template 'pau' (did "
            "you mean 'pause'?)"
        ),
    ),
    (
        workflow(task("a", ("pau", "")), suspend()),
        (
            "conditionalBranches[0].target: template 'a': there is no template 'pau' (did "
            "you mean 'pause'?)"
        ),
    ),
    (
        workflow(serial("a", "a")),
        "spec.templates[0].children[0]: template 'a': a → a is an endless loop",
    ),
    (
        workflow(
            serial("a", "pause", "b"), parallel("b", "c"), serial("c", "pause", "a"), suspend()
        ),
        (
            "spec.templates[2].children[1]: template 'c': a → b → c → a is an endless loop: "
            "no template in it can end it"
        ),
    ),
    (workflow(suspend(), serial("x", "y"), serial("y", "x")), "x → y → x is an endless loop"),
    (
        workflow(*(serial(f"s{n}", f"s{n + 1}") for n in range(1000)), suspend("s1000")),
        "template 's0': the tree below it is 1001 levels deep: the maximum is 200",
    ),
    (
        workflow(*(serial(f"s{n}", *[f"s{n + 1}"] * 2) for n in range(100)), suspend("s100")),
        "the tree below it has more than 10,000 nodes",
    ),
    (
        workflow(parallel("p", *["pause"] * 10_000), suspend()),
        "template 'p': the tree below it has more than 10,000 nodes",
    ),
    # expressions
    (
        workflow(task("a", ("pause", "exitCode ==")), suspend()),
        "conditionalBranches[0].expression: template 'a': expression 'exitCode =='",
    ),
    (
        workflow(task("a", ("pause", "exitcode == 0")), suspend()),
        "there is no variable 'exitcode' (did you mean 'exitCode'?)",
    ),
    (
        workflow(task("a", ("pause", "exitCode + 1")), suspend()),
        "a branch needs a bool, and this is of kind int",
    ),
    (workflow(task("a", ("pause", "__import__('os')")), suspend()), "template 'a': expression "),
    # status checks
    *(
        (workflow(status_check(**{name: value})), f"spec.templates[0].statusCheck.{name}", words)
        for name, value, words in [
            ("mode", "Forever", "'Forever' is none of Synchronous, Continuous"),
            ("type", "TCP", "'TCP' is none of HTTP"),
            ("failureThreshold", 0, "0 is too small: the minimum is 1"),
            ("successThreshold", "1", "'1' is not a whole number"),
            ("recordsHistoryLimit", 1001, "1001 is too large: the maximum is 1000"),
            ("intervalSeconds", True, "True is not a whole number"),
        ]
    ),
    (
        workflow(status_check(http=None)),
        "spec.templates[0].statusCheck: template 'check': http is missing",
    ),
    *(
        (workflow(status_check(http={"url": "http://a", "criteria": {"statusCode": code}})), words)
        for code, words in [
            (200, "criteria.statusCode: template 'check': 200 is not a string: put it in quotes"),
            ("2xx", "'2xx' is not a status code: write for example '200', or a range as '200-399'"),
            ("99", "'99' is not a status code"),
            ("300-200", "'300-200' is an empty range: its end is below its start"),
        ]
    ),
    *(
        (
            workflow(status_check(http={"url": url, "criteria": {"statusCode": "200"}})),
            f"{url!r} is not a URL",
        )
        for url in [
            "a",
            "ftp://a",
            "http://",
            "http://a:99999",
            "http://[",
        ]
    ),
    (
        workflow(status_check(http={"url": "http://a"})),
        "spec.templates[0].statusCheck.http: template 'check': criteria is missing",
    ),
    # schedules
    (schedule(schedule="61 * * * *"), "spec.schedule: '61 * * * *' is not a schedule: "),
    (schedule(schedule="@every soon"), "spec.schedule: '@every soon' is not a schedule: "),
    (
        schedule(schedule="0 0 30 2 *"),
        "spec.schedule: '0 0 30 2 *' never matches: no such day exists",
    ),
    (schedule(schedule=None), "spec: schedule is missing"),
    (
        schedule(type="PodChoas"),
        "spec.type: there is no type 'PodChoas' to be scheduled: there are AWSChaos, ",
    ),
    (schedule(type="PodChoas"), "(did you mean 'PodChaos'?)"),
    (schedule(podChaos=None), "spec: podChaos is missing: it defines the object to create"),
    (
        schedule(concurrencyPolicy="Replace"),
        "spec.concurrencyPolicy: 'Replace' is none of Forbid, Allow",
    ),
    (schedule(historyLimit=0), "spec.historyLimit: 0 is too small: the minimum is 1"),
    (
        schedule(startingDeadlineSeconds=-1),
        "spec.startingDeadlineSeconds: -1 is too small: the minimum is 0",
    ),
    (
        schedule(type="Workflow", workflow={"entry": "a", "templates": [suspend()]}, podChaos=None),
        "spec.workflow.entry: there is no template 'a'",
    ),
]


@pytest.mark.parametrize(("obj", "words"), [(obj, words) for obj, *words in BAD])
def test_workflow_that_can_only_hang_or_fail_is_an_error(obj, words):
    reported = [str(fault) for fault in validate(obj) if fault.severity == ERROR]
    for each in words:
        assert any(each in line for line in reported), reported


PROBE = {"name": "p", "when": "End"}
ODD = [
    (
        of("deadlin", "1s"),
        (
            "spec.templates[0].deadlin: template 'pause': unknown field 'deadlin' "
            "(did you mean 'deadline'?): it is"
        ),
    ),
    (
        workflow(
            {"name": "foo", "templateType": "FooChaos", "duration": "1m", "fooChaos": {"a": 1}}
        ),
        (
            "spec.templates[0].templateType: template 'foo': FooChaos is not a known kind of "
            "chaos: it is passed to the cluster unchecked"
        ),
    ),
    (
        workflow({**KILL, "templateType": "PodsChaos", "podsChaos": {}, "podChaos": None}),
        "(did you mean 'PodChaos'?)",
    ),
    (
        workflow(suspend(), entri="a"),
        "spec.entri: unknown field 'entri' (did you mean 'entry'?): it is ignored",
    ),
    (
        changed(GOOD["the least"], spek=1),
        "spek: unknown field 'spek' (did you mean 'spec'?): it is ignored",
    ),
    (
        of("duration", "1s"),
        "duration: template 'pause': duration is ignored in a Suspend: write deadline",
    ),
    (of("abortWithStatusCheck", True), "abortWithStatusCheck is ignored in a Suspend"),
    (
        of("statusCheck", {"type": "HTTP"}),
        "a Suspend has no statusCheck: it belongs into a template of the type StatusCheck",
    ),
    (workflow(serial("a")), "template 'a': a Serial without children does nothing"),
    (
        workflow(suspend(), suspend("b")),
        (
            "spec.templates[1]: template 'b': it cannot be reached from the entry 'pause', so it "
            "never runs"
        ),
    ),
    (
        workflow(task("a", ("pause", "exitCode == '0'")), suspend()),
        (
            "spec.templates[0].conditionalBranches[0].expression: template 'a': expression "
            "\"exitCode == '0'\", column 10: an"
        ),
    ),
    (
        workflow(
            suspend(),
            probes=[
                {
                    **PROBE,
                    "command": {"container": {"image": "busybox"}, "expression": "exitCode == '0'"},
                }
            ],
        ),
        (
            "spec.probes[0].command.expression: expression \"exitCode == '0'\", column 10: "
            "an int is never equal to a string"
        ),
    ),
    (
        workflow(serial("a", "pause", deadline="1m"), suspend(deadline="2m")),
        "spec.templates[1].deadline: template 'pause': 2m is longer than its parent 'a' has: 1m",
    ),
    (
        workflow(serial("a", "pause", deadline="1m"), suspend(deadline="60s")),
        (
            "spec.templates[1].deadline: template 'pause': 1m is all that its parent 'a' "
            "has: it is cut off just as it ends"
        ),
    ),
    (
        workflow(serial("a", "kill", deadline="1m"), {**KILL, "deadline": "1m"}),
        (
            "template 'kill': 1m is all that its parent 'a' has: it counts from when it is "
            "in effect, so it is cut short"
        ),
    ),
    (
        workflow(serial("a", "b", deadline="10s"), serial("b", "pause"), suspend(deadline="20s")),
        "spec.templates[2].deadline: template 'pause': 20s is longer than 'a' above it has: 10s",
    ),
    (
        workflow(
            serial("a", "b", deadline="10s"),
            serial("b", "pause", deadline="30s"),
            suspend(deadline="20s"),
        ),
        "spec.templates[2].deadline: template 'pause': 20s is longer than 'a' above it has: 10s",
    ),
    (
        workflow(serial("a", "kill", deadline="1m"), without(KILL, "deadline")),
        "deadline is missing: without it a PodChaos lasts until something above it is cut off",
    ),
    (
        workflow(task("a", ("b", "")), serial("b", "a")),
        "a → b → a: every branch in it is always taken: the loop goes on until a deadline",
    ),
    (
        workflow(suspend(), onExit="pause"),
        "spec.onExit: onExit is the entry: the workflow runs twice",
    ),
    (
        schedule(podChaos={"action": "pod-failure", **PODS}),
        "spec.podChaos: duration is missing: the first object stays, and no other is created",
    ),
    (
        schedule(timeChaos={"mode": "one"}),
        "spec.timeChaos: timeChaos is ignored: the type is PodChaos",
    ),
]


@pytest.mark.parametrize(("obj", "words"), ODD)
def test_questionable_workflow_is_a_warning(obj, words):
    reported = validate(obj)
    assert {fault.severity for fault in reported} == {WARNING}
    assert any(words in str(fault) for fault in reported), reported


def test_each_error_is_reported_once():
    for obj, *words in BAD:
        reported = validate(obj)
        assert len(reported) == len(set(reported)), words


json = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=5)
    | st.sampled_from(["a", "1s", *TYPES]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=8,
)
KEYS = (
    "name",
    "templateType",
    "deadline",
    "children",
    "conditionalBranches",
    "podChaos",
    "statusCheck",
    "schedule",
    "task",
    "probes",
)
templates = st.lists(st.dictionaries(st.sampled_from(KEYS), json, max_size=6) | json, max_size=4)
specs = st.fixed_dictionaries(
    {},
    optional={
        "entry": json,
        "templates": templates | json,
        "parameters": json,
        "probes": json,
        "onExit": json,
    },
)


@given(spec=specs, head=st.sampled_from([workflow(suspend()), schedule()]), more=json)
def test_every_object_content_is_judged(spec, head, more):
    for obj in (
        head | {"spec": spec},
        head | {"spec": {**head["spec"], **spec}},
        head | {"metadata": more},
        more,
    ):
        for fault in validate(obj):
            assert str(fault)


@st.composite
def places(draw):
    """Replace a part of a valid workflow at each place."""
    whole = copy.deepcopy(
        draw(st.sampled_from(list(GOOD.values())).filter(lambda one: len(str(one)) < 5000))
    )
    here, steps = whole, draw(st.integers(1, 6))
    for _ in range(steps):
        keys = list(range(len(here))) if isinstance(here, list) else sorted(here)
        if not keys:
            break
        key = draw(st.sampled_from(keys))
        if not isinstance(here[key], list | dict) or draw(st.booleans()):
            here[key] = draw(json)
            break
        here = here[key]
    return whole


@given(obj=places())
def test_every_mutation_is_judged(obj):
    for fault in validate(obj):
        assert str(fault)
