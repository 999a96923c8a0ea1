package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/evald/evald/engine/game/gametest"
	kernel "github.com/evald/evald/kernels/cpu"
	tables "github.com/evald/evald/kernels/cpu/pattern"
	"github.com/evald/evald/models"
	"github.com/evald/evald/nn/net"
	"github.com/evald/evald/nn/onnx"
	"github.com/evald/evald/nn/pattern"
)

const shippedModel = "../../models/seeded-2x16.safetensors"

// ownStore is an empty model store for one test.
func ownStore(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "store")
	t.Setenv("EVALD_MODELS", dir)
	return dir
}

// must runs the program and fails the test if the program fails.
func must(t *testing.T, stdin string, args ...string) string {
	t.Helper()
	status, out, stderr := evald(t, stdin, args...)
	if status != exitOK {
		t.Fatalf("evald %s: status %d, %s%s", strings.Join(args, " "), status, out, stderr)
	}
	return out
}

func TestModelCommands(t *testing.T) {
	store := ownStore(t)
	const torch = "../../nn/net/testdata/torch_bf16.safetensors" // written by PyTorch
	for _, c := range []struct{ args, want string }{
		{"model import " + torch + " --rules 7x6x4,9x5x4 --note first", "tiny@1: 1x2/1/1, trained on 7x6x4, 9x5x4, in " + store + "/tiny/1/model.safetensors\n"},
		{"model import " + torch + " --rules 7x6x4,9x5x4 --note first", "tiny@1 is the same network already: nothing was added\n"},
		{"model import " + shippedModel + " --name tiny", "tiny@2: 2x16/8/16, trained on nothing, in " + store + "/tiny/2/model.safetensors\n"},
		{"model verify tiny@1 " + torch, "ok      tiny@1  sha256 dcf6253bee832a89e61de6b026d76834eb98fe7a9a8e6995a068e33f4a144637\n" +
			"ok      " + torch + "  sha256 dcf6253bee832a89e61de6b026d76834eb98fe7a9a8e6995a068e33f4a144637\n"},
	} {
		if got := must(t, "", strings.Fields(c.args)...); got != c.want {
			t.Errorf("%s: %q, want %q", c.args, got, c.want)
		}
	}
	if lines := strings.Count(must(t, "", "model", "list"), "\n"); lines != 7 {
		t.Errorf("the list has %d lines, want a header and six models", lines)
	}
	var list []modelInfo
	gametest.OK(t, json.Unmarshal([]byte(must(t, "", "model", "list", "--json")), &list))
	var refs []string
	for _, m := range list {
		refs = append(refs, fmt.Sprintln(m.Ref(), m.Config, m.Trained, m.Rules, m.Note[:5], m.Path, m.Created.IsZero()))
	}
	learned, _ := models.Find("any")
	want := []string{
		"default@9 7x64 true [7x6x4] Learn  true\n",
		"default-fast@3 pattern256x64x32 true [7x6x4] A net  true\n",
		"any@3 7x64 true " + fmt.Sprint(learned.Rules) + " One n  true\n",
		"seeded-2x16@1 2x16/8/16 false [] UNTRA  true\n",
		"tiny@1 1x2/1/1 true [7x6x4 9x5x4] first " + store + "/tiny/1/model.safetensors false\n",
		"tiny@2 2x16/8/16 false [] untra " + store + "/tiny/2/model.safetensors false\n",
	}
	if diff := cmp.Diff(want, refs); diff != "" {
		t.Error(diff)
	}
	var info modelInfo
	gametest.OK(t, json.Unmarshal([]byte(must(t, "", "model", "show", "tiny@1", "--json")), &info))
	if info.Parameters != 193 || info.Bytes != 1898 || info.Metadata["evald.name"] != "tiny" {
		t.Errorf("show: %d parameters, %d bytes, metadata %v", info.Parameters, info.Bytes, info.Metadata)
	}
}

