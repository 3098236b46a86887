from pytest_kscen.journal import Entry
from pytest_kscen.judge.verdict import count_action


def ended(action, result, took):
    return Entry(0.0, "volume-main/v", "ended", {"action": action, "result": result, "took": took})


def tallies(entries):
    found = {}
    for entry in entries:
        count_action(found, entry)
    return found


def test_only_completed_actions_have_durations():
    seen = tallies(
        [
            ended("attach", "done", 2.0),
            ended("attach", "done", 4.0),
            ended("attach", "failed: X()", 60.0),
            ended("attach", "stopped", 1.0),
        ]
    )
    assert seen["attach"].as_json() == {
        "done": 2,
        "failed": 1,
        "stopped": 1,
        "total": 6.0,
        "average": 3.0,
        "longest": 4.0,
    }


def test_actions_are_ordered_by_their_first_end():
    assert list(
        tallies([ended("b", "done", 1.0), ended("a", "done", 1.0), ended("b", "done", 1.0)])
    ) == ["b", "a"]


def test_first_failure_is_reported():
    seen = tallies(
        [ended("attach", "failed: First()", 1.0), ended("attach", "failed: Second()", 1.0)]
    )
    assert seen["attach"].refusal == "failed: First()"
