"""What a request names and somebody else has removed since."""

from __future__ import annotations

import pytest

from apps_runtime import admission, lifecycle
from apps_runtime.models import App
from refusals import Refusal
from tests.factories import make_app, make_node, make_workspace
from workspaces.audit import PLATFORM

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("wakes")]


def test_a_node_that_is_removed_during_placement_is_passed_over(monkeypatch):
    gone, stays = make_node(), make_node()
    candidates = [gone.pk, stays.pk]
    monkeypatch.setattr(admission, "_candidates", lambda *args: iter(candidates))
    gone.delete()

    assert lifecycle.request_deploy(make_app(make_workspace()), actor=PLATFORM).node == stays


@pytest.mark.parametrize(
    "verb", [lifecycle.request_deploy, lifecycle.request_stop, lifecycle.request_delete], ids=lambda verb: verb.__name__
)
def test_an_app_that_is_gone_is_said_to_be_gone(verb):
    make_node()
    app = make_app(make_workspace())
    App.objects.filter(pk=app.pk).delete()

    with pytest.raises(Refusal) as refused:
        verb(app, actor=PLATFORM)
    assert (refused.value.status, refused.value.code) == (404, "app_gone")
