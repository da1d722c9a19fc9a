"""Django's settings for the tests: the product's own, kept away from anybody's data.

``scripts/test.py`` names PostgreSQL and Redis in the environment. Without it the tests run on
SQLite in a temporary folder.
"""

import atexit
import os
import shutil
import tempfile
from pathlib import Path

if "MIABI_TEST_DIR" not in os.environ:
    os.environ["MIABI_TEST_DIR"] = tempfile.mkdtemp(prefix="miabi-test-data-")
    atexit.register(shutil.rmtree, os.environ["MIABI_TEST_DIR"], ignore_errors=True)
_folder = Path(os.environ["MIABI_TEST_DIR"])
(_folder / "static").mkdir(exist_ok=True)

# Before the product's settings: an .env file of the developer does not change what is there.
os.environ["MIABI_DATA_DIR"] = str(_folder)
os.environ.setdefault("DATABASE_URL", f"sqlite:///{_folder}/miabi.sqlite3")
os.environ.setdefault("MIABI_BROKER_URL", "filesystem://")
# All tests come from one address; the tests of the limits set their own.
os.environ |= {f"MIABI_THROTTLE_{scope}": "" for scope in ("ANONYMOUS", "CALLER", "BAD_TOKEN")}

from miabi.settings import *  # noqa: E402, F403
from miabi.settings import DATABASES  # noqa: E402

if DATABASES["default"]["ENGINE"] == "django.db.backends.sqlite3":
    # A file, as in production: a database in memory has no WAL and locks whole tables.
    DATABASES["default"]["TEST"] = {"NAME": str(_folder / "test.sqlite3")}

PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
