package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"github.com/evald/evald/cmd/evald/kserve"
	"github.com/evald/evald/engine/game/gametest"
)

// long is a line of ten megabytes whose start makes a parser read as far as it can.
func long(begin, end string) string { return begin + strings.Repeat("x", 10<<20) + end + "\n" }

// However long a line is, messages about it are short.
func TestLongLines(t *testing.T) {
	ownStore(t)
	brokenHeader := func(header string) string {
		return string(binary.LittleEndian.AppendUint64(nil, uint64(len(header)))) + header
	}
	solved := "4444445 -1 0 0 -1000 0 0 "
	lines := map[string]string{
		"text": long("", ""), "rules": long("7x6", "x4:44"), "object": long(`{"`, `":1}`),
		"almost too long": strings.Repeat("x", 60<<10) + "\n", "almost too long a score": solved + strings.Repeat("x", 60<<10) + "\n",
		"almost too long a key":    `{"` + strings.Repeat("x", 60<<10) + `":1}` + "\n",
		"almost too long a number": `{"id":"a","mark":` + strings.Repeat("9", 60<<10) + `,"board":[],"position":1,"scores":[` + strings.Repeat("9", 200) + `]}` + "\n",
	}
	queries := map[string]string{
		"action": `{"id":"a","action":"` + strings.Repeat("x", 60<<10) + `"}` + "\n",
		"id":     `{"id":"a","action":"terminate","terminate_id":"` + strings.Repeat("x", 60<<10) + `"}` + "\n",
		"moves":  `{"id":"a","rules":"x","moves":":` + strings.Repeat("x", 60<<10) + `"}` + "\n",
	}
	networks := map[string]string{
		"text": long("", ""), "no tensor": brokenHeader(long("{", "")), "tensor's name": brokenHeader(long(`{"`, `":{}}`)),
		"tensor's type":   brokenHeader(long(`{"a":{"shape":[],"dtype":"`, `"}}`)),
		"tensor's shape":  brokenHeader(`{"a":{"dtype":"F32","data_offsets":[0,0],"shape":[` + strings.Repeat("1,", 1<<20) + `1]}}`),
		"tensor's number": brokenHeader(`{"a":{"shape":[` + strings.Repeat("9", 1<<20) + `]}}`),
		"format":          brokenHeader(`{"__metadata__":{"evald.format":"` + strings.Repeat("x", 1<<20) + `"}}`),
		"field":           brokenHeader(`{"__metadata__":{"evald.format":"1","evald.config":"{\"` + strings.Repeat("x", 1<<20) + `\":1}"}}`),
	}
	configs := map[string]string{"command": long("", ": {}"), "flag": long("eval: {", ": 1}"), "value": long("eval: {batch: ", "}"), "twice": long("", ": 1") + long("", ": 1")}
	tokens := map[string]string{"line": long("", " t"), "group": strings.Repeat("x", 60<<10) + " t\n"}
	for _, c := range []struct {
		inputs   map[string]string
		commands []string
	}{
		{lines, []string{
			"eval --backend uniform FILE", "eval --backend uniform --format table FILE", "search --backend uniform --visits 2 FILE", "solve FILE",
			"analyze --backend uniform FILE", "score --backend uniform FILE", "play --plain --agent random --quiet", "kaggle act --agent random",
			"match random random --games 2 --openings FILE", "train FILE.parquet -o OUT", "train --task exact FILE -o OUT", "bench solve FILE", "solve --book FILE",
			"match uct:book=FILE random --games 2",
		}},
		{queries, []string{"analyze --backend uniform FILE"}},
		{networks, []string{"eval --backend cpu --model FILE", "model import FILE --name x", "match mcts:model=FILE random --games 2", "train --task gameover --init FILE -o OUT"}},
		{configs, []string{"eval --config FILE"}},
		{tokens, []string{"serve --backend uniform --tokens FILE --http 256.0.0.1:1"}},
	} {
		for i, name := range slices.Sorted(maps.Keys(c.inputs)) {
			text := c.inputs[name]
			path := filepath.Join(t.TempDir(), "input")
			putFile(t, path, text)
			for k, args := range c.commands {
				if !gametest.Soak() && len(c.commands) > 4 && (i+k)%4 > 0 { // each input with some commands, and each command with some inputs
					continue
				}
				in := ""
				if !strings.Contains(args, "FILE") {
					in = text
				}
				full := strings.NewReplacer("FILE", path, "OUT", filepath.Join(t.TempDir(), "out")).Replace(args)
				_, stdout, stderr := evald(t, in, strings.Fields(full)...)
				for line := range strings.Lines(stdout + stderr) {
					if len(line) > 1200 {
						t.Errorf("evald %s, %s: a line of %d bytes: %.400s", args, name, len(line), line)
					}
				}
				if said := len(stdout) + len(stderr); said > 8<<10 {
					t.Errorf("evald %s, %s: %d bytes: %.300s .. %.300s", args, name, said, stdout, stderr)
				}
			}
		}
	}
}

