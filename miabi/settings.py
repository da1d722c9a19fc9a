"""Every setting in one place, typed, read from the environment by django-environ.

The embedded default needs no service: SQLite in ``MIABI_DATA_DIR`` and a broker of
plain files. ``DATABASE_URL`` and ``MIABI_BROKER_URL`` switch to PostgreSQL and Redis.
"""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import environ
from cryptography.fernet import Fernet
from django.core.management.utils import get_random_secret_key
from django.urls import reverse_lazy

from miabi.key_files import read_or_create
from miabi.logs import logging_config

BASE_DIR = Path(__file__).resolve().parent.parent
env = environ.Env()
environ.Env.read_env(str(BASE_DIR / ".env"))

DEBUG: bool = env.bool("MIABI_DEBUG", default=False)
MIABI_DATA_DIR = Path(env.str("MIABI_DATA_DIR", default=str(BASE_DIR / "var")))

SECRET_KEY: str = env.str("MIABI_SECRET_KEY", default="") or read_or_create(
    MIABI_DATA_DIR / "secret_key", get_random_secret_key
)
# The first key encrypts, every key decrypts: put a new one in front to rotate.
MIABI_ENCRYPTION_KEYS: list[str] = env.list("MIABI_ENCRYPTION_KEYS", default=[]) or [
    read_or_create(MIABI_DATA_DIR / "encryption_key", lambda: Fernet.generate_key().decode())
]

# --- Product -----------------------------------------------------------------------------
MIABI_GPU_ENABLED: bool = env.bool("MIABI_GPU_ENABLED", default=False)
MIABI_NVIDIA_RUNTIME: str = env.str("MIABI_NVIDIA_RUNTIME", default="nvidia")
MIABI_GPU_PROBE_IMAGE: str = env.str("MIABI_GPU_PROBE_IMAGE", default="nvidia/cuda:12.4.1-base-ubuntu22.04")
MIABI_GPU_INVENTORY_MINUTES: int = env.int("MIABI_GPU_INVENTORY_MINUTES", default=30)
MIABI_PLAN_ENFORCEMENT: bool = env.bool("MIABI_PLAN_ENFORCEMENT", default=True)
MIABI_METRICS_ENABLED: bool = env.bool("MIABI_METRICS_ENABLED", default=False)
MIABI_FORCE_RESTRICTED: bool = env.bool("MIABI_FORCE_RESTRICTED", default=False)
MIABI_TOOLKIT_FLOOR: str = env.str("MIABI_TOOLKIT_FLOOR", default="1.17.8")
MIABI_ENGINE_TIMEOUT_SECONDS: float = env.float("MIABI_ENGINE_TIMEOUT_SECONDS", default=15.0)
MIABI_PULL_TIMEOUT_SECONDS: float = env.float("MIABI_PULL_TIMEOUT_SECONDS", default=900.0)
MIABI_PROBE_WAIT_SECONDS: float = env.float("MIABI_PROBE_WAIT_SECONDS", default=60.0)
MIABI_CLAIM_SECONDS: float = env.float("MIABI_CLAIM_SECONDS", default=60.0)
MIABI_STOP_GRACE_SECONDS: float = env.float("MIABI_STOP_GRACE_SECONDS", default=10.0)
MIABI_MAX_ATTEMPTS: int = env.int("MIABI_MAX_ATTEMPTS", default=5)
MIABI_RECONCILE_SECONDS: int = env.int("MIABI_RECONCILE_SECONDS", default=30)
MIABI_KEEP_DAYS: int = env.int("MIABI_KEEP_DAYS", default=90)

# --- Django ------------------------------------------------------------------------------
ALLOWED_HOSTS: list[str] = env.list("MIABI_ALLOWED_HOSTS", default=["localhost", "127.0.0.1", "[::1]"])
CSRF_TRUSTED_ORIGINS: list[str] = env.list("MIABI_TRUSTED_ORIGINS", default=[])
ROOT_URLCONF = "miabi.urls"
WSGI_APPLICATION = "miabi.wsgi.application"
AUTH_USER_MODEL = "workspaces.User"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
USE_TZ = True
TIME_ZONE = "UTC"
LANGUAGE_CODE = "en"
LOGIN_URL = "pages:login"
LOGIN_REDIRECT_URL = "pages:home"

INSTALLED_APPS = [
    "unfold",
    "unfold.contrib.filters",
    "unfold.contrib.forms",
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "django_structlog",
    "django_filters",
    "rest_framework",
    "drf_spectacular",
    "drf_spectacular_sidecar",
    "drf_standardized_errors",
    "plans",
    "workspaces",
    "gpus",
    "apps_runtime",
    "miabi.apps.MiabiConfig",
]

MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "miabi.api_paths.TrailingSlashOptional",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django_structlog.middlewares.RequestMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
]

TEMPLATES: list[dict[str, Any]] = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ]
        },
    }
]

