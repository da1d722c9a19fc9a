# `make help` lists what there is. Nothing needs preparing: each target installs what it needs.

.DEFAULT_GOAL := help
.PHONY: help install install-dev run demo check test bench lock clean system-for-tests

BIN := .venv/bin
export PYTHONDONTWRITEBYTECODE ?=

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

install: .venv/.installed ## Make .venv with the locked environment

install-dev: .venv/.installed-dev ## The same, with what checks and tests need

.venv/.made: requirements-uv.lock scripts/create-venv.sh
	@scripts/system-packages.sh python3=python3 python3-venv=python3-venv
	scripts/create-venv.sh
	@touch $@

.venv/.installed: .venv/.made requirements.lock
	$(BIN)/uv pip install --quiet --require-hashes -r requirements.lock
	@touch $@

.venv/.installed-dev: .venv/.installed requirements-dev.lock
	$(BIN)/uv pip install --quiet --require-hashes -r requirements-dev.lock
	@touch $@

run: install ## Run web, worker, beat and a node on this machine; Ctrl-C stops it
	@exec $(BIN)/python -m scripts.run

demo: install ## Play the main job through the API: rescan, enable, deploy, look inside, stop
	@exec $(BIN)/python -m scripts.demo

check: install-dev ## Lint, formatting, types, import rules, migrations, settings
	$(BIN)/ruff check .
	$(BIN)/ruff format --check --quiet .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python manage.py makemigrations --check --dry-run
	$(BIN)/python manage.py check

test: install-dev system-for-tests ## Run every test with real servers; ARGS="tests/gpus -x" for some
	@exec $(BIN)/python -m scripts.test $(ARGS)

bench: install-dev system-for-tests ## Measure, and write benchmarks/RESULTS.md
	@exec $(BIN)/python -m benchmarks $(ARGS)

system-for-tests:
	@scripts/system-packages.sh dockerd=docker.io initdb=postgresql redis-server=redis-server \
		chromium=chromium busybox-static=busybox-static ip=iproute2 iptables=iptables

lock: install-dev ## Resolve the dependencies anew and write the lock files
	$(BIN)/uv pip compile --quiet --upgrade --universal --python-version 3.11 pyproject.toml \
		--generate-hashes --no-header -o requirements.lock
	$(BIN)/uv pip compile --quiet --upgrade --universal --python-version 3.11 pyproject.toml --group dev \
		-c requirements.lock --generate-hashes --no-header -o requirements-dev.lock
	echo uv | $(BIN)/uv pip compile --quiet --upgrade --universal --python-version 3.11 - \
		--generate-hashes --no-header --no-annotate -o requirements-uv.lock

clean: ## Remove the environment, caches and this checkout's data
	rm -rf .venv var .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

ifneq ($(wildcard scripts/screenshots.py),)
.PHONY: screenshots
screenshots: install-dev system-for-tests ## Take the pictures of the documentation
	@exec $(BIN)/python -m scripts.screenshots
endif
