"""The beat's own Celery application.

It only sends messages by name, so it reads the settings and loads no models: half the
memory of a process that does.
"""

import logging.config

from celery import Celery

from miabi import settings

logging.config.dictConfig(settings.LOGGING)
app = Celery("miabi-beat", fixups=[])
app.config_from_object(settings, namespace="CELERY")
