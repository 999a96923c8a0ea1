package main

import (
	"bytes"
	"encoding/json"
	"io"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"github.com/evald/evald/cmd/evald/internal/play"
	"github.com/evald/evald/engine/agent"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/game/gametest"
	kernel "github.com/evald/evald/kernels/cpu/pattern"
	"github.com/evald/evald/nn/ort"
	"github.com/evald/evald/nn/pattern"
)

// unknown is a game that no network of unknowing supports. Nothing is decided on its board, and it
// has records of exact results soon.
const unknown = "9x5x4"

// refusal is what every command says of it.
const refusal = "does not know " + unknown + ": it knows 7x6x4 alone; name another, such as any (--model any"

// smallTables is a network of tables, as default-fast is, but small and so opened at once.
func smallTables(t *testing.T) *pattern.Network {
	t.Helper()
	return gametest.Must(pattern.New(*kernel.Random(rand.New(rand.NewPCG(1, 1)), pattern.RowCount(), 64, 16, 16)))(t)
}

// unknowing are networks for 7x6x4 alone: of tables, and with ONNX Runtime one of another program.
func unknowing(t *testing.T) []string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "tables.safetensors")
	putFile(t, path, string(gametest.Must(smallTables(t).Marshal())(t)))
	if _, err := ort.Open(ort.Options{}); err != nil {
		return []string{path}
	}
	t.Setenv("EVALD_CACHE_DIR", t.TempDir()) // the file is checked once
	return []string{path, foreignFile(t, "lightzero", "")}
}

// elsewhere are the flags and arguments with networks that are evaluated on no other board, with
// the reason.
var elsewhere = map[string]string{
	"bench eval --model":     "measures on 7x6x4",
	"bench serve --model":    "measures on 7x6x4",
	"learn --init":           "its run says on which boards its networks can learn",
	"serve --model":          "its requests name boards, see TestUnsupportedRequests",
	"mcp --model":            "its calls name boards, see TestMCPNonsense",
	"model export NAME|PATH": "evaluates nothing", "model import NAME|PATH": "evaluates games that it supports",
	"model show NAME|PATH": "evaluates nothing", "model verify NAME|PATH": "evaluates games that it supports",
	"model int8 NAME|PATH": "takes networks of convolutions alone, which support every board",
	"kaggle pack --agent":  "plays a move of 7x6x4",
	"kaggle serve --agent": "its requests name boards, see its package",
}

// Whatever command evaluates a network that the user has named says that it does not know the
// board, instead of answering with another network. The flags and arguments that name networks or
// agents are those of the program.
func TestUnsupported(t *testing.T) {
	ownStore(t)
	records := filepath.Join(t.TempDir(), "records")
	must(t, "", "positions", "--train", "--rules", unknown, "--count", "1", "--kinds", "random", "--plies", "36-40", "-o", records)
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		putFile(t, path, text)
		return path
	}
	b := gametest.Must(new(game.Boards).Parse(unknown))(t)
	start := game.State{Board: b, Mark: 1}.Observation()
	lines := file("lines.txt", unknown+":4455 0 0 0 0 0 0 0 0 0\n")
	files := map[string]string{
		"analyze":   file("queries.txt", `{"id":"a","moves":"`+unknown+`:4455"}`+"\n"),
		"grow-book": filepath.Join(dir, "new.book"),
		"merge":     gametest.Must(filepath.Glob(filepath.Join(records, "*.parquet")))(t)[0],
	}
	files["train"] = files["merge"]

	networks, tried := unknowing(t), 0
	try := func(path []string, node *kong.Node, door string, given ...string) {
		t.Helper()
		tried++
		args := append(slices.Clone(path), given...)
		named := func(name string) bool {
			return slices.ContainsFunc(given, func(arg string) bool { return strings.HasPrefix(arg, "--"+name+"=") })
		}
		for _, f := range slices.Concat(node.AllFlags(true)...) {
			switch {
			case named(f.Name):
				for _, need := range strings.FieldsFunc(f.Tag.Get("needs"), func(r rune) bool { return r == ',' }) {
					args = append(args, "--"+need+map[bool]string{true: "=1"}[need == "records"])
				}
			case f.Name == "rules":
				args = append(args, "--rules="+unknown)
			case f.Name == "out" && f.Required || f.Name == "out" && path[0] == "selfplay":
				args = append(args, "--out="+filepath.Join(t.TempDir(), "out"))
			case f.Required:
				t.Errorf("%v --%s is required: what does it need?", path, f.Name)
			}
		}
		for _, p := range node.Positional {
			if strings.HasPrefix(strings.ToLower(p.Name), "file") && path[0] != "positions" {
				name := files[path[0]]
				if name == "" {
					name = lines
				}
				args = append(args, name)
			}
		}
		status, out, stderr := evald(t, `{"observation":`+start+`,"configuration":{"rows":5,"columns":9,"inarow":4}}`+"\n", args...)
		if status != exitBadInput && status != exitUsage || !strings.Contains(out+stderr, refusal) {
			t.Errorf("%s: evald %s: status %d, %s%s; want %q", door, strings.Join(args, " "), status, out, stderr, refusal)
		}
		if strings.Contains(out, `"policy"`) {
			t.Errorf("%s: another network answers: %s", door, out)
		}
	}
	commands(t, func(path []string, node *kong.Node) {
		if slices.Contains(path, "complete") {
			return
		}
		doors := map[string]*kong.Value{}
		for _, f := range slices.Concat(node.AllFlags(true)...) {
			doors["--"+f.Name] = f.Value
		}
		for _, p := range node.Positional {
			doors[p.Name] = p
		}
		for name, v := range doors {
			flag := strings.HasPrefix(name, "--")
			isModel := strings.Contains(name, "NAME|PATH") || v.Flag != nil && v.Flag.PlaceHolder == "NAME|PATH" || name == "--model"
			isAgent := strings.TrimPrefix(name, "--") == "agent"
			door := strings.Join(path, " ") + " " + name
			if !isModel && !isAgent || elsewhere[door] != "" {
				continue
			}
			for _, network := range networks {
				all := []string{network}
				switch {
				case isAgent && path[0] == "grow-book": // other agents have no tree
					all = []string{"mcts:visits=50,model=" + network, "gumbel:visits=50,model=" + network}
				case isAgent:
					all = agentsWith(network)
				}
				for _, value := range all {
					switch {
					case flag:
						try(path, node, door, name+"="+value)
					case v.IsCumulative():
						try(path, node, door, value, "random")
					case !strings.Contains(value, "time="): // prove refuses agents with a time before that
						try(path, node, door, value)
					}
				}
			}
		}
	})
	if tried < 20*len(networks) {
		t.Errorf("%d commands were tried", tried)
	}

	// Of networks that ship the same holds by their names. Those that evald itself has chosen leave
	// such boards to others, and say so.
	refuses(t, exitBadInput, refusal, "", "match", "policy:model=default-fast", "random", "--rules", unknown)
	level := play.Levels[0]
	must(t, "", "match", "mcts:time=20ms", level.Name, level.Agent.String(), "--rules", unknown, "--games", "2")
	if out := must(t, lines0(unknown), "eval"); !strings.Contains(out, `"model":"any"`) {
		t.Errorf("without a model: %s", out)
	}
}

