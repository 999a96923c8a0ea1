package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/evald/evald/cmd/evald/internal/library"
	"github.com/evald/evald/cmd/evald/internal/play"
	"github.com/evald/evald/cmd/evald/internal/remote"
	"github.com/evald/evald/cmd/evald/internal/standalone"
	"github.com/evald/evald/engine/agent"
	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/game/gametest"
	"github.com/evald/evald/nn/open"
)

// Each form of a name is understood at every door, with the same bits in the answers: by commands, agents, Python's library, and the
// service over gRPC and REST.
func TestNamesAtEveryDoor(t *testing.T) {
	board, path := game.MustBoard(game.Connect4), filepath.Join(t.TempDir(), "mine.safetensors")
	putFile(t, path, getFile(t, shippedModel))
	there, _, _ := startServe(t, "--model", "seeded-2x16", "--backend", "cpu")
	pos := gametest.Open(gametest.Rand(11), board, 20)
	lines := ""
	for _, p := range pos {
		lines += board.Text(p) + "\n"
	}
	evaluate := func(t *testing.T, e *eval.Evaluator) *eval.Batch {
		t.Helper()
		b := eval.NewBatch(board, len(pos))
		copy(b.Pos, pos)
		gametest.OK(t, e.Evaluate(t.Context(), b))
		return b
	}
	for name, served := range map[string]string{
		"default": "default", "seeded-2x16@1": "seeded-2x16", path: "mine", "exact": "exact",
		"bitsquares": "bitsquares", "bitsquares:power=2.5:width=6": "bitsquares-power-2.5-width-6", "oddeven:width=2": "oddeven-width-2", "rollout:games=3": "rollout-games-3",
		"grpc://" + there["grpc"] + "/seeded-2x16": "",
	} {
		t.Run(strings.ReplaceAll(name, "/", "_"), func(t *testing.T) {
			e := gametest.Must(backend{Backend: open.Auto, Model: name}.choose(io.Discard))(t)
			defer e.Close()
			want := evaluate(t, e.Evaluator)
			same := func(door string, wdl, policy []float32) {
				t.Helper()
				if !slices.Equal(wdl, want.WDL) || !slices.Equal(policy, want.Policy) {
					t.Errorf("%s: %v %v, want %v %v", door, wdl[:3], policy[:7], want.WDLRow(0), want.PolicyRow(0))
				}
			}
			var wdl, policy []float32
			for line := range strings.Lines(must(t, lines, "eval", "--model", name)) {
				var a struct{ WDL, Policy []float32 }
				gametest.OK(t, json.Unmarshal([]byte(line), &a))
				wdl, policy = append(wdl, a.WDL...), append(policy, a.Policy...)
			}
			same("evald eval", wdl, policy)

			spec := gametest.Must(agent.Parse("policy:model=" + name))(t)
			if spec.Model != name {
				t.Errorf("agent %s has the model %s", spec, spec.Model)
			}
			b := evaluate(t, gametest.Must(shareAgents(processors{}, io.Discard).Models(name))(t))
			same("agents", b.WDL, b.Policy)

			options := gametest.Must(json.Marshal(library.Options{Model: name}))(t)
			l := gametest.Must(library.Open(string(options)))(t)
			who := make([]uint8, len(pos))
			b = eval.NewBatch(board, len(pos))
			gametest.OK(t, l.Evaluate(t.Context(), board, pos, false, b.WDL, b.Policy, who))
			gametest.OK(t, l.Close())
			same("Python's library", b.WDL, b.Policy)

			if served == "" {
				return // a service of a service
			}
			at, _, _ := startServe(t, "--model", name)
			c := gametest.Must(remote.Open(gametest.Must(open.ParseName("grpc://" + at["grpc"] + "/" + served))(t)))(t)
			defer c.Close()
			if b := evaluate(t, eval.New(c, eval.Options{})); name != "exact" { // whose exact step is the service's, and not asked for here
				same("gRPC", b.WDL, b.Policy)
			}
			var moves []string
			for _, p := range pos {
				moves = append(moves, fmt.Sprintf("[%d,%d]", p.Own.Lo, p.All.Lo))
			}
			body := fmt.Sprintf(`{"inputs":[{"name":"bitboards","datatype":"UINT64","shape":[%d,2],"data":[%s]}],"outputs":[{"name":"wdl"},{"name":"policy"}]}`, len(pos), strings.Join(moves, ","))
			response := gametest.Must(http.Post("http://"+at["http"]+"/v2/models/"+served+"/infer", "application/json", strings.NewReader(body)))(t)
			var answer struct{ Outputs []struct{ Data []float32 } }
			text := gametest.Must(io.ReadAll(response.Body))(t)
			gametest.OK(t, response.Body.Close())
			if err := json.Unmarshal(text, &answer); err != nil || len(answer.Outputs) != 2 {
				t.Fatalf("REST: %v, %s", err, text)
			}
			same("REST", answer.Outputs[0].Data, answer.Outputs[1].Data)
		})
	}
	for _, args := range []string{"eval --model nosuch", "search --model nosuch", "serve --model nosuch", "match random mcts:model=nosuch"} {
		refuses(t, exitBadInput, "nor a heuristic (bitsquares, gameovers, oddeven, rollout, uniform)", "", strings.Fields(args)...)
	}
	refuses(t, exitBadInput, `power is "9", want a number from 0 to 8`, "", "eval", "--model", "bitsquares:power=9")
}

// --model and --backend mean the same where both can name a heuristic.
func TestHeuristicAsModel(t *testing.T) {
	dir := t.TempDir()
	must(t, "", "positions", "-o", dir, "--rules", "7x6x4", "--count", "6", "--kinds", "random")
	times := regexp.MustCompile(`.*"(seconds|longest)":.*|in \d[^ ]*s\n`)
	for _, c := range []struct{ in, args string }{
		{"4455\n9x5x4:44\n", "eval"},
		{"4455\n", "search --visits 60"},
		{`{"id":"1","moves":"4455"}`, "analyze --visits 60"},
		{"", "score " + dir + "/random.txt --visits 0,20"},
		{"", "selfplay --at-once 4 --games 4 --visits 16 --fast-visits 8 -o " + dir + "/run"},
	} {
		var got [2]string
		for i, flag := range []string{"--backend", "--model"} {
			args := append(strings.Fields(c.args), flag, "bitsquares")
			if args[0] == "selfplay" {
				args[len(args)-3] += flag
			}
			got[i] = times.ReplaceAllString(must(t, c.in, args...), "")
			if args[0] == "selfplay" {
				got[i] = recordsIn(t, args[len(args)-3])
			}
		}
		if got[0] != got[1] || got[0] == "" {
			t.Errorf("%s: --backend %s\n--model %s", c.args, got[0], got[1])
		}
	}
}

// The fast network has the same name in packages that an engine for browsers needs, which cannot
// import package open.
func TestFastModel(t *testing.T) {
	perfect := gametest.Must(play.ParseAgent("perfect"))(t)
	if perfect.Model != open.FastModel || standalone.Whole != open.FastModel {
		t.Errorf("levels have %q, the engine for browsers %q, want %q", perfect.Model, standalone.Whole, open.FastModel)
	}
}
