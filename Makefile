# The commands people type. Each does all the set-up it needs and is quick when that is done.
#
#   make demo        train two models in 100 %, 60 % and 40 % of their memory (release build)
#   make test        build with warnings as errors, all C++ and Python tests
#   make module      build the Python module and the command; make test-python tests the API
#   make test-core   the core alone, without torch
#   make test-unit   its unit tests, without the sweeps over many programs
#   make test-asan, make test-tsan     the core under sanitizers
#   make test-long   sweeps, sanitizers and the second compiler; not in CI
#   make lint        everything that formats or checks
#   make fix         let the tools repair what they can
#   make docs        the documents as a site under build/site: search, reference, links checked
#   make notebook    run examples/first_steps.ipynb in a kernel, and keep what it printed
#   make bench       measure what the README claims; results under results/
#   make bench-plan                    measure the planner; needs no torch in the build
#   make ablation    the planner without each of its parts; some hours
#   make reproduce                     the published systems' numbers beside ours; an hour or two
#   make bench-verify                  corrupt plans and count what the verifier says
#   make gpu-check   all that only a GPU can show, in eight minutes; without one it says so
#   make fuzz        ten minutes of libFuzzer on the readers; needs clang (FUZZ_SECONDS, FUZZ_CXX)
#   make wheel       a wheel for this Python and torch in dist/; make try-wheel tests it
#   make deps        fill .deps with the C++ libraries (no root needed)
#
# TORCH=2.15.0 make ...  uses that torch (2.11 to 2.15) in an environment and build folders of its
# own: .venv-2.15.0, build/dev-2.15.0. From 2.14 on pip may take a CUDA build: 5 GB, no GPU needed.
# PYTHON=/some/python3 make ...  uses that interpreter's torch, installs nothing and needs no
# network; what is missing there is named in one error.

JOBS ?= 2
FUZZ_CXX ?= clang++

ifdef PYTHON
python := $(shell $(PYTHON) -c 'import sys; print(sys.executable)')
bin := $(shell $(PYTHON) -c 'import sysconfig; print(sysconfig.get_path("scripts"))')
setup := doctor
lint_setup := doctor
wheel_setup :=
docs_setup :=
docs_python := $(python)
notebook_setup :=
trainers_setup :=
else
beside := $(if $(TORCH),-$(TORCH))
venv := .venv$(beside)
python := $(CURDIR)/$(venv)/bin/python
bin := $(CURDIR)/$(venv)/bin
setup := $(venv)/ready deps
lint_setup := $(setup) $(venv)/lint-ready
wheel_setup := $(venv)/wheel-ready
docs_setup := .venv-docs/ready
docs_python := .venv-docs/bin/python
notebook_setup := $(venv)/notebook-ready
trainers_setup := $(venv)/trainers-ready
endif
export FITSTEP_BESIDE := $(beside)
export PATH := $(bin):$(PATH)
export PYTHONPATH := $(CURDIR)/python
log = build/$(1)$(beside).log
configure = cmake --preset $(1) -DPython_EXECUTABLE=$(python) $(2) >$(log) 2>&1 \
	|| { cat $(log); exit 1; }
build = mkdir -p build && $(call configure,$(1),$(2)) && cmake --build --preset $(1) -j $(JOBS)

.PHONY: demo docs notebook test module test-python test-core test-unit test-asan test-tsan test-long lint fix bench bench-plan ablation \
	bench-verify breadth hunt reproduce gpu-check fuzz wheel try-wheel deps doctor clean

demo: $(setup)
	$(call build,release,-DFITSTEP_TORCH=ON)
	$(python) tools/link_tree.py
	$(python) examples/demo.py

test: $(setup) $(trainers_setup) $(notebook_setup) $(docs_setup)
	$(call build,dev,-DFITSTEP_TORCH=ON)
	ctest --preset dev
	OMP_WAIT_POLICY=passive $(python) -m pytest -q -n $(JOBS) --dist loadfile

# The Python module and the command alone, warnings as errors.
module: $(setup)
	$(call build,dev,-DFITSTEP_TORCH=ON) --target in_tree fitstep

# A short test of another torch: make test-python TORCH=2.15.0.
test-python: module
	OMP_WAIT_POLICY=passive $(python) -m pytest -q -n $(JOBS) python/tests

test-core: $(setup)
	$(call build,core) && ctest --preset core

test-unit: $(setup)
	$(call build,core) --target unit_tests && ctest --preset core --label-exclude sweep

test-asan: $(setup)
	$(call build,asan) && ctest --preset asan