STATIC_URL = "static/"
STATIC_ROOT = MIABI_DATA_DIR / "static"
STATICFILES_DIRS = [BASE_DIR / "static"] if (BASE_DIR / "static").exists() else []
WHITENOISE_USE_FINDERS = True

DATABASES: dict[str, dict[str, Any]] = {
    "default": env.db_url("DATABASE_URL", default=f"sqlite:///{MIABI_DATA_DIR / 'miabi.sqlite3'}")
}
_database = DATABASES["default"]
_options: dict[str, Any] = _database.setdefault("OPTIONS", {})
if _database["ENGINE"] == "django.db.backends.sqlite3":
    # IMMEDIATE takes the write lock when the transaction begins: a transaction that reads
    # first and writes later would otherwise fail at once, whatever the timeout says.
    _options |= {
        "transaction_mode": "IMMEDIATE",
        "timeout": 30,
        "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL; PRAGMA foreign_keys=ON;",
    }
elif _database["ENGINE"] == "django.db.backends.postgresql":
    # Threads of the web server and the worker share a pool; a task costs no reconnect.
    _options.setdefault("pool", {"min_size": 1, "max_size": env.int("MIABI_DATABASE_POOL", default=20), "timeout": 30})

AUTH_PASSWORD_VALIDATORS = [
    {"NAME": f"django.contrib.auth.password_validation.{name}"}
    for name in (
        "UserAttributeSimilarityValidator",
        "MinimumLengthValidator",
        "CommonPasswordValidator",
        "NumericPasswordValidator",
    )
]

# Served behind TLS in production; the embedded default listens on loopback in plain HTTP.
_secure: bool = env.bool("MIABI_HTTPS", default=False)
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = SECURE_SSL_REDIRECT = _secure
SECURE_HSTS_SECONDS = env.int("MIABI_HSTS_SECONDS", default=31_536_000) if _secure else 0
SECURE_HSTS_INCLUDE_SUBDOMAINS = SECURE_HSTS_PRELOAD = _secure
if _secure:
    SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
DATA_UPLOAD_MAX_MEMORY_SIZE = 2 * 1024 * 1024

# SQLite ignores the extra columns of covering indexes, which only speed PostgreSQL up.
SILENCED_SYSTEM_CHECKS = ["models.W040"]

# --- Celery ------------------------------------------------------------------------------
CELERY_BROKER_URL: str = env.str("MIABI_BROKER_URL", default="filesystem://")
_broker_dir = MIABI_DATA_DIR / "broker"
if CELERY_BROKER_URL.startswith("filesystem://"):
    _broker_dir.mkdir(parents=True, exist_ok=True)
    (_broker_dir / "control").mkdir(exist_ok=True)
    CELERY_BROKER_TRANSPORT_OPTIONS: dict[str, Any] = {
        # Both sides use one folder: a producer's "out" is the worker's "in".
        "data_folder_in": str(_broker_dir),
        "data_folder_out": str(_broker_dir),
        "control_folder": str(_broker_dir / "control"),
        "polling_interval": 0.05,
    }
else:
    # A broker that is down must not hold up a request: the row is saved, a sweep sends later.
    CELERY_BROKER_TRANSPORT_OPTIONS = {
        "socket_timeout": 5,
        "socket_connect_timeout": 2,
        "retry_policy": {"timeout": 2.0},
        "visibility_timeout": 3600,
    }
CELERY_TASK_PUBLISH_RETRY_POLICY = {
    "max_retries": 1,
    "interval_start": 0,
    "interval_step": 0.1,
    "interval_max": 0.2,
}
CELERY_BROKER_CONNECTION_TIMEOUT = 2
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
CELERY_TASK_IGNORE_RESULT = True
CELERY_TASK_ACKS_LATE = False
CELERY_WORKER_PREFETCH_MULTIPLIER = 1
CELERY_WORKER_HIJACK_ROOT_LOGGER = False
CELERY_WORKER_SEND_TASK_EVENTS = False
CELERY_TASK_SERIALIZER = "json"
CELERY_TIMEZONE = "UTC"
CELERY_BEAT_SCHEDULE_FILENAME = str(MIABI_DATA_DIR / "beat-schedule")
CELERY_BEAT_SCHEDULE: dict[str, dict[str, Any]] = {
    "inventory": {
        "task": "gpus.tasks.start_inventory",
        "schedule": timedelta(minutes=MIABI_GPU_INVENTORY_MINUTES),
        "options": {"expires": MIABI_GPU_INVENTORY_MINUTES * 60},
    },
    "reconcile": {
        "task": "apps_runtime.tasks.start_reconcile",
        "schedule": timedelta(seconds=MIABI_RECONCILE_SECONDS),
        "options": {"expires": MIABI_RECONCILE_SECONDS},
    },
    "sweep": {
        "task": "apps_runtime.tasks.sweep",
        "schedule": timedelta(seconds=10),
        "options": {"expires": 10},
    },
}

