"""Operators' plans: create, change, delete."""

from __future__ import annotations

import pytest
from rest_framework.test import APIClient

from plans.models import Plan
from tests.factories import make_member, make_operator, make_plan, make_workspace
from workspaces.models import AuditEvent

PLANS = "/api/v1/admin/plans"


@pytest.fixture
def operator(db) -> APIClient:
    client = APIClient()
    client.force_login(make_operator("root"))
    return client


def test_a_new_plan_allows_no_gpus_unless_it_says_so(operator):
    answer = operator.post(PLANS, {"name": "basic"})
    assert answer.status_code == 201
    assert (answer.json()["gpu_allowed"], answer.json()["gpu_limit"]) == (False, 0)


def test_a_changed_plan_leaves_a_trace_of_what_changed_only(operator):
    plan = make_plan("gpu", gpu_limit=2)
    assert operator.patch(f"{PLANS}/{plan.pk}", {"gpu_limit": 3, "app_limit": -1}).json()["gpu_limit"] == 3
    event = AuditEvent.objects.get(verb="plan.change")
    assert (event.actor_name, event.before, event.after) == ("root", {"gpu_limit": 2}, {"gpu_limit": 3})


def test_a_misspelt_limit_is_an_error_that_names_it(operator):
    answer = operator.post(PLANS, {"name": "basic", "gpu_limits": 3})
    assert answer.status_code == 400
    assert answer.json()["errors"][0]["attr"] == "gpu_limits"
    assert not Plan.objects.exists()


@pytest.mark.parametrize("name", ["gpu_limit", "cpu_limit", "memory_limit", "app_limit", "max_lease_hours"])
@pytest.mark.parametrize("value", [-2, 2**40, 1.5, "many", None, True])
def test_a_limit_is_a_whole_number_from_minus_one_that_the_database_can_hold(operator, name, value):
    answer = operator.post(PLANS, {"name": "basic", name: value})
    assert answer.status_code == 400, answer.json()
    assert answer.json()["errors"][0]["attr"] == name


def test_two_plans_have_not_the_same_name(operator):
    make_plan("gpu")
    answer = operator.post(PLANS, {"name": "gpu"})
    assert answer.status_code in (400, 409)
    assert answer.json()["errors"][0]["attr"] == "name"


def test_a_plan_that_is_in_use_is_not_deleted(operator):
    plan = make_plan("gpu")
    make_workspace(plan=plan)
    answer = operator.delete(f"{PLANS}/{plan.pk}")
    assert (answer.status_code, answer.json()["code"]) == (409, "plan_in_use")
    assert "1 workspace(s)" in answer.json()["detail"]
    assert Plan.objects.filter(pk=plan.pk).exists()
    assert not AuditEvent.objects.filter(verb="plan.delete").exists()


def test_a_plan_that_nobody_uses_is_deleted(operator):
    plan = make_plan("gpu")
    assert operator.delete(f"{PLANS}/{plan.pk}").status_code == 204
    assert AuditEvent.objects.get(verb="plan.delete").target_name == "gpu"


def test_plans_are_filtered_searched_ordered_and_paged(operator):
    for number in range(3):
        make_plan(f"gpu-{number}", gpu_limit=number)
    make_plan("cpu", gpu_allowed=False)

    def names(query: str) -> list[str]:
        return [plan["name"] for plan in operator.get(f"{PLANS}?{query}").json()["results"]]

    assert names("gpu_allowed=false") == ["cpu"]
    assert names("search=gpu-1") == ["gpu-1"]
    assert names("gpu_allowed=true&ordering=-gpu_limit") == ["gpu-2", "gpu-1", "gpu-0"]
    assert names("page_size=2&page=2") == ["gpu-1", "gpu-2"]


@pytest.mark.parametrize("role", ["viewer", "owner"])
def test_plans_are_not_a_tenants_to_see(db, role):
    client = APIClient()
    client.force_login(make_member(make_workspace(), role))
    answer = client.get(PLANS)
    assert (answer.status_code, answer.json()["code"]) == (403, "operators_only")