// Messages do not repeat a long value of any flag or argument. The exception is the name of an output file. Without EVALD_SOAK
// flags of the same name are tried with one command.
func TestLongArguments(t *testing.T) {
	ownStore(t)
	over, cancel := context.WithCancel(t.Context())
	cancel() // no command does its work: arguments that are accepted would start it
	value := strings.Repeat("x", 20<<10)
	try := func(args ...string) {
		t.Helper()
		var out, err bytes.Buffer
		run(over, args, streams{strings.NewReader(""), &out, &err})
		if said := out.Len() + err.Len(); said > 8<<10 {
			t.Errorf("%.80q: %d bytes: %.200s .. %.200s", args, said, &out, &err)
		}
	}
	tried := map[string]bool{}
	commands(t, func(path []string, node *kong.Node) {
		if slices.Contains(path, "complete") {
			return // its answer is a list of files
		}
		for _, f := range node.AllFlags(true) {
			for _, f := range f {
				if !f.IsBool() && f.Name != "out" && (gametest.Soak() || !tried[f.Name]) {
					tried[f.Name] = true
					try(slices.Concat(path, []string{"--" + f.Name + "=" + value})...)
				}
			}
		}
		if len(node.Positional) > 0 {
			try(slices.Concat(path, []string{value})...)
		}
	})
	try(value)
	try("--" + value)
	try("match", "uct:"+value, "uct:sims="+value)
	try("help", value)
}

// commands visits every command that can be run, with the words that call it.
func commands(t *testing.T, visit func(path []string, node *kong.Node)) {
	t.Helper()
	var walk func(path []string, node *kong.Node)
	walk = func(path []string, node *kong.Node) {
		if node.Leaf() {
			visit(path, node)
		}
		for _, child := range node.Children {
			walk(append(slices.Clip(path), child.Name), child)
		}
	}
	walk(nil, newParser(&cli{}, streams{}, func(int) {}).Model.Node)
}