// Every command accepts a stored model by its name, takes the newest version if no number is given, and says which one it used.
func TestModelByName(t *testing.T) {
	store := ownStore(t)
	must(t, "", "model", "import", "../../nn/net/testdata/torch_f32.safetensors", "--name", "mine", "--rules", "7x6x4")
	must(t, "", "model", "import", shippedModel, "--name", "mine", "--rules", "7x6x4")
	shipped := must(t, "445\n", "eval", "--model", "seeded-2x16")
	newest := must(t, "445\n", "eval", "--model", "mine")
	if want := strings.Replace(shipped, `"model":"seeded-2x16"`, `"model":"mine@2"`, 1); newest != want {
		t.Errorf("the newest answers %s, want %s", newest, want)
	}
	first := must(t, "445\n", "eval", "--model", "mine@1")
	if !strings.Contains(first, `"model":"mine@1"`) || strings.Contains(first, newest[40:80]) {
		t.Errorf("the first version answers %s", first)
	}
	if out := must(t, "", "match", "policy:model=mine@1", "policy:model=mine", "--games", "2"); !strings.Contains(out, "policy:model=mine@1") {
		t.Errorf("match: %s", out)
	}
	if got, want := modelFile("mine"), filepath.Join(store, "mine", "2", "model.safetensors"); got != want {
		t.Errorf("kaggle pack takes the file %q, want %q", got, want)
	}

	// A damaged store does not prevent the use of a model file.
	gametest.OK(t, os.Remove(filepath.Join(store, "mine", "2", "manifest.json")))
	refuses(t, exitBadInput, "model mine@2: stat ", "445\n", "eval", "--model", "mine")
	t.Setenv("EVALD_MODELS", shippedModel)
	must(t, "445\n", "eval", "--model", shippedModel)
}

func TestModelRemove(t *testing.T) {
	ownStore(t)
	for _, name := range []string{"mine", "mine", "other"} {
		must(t, "", "model", "import", shippedModel, "--name", name, "--note", fmt.Sprint(len(must(t, "", "model", "list"))))
	}
	refuses(t, exitBadInput, `model "default" is part of the program and cannot be removed`, "", "model", "remove", "default") // models.TestRemove has the others
	for args, want := range map[string]string{"mine": `^mine@1, mine@2: removed, \d{5} bytes\n$`, "other": `^other@1: removed, \d{5} bytes\n$`} {
		if out := must(t, "", "model", "remove", args); !regexp.MustCompile(want).MatchString(out) {
			t.Errorf("model remove %s: %q, want %q", args, out, want)
		}
	}
	if out := must(t, "", "model", "list"); strings.Contains(out, "mine") || strings.Count(out, "\n") != 5 {
		t.Errorf("the list has %s", out)
	}
	refuses(t, exitBadInput, `model "mine" is neither`, "4\n", "eval", "--model", "mine")
}

func TestModelErrors(t *testing.T) {
	store := ownStore(t)
	dir := t.TempDir()
	file := func(name string, content []byte) string {
		path := filepath.Join(dir, name)
		putFile(t, path, content)
		return path
	}
	good := getFile(t, shippedModel)
	huge := gametest.Must(net.Parse(good))(t)
	for _, name := range []string{"stem.weight", "value.conv.weight", "value.fc.weight", "value.wdl.weight"} {
		for i := range huge.Weight(name).Float32s() {
			huge.Weight(name).Float32s()[i] = math.MaxFloat32
		}
	}
	overflowing, err := huge.Marshal()
	gametest.OK(t, err)
	other := gametest.Must(net.Parse(good))(t)
	other.Metadata = map[string]string{"evald.rules": "7x6x4,7y6"}
	otherRules := gametest.Must(other.Marshal())(t)
	cut := file("cut.safetensors", good[:len(good)-4])
	for _, c := range []struct{ args, want string }{
		{"import " + cut, cut + ": parse network: tensor "},
		{"import " + file("huge.safetensors", overflowing) + " --name huge", "on 7x6x4 it does not work: evaluate: row 0: answer is not finite: position -: win-draw-loss logit 0 is NaN"},
		{"import " + dir, "is not a regular file"},
		{"show /dev/zero", "/dev/zero is not a regular file"},
		{"import nonesuch", "no such file"},
		{"import " + shippedModel, `model name "seeded-2x16" is that of a shipped model, which would be found first: give another one with --name`},
		{"import " + shippedModel + " --name search", `model name "search" means something else, as do search, solver, bitsquares, gameovers, oddeven, rollout, uniform, auto, gpu, cpu, ort-cpu, ort-cuda, ort-tensorrt, ort, exact, none: `},
		{"import " + shippedModel + " --name bitsquares", `model name "bitsquares" means something else`},
		{"import " + shippedModel + " --name ../../etc", `model name "../../etc": want 1 to 64 letters`},
		{"import " + shippedModel + " --name a@2", "leave @2 out"},
		{"import " + file("other.safetensors", otherRules) + " --name other", "metadata of " + filepath.Join(dir, "other.safetensors") + ` (--rules replaces it): rules "7y6"`},
		{"import " + shippedModel + " --name a --rules 7x6", `--rules: rules "7x6": want columns x rows x in-a-row`},
		{"export nonesuch -o " + filepath.Join(dir, "x.onnx"), `model "nonesuch" is neither a file nor a shipped model (default, default-fast, any, seeded-2x16)`},
		{"export seeded-2x16 -o " + filepath.Join(dir, "x.pt"), "want a name that ends in .onnx or .safetensors"},
		{"export seeded-2x16 -o " + filepath.Join(dir, "none", "x.onnx"), "no such file"},
		{"export seeded-2x16 --fp16 -o " + filepath.Join(dir, "x.safetensors"), "only ONNX files can have it"},
		{"export default-fast --fp16 -o " + filepath.Join(dir, "x.onnx"), "--fp16: default-fast is a network of pattern tables"},
	} {
		wrong := exitBadInput
		if strings.HasSuffix(c.args, ".pt") || strings.Contains(c.args, "--fp16") || strings.HasSuffix(c.args, "--rules 7x6") || strings.HasSuffix(c.args, "--name other") {
			wrong = exitUsage
		}
		refuses(t, wrong, c.want, "", append([]string{"model"}, strings.Fields(c.args)...)...)
	}
	if _, err := os.Stat(store); !os.IsNotExist(err) {
		t.Errorf("refused imports have made the store: %v", err)
	}
}

