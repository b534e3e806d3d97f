# A plain `make` lists the targets. Each sets up what it needs in .venv.
PYTHON ?= python3
VENV ?= .venv
OLDEST ?= $(VENV)-oldest
ADAPTERS ?= $(VENV)-adapters
WEB ?= $(VENV)-web
RUN := $(VENV)/bin
# Without compiled files every process of a test compiles the library again, and every worker all tests.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help demo test test-acceptance test-formats test-adapters test-web test-service test-frameworks test-distributed test-oldest check format torture bench compare docs build clean

help:
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 26

$(VENV)/.ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(RUN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev,postgres]'
	touch $@

$(OLDEST)/.ready: pyproject.toml constraints-oldest.txt
	$(PYTHON) -m venv $(OLDEST)
	$(OLDEST)/bin/python -m pip install --quiet --disable-pip-version-check -c constraints-oldest.txt -e '.[test]'
	touch $@

$(ADAPTERS)/.ready: pyproject.toml constraints-adapters.txt
	$(PYTHON) -m venv $(ADAPTERS)
	$(ADAPTERS)/bin/python -m pip install --quiet --disable-pip-version-check -c constraints-adapters.txt -e '.[test-frameworks]'
	touch $@

$(WEB)/.ready: pyproject.toml constraints.txt constraints-web.txt tests/web/browser/package-lock.json
	$(PYTHON) -m venv $(WEB)
	$(WEB)/bin/python -m pip install --quiet --disable-pip-version-check -c constraints-web.txt -e '.[test-web]'
	npm ci --silent --no-audit --no-fund --prefix tests/web/browser
	touch $@

demo: $(VENV)/.ready  ## the main job, shown on an embedded database: no key, no network
	$(RUN)/roocontext demo

# More workers than cores: many tests wait for a process, a lock or a server.
test: $(VENV)/.ready  ## the library, on SQLite and on a real PostgreSQL
	$(RUN)/python -m pytest -n 3 --dist worksteal -m 'not torture'

test-acceptance: $(VENV)/.ready  ## the command line, the documentation, the wheel and upgrades, as their users meet them
	$(RUN)/python -m pytest -n 3 --dist worksteal -m 'not torture' tests/acceptance

test-formats: $(VENV)/.ready  ## imports and exports of other tools' sessions, and recordings of the real programs
	$(RUN)/python -m pytest -n 3 --dist worksteal -m 'not torture' tests/formats tests/vectors

test-adapters: $(ADAPTERS)/.ready  ## the frameworks' adapters: strict types, and tests with the frameworks installed
	$(ADAPTERS)/bin/mypy $(wildcard roocontext/adapters/*.py)
	$(ADAPTERS)/bin/python -m pytest -n 2 --dist worksteal -m 'not torture' tests/adapters

test-web: $(WEB)/.ready  ## the web server, also by the tools of others: schemathesis, TypeScript on Node, Chromium (CHROMIUM or found)
	$(WEB)/bin/python -m pytest -n 2 --dist worksteal -m 'not torture' tests/web tests/web/clients
	$(WEB)/bin/python -m pytest tests/web/browser

test-service: $(VENV)/.ready  ## the example service: two workers behind PgBouncer, 50 users, killed workers, restarts
	$(RUN)/python -m pytest -n0 tests/service

test-frameworks: $(ADAPTERS)/.ready  ## the frameworks' own tests, over our adapters
	PYTHONPATH=tests $(ADAPTERS)/bin/python -m frameworks

test-distributed: $(VENV)/.ready  ## what PostgreSQL is tested by, on a Citus cluster
	PYTHONPATH=tests $(RUN)/python -m distributed

test-oldest: $(OLDEST)/.ready  ## every test, with the oldest allowed version of each dependency
	$(OLDEST)/bin/python -m pytest -n 3 --dist worksteal -m 'not torture'
	$(OLDEST)/bin/python -m pytest -n 3 --dist worksteal -m 'not torture' tests/acceptance tests/formats tests/vectors

check: $(VENV)/.ready  ## format, lint, strict types, import layers, sizes, dead dependencies, the docs
	$(RUN)/ruff format --check .
	$(RUN)/ruff check .
	$(RUN)/mypy
	$(RUN)/lint-imports
	$(RUN)/python tools/check_house.py
	$(RUN)/deptry .
	NO_MKDOCS_2_WARNING=1 $(RUN)/mkdocs build --strict

format: $(VENV)/.ready  ## rewrite the code in the house's format
	$(RUN)/ruff format .
	$(RUN)/ruff check --fix .

torture: $(VENV)/.ready  ## the long runs, in parts that can be resumed: kills, faults, fuzz, sizes
	PYTHONPATH=tests $(RUN)/python -m torture $(PARTS)

bench: $(VENV)/.ready $(ADAPTERS)/.ready  ## every budget as a ratio, measured in one run
	$(RUN)/python -m bench
	$(ADAPTERS)/bin/python -m bench.frameworks

compare: $(VENV)/.ready  ## all policies on the same growing sessions, into the documentation
	$(RUN)/python -m bench.policies --write
	$(RUN)/python -m bench.recall --write

docs: $(VENV)/.ready  ## the documentation, into site/
	NO_MKDOCS_2_WARNING=1 $(RUN)/mkdocs build --strict

build: $(VENV)/.ready  ## the wheel and the source archive, into dist/
	$(RUN)/python -m build

clean:  ## remove what the other targets made
	rm -rf $(VENV) $(ADAPTERS) $(OLDEST) $(WEB) .frameworks build dist site *.egg-info
