"""Parameters of volume_churn and the draws from them."""

from __future__ import annotations

import re
from collections import Counter

import pytest

from pytest_kscen.chance import Chance
from pytest_kscen.megatest.churn import Churn, Growth, attachments_for, draw

ORDER = "give the least and the most, in this order, each more than zero"


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({"storage_classes": ()}, "storage_classes=(): give a list of names"),
        ({"storage_classes": "none"}, "storage_classes='none': give a list of names"),
        ({"storage_classes": ("",)}, "storage_classes=('',): give a list of names"),
        ({"max_volumes": 0}, "max_volumes=0: give a whole number, 1 or more"),
        ({"lifetime": (True, 10.0)}, f"lifetime=(True, 10.0): {ORDER}"),
        ({"max_volumes": True}, "max_volumes=True: give a whole number, 1 or more"),
        ({"step": (0, 1)}, f"step=(0, 1): {ORDER}, in whole numbers"),
        ({"step": (3, 1)}, f"step=(3, 1): {ORDER}, in whole numbers"),
        ({"step_period": (30.0, 10.0)}, f"step_period=(30.0, 10.0): {ORDER}"),
        ({"lifetime": (0.0, 10.0)}, f"lifetime=(0.0, 10.0): {ORDER}"),
        ({"attacher_period": (1.0,)}, f"attacher_period=(1.0,): {ORDER}"),
        ({"resizer_step": ("4Ki",)}, f"resizer_step=('4Ki',): {ORDER}"),
        ({"resizer_period": (2.0, 1.0)}, f"resizer_period=(2.0, 1.0): {ORDER}"),
        ({"replica_destroyer_period": (2.0, 1.0)}, f"replica_destroyer_period=(2.0, 1.0): {ORDER}"),
        ({"replica_creator_period": (2.0, 1.0)}, f"replica_creator_period=(2.0, 1.0): {ORDER}"),
        ({"resizer": "yes"}, "resizer='yes': give True or False"),
        ({"replica_destroyer": 1}, "replica_destroyer=1: give True or False"),
        ({"replica_creator": 0}, "replica_creator=0: give True or False"),
        ({"pod_destroyer": None}, "pod_destroyer=None: give True or False"),
        ({"patience": 0}, "patience=0: give a time, more than zero"),
        ({"patience": "10m"}, "patience='10m': give a time, more than zero"),
        ({"size": "big"}, "size='big' is not a quantity: write for example 100Mi or 1Gi"),
        ({"size": "0"}, "size='0' is 0 bytes: give 1Mi or more, as in 100Mi"),
        ({"size": "100"}, "size='100' is 100 bytes: give 1Mi or more, as in 100Mi"),
        ({"size": "1023Ki"}, "size='1023Ki' is 1047552 bytes: give 1Mi or more, as in 100Mi"),
        (
            {"resizer_step": ("4Ki", "much")},
            "resizer_step='much' is not a quantity: write for example 100Mi or 1Gi",
        ),
        ({"resizer_step": ("64Ki", "4Ki")}, f"resizer_step=('64Ki', '4Ki'): {ORDER}"),
        (
            {"resizer": True, "size": "2Gi"},
            "max_size='1Gi' is less than size='2Gi': the resizer could not grow anything",
        ),
    ],
)
def test_invalid_parameters_are_reported(given, complaint):
    with pytest.raises(ValueError, match=f"^{re.escape(complaint)}$"):
        Churn(**given)


def test_large_volumes_need_a_maximum_size_only_if_they_grow():
    assert Churn(size="2Gi").max_size == "1Gi"
    assert Churn(size="2Gi", resizer=True, max_size="4Gi").resizer


def test_volumes_are_attached_initially():
    assert Counter(attachments_for(number) for number in range(100)) == {0: 30, 1: 60, 2: 10}


def test_thousand_volume_plans_match_the_distribution():
    chance = Chance("destinies").stream("multivolume")
    drawn = [draw(chance, Churn()) for _ in range(1000)]
    assert Counter(one.attachments for one in drawn) == {0: 307, 1: 608, 2: 85}
    assert Counter(one.storage_class for one in drawn) == {
        "availability": 500,
        "consistency-and-availability": 500,
    }
    assert len({one.name for one in drawn}) == 1000
    assert all(60 <= one.lifetime <= 300 for one in drawn)
    assert 175 < sum(one.lifetime for one in drawn) / 1000 < 185


def test_actors_of_a_volume_are_those_of_its_plan():
    chance = Chance("destinies").stream("multivolume")
    default_plan = draw(chance, Churn())
    assert default_plan.attacher_period == (30, 60)
    assert (
        default_plan.growth,
        default_plan.replica_destroyer_period,
        default_plan.replica_creator_period,
    ) == (
        None,
        None,
        None,
    )
    full_plan = draw(chance, Churn(resizer=True, replica_destroyer=True, replica_creator=True))
    assert full_plan.growth == Growth((50, 50), ("4Ki", "64Ki"), "1Gi")
    assert full_plan.replica_destroyer_period == full_plan.replica_creator_period == (30, 300)