func TestModelVerifyFindsDamage(t *testing.T) {
	store := ownStore(t)
	must(t, "", "model", "import", shippedModel, "--name", "mine")
	if out := must(t, "", "model", "verify"); strings.Count(out, "ok  ") != 5 {
		t.Errorf("verify says %s", out)
	}
	path := filepath.Join(store, "mine", "1", "model.safetensors")
	content := getFile(t, path)
	content[len(content)-1] ^= 1
	putFile(t, path, content)
	status, out, _ := evald(t, "", "model", "verify", "seeded-2x16", "mine")
	if status != exitBadInput || !strings.Contains(out, "ok      seeded-2x16 ") || !strings.Contains(out, "FAILED  mine: ") || !strings.Contains(out, "remove the folder "+filepath.Join(store, "mine", "1")) {
		t.Errorf("status %d, %s", status, out)
	}
	refuses(t, exitBadInput, "the file is damaged", "4\n", "eval", "--model", "mine")
}

func TestModelExport(t *testing.T) {
	ownStore(t)
	dir := t.TempDir()
	same, another := filepath.Join(dir, "same.safetensors"), filepath.Join(dir, "x.onnx")
	if out := must(t, "", "model", "export", "seeded-2x16", "-o", same); out != fmt.Sprintf("seeded-2x16: 2x16/8/16 as safetensors, %d bytes, in %s\n", len(getFile(t, same)), same) {
		t.Errorf("export says %q", out)
	}
	if !bytes.Equal(getFile(t, same), getFile(t, shippedModel)) {
		t.Error("the exported safetensors file differs")
	}
	half := filepath.Join(dir, "half.onnx")
	if must(t, "", "model", "export", "seeded-2x16", "--fp16", "-o", half); gametest.Must(onnx.Read(getFile(t, half)))(t).Metadata["evald.tower"] != "float16" {
		t.Error("--fp16 writes a tower of other numbers")
	}
	if out := must(t, "", "model", "export", "seeded-2x16", "-o", another); !strings.HasPrefix(out, "seeded-2x16: 2x16/8/16 as ONNX, ") {
		t.Errorf("export says %q", out)
	}
	got := getFile(t, another)
	for _, text := range []string{"cell_policy", "evald.config", `{"blocks":2,"channels":16,"head_channels":8,"hidden":16}`, "evald.name", "evald.rules", "evald.version"} {
		if !bytes.Contains(got, []byte(text)) {
			t.Errorf("the ONNX file has no %s", text)
		}
	}
	byProgram(t, "onnx_example.txt", gametest.Python(t, "onnxruntime"), "../../nn/onnx/example.py", another)
}

