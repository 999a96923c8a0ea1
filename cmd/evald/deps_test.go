package main

import (
	"os/exec"
	"strings"
	"testing"
)

const module = "github.com/evald/evald/"

// layers are the packages in the order of ARCHITECTURE.md, each with the packages of this module that it may import. A name
// ending in /... stands for all below it. What no package uses is not permitted. Imports of tests are not checked, so tests may import the packages for tests
// (gametest, evaltest, recordtest).
var layers = []struct{ pkg, may string }{
	{"engine/short", ""},
	{"engine/game", "engine/short"},
	{"engine/game/gametest", "engine/game"},
	{"engine/fault", ""},
	{"engine/jobs", "engine/fault"},
	{"engine/internal/prefetch", ""},
	{"engine/internal/yield", ""},
	{"engine/durable", "engine/fault"},
	{"engine/durable/durabletest", "engine/durable engine/game/gametest"},
	{"engine/solver/book", "engine/game engine/jobs engine/durable"},
	{"engine/solver", "engine/fault engine/game engine/internal/prefetch engine/internal/yield engine/solver/book"},
	{"engine/eval", "engine/fault engine/short engine/game engine/internal/prefetch engine/jobs engine/solver"},
	{"engine/eval/evaltest", "engine/game engine/game/gametest engine/eval"},
	{"engine/queue", "engine/fault engine/game engine/eval"},
	{"engine/heuristic", "engine/short engine/game engine/eval"},
	{"engine/score", "engine/short engine/game engine/eval engine/jobs engine/solver"},
	{"engine/mcts", "engine/fault engine/game engine/eval engine/solver engine/internal/prefetch engine/internal/yield"},
	{"engine/mcts/opening", "engine/game engine/mcts"},
	{"engine/ask", "engine/short engine/game engine/eval engine/solver engine/mcts"},
	{"engine/sample", "engine/game engine/eval engine/heuristic engine/mcts"},
	{"engine/record", "engine/game engine/eval engine/heuristic engine/score engine/durable"},
	{"engine/record/bucket", "engine/durable"},
	{"engine/record/bucket/buckettest", ""},
	{"engine/record/recordtest", "engine/record engine/durable"},
	{"engine/agent", "engine/internal/yield engine/short engine/game engine/eval engine/heuristic engine/jobs engine/solver engine/solver/book engine/mcts engine/mcts/opening engine/ask"},
	{"engine/arena", "engine/game engine/jobs engine/agent engine/durable"},
	{"engine/labels", "engine/durable engine/game engine/eval engine/solver engine/solver/book engine/score engine/sample engine/record"},
	{"engine/puzzle", "engine/short engine/game engine/eval engine/heuristic engine/jobs engine/solver engine/mcts engine/sample"},
	{"engine/prove", "engine/game engine/jobs engine/agent engine/durable engine/labels engine/solver"},
	{"engine/selfplay", "engine/short engine/game engine/eval engine/heuristic engine/solver engine/mcts engine/sample engine/record engine/durable"},
	{"engine/cluster", "engine/short engine/game engine/eval engine/selfplay engine/durable"},
	{"kernels/cpu/conv", "engine/jobs kernels/..."},
	{"kernels/...", "kernels/..."},
	{"models", "engine/short engine/durable"},
	{"nn/safetensors", "engine/short"},
	{"nn/net", "engine/short engine/game engine/eval engine/jobs nn/safetensors"},
	{"nn/pattern", "engine/short engine/game engine/eval engine/jobs engine/durable kernels/... nn/safetensors"},
	{"nn/train/...", "engine/short engine/game engine/eval engine/jobs engine/score engine/record engine/durable kernels/... nn/net nn/pattern nn/train/..."},
	{"nn/cpu", "engine/game engine/eval engine/jobs engine/durable kernels/... nn/net"},
	{"nn/gpu", "engine/fault engine/short engine/game engine/eval kernels/... nn/net nn/pattern"},
	{"nn/gpu/bench", "engine/short engine/game kernels/cuda kernels/cuda/driver nn/gpu nn/net"},
	{"nn/graph", "engine/game engine/eval nn/net"},
	{"nn/onnx", "engine/short engine/game kernels/... nn/net nn/pattern"},
	{"nn/encoding", "engine/short engine/game engine/eval engine/solver nn/net nn/onnx nn/pattern"},
	{"nn/ort", "engine/short engine/durable engine/game engine/eval nn/onnx"},
	{"nn/open", "engine/short engine/game engine/eval engine/heuristic engine/durable engine/solver kernels/... models nn/net nn/cpu nn/gpu nn/pattern nn/onnx nn/encoding nn/ort"},
	{"nn/learn", "engine/... nn/..."},
	{"cmd/evald/kserve", ""},
	{"cmd/evald/client", "engine/game engine/eval cmd/evald/kserve"},
	{"cmd/evald/service/origin", "engine/short"},
	{"cmd/evald/internal/places", ""},
	{"cmd/evald/service", "engine/fault engine/short engine/game engine/eval engine/mcts engine/ask engine/queue engine/solver nn/net cmd/evald/internal/places cmd/evald/kserve cmd/evald/service/origin"},
	{"cmd/evald/...", "cmd/evald/... engine/... kernels/... models nn/..."},
}

