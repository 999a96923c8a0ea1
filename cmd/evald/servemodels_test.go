package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/evald/evald/cmd/evald/kserve"
	"github.com/evald/evald/engine/game/gametest"
)

// Each field wrong once: the error has the line, the field and the way out, and nothing is served.
func TestServeModelsWrong(t *testing.T) {
	ownStore(t)
	must(t, "", "model", "import", shippedModel, "--name", "mine", "--rules", "7x6x4")
	dir := t.TempDir()
	for _, c := range []struct{ name, text, want string }{
		{"empty", "", "1: models: has no model; write"},
		{"no list", "models: mine\n", "1: models: must be a list"},
		{"another field", "models:\n- name: mine\nmodel: mine\n", "3: model: there is no such field; the file has models"},
		{"no fields", "models:\n- mine\n", "2: models[0]: must have fields, such as name: mine"},
		{"no YAML", "models:\n- name: mine\n   file: x\n", "3: mapping values are not allowed"},
		{"two documents", "models:\n- name: mine\n---\nmodels: []\n", "3: a second document: the file has one; remove the line ---"},
		{"unknown", "models:\n- name: mine\n  max-bach: 3\n", "3: models[0].max-bach: there is no such field; see kserve/README.md"},
		{"twice", "models:\n- name: mine\n  cache: 3\n  cache: 4\n", "4: models[0]: cache: is in line 3 already"},
		{"nothing", "models:\n- name:\n", `2: models[0].name: "": must be a text`},
		{"name", "models:\n- name: a/b\n", `2: models[0].name: "a/b": must be letters, digits`},
		{"name with a version", "models:\n- name: mine@1\n", `2: models[0].name: "mine@1": must be letters, digits`},
		{"reserved search", "models:\n- file: mine\n  name: search\n", "3: models[0].name: search is the name of another model of every service: give this one another name"},
		{"reserved heuristic", "models:\n- file: mine\n  name: bitsquares\n", "3: models[0].name: bitsquares is the name of another model"},
		{"same name", "models:\n- name: mine\n- file: mine@1\n", "3: models[1].name: two models are called mine, both of version 1"},
		{"no model", "models:\n- name: mine\n- name: other\n", `3: models[1].name: model "other" is neither a file nor a shipped model`},
		{"file", "models:\n- name: mine\n  file: /no/file\n", `3: models[0].file: model "/no/file" is neither a file nor a shipped model`},
		{"file of a heuristic", "models:\n- backend: uniform\n  file: mine\n", `3: models[0].file: backend uniform uses no model, but the file is "mine"`},
		{"version", "models:\n- name: mine\n  version: new\n", `3: models[0].version: "new": must be a whole number, 1 to 1073741824`},
		{"version range", "models:\n- name: mine\n  version: 0\n", `3: models[0].version: "0": must be a whole number, 1 to 1073741824`},
		{"version that is not there", "models:\n- name: mine\n  version: 2\n", "3: models[0].version: 2: there is no such version of mine; evald model list"},
		{"another version", "models:\n- file: mine@1\n  version: 2\n", "3: models[0].version: 2: the file is mine@1, which has version 1"},
		{"version of nothing", "models:\n- version: 2\n", "2: models[0].version: 2: of which model? Give a name or a file"},
		{"backend", "models:\n- name: mine\n  backend: tpu\n", `3: models[0].backend: "tpu": must be auto, gpu, cpu, ort-cpu, ort-cuda, ort-tensorrt, ort, or a heuristic: bitsquares`},
		{"batch", "models:\n- name: mine\n  max-batch: 0\n", `3: models[0].max-batch: "0": must be a whole number, 1 to 1048576`},
		{"delay", "models:\n- name: mine\n  max-delay: 10\n", `3: models[0].max-delay: "10": must be a time such as 10ms, 0s to 1m`},
		{"queue", "models:\n- name: mine\n  max-queue: many\n", `3: models[0].max-queue: "many": must be a whole number, 1 to`},
		{"wait", "models:\n- name: mine\n  max-wait: [1s, 2s]\n", `3: models[0].max-wait: "": must be three times such as [50ms, 1s, 0s], 0s to 24h`},
		{"wait range", "models:\n- name: mine\n  max-wait: [1s, 2s, -1s]\n", "3: models[0].max-wait"},
		{"in flight", "models:\n- name: mine\n  in-flight: 0\n", `3: models[0].in-flight: "0": must be a whole number, 1 to 1024`},
		{"timeout", "models:\n- name: mine\n  timeout: 25h\n", `3: models[0].timeout: "25h": must be a time such as 10ms, 1ms to 24h`},
		{"cache", "models:\n- name: mine\n  cache: -1\n", `3: models[0].cache: "-1": must be a whole number, 0 to`},
		{"warm-up", "models:\n- name: mine\n  warm-up: [1]\n", `3: models[0].warm-up: "": must be a whole number, 0 to 1048576`},
		{"visits", "models:\n- name: mine\n  visits: 0x\n", `3: models[0].visits: "0x": must be a whole number, 1 to`},
		{"visits range", "models:\n- name: mine\n  visits: 200\n  max-visits: 100\n", "3: models[0].visits: 200: must be at most max-visits 100"},
		{"max-visits", "models:\n- name: mine\n  max-visits: 2e9\n", `3: models[0].max-visits: "2e9": must be a whole number, 1 to`},
		{"reserved solver", "models:\n- file: mine\n  name: solver\n", "3: models[0].name: solver is the name of another model"},
		{"backend of the solver", "models:\n- name: solver\n  backend: cpu\n", "3: models[0].backend: the solver has none: leave it out"},
		{"nodes", "models:\n- name: solver\n  nodes: 0\n", `3: models[0].nodes: "0": must be a whole number, 1 to`},
		{"nodes range", "models:\n- name: solver\n  nodes: 2\n  max-nodes: 1\n", "3: models[0].nodes: 2: must be at most max-nodes 1"},
		{"max-nodes", "models:\n- name: solver\n  max-nodes: .inf\n", `3: models[0].max-nodes: ".inf": must be a whole number, 1 to`},
		{"exact", "models:\n- name: mine\n  exact: many\n", `3: models[0].exact: "many": must be a number of nodes up to 100000, true or false`},
		{"exact range", "models:\n- name: mine\n  exact: 100001\n", `3: models[0].exact: "100001": must be a number of nodes up to 100000`},
		{"exact fields", "models:\n- name: mine\n  exact: {nodes: 3}\n", `3: models[0].exact: "": must be a number of nodes`},
		{"another exact", "models:\n- name: mine\n  file: exact\n", "3: models[0].file: exact is the network that ships, and has no other name or version here: write exact: 1000 for another model"},
		{"too long", "models:\n- name: mine\n" + strings.Repeat("#\n", 1<<19), "has more than 1048576 bytes"},
	} {
		path := filepath.Join(dir, "models.yaml")
		putFile(t, path, c.text)
		want := c.want
		if c.name != "too long" {
			want = path + ":" + want
		}
		status, out, stderr := evald(t, "", "serve", "--check", "--models", path, "--log", "json")
		records := logRecords(t, stderr)
		if why, _ := records[len(records)-1]["error"].(string); status == exitOK || out != "" || !strings.Contains(why, want) {
			t.Errorf("%s: status %d, output %q, error %q, want %q", c.name, status, out, why, want)
		}
	}
	for _, file := range []string{"/dev/zero", dir, filepath.Join(dir, "missing")} {
		status, _, stderr := evald(t, "", "serve", "--check", "--models", file)
		if status == exitOK || !strings.Contains(stderr, "--models: ") || !strings.Contains(stderr, file) {
			t.Errorf("%s: status %d, %s", file, status, stderr)
		}
	}
	refuses(t, exitUsage, "--model does nothing with --models", "", "serve", "--models", dir, "--model", "mine")
}

