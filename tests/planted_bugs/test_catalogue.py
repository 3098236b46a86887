"""The catalogue of planted bugs, and patches that do not fit the package."""

import pytest

from planted_bugs import (
    test_controllers,
    test_data_path,
    test_harness,
    test_scheduler,
    test_storage,
    test_workflow,
)
from planted_bugs.catalogue import BUGS, TABLES, planted
from planted_bugs.planting import PlantedBug, PlantingError, edited, entry, replaced, switched_on
from pytest_kscen.kube import informer
from pytest_kscen.models.storage.drbd import resource, states
from pytest_kscen.workflow.engine import trees

LEAST = {"harness": 12, "scheduler": 8, "workflow": 8, "controllers": 6}


def test_there_are_enough_bugs_of_each_system():
    counts = {system: len(table) for system, table in TABLES.items()}
    assert counts["storage"] + counts["data path"] >= 40
    for system, least in LEAST.items():
        assert counts[system] >= least
    assert sum(counts.values()) == len(BUGS)  # no name occurs twice


@pytest.mark.parametrize("bug", BUGS.values(), ids=BUGS)
def test_bug_is_described(bug):
    assert bug.system in TABLES
    assert bug.patches
    assert bug.wrong.endswith(".")
    assert bug.wrong.count(". ") == 0
    assert bug.source
    assert bug.cause
    assert not bug.cause.endswith(".")


def test_each_bug_has_a_direct_test():
    modules = (
        test_controllers,
        test_data_path,
        test_harness,
        test_scheduler,
        test_storage,
        test_workflow,
    )
    assert sorted(name for module in modules for name in module.CASES) == sorted(BUGS)


def test_unknown_name_is_refused_with_the_nearest_one():
    with pytest.raises(PlantingError, match="did you mean 'minor-from-count'"):
        planted("minor-from-cuont")


def plant(patch):
    return switched_on(PlantedBug("x", "storage", "It is wrong.", "a test", "x", (patch,)))


QUORUM = "models.storage.drbd.states:has_quorum"


@pytest.mark.parametrize(
    "patch",
    [
        replaced("models.storage.no_such_module:x", lambda _: None),
        replaced("models.storage.drbd.states:no_such_function", lambda _: None),
        replaced("models.storage.drbd.states:NoSuchClass.method", lambda _: None),
        replaced("kube.informer:Informer.no_such_method", lambda _: None),
        replaced(QUORUM, lambda original: original),
        replaced(QUORUM, lambda _: len),
        edited(QUORUM, ("no such text", "")),
        edited(QUORUM, ("config", "")),  # occurs several times
        entry("models.storage.drbd.replicas:DISK_TRANSITIONS", "k", lambda before: before),
    ],
    ids=range(9),
)
def test_patch_that_does_not_fit_is_refused(patch):
    with pytest.raises(PlantingError), plant(patch):
        pass


def wrong(*_, **__):
    return True


def test_function_is_replaced_where_it_was_imported():
    sound = states.has_quorum
    with plant(replaced(QUORUM, lambda _: wrong)):
        assert states.has_quorum is resource.has_quorum is wrong
    assert states.has_quorum is resource.has_quorum is sound


def test_function_is_restored_after_an_error():
    sound = states.has_quorum
    with pytest.raises(ZeroDivisionError), plant(replaced(QUORUM, lambda _: wrong)):
        assert 1 // 0
    assert states.has_quorum is resource.has_quorum is sound


def test_function_is_replaced_in_tables():
    with plant(replaced("workflow.engine.trees:serial_scheduler", lambda _: wrong)):
        assert trees._SCHEDULERS["Serial"] is wrong
    assert trees._SCHEDULERS["Serial"] is trees.serial_scheduler is not wrong


def test_method_is_replaced_in_its_own_class():
    sound = vars(informer.Informer)["_follow"]
    with plant(replaced("kube.informer:Informer._follow", lambda _: wrong)):
        assert informer.Informer._follow is wrong
    assert vars(informer.Informer)["_follow"] is sound