// The service's messages about a request are short, over REST and in gRPC's trailers.
func TestLongRequests(t *testing.T) {
	address, log, _ := startServe(t, "--backend", "uniform", "--repository")
	const infer = "/v2/models/uniform/infer"
	x := strings.Repeat("x", 1<<20)
	ones := strings.Repeat("1,", 1<<19) + "1"
	moves := func(more string) string {
		return `{"inputs":[{"name":"moves","datatype":"BYTES","shape":[1]` + more + `}]}`
	}
	for path, bodies := range map[string][]string{
		infer: {
			x, `{"` + x + `":1}`, `{"parameters":{"` + x + `":1}}`, `{"parameters":{"board":{"` + x + `":[1]}}}`, `{"parameters":{"visits":["` + x + `"]}}`,
			`{"parameters":{"binary_data_output":"` + x + `"}}`, `{"inputs":[{"name":"` + x + `","datatype":"BYTES","shape":[1],"data":["4"]}]}`,
			`{"inputs":[{"name":"moves","datatype":"` + x + `","shape":[1],"data":["4"]}]}`,
			`{"inputs":[{"name":"moves","datatype":"BYTES","shape":[` + ones + `],"data":["4"]}]}`,
			`{"inputs":[{"name":"planes","datatype":"FP32","shape":[` + ones + `],"data":[1]}]}`,
			moves(`,"data":["` + x + `"]`), moves(`,"data":[` + strings.Repeat("9", 1<<20) + `]`), moves(`,"parameters":{"` + x + `":"` + x + `"}`),
			`{"inputs":[],"outputs":[{"name":"` + x + `","parameters":{"binary_data":["` + x + `"]}}]}`,
			strings.TrimSuffix(moves(`,"data":["4"]`), "}") + `,"outputs":[{"name":"` + x + `"}]}`,
		},
		"/v2/repository/index": {x, `{"` + x + `":1,"` + x + `":1}`},
		"/ui/game":             {`{"position":"` + x[:10<<10] + `"}`, `{"` + x[:10<<10] + `":1}`, `{"made":` + strings.Repeat("9", 10<<10) + `}`, `{"do":"` + x[:10<<10] + `"}`},
		"/ui/move":             {`{"agent":"` + x[:10<<10] + `","position":"-"}`, `{"agent":"uct:` + x[:150] + `","position":"-"}`},
		"/ui/review":           {`{"game":"` + x[:10<<10] + `"}`, `{"game":"{\"name\":\"` + x[:10<<10] + `\"}"}`, `{"` + x[:10<<10] + `":1}`},
		"/ui/why":              {`{"position":"` + x[:10<<10] + `","move":0}`, `{"position":"4","move":` + strings.Repeat("9", 10<<10) + `}`},
		"/ui/tree":             {`{"position":"` + x[:10<<10] + `"}`, `{"position":"4","visits":` + strings.Repeat("9", 10<<10) + `}`},
		"/ui/played":           {`{"position":"` + x[:10<<10] + `"}`},
		"/ui/analyze":          {`{"position":"-","seconds":` + strings.Repeat("9", 10<<10) + `}`},
	} {
		for _, body := range bodies {
			r, err := http.Post("http://"+address["http"]+path, "application/json", strings.NewReader(body))
			gametest.OK(t, err)
			var answer struct{ Error string }
			text := new(strings.Builder)
			err = json.NewDecoder(io.TeeReader(r.Body, text)).Decode(&answer)
			r.Body.Close()
			if r.StatusCode < 400 || err != nil || answer.Error == "" || text.Len() > 1500 {
				t.Errorf("%s %.60s: %d, %d bytes: %.300s (%v)", path, body, r.StatusCode, text.Len(), text, err)
			}
		}
	}
	api := kserve.NewGRPCInferenceServiceClient(dialed(t, address["grpc"]))
	input := func(name, datatype string, shape []int64) []*kserve.ModelInferRequest_InferInputTensor {
		return []*kserve.ModelInferRequest_InferInputTensor{{Name: name, Datatype: datatype, Shape: shape}}
	}
	for name, r := range map[string]*kserve.ModelInferRequest{
		"model":    {ModelName: x},
		"version":  {ModelName: "uniform", ModelVersion: x, Inputs: input("moves", "BYTES", []int64{1}), RawInputContents: [][]byte{{}}},
		"shape":    {ModelName: "uniform", Inputs: input("moves", "BYTES", make([]int64, 1<<19)), RawInputContents: [][]byte{{}}},
		"input":    {ModelName: "uniform", Inputs: input(x, "BYTES", []int64{1}), RawInputContents: [][]byte{{}}},
		"datatype": {ModelName: "uniform", Inputs: input("moves", x, []int64{1}), RawInputContents: [][]byte{{}}},
		"value":    {ModelName: "uniform", Inputs: input("moves", "BYTES", []int64{1}), RawInputContents: [][]byte{append(binary.LittleEndian.AppendUint32(nil, 1<<20), x...)}},
		"output": {
			ModelName: "uniform", Inputs: input("moves", "BYTES", []int64{1}), RawInputContents: [][]byte{append(binary.LittleEndian.AppendUint32(nil, 1), '4')},
			Outputs: []*kserve.ModelInferRequest_InferRequestedOutputTensor{{Name: x}},
		},
		"parameter": {ModelName: "uniform", Parameters: map[string]*kserve.InferParameter{x: {}}},
		"board":     {ModelName: "uniform", Parameters: map[string]*kserve.InferParameter{"board": {ParameterChoice: &kserve.InferParameter_StringParam{StringParam: x}}}},
		"priority":  {ModelName: "uniform", Parameters: map[string]*kserve.InferParameter{"priority": {ParameterChoice: &kserve.InferParameter_StringParam{StringParam: x}}}},
	} {
		if _, err := api.ModelInfer(t.Context(), r); err == nil || len(err.Error()) > 1500 || strings.Contains(err.Error(), "header list") {
			t.Errorf("%s: %.300v", name, err)
		}
	}
	for line := range strings.Lines(log.String()) {
		if len(line) > 2<<10 {
			t.Errorf("a line of %d bytes in the log: %.300s", len(line), line)
		}
	}
}