// Whatever the file is, it is read or refused by an error that names it.
func FuzzServeModels(f *testing.F) {
	for _, text := range []string{
		"models:\n- name: mine\n", "models:\n- &a {name: a, max-wait: [1s, 2s, 3s]}\n- *a\n", "models: *a\n", "--- x\n---\n", "[", "models:\n- {? [a] : b}\n", "a: !!binary x\nmodels: !x [{cache: !!float 3}]",
	} {
		f.Add(text)
	}
	path := filepath.Join(f.TempDir(), "models.yaml")
	f.Fuzz(func(t *testing.T, text string) {
		putFile(t, path, text)
		if all, err := readModels(path); err != nil && !strings.HasPrefix(err.Error(), path+":") || len(all) == 0 && err == nil {
			t.Errorf("%d models, %v", len(all), err)
		}
	})
}

// The file that the document shows is valid.
func TestServeModelsDocument(t *testing.T) {
	_, text, _ := strings.Cut(string(getFile(t, "kserve/README.md")), "```yaml\n")
	text, _, _ = strings.Cut(text, "```")
	out := must(t, "", "serve", "--check", "--log-level", "error", "--models", writeText(t, "models.yaml", text))
	if n := strings.Count(out, "  - name: "); n != 4 {
		t.Errorf("%d models: %s", n, out)
	}
}