# --- API ---------------------------------------------------------------------------------
REST_FRAMEWORK: dict[str, Any] = {
    "DEFAULT_AUTHENTICATION_CLASSES": [
        "workspaces.authentication.ApiTokenAuthentication",
        "rest_framework.authentication.SessionAuthentication",
    ],
    "DEFAULT_PERMISSION_CLASSES": ["rest_framework.permissions.IsAuthenticated"],
    "DEFAULT_PAGINATION_CLASS": "miabi.pagination.Pages",
    "DEFAULT_FILTER_BACKENDS": [
        "django_filters.rest_framework.DjangoFilterBackend",
        "rest_framework.filters.OrderingFilter",
        "rest_framework.filters.SearchFilter",
    ],
    "DEFAULT_SCHEMA_CLASS": "miabi.openapi.ApiSchema",
    "DEFAULT_PARSER_CLASSES": ["workspaces.strict_json.StrictJSONParser"],
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "EXCEPTION_HANDLER": "miabi.api_errors.handle",
    "TEST_REQUEST_DEFAULT_FORMAT": "json",
    "PAGE_SIZE": 50,
    "DEFAULT_THROTTLE_CLASSES": ["miabi.throttling.AnonymousThrottle", "miabi.throttling.CallerThrottle"],
    # Generous: they stop a client gone wild and a guesser, not work. "" switches one off. DRF
    # keeps the times of all requests of a period, so short periods are cheap and long ones are not.
    "DEFAULT_THROTTLE_RATES": {
        "anonymous": env.str("MIABI_THROTTLE_ANONYMOUS", default="60/min") or None,
        "caller": env.str("MIABI_THROTTLE_CALLER", default="500/s") or None,
        "bad_token": env.str("MIABI_THROTTLE_BAD_TOKEN", default="30/min") or None,
    },
    # How many proxies of ours stand in front: 0 trusts the connection and no header.
    "NUM_PROXIES": env.int("MIABI_PROXIES", default=0),
}
DRF_STANDARDIZED_ERRORS: dict[str, Any] = {
    "EXCEPTION_HANDLER_CLASS": "miabi.api_errors.ApiExceptionHandler",
    "EXCEPTION_FORMATTER_CLASS": "miabi.api_errors.ApiErrorFormatter",
    "ENABLE_IN_DEBUG_FOR_UNHANDLED_EXCEPTIONS": True,
}
SPECTACULAR_SETTINGS: dict[str, Any] = {
    "TITLE": "Miabi",
    "DESCRIPTION": "Hand out GPUs to teams: nodes and devices for operators, apps and deploys for tenants.",
    "VERSION": "1",
    "SERVE_INCLUDE_SCHEMA": False,
    "SWAGGER_UI_DIST": "SIDECAR",
    "SWAGGER_UI_FAVICON_HREF": "SIDECAR",
    "REDOC_DIST": "SIDECAR",
    "COMPONENT_SPLIT_REQUEST": True,
}

LOGGING = logging_config(json_lines=env.bool("MIABI_LOG_JSON", default=True), level=env.str("MIABI_LOG_LEVEL", "INFO"))
DJANGO_STRUCTLOG_CELERY_ENABLED = True


def _link(title: str, icon: str, model: str) -> dict[str, Any]:
    return {"title": title, "icon": icon, "link": reverse_lazy(f"admin:{model}_changelist")}


UNFOLD: dict[str, Any] = {
    "SITE_TITLE": "Miabi",
    "SITE_HEADER": "Miabi",
    "SITE_SUBHEADER": "GPUs for teams",
    "SITE_SYMBOL": "memory",
    "SHOW_HISTORY": False,
    "SHOW_VIEW_ON_SITE": False,
    "DASHBOARD_CALLBACK": "miabi.console.dashboard",
    "COMMAND": {"search_models": True},
    "SIDEBAR": {
        "show_search": True,
        "navigation": [
            {
                "title": "Fleet",
                "items": [
                    {"title": "Overview", "icon": "dashboard", "link": reverse_lazy("admin:index")},
                    _link("Nodes", "dns", "gpus_node"),
                    _link("GPU devices", "memory", "gpus_gpudevice"),
                ],
            },
            {
                "title": "Runtime",
                "items": [
                    _link("Apps", "apps", "apps_runtime_app"),
                    _link("Deployments", "rocket_launch", "apps_runtime_deployment"),
                    _link("Leases", "key", "apps_runtime_devicelease"),
                ],
            },
            {
                "title": "Tenants",
                "items": [
                    _link("Workspaces", "groups", "workspaces_workspace"),
                    _link("Plans", "receipt_long", "plans_plan"),
                    _link("Users", "person", "workspaces_user"),
                    _link("API tokens", "vpn_key", "workspaces_apitoken"),
                    _link("Audit", "history", "workspaces_auditevent"),
                ],
            },
        ],
    },
}
