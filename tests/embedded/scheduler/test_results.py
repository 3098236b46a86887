import json

import pytest

from pytest_kscen.embedded.scheduler.result_annotations import (
    MAX_ANNOTATION_BYTES,
    ResultAnnotator,
    with_history,
)
from pytest_kscen.objects.scenarios import RESULTS


class ResultSink:
    def __init__(self):
        self.attempts = []

    async def record(self, attempt):
        self.attempts.append(attempt)


@pytest.fixture
def kept():
    return ResultSink()


def read(cluster, name="p"):
    found = cluster.get(name)["metadata"]["annotations"]
    return {key.removeprefix(RESULTS): value for key, value in found.items()}


class TestAttempts:
    def test_successful_attempt(self, make_cluster, kept):
        cluster = make_cluster(sink=kept)
        cluster.node("n1", taints=[{"key": "k", "effect": "NoSchedule"}])
        cluster.nodes_named("n2", "n3")
        node = cluster.pod(cpu="1")
        (one,) = kept.attempts
        assert (one.selected, one.bound, one.number, one.scheduler) == (
            node,
            True,
            1,
            "default-scheduler",
        )
        assert one.filter["n1"] == {
            "NodeUnschedulable": "passed",
            "NodeName": "passed",
            "TaintToleration": "node(s) had untolerated taint(s)",
        }
        assert one.filter["n2"]["NodeResourcesFit"] == "passed"
        assert one.score["n2"]["NodeResourcesFit"] == (75 + 97) // 2
        assert one.final_score["n3"]["TaintToleration"] == 300
        assert one.bind == {"DefaultBinder": "success"}
        assert (
            one.pre_filter_status[
                "NodeResourcesFit" if "NodeResourcesFit" in one.pre_filter_status else "NodePorts"
            ]
            == "success"
        )

    def test_failed_attempt(self, make_cluster, kept):
        cluster = make_cluster(sink=kept)
        cluster.nodes(1)
        cluster.pod(cpu="5")
        (one,) = kept.attempts
        assert (one.selected, one.bound, one.message) == ("", False, cluster.why())
        assert one.filter == {
            "n1": {
                "NodeUnschedulable": "passed",
                "NodeName": "passed",
                "TaintToleration": "passed",
                "NodeResourcesFit": "Insufficient cpu",
            }
        }

    @pytest.mark.parametrize("large", [1, 10**9])
    def test_results_are_equal_in_small_and_large_clusters(self, make_cluster, kept, large):
        cluster = make_cluster(sink=kept)
        cluster.scheduler._handle.snapshot.large = large
        cluster.node("n1", cpu="1")
        cluster.node("n2", taints=[{"key": "k", "effect": "NoSchedule"}])
        cluster.nodes_named("n3", "n4")
        cluster.pod(cpu="2")
        (one,) = kept.attempts
        assert {node: list(by.values())[-1] for node, by in one.filter.items()} == {
            "n1": "Insufficient cpu",
            "n2": "node(s) had untolerated taint(s)",
            "n3": "passed",
            "n4": "passed",
        }
        assert {node: by["NodeResourcesFit"] for node, by in one.score.items()} == {
            "n3": 73,
            "n4": 73,
        }


class TestAnnotations:
    @pytest.fixture
    def cluster(self, make_cluster):
        return make_cluster(sink_of=ResultAnnotator)

    def test_annotation_format(self, cluster):
        cluster.nodes(2)
        node = cluster.pod(cpu="1")
        found = read(cluster)
        assert found["selected-node"] == node
        assert json.loads(found["finalscore-result"])["n1"]["TaintToleration"] == "300"
        assert json.loads(found["filter-result"])["n2"]["NodeName"] == "passed"
        assert json.loads(found["bind-result"]) == {"DefaultBinder": "success"}
        (attempt,) = json.loads(found["result-history"])
        assert attempt == {
            f"{RESULTS}{key}": value for key, value in found.items() if key != "result-history"
        }

    def test_history_order(self, cluster):
        cluster.nodes(1)
        cluster.pod("first", cpu="3")
        cluster.pod(cpu="2")
        cluster.delete("first")
        assert cluster.where() == "n1"
        history = json.loads(read(cluster)["result-history"])
        assert [one.get(f"{RESULTS}selected-node") for one in history] == [None, "n1"]
        assert (
            json.loads(history[0][f"{RESULTS}filter-result"])["n1"]["NodeResourcesFit"]
            == "Insufficient cpu"
        )

    def test_oversized_results_are_omitted_with_note(self):
        new = {
            f"{RESULTS}filter-result": "f" * 100_000,
            f"{RESULTS}score-result": "s" * 170_000,
            f"{RESULTS}selected-node": "n1",
        }
        old = {f"{RESULTS}result-history": json.dumps([{"a": "b"}]), "mine": "x" * 1000}
        found = with_history(new, old)
        assert set(found) == {
            f"{RESULTS}{name}"
            for name in ("filter-result", "selected-node", "result-history", "result-cut")
        }
        assert found[f"{RESULTS}result-cut"] == (
            f"dropped to stay within {MAX_ANNOTATION_BYTES} bytes: 2 attempts of the "
            "history, score-result"
        )
        assert (
            sum(len(key) + len(value) for key, value in {**old, **found}.items())
            <= MAX_ANNOTATION_BYTES
        )

    def test_oldest_attempts_are_dropped_first(self):
        new = {f"{RESULTS}filter-result": "f" * 50_000}
        old = {f"{RESULTS}result-history": json.dumps([{"a": "x" * 100_000}, {"a": "y" * 100_000}])}
        history = json.loads(with_history(new, old)[f"{RESULTS}result-history"])
        assert [next(iter(one.values()))[0] for one in history] == ["y", "f"]
