"""The project as a Django app: start-up checks live here."""

from django.apps import AppConfig


class MiabiConfig(AppConfig):
    name = "miabi"
    label = "miabi"

    def ready(self) -> None:
        from django.contrib import admin

        from miabi import database_checks  # noqa: F401 - registers its checks

        admin.site.index_title = "Fleet"