func matches(pattern, pkg string) bool {
	if prefix, ok := strings.CutSuffix(pattern, "/..."); ok {
		return pkg == prefix || strings.HasPrefix(pkg, prefix+"/")
	}
	return pattern == pkg
}

// Dependencies run one way; see ARCHITECTURE.md.
func TestDependencies(t *testing.T) {
	out, err := exec.Command("go", "list", "-tags", "gpu", "-f", "{{.ImportPath}} {{join .Imports \" \"}}", module+"...").CombinedOutput()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, out)
	}
	packages, used := 0, map[[2]string]bool{} // used: which of the imports that are permitted exist
	for line := range strings.Lines(string(out)) {
		fields := strings.Fields(line)
		pkg, ours := strings.CutPrefix(fields[0], module)
		if !ours {
			continue
		}
		packages++
		layer, may, known := "", "", false
		for _, l := range layers {
			if matches(l.pkg, pkg) {
				layer, may, known = l.pkg, l.may, true
				break
			}
		}
		if !known {
			t.Errorf("package %s has no place in the order of dependencies: give it one here and in ARCHITECTURE.md", pkg)
			continue
		}
		for _, imported := range fields[1:] {
			imported, ours := strings.CutPrefix(imported, module)
			allowed := !ours && (imported != "gorgonia.org/gorgonia" || pkg == "nn/train" || pkg == "nn/graph")
			for _, pattern := range strings.Fields(may) {
				if ours && matches(pattern, imported) {
					allowed, used[[2]string{layer, pattern}] = true, true
				}
			}
			if !allowed {
				t.Errorf("package %s imports %s; it may import %q", pkg, imported, may)
			}
		}
	}
	for _, l := range layers {
		for _, pattern := range strings.Fields(l.may) {
			if !used[[2]string{l.pkg, pattern}] {
				t.Errorf("package %s may import %s and does not: take it from the list", l.pkg, pattern)
			}
		}
	}
	if packages < 10 {
		t.Errorf("go list named %d packages of ours: is the test run in the repository?", packages)
	}
}

// A program that embeds the service or the client has no GPU code in it, unless it brings that itself.
func TestServiceWithoutGPU(t *testing.T) {
	out, err := exec.Command("go", "list", "-tags", "gpu", "-deps", module+"cmd/evald/service", module+"cmd/evald/client").CombinedOutput()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, out)
	}
	for _, pkg := range strings.Fields(string(out)) {
		for _, gpu := range []string{"nn/gpu", "kernels/cuda", "nn/open"} {
			if pkg, ours := strings.CutPrefix(pkg, module); ours && matches(gpu+"/...", pkg) {
				t.Errorf("the service or its client needs %s", pkg)
			}
		}
	}
}