// What --check prints is a file of --models that says the same. Flags override the file.
func TestServeCheck(t *testing.T) {
	ownStore(t)
	must(t, "", "model", "import", shippedModel, "--name", "mine", "--rules", "7x6x4")
	models := func(args ...string) string {
		_, text, ok := strings.Cut(must(t, "", append([]string{"serve", "--check", "--log-level", "error"}, args...)...), "\nmodels:\n")
		if !ok {
			t.Fatalf("%v: no models in %s", args, text)
		}
		return "models:\n" + text
	}
	path := writeText(t, "models.yaml", `models:
  - {name: mine, version: 1, backend: cpu, max-batch: 64, max-delay: 2ms, max-queue: 1000, max-wait: [50ms, 1s, 0s], in-flight: 1,
     timeout: 1m, cache: 100, warm-up: 70, visits: 10, max-visits: 20}
  - &other {backend: bitsquares, name: other}
  - file: `+shippedModel+`
    version: 7
  - {name: scores, file: solver, nodes: 5}
  - {file: exact, exact: 300}
  - {name: exact2, backend: bitsquares, exact: true}
`)
	first := models("--models", path)
	want := `models:
  - name: "mine"
    version: 1
    file: "mine@1"
    backend: "cpu"
    max-batch: 64
    max-delay: 2ms
    max-queue: 1000
    max-wait: [50ms, 1s, 0s]
    in-flight: 1
    timeout: 1m0s
    cache: 100
    warm-up: 70
    visits: 10
    max-visits: 20
    nodes: 1000000
    max-nodes: 10000000
    exact: 0
  - name: "other"
`
	if !strings.HasPrefix(first, want) || !strings.Contains(first, "  - name: \"seeded-2x16\"\n    version: 7\n") ||
		!strings.Contains(first, "    exact: 300\n") || !strings.HasSuffix(first, "    exact: 1000\n") {
		t.Errorf("%s\nwant\n%s", first, want)
	}
	if again := models("--models", writeText(t, "again.yaml", first)); again != first {
		t.Errorf("%s\nis read as\n%s", first, again)
	}
	if got := models("--models", path, "--max-batch", "32", "--cache", "5"); strings.Count(got, "max-batch: 32\n") != 6 || strings.Count(got, "cache: 5\n") != 6 || !strings.Contains(got, "visits: 10\n") {
		t.Errorf("flags do not override the file: %s", got)
	}
	status, _, stderr := evald(t, "", "serve", "--check", "--model", "mine", "--model", "solver", "--in-flight", "8", "--memory", "200MiB")
	if want := "--memory 200MiB: must be at least 512MiB with the models mine, solver, which take 128MiB of it"; status != exitUsage || !strings.Contains(stderr, want) {
		t.Errorf("eight tables of the solver: %d %s, want %s", status, stderr, want)
	}
	folder := t.TempDir()
	putFile(t, filepath.Join(folder, "notes.txt"), "")
	refuses(t, exitUsage, " has 0 files of networks, must have one (.onnx or .safetensors)", "", "serve", "--check", "--model", "a="+folder)
	network := filepath.Join(folder, "best.safetensors")
	putFile(t, network, string(gametest.Must(os.ReadFile(shippedModel))(t)))
	got := models("--model", "a="+folder, "--model", "b="+network, "--model", "c=mine", "--model", "bitsquares:power=2", "--model", "d=bitsquares:power=1.75")
	for _, want := range []string{`  - name: "a"\n    file: "` + network, `  - name: "b"\n    file: "` + network, `  - name: "c"\n    file: "mine"`, `"bitsquares-power-2"`, `"d"`} {
		if want = strings.ReplaceAll(want, `\n`, "\n"); !strings.Contains(got, want) {
			t.Errorf("NAME=PATH: %s\nwant %s", got, want)
		}
	}
	putFile(t, filepath.Join(folder, "other.onnx"), "")
	refuses(t, exitUsage, " has 2 files of networks, must have one (.onnx or .safetensors), or name the file: best.safetensors, other.onnx", "", "serve", "--check", "--model", "a="+folder)
	if got := models(); !strings.HasPrefix(got, "models:\n  - name: \"default\"\n    backend: \"auto\"\n") {
		t.Errorf("without a file: %s", got)
	}
}