test-tsan: $(setup)
	$(call build,tsan) && ctest --preset tsan

test-long: test $(lint_setup)
	$(call configure,lint)
	tools/test_long.sh

lint: $(lint_setup)
	mkdir -p build && $(call configure,lint)
	$(python) tools/lint.py --jobs $(JOBS)

# Repairs formatting, missing includes and what else the tools can repair.
fix: $(lint_setup)
	mkdir -p build && $(call configure,lint)
	$(python) tools/lint.py --fix clang-tidy ruff format

docs: $(docs_setup)
	NO_MKDOCS_2_WARNING=1 $(docs_python) -m mkdocs build -q
	@echo "open $(CURDIR)/build/site/index.html"

notebook: $(setup) $(notebook_setup)
	$(call build,release,-DFITSTEP_TORCH=ON)
	$(python) -m fitstep_kit.notebook examples/first_steps.ipynb

bench: $(setup)
	$(call build,release,-DFITSTEP_TORCH=ON)
	$(python) benchmarks/run.py

ablation: $(setup)
	$(call build,ablation)
	$(python) -m benchmarks.planner.ablation

bench-plan: $(setup)
	$(call build,release,-DFITSTEP_TORCH=OFF)
	$(python) benchmarks/run.py plan traces

# Captures the papers' programs, so it needs the Python module too.
reproduce: $(setup)
	$(call build,release,-DFITSTEP_TORCH=ON)
	$(python) benchmarks/run.py densities
	$(python) benchmarks/run.py reproduce --full

# Families of models of five libraries; goes on where an earlier run has stopped.
breadth: $(setup)
	$(call build,release,-DFITSTEP_TORCH=ON)
	$(python) -m pip install -q -r benchmarks/breadth/requirements.txt
	FITSTEP_AUDITS=off $(python) -m benchmarks.breadth.breadth

# Small trainings that look for silent wrong numbers.
hunt: $(setup)
	$(call build,release,-DFITSTEP_TORCH=ON)
	FITSTEP_AUDITS=off $(python) tests/hunt/run.py --fork --json results/hunt.json
	FITSTEP_AUDITS=auto $(python) tests/hunt/run.py --fork --json results/hunt_audited.json

bench-verify: $(setup)
	$(call build,core)
	$(python) benchmarks/run.py verify

gpu-check: $(setup)
	$(python) -m benchmarks.gpu.check

fuzz: $(setup)
	mkdir -p build && $(call configure,fuzz,-DCMAKE_CXX_COMPILER=$(FUZZ_CXX))
	cmake --build --preset fuzz -j $(JOBS)
	FUZZ_CXX=$(FUZZ_CXX) tools/fuzz.sh

# For this torch alone: `make wheel TORCH=2.15.0` makes another one beside it in dist/.
wheel: $(setup) $(wheel_setup)
	$(python) tools/wheel.py

# With pip, but without compiler or CMake: WHEEL=dist/fitstep-....whl make try-wheel.
try-wheel: $(setup)
	$(python) tools/try_wheel.py $(WHEEL)

deps:
	@tools/deps.sh

# Names everything that the wanted commands miss, in one error.
doctor:
	@$(python) tools/doctor.py $(filter test demo bench lint,$(MAKECMDGOALS))

clean:
	rm -rf build python/fitstep/_built

$(venv)/bin/python:
	python3 -m venv $(venv)

# With TORCH=... all versions but torch's own are those of the file.
$(venv)/ready: tools/requirements.txt | $(venv)/bin/python
	sed -e '$(if $(TORCH),s/^torch==.*/torch==$(TORCH)/)' $< >$(venv)/requirements.txt
	$(python) -m pip install -q -r $(venv)/requirements.txt
	@touch $@

# The site needs no torch, and its packages stay out of .venv.
.venv-docs/ready: tools/requirements-docs.txt
	python3 -m venv .venv-docs
	.venv-docs/bin/python -m pip install -q -r $<
	@touch $@

$(venv)/lint-ready: tools/requirements-lint.txt | $(venv)/bin/python
	$(python) -m pip install -q -r $<
	@touch $@

# Trainers of other libraries, which only tests need.
$(venv)/trainers-ready: tools/requirements-trainers.txt | $(venv)/ready
	$(python) -m pip install -q -r $<
	@touch $@

$(venv)/notebook-ready: tools/requirements-notebook.txt | $(venv)/bin/python
	$(python) -m pip install -q -r $<
	@touch $@

$(venv)/wheel-ready: tools/requirements-wheel.txt | $(venv)/bin/python
	$(python) -m pip install -q -r $<
	@touch $@
