"""Addresses of the tenant's pages."""

from django.contrib.auth.views import LoginView, LogoutView
from django.urls import path, re_path

from apps_runtime import pages, pages_workspace

app_name = "pages"

urlpatterns = [
    path("", pages.home, name="home"),
    path("login", LoginView.as_view(template_name="pages/login.html", redirect_authenticated_user=True), name="login"),
    path("logout", LogoutView.as_view(next_page="pages:login"), name="logout"),
    path("w/<slug:slug>/apps", pages.apps, name="apps"),
    path("w/<slug:slug>/apps/-/new", pages.app_new, name="app-new"),
    path("w/<slug:slug>/apps/-/fit", pages.fit, name="fit"),
    path("w/<slug:slug>/apps/<slug:name>", pages.app_page, name="app"),
    path("w/<slug:slug>/apps/<slug:name>/edit", pages.app_edit, name="app-edit"),
    path("w/<slug:slug>/apps/<slug:name>/fit", pages.fit, name="app-fit"),
    path("w/<slug:slug>/apps/<slug:name>/state", pages.app_state, name="app-state"),
    path("w/<slug:slug>/apps/<slug:name>/logs", pages.app_logs, name="app-logs"),
    path("w/<slug:slug>/apps/<slug:name>/delete", pages.app_delete, name="app-delete"),
    re_path(
        r"^w/(?P<slug>[-\w]+)/apps/(?P<name>[-\w]+)/do/(?P<verb>deploy|start|restart|stop)$",
        pages.app_do,
        name="app-do",
    ),
    path("w/<slug:slug>/members", pages_workspace.members, name="members"),
    path("w/<slug:slug>/members/add", pages_workspace.member_add, name="member-add"),
    path("w/<slug:slug>/members/<int:pk>", pages_workspace.member_change, name="member-change"),
    path("w/<slug:slug>/tokens", pages_workspace.tokens, name="tokens"),
    path("w/<slug:slug>/tokens/<int:pk>/revoke", pages_workspace.token_revoke, name="token-revoke"),
]
