"""Guarantees over hand-written records: each mode, each reason for unknown, bad predicates."""

from __future__ import annotations

import pytest

import pytest_kscen as kscen
from pytest_kscen.clock.time_limit import TimeLimit
from pytest_kscen.journal import Change, Entry
from pytest_kscen.judge.guarantees.checks import DeclaredGuarantees, ReplayedGuarantees
from pytest_kscen.judge.guarantees.declaration import check_guarantees
from pytest_kscen.run.guarantee_watch import PREDICATE_LIMIT, FunctionPredicate

RUNS = "object.status.phase == 'Running'"


def pod(phase: str | None, *, uid: str = "u", labels=None, name: str = "p"):
    metadata = {"name": name, "namespace": "default", "uid": uid, "labels": labels or {}}
    return {"metadata": metadata, "status": {} if phase is None else {"phase": phase}}


def change(at: float, new, old=None, **more):
    shown = new or old
    metadata = shown["metadata"]
    more = {"resource": "pods", "namespace": metadata["namespace"], **more}
    return Change(at, name=metadata["name"], old=old, new=new, **more)


def result(guarantee, *changes, end: float = 600.0, declared_at: float = 0.0, more=()):
    """Judge one guarantee over these changes, in a run that was frozen at `end`."""
    checks = DeclaredGuarantees()
    if callable(guarantee.predicate):
        checks.functions[guarantee.name] = FunctionPredicate(
            guarantee.predicate, TimeLimit(PREDICATE_LIMIT)
        )
    declaration = Entry(declared_at, "run", "guarantee-declared", guarantee.as_json())
    records = [*((each.at, 1, each) for each in changes), (declared_at, 0, declaration)]
    for _, _, record in sorted(records, key=lambda one: one[:2]):
        (checks.learn if isinstance(record, Entry) else checks.observe)(record)
    checks.learn(Entry(end, "run", "frozen", {}))
    for each in more:
        checks.observe(each)
    ((judged, finding),) = checks.judge()
    assert (finding.verdict, finding.why) == (judged.verdict, judged.why)
    return judged


PENDING, RUNNING, FAILED = pod("Pending"), pod("Running"), pod("Failed")
STARTED = change(1, PENDING), change(5, RUNNING, PENDING)


@pytest.mark.parametrize(
    ("guarantee", "changes", "verdict", "occasions", "why"),
    [
        pytest.param(
            kscen.always("pods", "object.status.phase != 'Failed'"),
            STARTED,
            *("valid", 2, ""),
            id="always-held",
        ),
        pytest.param(
            kscen.always("pods", "object.status.phase != 'Failed'"),
            (*STARTED, change(7, FAILED, RUNNING), change(9, RUNNING, FAILED)),
            *("invalid", 4, "not true of pods default/p from 7 s on"),
            id="always-violated-for-a-while",
        ),
        pytest.param(
            kscen.always("pods", "object.status.phase != 'Failed'"),
            (),
            *("unknown", 0, "no object of 'pods' was seen"),
            id="always-without-object",
        ),
        pytest.param(
            kscen.always("pods", "object.status.phase != 'Failed'"),
            (change(1, pod(None)), change(2, RUNNING, pod(None))),
            *("unknown", 2, "without a value in 1 of 2 states: a field is missing"),
            id="always-with-missing-field",
        ),
        pytest.param(
            kscen.sometimes("pods", RUNS),
            (change(1, pod(None)), change(2, RUNNING, pod(None))),
            *("valid", 2, ""),
            id="sometimes-held",
        ),
        pytest.param(
            kscen.sometimes("pods", RUNS),
            (change(1, pod(None)), change(2, PENDING, pod(None))),
            *("unknown", 2, "true in none of 2 states"),
            id="sometimes-never",
        ),
        pytest.param(
            kscen.eventually("pods", RUNS, within="10s"),
            STARTED,
            *("valid", 2, ""),
            id="eventually-in-time",
        ),
        pytest.param(
            kscen.eventually("pods", RUNS, within="3s"),
            STARTED,
            *("invalid", 2, "not true of pods default/p within 3s"),
            id="eventually-too-late",
        ),
        pytest.param(
            kscen.eventually("pods", RUNS, within="3s"),
            (change(1, PENDING), change(3, None, PENDING)),
            *("unknown", 1, "every object was deleted before its time was over"),
            id="eventually-deleted-before",
        ),
        pytest.param(
            kscen.eventually("pods", RUNS, within="3s"),
            (change(1, PENDING), change(5, None, PENDING)),
            *("invalid", 1, "not true of pods default/p within 3s"),
            id="eventually-deleted-after",
        ),
        pytest.param(
            kscen.eventually("pods", RUNS, within="10m"),
            (change(1, PENDING),),
            *("unknown", 1, "the time of pods default/p was not over at the end: run longer"),
            id="eventually-not-over",
        ),
    ],
)
def test_verdict_occasions_and_reason(guarantee, changes, verdict, occasions, why):
    judged = result(guarantee, *changes)

    assert (judged.verdict, judged.occasions, judged.why) == (verdict, occasions, why)