// Two versions of a model are served at once, over both transports; without a version the newest answers. A shipped model has its
// real version.
func TestServeVersions(t *testing.T) {
	ownStore(t)
	must(t, "", "model", "import", shippedModel, "--name", "mine", "--rules", "7x6x4")
	must(t, "", "model", "import", "../../models/default.safetensors", "--name", "mine", "--rules", "7x6x4")
	address, _, _ := startServe(t, "--model", "mine@1", "--model", "mine@2", "--model", "default", "--backend", "cpu", "--repository")
	api := kserve.NewGRPCInferenceServiceClient(dialed(t, address["grpc"]))
	values := map[string]string{}
	for _, c := range []struct{ name, version, want string }{
		{"mine", "", "2"}, {"mine", "1", "1"}, {"mine", "2", "2"}, {"mine@1", "", "1"}, {"default", "", "9"}, {"default", "9", "9"}, {"mine", "3", ""}, {"default", "1", ""},
	} {
		path := "/v2/models/" + c.name
		if c.version != "" {
			path += "/versions/" + c.version
		}
		status, text := posted(t, "http://"+address["http"]+path+"/infer", `{"inputs":[{"name":"moves","datatype":"BYTES","shape":[1],"data":["4455"]}],"outputs":[{"name":"value"}]}`)
		m, err := api.ModelInfer(t.Context(), &kserve.ModelInferRequest{ModelName: c.name, ModelVersion: c.version, Inputs: []*kserve.ModelInferRequest_InferInputTensor{
			{Name: "moves", Datatype: "BYTES", Shape: []int64{1}, Contents: &kserve.InferTensorContents{BytesContents: [][]byte{[]byte("4455")}}},
		}, Outputs: []*kserve.ModelInferRequest_InferRequestedOutputTensor{{Name: "value"}}})
		if c.want == "" {
			if status != http.StatusNotFound || err == nil {
				t.Errorf("%s version %s: %d %s, %v", c.name, c.version, status, text, err)
			}
			continue
		}
		if !strings.Contains(text, `"model_version":"`+c.want+`"`) || m.GetModelVersion() != c.want {
			t.Errorf("%s version %q: %s; %v, %v; want version %s", c.name, c.version, text, m, err, c.want)
			continue
		}
		value := fmt.Sprint(m.RawOutputContents)
		if is := values[strings.Trim(c.name, "@1")+c.want]; is != "" && is != value {
			t.Errorf("%s version %q answers %s, and %s", c.name, c.version, value, is)
		}
		values[strings.Trim(c.name, "@1")+c.want] = value
	}
	if values["mine1"] == values["mine2"] || values["mine2"] != values["default9"] {
		t.Errorf("the versions' answers are %v", values)
	}
	get := func(path string) string {
		r, err := http.Get("http://" + address["http"] + path)
		_, text := answered(t, r, err)
		return text
	}
	_, index := posted(t, "http://"+address["http"]+"/v2/repository/index", `{"ready":true}`)
	for path, want := range map[string]string{
		"/v2/models/mine": `"versions":["1","2"]`, "/v2/models/mine/config": `"version_policy":{"specific":{"versions":[1,2]}}`,
		"/v2/models/mine/stats": `"version":"1"`, "/v2/models/mine/versions/2/stats": `"version":"2"`, "/v2/models/search": `"versions":["1"]`,
	} {
		if text := get(path); !strings.Contains(text, want) {
			t.Errorf("%s: %s, want %s", path, text, want)
		}
	}
	var rows []struct{ Name, Version, State string }
	gametest.OK(t, json.Unmarshal([]byte(index), &rows))
	if got := fmt.Sprint(rows); got != "[{default 9 READY} {mine 1 READY} {mine 2 READY} {search 1 READY}]" {
		t.Errorf("index %s", got)
	}
}

