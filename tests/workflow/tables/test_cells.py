"""Every cell of each state machine has the effect in its table, in each situation."""

from __future__ import annotations

import matrices
import pytest
from cell_runner import CellRunner
from engine_env import EngineEnv

from pytest_kscen.workflow import tables
from pytest_kscen.workflow.tables.machine import PASSED_TO_CHILDREN, EventType

TABLES = {
    "Serial": (tables.SERIAL, matrices.SERIAL, matrices.SERIAL_CELLS),
    "Parallel": (tables.PARALLEL, matrices.PARALLEL, matrices.PARALLEL_CELLS),
    "Suspend": (tables.SUSPEND, matrices.SUSPEND, matrices.SUSPEND_CELLS),
    "Chaos": (tables.CHAOS, matrices.CHAOS, matrices.chaos_cells("networkchaos")),
    "Schedule": (tables.CHAOS, matrices.CHAOS, matrices.chaos_cells("schedules")),
    "Task": (tables.TASK, matrices.TASK, matrices.TASK_CELLS),
    "StatusCheck": (tables.STATUS_CHECK, matrices.STATUS_CHECK, matrices.check_cells()),
    "aborting StatusCheck": (
        tables.STATUS_CHECK,
        matrices.STATUS_CHECK,
        matrices.check_cells(aborts=True),
    ),
    "continuous StatusCheck": (
        tables.STATUS_CHECK,
        matrices.STATUS_CHECK,
        matrices.check_cells(continuous=True),
    ),
    "Workflow": (tables.WORKFLOW, matrices.WORKFLOW, matrices.WORKFLOW_CELLS),
}
IN_EMPTY_CELLS = {"": ("-", {})}


def rows(matrix):
    for line in matrix.strip().splitlines():
        event_type, *words = (part.strip() for part in line.split("|"))
        yield EventType(event_type), words


def played():
    for name, (machine, matrix, run_cells) in TABLES.items():
        written = dict(rows(matrix))
        for event_type in EventType:
            for phase, word in zip(
                machine.phases, written.get(event_type, ["-"] * len(machine.phases)), strict=True
            ):
                yield pytest.param(
                    name,
                    event_type,
                    phase,
                    run_cells.get(word, IN_EMPTY_CELLS),
                    id=f"{name}-{event_type}-{phase}",
                )


@pytest.fixture(scope="module")
def run_cells():
    engine_env = EngineEnv()
    yield CellRunner(engine_env)
    engine_env.close()


@pytest.mark.parametrize(("name", "event_type", "phase", "situations"), list(played()))
def test_cell_of_the_phase_table(run_cells, name, event_type, phase, situations):
    passed_on = PASSED_TO_CHILDREN.get(event_type)
    expected = {
        words: follows.replace("{passed on}", passed_on or "")
        for words, (follows, _) in situations.items()
    }
    assert {
        words: run_cells.play(name, phase, event_type, **state)
        for words, (_, state) in situations.items()
    } == expected


def test_phase_that_something_else_may_end_is_written_at_once(run_cells):
    wrote = []
    run_cells.engine_env.journal.follow(
        lambda entry: wrote.append(entry.data) if entry.what == "wrote" else None
    )

    def phases_written(**state):
        wrote.clear()
        run_cells.play(
            "Serial", "WaitingForChild", EventType.CHILD_SUCCEED, children=("Succeed",), **state
        )
        return [
            phase
            for data in wrote
            if (phase := (data.get("body") or {}).get("status", {}).get("phase"))
            and "it" in data["name"]
        ]

    assert phases_written() == [], "it waits for a child again"
    assert phases_written(waiting=EventType.ABORTED) == ["WaitingForSchedule"]


@pytest.mark.parametrize("name", TABLES)
def test_all_cells_are_covered(name):
    machine, matrix, run_cells = TABLES[name]
    written = {
        (event_type, phase): word
        for event_type, words in rows(matrix)
        for phase, word in zip(machine.phases, words, strict=True)
        if word != "-"
    }
    assert set(written.values()) <= set(run_cells)
    assert set(written) == {
        (event_type, phase) for event_type, row in machine.rows.items() for phase in row
    }
