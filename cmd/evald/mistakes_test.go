package main

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/evald/evald/cmd/evald/kserve"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/game/gametest"
)

// mistake is a position as people new to evald send it, in one or more forms.
type mistake struct {
	name      string
	text      string // moves, or an observation
	bitboards []uint64
	planes    []float32 // two of 6 rows
	accepted  bool      // by any_position
}

// boardMistake is a flat board of 7x6 in all forms.
func boardMistake(name string, mark int, cells []int, accepted bool) mistake {
	b := game.MustBoard(game.Connect4)
	text, _ := json.Marshal(cells)
	m := mistake{name, fmt.Sprintf(`{"board":%s,"mark":%d}`, text, mark), make([]uint64, 2), make([]float32, 2*len(cells)), accepted}
	for i, v := range cells {
		switch cell := uint64(1) << b.FlatIndex(i); v {
		case mark:
			m.bitboards[0] |= cell
			m.bitboards[1] |= cell
			m.planes[i] = 1
		case 3 - mark:
			m.bitboards[1] |= cell
			m.planes[len(cells)+i] = 1
		}
	}
	return m
}

func mistakes(t *testing.T) []mistake {
	b := game.MustBoard(game.Connect4)
	p, _, err := b.ParseMoves("4453523")
	gametest.OK(t, err)
	right := game.State{Board: b, Position: p, Mark: 2}.Kaggle()
	turned, exchanged, numbers, own := slices.Clone(right), slices.Clone(right), make([]float32, 84), make([]float32, 84)
	for i, v := range right {
		turned[len(right)-7-i+2*(i%7)] = v
		exchanged[i] = (3 - v) % 3
		numbers[i] = float32(v)
		own[i], own[42+i] = float32(v/2), float32((v+1)/2)
	}
	few := boardMistake("36 cells of 6x6", 1, make([]int, 36), false)
	few.bitboards = nil // they are of the board's cells
	return []mistake{
		boardMistake("mark swapped; theirs first", 1, right, true),
		boardMistake("1 and 2 swapped", 2, exchanged, true),
		boardMistake("upside down", 2, turned, false),
		boardMistake("all ones", 1, slices.Repeat([]int{1}, 42), true),
		boardMistake("two stones of one player", 1, slices.Concat(make([]int, 40), []int{1, 1}), true),
		boardMistake("one more stone after a line", 1, slices.Concat(make([]int, 28), []int{2, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2}), true),
		few,
		{name: "0, 1 and 2 as a plane", planes: numbers},
		{name: "own and other as bitboards", bitboards: []uint64{p.Own.Lo, p.Other().Lo}},
		{name: "own and all as planes", planes: own},
		{name: "moves after the end", text: "12121213"},
	}
}

