"""Tables and pictures for people and other programs."""

import csv
import io
import json
from xml.etree import ElementTree as ET

import pytest

from pytest_kscen.scenario.analysis.comparison import compare
from pytest_kscen.scenario.analysis.rendering import TABLES, as_csv, as_markdown, as_text
from tests.scenario import objects
from tests.scenario.analysis.events import (
    attempted,
    delete,
    event,
    make,
    node,
    pod,
    result,
    scheduled,
    unscheduled,
)

PASSED = {"a": {"NodeResourcesFit": "passed"}, "b": {"NodeResourcesFit": "passed"}}
SCORES = {
    "a": {"NodeResourcesFit": "40", "ImageLocality": "0"},
    "b": {"NodeResourcesFit": "60", "ImageLocality": "0"},
}
FULL = {
    "a": {"NodeResourcesFit": "Insufficient cpu"},
    "b": {"NodeResourcesFit": "Insufficient cpu"},
}
NODES = node(1, "a", cpu="4"), node(1, "b", cpu="4")


def spread():
    return result(
        *NODES,
        pod(2, "x", "2"),
        attempted((2, 1), "x", filter_result=PASSED, finalscore_result=SCORES, selected_node="b"),
        scheduled((2, 1), "x", "b"),
        pod(3, "y", "2"),
        scheduled((3, 1), "y", "a"),
        pod(4, "z", "3"),
        attempted((4, 0), "z", filter_result=FULL),
    )


def packed():
    return result(
        *NODES,
        pod(2, "x", "2"),
        scheduled((2, 1), "x", "a"),
        pod(3, "y", "2"),
        scheduled((3, 2), "y", "a"),
        pod(4, "z", "3"),
        scheduled((4, 1), "z", "b"),
    )


def test_numbers_are_right_aligned_and_missing_values_are_dashes():
    assert as_text([{"pod": "x", "step": 10, "why": ""}, {"pod": "long", "step": None, "why": "full"}]) == (
        "pod   step  why\n"
        "----  ----  ----\n"
        "x       10  -\n"
        "long     -  full\n"
    )  # fmt: skip


def test_markdown_escapes_its_own_mark():
    assert (
        as_markdown([{"pod": "a|b", "share": 1 / 3}])
        == "| pod | share |\n| --- | ---: |\n| a\\|b | 0.3333 |\n"
    )


def test_no_rows():
    assert (as_text([]), as_markdown([]), as_csv([])) == ("(none)\n", "(none)\n", "")


def test_rows_of_pods():
    (x, _, z) = spread().rows("pods")
    assert x == {
        "namespace": "default",
        "pod": "x",
        "number": 1,
        "state": "placed",
        "node": "b",
        "priority": 0,
        "created": 2,
        "scheduled": 2,
        "scheduled_minor": 1,
        "gone": None,
        "waited": 0,
        "waited_minor": 1,
        "attempts": 1,
        "why": "",
    }
    assert (z["state"], z["node"], z["scheduled"], z["waited"]) == ("pending", "", None, 0)
    assert z["why"] == "0/2 nodes are available: 2 Insufficient cpu."


def test_rows_of_steps():
    rows = spread().rows("steps")
    assert [(row["step"], row["nodes"], row["pods"], row["pending"]) for row in rows] == [
        (1, 2, 0, 0),
        (2, 2, 1, 0),
        (3, 2, 2, 0),
        (4, 2, 3, 1),
    ]
    assert [row["allocation_cpu"] for row in rows] == [0, 0.25, 0.5, 0.5]
    assert [row["imbalance_cpu"] for row in rows] == [0, 0.25, 0, 0]
    assert [row["range_cpu"] for row in rows] == [0, 0.5, 0, 0]
    assert [row["fragmentation_cpu"] for row in rows] == pytest.approx([0, 2 / 6 / 3, 1 / 3, 1 / 3])
    assert [row["stranded_cpu"] for row in rows] == [0, 0, 0, 1]


def test_rows_of_attempts_filters_and_scores():
    found = spread()
    one, two = found.rows("attempts")
    assert (one["node"], one["nodes_filtered"], one["nodes_feasible"], one["best_score"]) == (
        "b",
        2,
        2,
        60,
    )
    assert (two["node"], two["nodes_feasible"], two["best_score"]) == ("", 0, None)
    assert [(row["node"], row["plugin"], row["verdict"]) for row in found.rows("filters")[2:]] == [
        ("a", "NodeResourcesFit", "Insufficient cpu"),
        ("b", "NodeResourcesFit", "Insufficient cpu"),
    ]
    assert [
        (row["node"], row["plugin"], row["final_score"], row["chosen"])
        for row in found.rows("scores")
    ] == [
        ("a", "NodeResourcesFit", 40, 0),
        ("a", "ImageLocality", 0, 0),
        ("b", "NodeResourcesFit", 60, 1),
        ("b", "ImageLocality", 0, 1),
    ]


def test_rows_of_events():
    rows = result(
        pod(1, "x"),
        scheduled((1, 1), "x", "a"),
        delete(2, "Node", "a"),
        event(3, "end", done=object()),
    ).rows("events")
    assert [(row["step"], row["event"], row["object"], row["node"]) for row in rows] == [
        (1, "create", "Pod/default/x", ""),
        (1, "podScheduled", "Pod/default/x", "a"),
        (2, "delete", "Node/a", ""),
        (3, "done", "", ""),
    ]