// The file is reloaded as a whole while clients ask, and no request is lost. A wrong one changes nothing, and the log says why.
func TestServeModelsReload(t *testing.T) {
	path := writeText(t, "models.yaml", "models:\n- {name: first, backend: bitsquares}\n- {name: second, backend: uniform}\n")
	address, log, stop := startServe(t, "--models", path, "--watch", "5ms")
	var wg sync.WaitGroup
	done := make(chan struct{})
	for range 4 {
		wg.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				status, text := posted(t, "http://"+address["http"]+"/v2/models/first/infer", `{"inputs":[{"name":"moves","datatype":"BYTES","shape":[1],"data":["44"]}]}`)
				if status != http.StatusOK {
					t.Errorf("%d %s", status, text)
				}
			}
		})
	}
	config := func(model string) string {
		r, err := http.Get("http://" + address["http"] + "/v2/models/" + model + "/config")
		status, text := answered(t, r, err)
		return fmt.Sprint(status, text)
	}
	until := func(what string, ok func() bool) {
		t.Helper()
		for end := time.Now().Add(20 * time.Second); !ok(); {
			if time.Now().After(end) {
				t.Fatalf("never: %s\n%s", what, log)
			}
		}
	}
	put := func(text string) {
		gametest.OK(t, writeWhole(path, func(w io.Writer) error { _, err := io.WriteString(w, text); return err }))
	}
	put("models:\n- {name: first, backend: uniform, max-batch: 17}\n- {name: third, backend: bitsquares}\n")
	until("the third model", func() bool { return strings.HasPrefix(config("third"), "200") })
	if got := config("first"); !strings.Contains(got, `"preferred_batch_size":[17]`) || !strings.HasPrefix(config("second"), "404") {
		t.Errorf("after a reload: %s, %s", got, config("second"))
	}
	// Of the models of a file none is exchanged if one is wrong.
	put("models:\n- {name: first, backend: uniform, max-batch: 18}\n- {name: third, backend: cpu, file: " + path + "}\n")
	until("an error", func() bool { return strings.Contains(log.String(), "the models were not reloaded") })
	put("models:\n- {name: first, backend: uniform, max-batch: 19}\n- {name: third, backend: tpu}\n")
	until("another error", func() bool { return strings.Contains(log.String(), path+":3: models[1].backend") })
	ready := func() string {
		r, err := http.Get("http://" + address["http"] + "/v2/models/first/ready")
		_, text := answered(t, r, err)
		return text
	}
	if got := config("first"); !strings.Contains(got, `"preferred_batch_size":[17]`) || !strings.Contains(ready(), "the last reload failed") {
		t.Errorf("after a reload that failed: %s, %s", got, ready())
	}
	put("models:\n- {name: fourth, backend: uniform}\n- {name: first, backend: uniform}\n")
	until("another first model", func() bool { return strings.HasPrefix(config("fourth"), "200") })
	if status, text := posted(t, "http://"+address["http"]+"/v2/models/search/infer", `{"inputs":[{"name":"moves","datatype":"BYTES","shape":[1],"data":["44"]}],"parameters":{"visits":5}}`); status != http.StatusOK {
		t.Errorf("a search with another first model: %d %s", status, text)
	}
	if got := ready(); strings.Contains(got, "failed") {
		t.Errorf("after a reload that did not fail: %s", got)
	}
	close(done)
	wg.Wait()
	if status := stop(); status != exitOK {
		t.Errorf("status %d:\n%s", status, log)
	}
	if n := strings.Count(log.String(), "the models were not reloaded"); n != 2 {
		t.Errorf("%d failed reloads in the log, want 2:\n%s", n, log)
	}
}