func lines0(rules string) string { return rules + ":4455\n" }

// agentsWith returns an agent of each kind that takes a model.
func agentsWith(model string) (all []string) {
	for _, name := range agent.Names() {
		text := name + ":model=" + model
		if name == "solver" {
			text += ",time=1s"
		}
		if _, err := agent.Parse(text); err == nil {
			all = append(all, text)
		}
	}
	return all
}

// The service refuses such a request over REST and gRPC, to the model and to the search with it.
// The page reports the same.
func TestUnsupportedRequests(t *testing.T) {
	ownStore(t)
	for _, network := range unknowing(t) {
		name := strings.TrimSuffix(filepath.Base(network), filepath.Ext(network))
		address, _, stop := startServe(t, "--model", network, "--warm-up", "3", "--rules", unknown)
		post := func(path string, body any) (int, string) {
			r := gametest.Must(http.Post("http://"+address["http"]+path, "application/json", bytes.NewReader(gametest.Must(json.Marshal(body))(t))))(t)
			defer r.Body.Close()
			return r.StatusCode, string(gametest.Must(io.ReadAll(r.Body))(t))
		}
		input := func(datatype string, data ...any) any {
			return map[string]any{"inputs": []any{map[string]any{"name": "moves", "datatype": datatype, "shape": []int{len(data)}, "data": data}}}
		}
		for _, model := range []string{name, "search"} {
			for _, moves := range []string{"-", unknown + ":44", unknown + ":1212121"} { // the last game is over
				if status, text := post("/v2/models/"+model+"/infer", input("BYTES", moves)); status != http.StatusBadRequest || !strings.Contains(text, refusal) {
					t.Errorf("%s, %s: %d %s", model, moves, status, text)
				}
			}
			if status, text := post("/v2/models/"+model+"/infer", input("BYTES", "7x6x4:44")); status != http.StatusOK {
				t.Errorf("%s: %d %s", model, status, text)
			}
		}
		if status, out, stderr := evald(t, lines0(unknown), "eval", "--model", "grpc://"+address["grpc"]+"/"+name); status != exitBadInput || !strings.Contains(out, refusal) {
			t.Errorf("over gRPC: %d %s%s", status, out, stderr)
		}
		for path, body := range map[string]string{
			"/ui/analyze": `{"position":"` + unknown + `:44","visits":20}`,
			"/ui/move":    `{"position":"` + unknown + `:44","agent":"policy"}`,
			"/ui/values":  `{"position":"` + unknown + `:44"}`,
		} {
			if status, text := post(path, json.RawMessage(body)); status != http.StatusBadRequest || !strings.Contains(text, refusal) {
				t.Errorf("%s %s: %d %s", path, body, status, text)
			}
		}
		if status, text := post("/ui/move", json.RawMessage(`{"position":"`+unknown+`:44","agent":"`+play.Levels[0].Name+`"}`)); status != http.StatusOK {
			t.Errorf("a level: %d %s", status, text)
		}
		if status := stop(); status != exitOK {
			t.Errorf("the service ended with %d", status)
		}
	}
}
