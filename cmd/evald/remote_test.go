package main

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/evald/evald/cmd/evald/internal/remote"
	"github.com/evald/evald/engine/game/gametest"
	"github.com/evald/evald/engine/record"
)

// All commands that evaluate get from servers, bit for bit, what they get from the same network on this machine.
func TestRemote(t *testing.T) {
	dir := t.TempDir()
	tokens := filepath.Join(dir, "tokens")
	putFile(t, tokens, "inference s3cret\n")
	const here = "seeded-2x16"
	a, _, _ := startServe(t, "--model", here, "--backend", "cpu", "--tokens", tokens)
	b, _, _ := startServe(t, "--model", here, "--backend", "cpu", "--tokens", tokens)
	hosts := a["grpc"] + "+" + b["grpc"]
	there := "grpc://" + hosts + "/" + here
	t.Setenv(remote.Token, "s3cret")
	must(t, "", "positions", "-o", dir, "--rules", "7x6x4", "--count", "6", "--kinds", "random")
	lines := strings.Join(someLines(gametest.Rand(7), 60), "\n") + "\n112233\n11223344\n1122334\n9x5x4:\n"
	queries := ""
	for i, line := range strings.Fields(lines) {
		queries += fmt.Sprintf("{\"id\":\"%d\",\"moves\":%q}\n", i, line)
	}
	times := regexp.MustCompile(`.*"(seconds|longest)":.*|in \d[^ ]*s\n`)
	for name, c := range map[string]struct{ in, args string }{
		"eval":     {lines, "eval --model MODEL"},
		"exact":    {lines, "eval --model MODEL --exact"},
		"any":      {`{"board":[0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,1,1,0,0,0],"mark":1}`, "search --model MODEL --visits 50 --any-position"},
		"search":   {lines, "search --model MODEL --visits 50"},
		"analyze":  {queries, "analyze --model MODEL --visits 50 --at-once 1"}, // in the order of the queries
		"score":    {"", "score " + dir + "/random.txt --model MODEL --visits 0,20"},
		"match":    {"", "match mcts:model=MODEL,visits=8 policy:model=MODEL random --games 4 --json"},
		"play":     {"eval\n4\n3\nhint\n", "play --agent mcts:model=MODEL,visits=50 --evaluate MODEL --rules 4x4x3"},
		"selfplay": {"", "selfplay --model MODEL --at-once 4 --games 4 --visits 16 --fast-visits 8 -o " + dir},
	} {
		t.Run(name, func(t *testing.T) {
			var got [2]string
			for i, model := range []string{here, there} {
				args := strings.Fields(strings.ReplaceAll(c.args, "MODEL", model))
				if name == "selfplay" {
					args[len(args)-1] += fmt.Sprint("/run", i)
				}
				status, out, stderr := evald(t, c.in, args...)
				if status != exitOK && name != "eval" && name != "exact" && name != "search" && name != "analyze" { // there 1122334 is refused
					t.Fatalf("%v: status %d, errors %q", args, status, stderr)
				}
				if name == "selfplay" {
					out += recordsIn(t, args[len(args)-1])
				}
				out = strings.ReplaceAll(strings.ReplaceAll(out, there, here), here+" at "+hosts, here)
				got[i] = strings.Join(strings.Fields(times.ReplaceAllString(out, "")), " ")
			}
			if got[0] != got[1] || got[0] == "" {
				t.Errorf("here\n%s\nthere\n%s", got[0], got[1])
			}
		})
	}
	if out := must(t, "", "bench", "eval", "--model", there, "--round", "1ms", "--json"); !strings.Contains(out, `"name": "model `+here+" at "+hosts+`, 8 callers"`) {
		t.Errorf("bench eval: %s", out)
	}
	t.Setenv(remote.Token, "")
	for want, args := range map[string][]string{
		"must be grpc://HOST:PORT/MODEL":     {"eval", "--model", "grpc://x:1"},
		"do nothing with a model of another": {"eval", "--model", "grpc://x:1/y", "--backend", "cpu"},
		"Unauthenticated":                    {"eval", "--model", "grpc://" + a["grpc"] + "/" + here},
		"authentication handshake failed":    {"eval", "--model", "grpcs://" + a["grpc"] + "/" + here},
	} {
		if status, out, stderr := evald(t, "445\n", args...); status == exitOK || !strings.Contains(out+stderr, want) {
			t.Errorf("%v: status %d, output %q, errors %q, want %q", args, status, out, stderr, want)
		}
	}
}

// recordsIn is all records of a run as text, in their order.
func recordsIn(t *testing.T, dir string) (text string) {
	t.Helper()
	files := gametest.Must(filepath.Glob(dir + "/*.parquet"))(t)
	records, err := record.Open(files...)
	gametest.OK(t, err)
	defer records.Close()
	for {
		var r record.Record
		err := records.Next(&r)
		if errors.Is(err, io.EOF) {
			return text
		}
		gametest.OK(t, err)
		text += fmt.Sprintf("%+v\n", r)
	}
}