def test_only_the_selected_objects_count():
    other = change(1, pod("Failed"), namespace="other")
    labelled = change(1, pod("Running", labels={"app": "web"}, name="web"))
    changes = (change(1, FAILED), other, labelled)

    def verdict(kind="pods", **more):
        return result(kscen.always(kind, RUNS, **more), *changes).verdict

    assert verdict() == verdict(namespace="default") == verdict(namespace="other") == "invalid"
    assert verdict(labels={"app": "web"}) == verdict(kind="pods/web") == "valid"
    assert verdict(kind="podsets") == verdict(namespace="none") == "unknown"


def test_recreated_object_has_a_time_of_its_own():
    again = pod("Pending", uid="u2")
    changes = (*STARTED, change(6, None, RUNNING), change(7, again))

    judged = result(kscen.eventually("pods", RUNS, within="10s"), *changes)

    assert (judged.verdict, judged.violations) == ("invalid", ("pods default/p",))


def test_time_counts_from_the_declaration_for_objects_that_were_there():
    guarantee = kscen.eventually("pods", RUNS, within="10s")
    changes = change(1, PENDING), change(105, RUNNING, PENDING)

    assert result(guarantee, *changes, declared_at=100).verdict == "valid"
    assert result(guarantee, *changes, declared_at=50).verdict == "invalid"


def test_states_after_the_end_are_not_judged():
    late = change(700, FAILED, RUNNING)

    assert result(kscen.always("pods", RUNS), change(1, RUNNING), more=[late]).verdict == "valid"


def raises(_):
    raise RuntimeError("no")


def changes_its_object(obj):
    obj["status"]["phase"] = "Running"
    return True


def does_not_end(_):
    while True:
        pass


@pytest.mark.parametrize(
    ("predicate", "why"),
    [
        (raises, "the predicate raised RuntimeError('no')"),
        (changes_its_object, "the predicate changed its object: read it only"),
        (does_not_end, "the predicate did not return within 1 s"),
        ("object.status.phase", "the predicate is 'Pending': it has to be true or false"),
        ("object.status + 1 == 2", "the predicate has no value: no such overload"),
    ],
)
def test_bad_predicate_makes_the_result_unknown_and_nothing_else(predicate, why):
    judged = result(kscen.always("pods", predicate, name="x"), *STARTED)

    assert judged.verdict == "unknown"
    assert judged.why == f"pods default/p at 1 s: {why}"
    assert PENDING["status"]["phase"] == "Pending"


def test_violation_before_a_failure_of_the_predicate_stays():
    judged = result(
        kscen.always("pods", "object.status.phase == 'Running' || object.status + 1 == 2"),
        change(1, RUNNING),
    )
    assert judged.verdict == "valid"

    def picky(obj):
        if obj["status"]["phase"] == "Running":
            raise RuntimeError
        return False

    assert result(kscen.always("pods", picky), *STARTED).verdict == "invalid"


def test_decorator_names_the_guarantee_by_its_function():
    @kscen.always("pods", namespace="default")
    def no_pod_fails(obj):
        return obj["status"]["phase"] != "Failed"

    assert no_pod_fails.name == "no pod fails"
    assert result(no_pod_fails, *STARTED).verdict == "valid"


def test_record_is_replayed_in_the_order_in_which_it_was_written():
    guarantee = kscen.sometimes("pods", RUNS, name="runs")
    journal = [
        Entry(0, "run", "run-started", {}),
        Entry(0, "run", "guarantee-declared", guarantee.as_json()),
        Entry(5, "run", "frozen", {}),
    ]

    def verdict(entries):
        checks = ReplayedGuarantees([change(5, RUNNING, entries=entries)])
        for entry in journal:
            checks.learn(entry)
        return [judged.verdict for judged, _ in checks.judge()]

    assert [verdict(1), verdict(2), verdict(3)] == [["valid"], ["valid"], ["unknown"]]


def test_function_is_unknown_without_its_test():
    guarantee = kscen.always("pods", raises)
    checks = DeclaredGuarantees()
    checks.learn(Entry(0, "run", "guarantee-declared", guarantee.as_json()))
    checks.observe(STARTED[0])

    ((judged, _),) = checks.judge()

    assert judged.why == "its predicate is a function, which the archive does not have"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: kscen.always("", "true"), "name a resource"),
        (lambda: kscen.always("pods/", "true"), "name a resource"),
        (lambda: kscen.always("pods/a/b", "true"), "name a resource"),
        (lambda: kscen.always("pods", "object.("), "does not compile"),
        (lambda: kscen.always("pods", "nobody.x"), "undeclared reference"),
        (lambda: kscen.always("pods", "1 + 1"), "has the type int"),
        (lambda: kscen.always("pods", 7), "give CEL about `object`, or a function"),
        (lambda: kscen.always("pods", "true", labels="a in"), "labels='a in'"),
        (lambda: kscen.eventually("pods", "true", within=0), "more than zero"),
        (lambda: check_guarantees([kscen.always("pods")]), "has no predicate"),
        (lambda: check_guarantees(["pods"]), "'pods' is not a guarantee"),
        (lambda: check_guarantees([kscen.always("pods", "true")] * 2), "two are named"),
    ],
)
def test_wrong_declaration_is_refused(make, message):
    with pytest.raises((TypeError, ValueError), match=message):
        make()
