"""The installation's identity exists from the start: a process reads it once and keeps it, so it
must not be made inside a transaction that may be rolled back."""

from django.apps.registry import Apps
from django.db import migrations
from django.db.backends.base.schema import BaseDatabaseSchemaEditor


def make_row(apps: Apps, schema_editor: BaseDatabaseSchemaEditor) -> None:
    apps.get_model("gpus", "Installation").objects.get_or_create(pk=1)


class Migration(migrations.Migration):
    dependencies = [("gpus", "0001_initial")]
    operations = [migrations.RunPython(make_row, migrations.RunPython.noop)]