// A network of pattern tables is imported, shown, verified, exported and evaluated as others are. What only networks of
// convolutions can do says so.
func TestModelOfTables(t *testing.T) {
	ownStore(t)
	n := gametest.Must(pattern.New(*tables.Random(rand.New(rand.NewPCG(1, 1)), pattern.RowCount(), 64, 16, 16)))(t)
	dir := t.TempDir()
	path := filepath.Join(dir, "quick.safetensors")
	gametest.OK(t, os.WriteFile(path, gametest.Must(n.Marshal())(t), 0o644))
	if out := must(t, "", "model", "import", path, "--rules", "7x6x4"); !strings.Contains(out, "quick@1: pattern64x16x16, trained on 7x6x4, in ") {
		t.Errorf("import says %s", out)
	}
	for command, want := range map[string]string{
		"model show quick":   "pattern64x16x16: pattern tables of 64 lanes, hidden layers of 16 and 16",
		"model verify quick": "ok ",
	} {
		if out := must(t, "", strings.Fields(command)...); !strings.Contains(out, want) {
			t.Errorf("%s: %s, want %q", command, out, want)
		}
	}
	copied := filepath.Join(dir, "copy.safetensors")
	must(t, "", "model", "export", "quick", "-o", copied)
	if !bytes.Equal(getFile(t, copied), getFile(t, path)) {
		t.Error("the exported file is another one")
	}
	if out := must(t, "44554", "eval", "--model", "quick"); !strings.Contains(out, `"source":"fast","model":"quick@1"`) {
		t.Errorf("eval says %s", out)
	}
	refuses(t, exitUsage, "a network of pattern tables knows 7x6x4 alone", "", "model", "import", path, "--rules", "9x5x4")
	refuses(t, exitBadInput, "and this needs a network of convolutions", "", "model", "int8", "quick", "-o", copied)
}

// PyTorch can read what evald exports, and evald imports what PyTorch then saves. The answers are the same.
func TestTorchBothWays(t *testing.T) {
	python := gametest.Framework(t, "torch", "safetensors")
	ownStore(t)
	dir := t.TempDir()
	exported, saved := filepath.Join(dir, "exported.safetensors"), filepath.Join(dir, "saved.safetensors")
	must(t, "", "model", "export", "seeded-2x16", "-o", exported)
	const script = `
import sys; sys.path.insert(0, "../../nn/net")
import torch_model
net, metadata = torch_model.load(sys.argv[1])
torch_model.save(net, {"evald.name": "from-torch", "evald.rules": "7x6x4,3x3x3free"}, sys.argv[2])`
	if out, err := exec.Command(python, "-c", script, exported, saved).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if got := must(t, "", "model", "import", saved); !strings.HasPrefix(got, "from-torch@1: 2x16/8/16, trained on 7x6x4, 3x3x3free, in ") {
		t.Errorf("import says %s", got)
	}
	want := must(t, "445\n", "eval", "--model", "seeded-2x16")
	if got := must(t, "445\n", "eval", "--model", "from-torch"); got != strings.Replace(want, "seeded-2x16", "from-torch@1", 1) {
		t.Errorf("the network answers %s after the way through PyTorch, %s before", got, want)
	}
}

// model int8 writes a network that processors with VNNI compute with 8 bits, the same one each time, and says what it changes.
func TestModelInt8(t *testing.T) {
	out, again := filepath.Join(t.TempDir(), "a.safetensors"), filepath.Join(t.TempDir(), "b.safetensors")
	said := must(t, "", "model", "int8", "seeded-2x16", "-o", out, "--count", "20")
	if want := out + ": written, its first convolutions can be computed with 8 bits\nrounded weights: win, draw and loss differ by 0."; !strings.HasPrefix(said, want) {
		t.Errorf("it says %q, want %q first", said, want)
	}
	must(t, "", "model", "int8", "seeded-2x16", "--output", again, "--count", "20")
	if !bytes.Equal(getFile(t, out), getFile(t, again)) {
		t.Error("the same command has written two networks")
	}
	if shown := must(t, "", "model", "show", out); !strings.Contains(shown, "with 8 bits") || strings.Contains(shown, net.RangesKey) {
		t.Errorf("model show: %s", shown)
	}
	for path, want := range map[string]string{"avx512vnni": "has no ranges of activations", "go": ""} {
		t.Setenv("EVALD_CPU_PATH", path)
		if kernel.Path(path).Check() != nil {
			continue
		}
		if _, _, stderr := evald(t, "44\n", "eval", "--backend", "cpu", "--model", "seeded-2x16"); !strings.Contains(stderr, want) {
			t.Errorf("%s without ranges: %q, want %q", path, stderr, want)
		}
		if status, _, stderr := evald(t, "44\n", "eval", "--backend", "cpu", "--model", out); status != 0 {
			t.Errorf("%s with ranges: %q", path, stderr)
		}
	}
	refuses(t, exitUsage, "want a name that ends in .safetensors", "", "model", "int8", "default", "-o", "x.onnx")
}