// What people new to evald send, on every way in, and the message that they get: testdata/mistakes.txt is the table. With
// --any-position, or any_position, all ways accept the same.
func TestMistakes(t *testing.T) {
	address, _, _ := startServe(t, "--backend", "bitsquares")
	conn := gametest.Must(grpc.NewClient(address["grpc"], grpc.WithTransportCredentials(insecure.NewCredentials())))(t)
	defer conn.Close()
	api := kserve.NewGRPCInferenceServiceClient(conn)
	said := regexp.MustCompile(`"error":("(?:[^"\\]|\\.)*")`)
	find := func(text string) string {
		m := said.FindStringSubmatch(text)
		if m == nil {
			return ""
		}
		return gametest.Must(strconv.Unquote(m[1]))(t)
	}
	// command is the error in the output of a command, or else what it says at last.
	command := func(in string, args ...string) string {
		_, out, stderr := evald(t, in, args...)
		if e := find(out); e != "" {
			return e
		}
		return strings.TrimPrefix(strings.TrimSpace(stderr), "evald: ")
	}
	// service asks over gRPC and REST.
	service := func(input, datatype string, data any, c *kserve.InferTensorContents, accept bool, shape ...int64) string {
		_, err := api.ModelInfer(t.Context(), &kserve.ModelInferRequest{
			ModelName:  "bitsquares",
			Inputs:     []*kserve.ModelInferRequest_InferInputTensor{{Name: input, Datatype: datatype, Shape: shape, Contents: c}},
			Parameters: map[string]*kserve.InferParameter{"any_position": {ParameterChoice: &kserve.InferParameter_BoolParam{BoolParam: accept}}},
		})
		tensor := map[string]any{"name": input, "datatype": datatype, "shape": shape, "data": data}
		body, _ := json.Marshal(map[string]any{"inputs": []any{tensor}, "parameters": map[string]any{"any_position": accept}})
		_, answer := posted(t, "http://"+address["http"]+"/v2/models/bitsquares/infer", string(body))
		if got, want := find(answer), status.Convert(err).Message(); got != want {
			t.Errorf("%s: %q over REST, %q over gRPC", input, got, want)
		}
		return find(answer)
	}
	dir := t.TempDir()
	flag := map[bool]string{false: "--threads=2", true: "--any-position"}
	ways := []struct {
		name    string
		send    func(m mistake, accept bool) string
		has     func(m mistake) bool
		accepts bool // has the flag or the parameter, and answers at once
	}{
		{"eval", func(m mistake, accept bool) string {
			return command(m.text, "eval", "--backend", "bitsquares", flag[accept])
		}, hasText, true},
		{"search", func(m mistake, accept bool) string {
			return command(m.text, "search", "--backend", "bitsquares", "--visits", "4", flag[accept])
		}, hasText, true},
		{"analyze", func(m mistake, accept bool) string {
			query := `{"id":"a","moves":"` + m.text + `","visits":4}`
			if strings.HasPrefix(m.text, "{") {
				query = `{"id":"a","visits":4,` + m.text[1:]
			}
			return command(query, "analyze", "--backend", "bitsquares", flag[accept])
		}, hasText, true},
		{"solve", func(m mistake, _ bool) string { return command(m.text, "solve") }, hasText, false},
		{"score", func(m mistake, _ bool) string {
			line, _ := json.Marshal(map[string]any{"position": m.text, "scores": make([]int, 7)})
			return command(string(line), "score", "-", "--backend", "bitsquares")
		}, hasText, false},
		{"kaggle act", func(m mistake, _ bool) string {
			return command(`{"observation":`+m.text+`}`, "kaggle", "act", "--agent", "policy:model=bitsquares")
		}, isBoard, false},
		{"play", func(m mistake, _ bool) string { return command("", "play", "--position", m.text) }, hasText, false},
		{"match", func(m mistake, _ bool) string {
			putFile(t, dir+"/openings.txt", m.text+"\n")
			return command("", "match", "random", "random", "--openings", dir+"/openings.txt")
		}, hasText, false},
		{"page", func(m mistake, _ bool) string {
			body, _ := json.Marshal(map[string]string{"position": m.text})
			_, answer := posted(t, "http://"+address["http"]+"/ui/values", string(body))
			return find(answer)
		}, hasText, false},
		{"service, moves", func(m mistake, accept bool) string {
			return service("moves", "BYTES", []string{m.text}, &kserve.InferTensorContents{BytesContents: [][]byte{[]byte(m.text)}}, accept, 1)
		}, hasText, true},
		{"service, bitboards", func(m mistake, accept bool) string {
			return service("bitboards", "UINT64", m.bitboards, &kserve.InferTensorContents{Uint64Contents: m.bitboards}, accept, 1, 2)
		}, func(m mistake) bool { return m.bitboards != nil }, true},
		{"service, planes", func(m mistake, accept bool) string {
			return service("planes", "FP32", m.planes, &kserve.InferTensorContents{Fp32Contents: m.planes}, accept, 1, 2, 6, int64(len(m.planes)/12))
		}, func(m mistake) bool { return m.planes != nil }, true},
	}
	place := regexp.MustCompile(`^(--openings \S+: |-: )?line 1: |^--position: `)
	var table strings.Builder
	for _, m := range mistakes(t) {
		fmt.Fprintf(&table, "%s\n", m.name)
		var messages []string
		by := map[string][]string{}
		for _, w := range ways {
			if !w.has(m) {
				continue
			}
			says := place.ReplaceAllString(w.send(m, false), "")
			if by[says] == nil {
				messages = append(messages, says)
			}
			by[says] = append(by[says], w.name)
			if !w.accepts {
				continue
			}
			if says := w.send(m, true); (says == "") != m.accepted {
				t.Errorf("%s, any position by %s: %q", m.name, w.name, says)
			}
		}
		for _, says := range messages {
			fmt.Fprintf(&table, "  %s\n    %s\n", strings.Join(by[says], ", "), says)
		}
	}
	golden(t, "mistakes.txt", table.String())
}

// One of the seeds' boards has numbers of stones that no game reaches. With --any-position all have the exact scores that are known.
func TestPuzzlesAnyPosition(t *testing.T) {
	var puzzles []struct {
		Mark      int
		Board     []int
		Reachable bool   `json:"reachable_parity"`
		Scores    []*int `json:"solver_scores"`
	}
	gametest.OK(t, json.Unmarshal(getFile(t, gametest.Data(t, "seeds/puzzles.json")), &puzzles))
	for i, p := range puzzles {
		line := boardMistake("", p.Mark, p.Board, true).text
		if code, out, _ := evald(t, line, "eval", "--backend", "bitsquares"); (code == exitOK) != p.Reachable {
			t.Errorf("puzzle %d: %s", i, out)
		}
		var solved struct{ Scores []*int }
		out := must(t, line, "solve", "--scores", "--any-position")
		gametest.OK(t, json.Unmarshal([]byte(out), &solved))
		if diff := cmp.Diff(p.Scores, solved.Scores); diff != "" {
			t.Errorf("puzzle %d: %s", i, diff)
		}
		must(t, out, "score", "-", "--backend", "bitsquares", "--any-position")
	}
}

func hasText(m mistake) bool { return m.text != "" }
func isBoard(m mistake) bool { return strings.HasPrefix(m.text, "{") }
