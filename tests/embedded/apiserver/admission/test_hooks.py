from __future__ import annotations

import copy

import pytest

from pytest_kscen.embedded.apiserver.admission import Hook
from pytest_kscen.objects.errors import Forbidden, NotFound
from pytest_kscen.objects.resources import CONFIG_MAPS, PODS, SECRETS


def label(review):
    review.new["metadata"].setdefault("labels", {})["by"] = "hook"
    review.new.get("data", {}).pop("secret", None)


def test_hook_changes_its_own_copy(site):
    site.create(CONFIG_MAPS, "c", data={"secret": "x"})
    before = site.get(CONFIG_MAPS, "c")
    site.admission.add(Hook("labels", mutate=label, resources=[CONFIG_MAPS]))
    after = site.patch(CONFIG_MAPS, "c", {"data": {"a": "1"}})
    assert (after["metadata"]["labels"], after["data"]) == ({"by": "hook"}, {"a": "1"})
    assert before["data"] == {"secret": "x"}
    assert "labels" not in site.create(SECRETS, "s")["metadata"]


def test_hook_refuses_with_message_or_error(site):
    hook = Hook(
        "no-deletion",
        validate=lambda review: f"keep {review.name}",
        resources=[CONFIG_MAPS],
        operations=["DELETE"],
    )
    site.admission.add(hook)
    site.create(CONFIG_MAPS, "c")
    with pytest.raises(Forbidden) as refusal:
        site.delete(CONFIG_MAPS, "c")
    assert refusal.value.message == 'admission webhook "no-deletion" denied the request: keep c'
    site.admission.remove(hook)
    site.delete(CONFIG_MAPS, "c")

    def fail(_):
        raise NotFound("gone")

    site.admission.add(Hook("odd", validate=fail))
    with pytest.raises(NotFound, match="gone"):
        site.create(CONFIG_MAPS, "c")


def test_hook_waits_in_simulated_time(site):
    async def slow(review):
        await review.core.clock.sleep(30)

    site.admission.add(Hook("slow", validate=slow, resources=[CONFIG_MAPS]))
    before = site.runner.clock.now()
    site.create(CONFIG_MAPS, "c")
    assert site.runner.clock.now() == before + 30


def test_hook_runs_after_plugins_and_before_validation(site):
    seen = []
    site.admission.add(
        Hook(
            "look",
            mutate=lambda review: seen.append(review.new["spec"]["serviceAccountName"]),
            resources=[PODS],
        )
    )
    site.create(PODS, "p", spec={"containers": [{"name": "c", "image": "i"}]})
    assert seen == ["default"]


@pytest.mark.parametrize("way", ["mutate", "validate"])
def test_objects_kept_by_hook_do_not_change(site, way):
    kept = []

    def keep(review):
        kept.extend(each for each in (review.new, review.old) if each)

    site.create(CONFIG_MAPS, "c", data={"a": "1"})
    site.admission.add(
        Hook(
            "keep",
            resources=[CONFIG_MAPS],
            operations=["CREATE", "UPDATE", "DELETE"],
            **{way: keep},
        )
    )
    site.patch(CONFIG_MAPS, "c", {"data": {"b": "2"}})
    site.create(CONFIG_MAPS, "d", data={"a": "1"})
    site.delete(CONFIG_MAPS, "c", dry_run=True)
    before = copy.deepcopy([site.get(CONFIG_MAPS, name) for name in "cd"])
    assert len(kept) == 4
    for each in kept:
        each["data"]["a"] = "changed"
        each["metadata"]["managedFields"][0].clear()
        each["metadata"].clear()
    assert [site.get(CONFIG_MAPS, name) for name in "cd"] == before


def test_validating_hook_changes_nothing(site):
    site.admission.add(
        Hook("odd", validate=lambda review: review.new["data"].clear(), resources=[CONFIG_MAPS])
    )
    assert site.create(CONFIG_MAPS, "c", data={"a": "1"})["data"] == {"a": "1"}


def test_hook_may_replace_object(site):
    def replace(review):
        review.new = {**review.new, "data": {"b": "2"}}

    site.admission.add(Hook("another", mutate=replace, resources=[CONFIG_MAPS]))
    assert site.create(CONFIG_MAPS, "c", data={"a": "1"})["data"] == {"b": "2"}
