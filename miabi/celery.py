"""The Celery application: messages are wake-ups only, the database holds the truth."""

import os

from celery import Celery

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "miabi.settings")

celery_app = Celery("miabi")
celery_app.config_from_object("django.conf:settings", namespace="CELERY")
celery_app.autodiscover_tasks()