@pytest.mark.parametrize("table", TABLES)
def test_csv_and_json_lines_have_the_same_flat_rows(table):
    found = result(
        *spread().timeline, unscheduled((4, 2), "x", "b", by="z"), delete(5, "Node", "a")
    )
    rows = found.rows(table)

    assert rows
    assert {type(value) for row in rows for value in row.values()} <= {str, int, float, type(None)}
    assert [json.loads(line) for line in found.json_lines(table).splitlines()] == rows
    read = list(csv.DictReader(io.StringIO(found.csv(table))))
    assert read == [
        {name: "" if value is None else str(value) for name, value in row.items()} for row in rows
    ]


def test_unknown_table_is_refused():
    with pytest.raises(
        ValueError,
        match=r"^'pod' is not a table of a result \(did you mean 'pods'\?\); there are events, pods, ",
    ):
        spread().rows("pod")
    with pytest.raises(
        ValueError,
        match=(
            r"^'pods' is not a table of a comparison; there are figures, placements, steps, "
            r"preemptions$"
        ),
    ):
        compare(spread(), packed()).rows("pods")


def test_two_runs_side_by_side():
    found = compare(spread(), packed(), names=("least", "most"))

    assert not found.is_same
    assert found.rows("placements") == [
        {
            "pod": "default/x",
            "node least": "b",
            "step least": "2.1",
            "node most": "a",
            "step most": "2.1",
        },
        {
            "pod": "default/z",
            "node least": "pending",
            "step least": "",
            "node most": "b",
            "step most": "4.1",
        },
    ]
    figures = {row[""]: (row["least"], row["most"], row["difference"]) for row in found.rows()}
    assert figures["pods scheduled"] == (2, 3, 1)
    assert figures["pods pending at the end"] == (1, 0, -1)
    assert figures["cpu allocation, at the end"] == (0.5, 0.875, 0.375)
    assert figures["cpu imbalance, at the end"] == (0, 0.125, 0.125)
    assert figures["cpu fragmentation for pending pods, at the end"] == (1, 0, -1)
    assert found.rows("steps")[2]["cpu imbalance most"] == 0.5


def test_comparison_as_text_and_markdown():
    found = compare(spread(), packed(), names=("least", "most"))

    assert (
        "Placements that differ (2)\n"
        "==========================\n"
        "pod        node least  step least  node most  step most\n"
        "---------  ----------  ----------  ---------  ---------\n"
        "default/x  b           2.1         a          2.1\n"
        "default/z  pending     -           b          4.1\n"
    ) in str(found)
    assert "| pods scheduled | 2 | 3 | 1 |\n" in found.markdown()
    assert "## Preemptions (0)\n\n(none)\n" in found.markdown()


def test_run_equals_itself():
    found = compare(spread(), spread())
    assert (found.is_same, found.rows("placements")) == (True, [])
    assert {row["difference"] for row in found.rows()} == {0}


def test_pod_of_only_one_run():
    found = compare(result(*NODES), result(*NODES, pod(2, "x"), scheduled((2, 1), "x", "a")))
    assert found.rows("placements") == [
        {"pod": "default/x", "node a": "absent", "step a": "", "node b": "a", "step b": "2.1"}
    ]


def test_pods_of_a_workload_are_matched_by_owner_and_order():
    def run(*names, nodes):
        owner = {"ownerReferences": [{"kind": "ReplicaSet", "name": "web", "controller": True}]}
        pods = [
            {**objects.pod(name), "metadata": {"name": name, "namespace": "default", **owner}}
            for name in names
        ]
        return result(
            *NODES,
            *(make(2, each) for each in pods),
            *(scheduled((2, 1), *each) for each in zip(names, nodes, strict=True)),
        )

    first = run("web-1", "web-2", nodes="ab")
    assert compare(first, run("web-8", "web-9", nodes="ab")).is_same
    assert compare(first, run("web-2", "web-9", nodes="ba")).is_same
    [row] = compare(first, run("web-2", "web-9", nodes="bb")).rows("placements")
    assert (row["pod"], row["node a"], row["node b"]) == ("default/web-1, web-9", "a", "b")


def test_another_minor_step_is_no_difference():
    one = result(*NODES, pod(2, "x"), scheduled((2, 1), "x", "a"))
    other = result(*NODES, pod(2, "x"), scheduled((2, 3), "x", "a"))
    assert compare(one, other).is_same


def test_two_runs_need_two_names():
    with pytest.raises(
        ValueError,
        match=r"^two runs need different names, and both are called 'x': give two names$",
    ):
        compare(spread(), packed(), names=("x", "x"))


def test_report_lists_pending_pods_and_reasons():
    reported = spread().report()
    assert "Without a node at the end (1)\n=============================\n" in reported
    assert (
        "default/z           4         1  0/2 nodes are available: 2 Insufficient cpu.\n"
        in reported
    )
    assert "## Preemptions (0)\n" in spread().report(markdown=True)


def test_pictures_are_svg():
    svg = "{http://www.w3.org/2000/svg}"
    one = ET.fromstring(spread().picture())
    two = ET.fromstring(compare(spread(), packed(), names=("least <1>", "most")).picture())

    assert (len(one.findall(f"{svg}polyline")), len(one.findall(f"{svg}polygon"))) == (1, 1)
    assert (len(two.findall(f"{svg}polyline")), len(two.findall(f"{svg}polygon"))) == (2, 2)
    assert one.findtext(f"{svg}title") == "Allocation of cpu by major step"
    assert two.findtext(f"{svg}title") == "Allocation of cpu by major step, least <1> and most"
    line = one.find(f"{svg}polyline").get("points")
    assert line == "52,190 192,190 192,152.5 332,152.5 332,115 612,115"
    assert ET.fromstring(result().picture()) is not None
