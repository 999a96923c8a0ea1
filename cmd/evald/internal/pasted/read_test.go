package pasted

import (
	"encoding/json"
	"errors"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/game/gametest"
)

// read returns the rules and moves of a text, as text, with a star if their order is not the
// text's.
func read(text string) (string, error) {
	g, err := Read(text)
	if err != nil {
		return "", err
	}
	star := "*"
	if g.Ordered {
		star = ""
	}
	return g.Board.Rules().String() + ":" + game.FormatMoves(g.Board.Rules(), g.Moves) + star, nil
}

// cells is a board of 7x6 with the stones of 4455 in its lowest rows, and commas or other
// characters between the cells.
func cells(between string) string {
	all := slices.Repeat([]string{"0"}, 42)
	all[38], all[31], all[39], all[32] = "1", "2", "1", "2"
	return strings.Join(all, between)
}

func TestRead(t *testing.T) {
	rows := regexp.MustCompile(`((\d, ){6}\d)(, )?`).ReplaceAllString(cells(", "), "[$1], ")
	for text, want := range map[string]string{
		"4455":                               "7x6x4:4455",
		" 7x6x4:4455\n":                      "7x6x4:4455",
		"-":                                  "7x6x4:-",
		"3x3x3free:51":                       "3x3x3free:51",
		"http://x.example/#7x6x4:44&red=a":   "7x6x4:44",
		"https://x.example/#review=9x5x4:44": "9x5x4:44",
		"#review=9x5x4%3A44":                 "9x5x4:44",
		"review=9x5x4:44":                    "9x5x4:44",
		"# A game.\n# first: me\n9x5x4:44\n": "9x5x4:44",
		"x.example:80/?language=de#explore=9x5x4:44": "9x5x4:44",
		"#tree=44": "7x6x4:44",
		"/ui/position.svg?position=9x5x4%3A44&numbers=1": "9x5x4:44",
		"http://x/ui/game.txt?position=44":               "7x6x4:44",
		"4,4,5,5":                                        "7x6x4:4455",
		"4, 4, 5 ,5":                                     "7x6x4:4455",
		"[4, 4, 5, 5]":                                   "7x6x4:4455",
		"12x9x4:12,c,1":                                  "12x9x4:cc1",
		"http://x/#9x5x4:4,4&red=a":                      "9x5x4:44",
		"64x1x4:12.33":                                   "64x1x4:12.33",
		`{"board":[` + cells(",") + `],"mark":1}`:        "7x6x4:5544*",
		`{"board":[` + cells(",") + `]}`:                 "7x6x4:5544*",
		"{'remainingOverageTime': 60, 'step': 4, 'board': [" + cells(", ") + "], 'mark': 1}":                               "7x6x4:5544*",
		`{"line":1,"position":"44554","to_move":2}`:                                                                        "7x6x4:44554",
		`{"position":"{\"board\":[0,0,0,0,0,0,1,2,0],\"mark\":1,\"rows\":3,\"columns\":3,\"inarow\":3,\"gravity\":true}"}`: "3x3x3:12*",
		`{"observation":{"board":[0,0,0,0,1,0],"mark":2},"configuration":{"rows":2,"columns":3,"inarow":2,"timeout":2}}`:   "3x2x2:2*",
		`[{"action":0,"observation":{"board":[` + cells(",") + `],"mark":1}},{"action":0}]`:                                "7x6x4:5544*",
		`{"board":[1,0,0,0,2,0,0,0,1],"mark":2,"rows":3,"columns":3,"inarow":3,"gravity":false}`:                           "3x3x3free:951*",
		cells(","):                                  "7x6x4:5544*",
		"[" + cells(", ") + "]":                     "7x6x4:5544*",
		"[" + cells(" ") + "]":                      "7x6x4:5544*",
		"[" + rows + "]":                            "7x6x4:5544*",
		"array([" + rows + "])":                     "7x6x4:5544*",
		"#explore=[" + cells(",") + "]":             "7x6x4:5544*",
		"3x3x3free:[0,0,0,0,1,0,0,0,0]":             "3x3x3free:5*",
		"[[0,0,0,0],[0,0,0,0],[0,0,0,0],[0,1,2,0]]": "4x4x4:23*",
		"[" + strings.Repeat("0,", 41) + "0]":       "7x6x4:-*",
	} {
		if got, err := read(text); err != nil || got != want {
			t.Errorf("%q is %q, %v; want %q", text, got, err, want)
		}
	}
	for text, want := range map[string]string{
		"":                         "is empty",
		"448":                      "move 3 is",
		"# first: me\n":            "no line has a game",
		"# first: me\n44\n55":      "one game",
		"7x6:4":                    "want columns x rows",
		"99x99x4:1":                "at most 128",
		"1212121 4":                "move 8",
		"http://x.example/":        "want columns x rows",
		"http://x.example/#":       "names no position",
		"http://x.example/#drill":  "names no position",
		"#review=":                 "names no position",
		"4,8":                      "move 2 is",
		"4,":                       "move 1 is",
		"[]":                       "is empty",
		"[4, 9]":                   "move 2 is",
		"[0, 1]":                   `board "2 cells": 7x6x4 has 42`,
		"9x5x4:" + cells(","):      `board "42 cells": 9x5x4 has 45`,
		"[[0,0],[0,0]]":            "nobody can win",
		strings.Repeat("1", 1<<20): "is longer than",
		`{"name":"connectx"}`:      "must be 1 to 44",
		`{"name":"chess"}`:         "is not that of a replay",
		`{"name":"connectx","x":}`: "json",
		`{"mark":1}`:               "has no board",
		`{"board":7,"mark":1}`:     "must be a list",
		`{"board":[0,0],"mark":1}`: `7x6x4 has 42`,
		`{"board":[0],"mark":"1"}`: `mark "string": must be a whole number`,
		`{"board":[` + cells(",") + `],"mark":2}`: `mark "2": 2 stones of player 1, 2 stones of player 2, and player 2 is to move: no game reaches this`,
		`[{}]`:           "has no board",
		`[{"board":[1]}`: "json",
		`{"position":4}`: "must be a text",
		`{"name":"connectx","steps":[[{},{}],[{"action":9},{}]]}`:                                         `steps[1].action "9"`,
		`{"name":"connectx","steps":[[{},{}],[{"action":1.5},{}]]}`:                                       `steps[1].action "1.5"`,
		`{"name":"connectx","steps":[[{},{}],[{"action":null},{}]]}`:                                      `steps[1].action "null"`,
		`{"name":"connectx","steps":[[{},{}],[{"action":1e300},{}]]}`:                                     `steps[1].action "1e+300"`,
		`{"name":"connectx","steps":[[{},{}],[{}]]}`:                                                      "must have 2",
		`{"name":"connectx","steps":[[{},{}],7]}`:                                                         "no list",
		`{"name":"connectx","steps":[[{"observation":{"board":[1]}},{}]]}`:                                "steps[0].observation.board",
		`{"name":"connectx","configuration":{"rows":99,"columns":99},"steps":[[{},{}]]}`:                  "at most 128",
		`{"name":"connectx","steps":[` + strings.Repeat("[],", 1000) + `[]]}`:                             "must be 1 to 44",
		`{"name":"connectx","steps":[[{},{}],[{"status":"ERROR"},{}],[{"status":"ERROR"},{"action":1}]]}`: "steps[1].action",
	} {
		_, err := read(text)
		if _, ok := errors.AsType[*game.ParseError](err); !ok || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60q: %v, want %q", text, err, want)
		}
	}
}

// Replays that kaggle-environments 1.33.2 has written; in the last one an agent makes no legal
// move, which ends the game.
func TestReplay(t *testing.T) {
	for name, want := range map[string]string{
		"7x6x4":   "7x6x4:7371311325657771745663464",
		"6x5x4":   "6x5x4:451316363656",
		"invalid": "7x6x4:2",
	} {
		text := gametest.Must(os.ReadFile("testdata/replay-" + name + ".json"))(t)
		got, err := read(string(text))
		if err != nil || got != want {
			t.Errorf("%s is %q, %v; want %q", name, got, err, want)
		}
		// A move that does not lead to the next board is noticed.
		var r map[string]any
		gametest.OK(t, json.Unmarshal(text, &r))
		step := r["steps"].([]any)[1].([]any)[0].(map[string]any)
		step["action"] = float64((int(step["action"].(float64)) + 1) % 6)
		changed := gametest.Must(json.Marshal(r))(t)
		if _, err := read(string(changed)); err == nil || !strings.Contains(err.Error(), "is not the board") {
			t.Errorf("%s with another move: %v", name, err)
		}
	}
}

// Every board that a game reaches has an order of moves, which is found without many attempts, and
// one that no game reaches has none.
func TestOrder(t *testing.T) {
	r := gametest.Rand(3)
	for _, b := range gametest.Boards() {
		for range 20 {
			for p := (game.Position{}); ; {
				s := game.State{Board: b, Position: p, Mark: p.Mover()}
				moves, err := order(s)
				if err != nil || b.PlayMoves(moves) != p {
					t.Fatalf("%v: %s is reached by %v, %v", b.Rules(), s.Observation(), moves, err)
				}
				if _, _, err := b.ParseMoves(game.FormatMoves(b.Rules(), moves)); err != nil {
					t.Fatalf("%v: %v", s.Observation(), err)
				}
				if b.Result(p) != game.Ongoing {
					break
				}
				p = b.Play(p, b.Action(b.Legal(p).Nth(r.IntN(b.Legal(p).OnesCount())).First()))
			}
		}
	}
	for _, text := range []string{
		"3x3x3:[0,0,0,1,0,0,2,0,0]", // the second player's stone is below the first one's
		"3x3x3free:[1,1,1,2,2,0,1,1,2]",
		"4x4x3free:[2,2,2,1,1,1,1,0,0,0,0,0,0,0,0,0]", // the second player's line was there before the last move
		"7x6x4:[" + strings.Repeat("1,1,1,1,1,1,1,2,2,2,2,2,2,2,", 3) + "]",
	} {
		if got, err := read(text); err == nil {
			t.Errorf("%s is reached by %s", text, got)
		}
	}
}

// Whatever the text, Read returns legal moves or an error of its own; what it reads it reads again.
func FuzzRead(f *testing.F) {
	for _, text := range []string{"4455", "4, 4,5", "[[0,0],[1,2]]", "3x3x3free:51", "{'board':[0,1],'rows':1,'columns':2,'inarow':2}", `{"position":"44"}`, "http://x/#review=9x5x4:44&red=a", `{"name":"connectx","steps":[[{},{}],[{"action":3},{}]]}`} {
		f.Add(text)
	}
	f.Add(string(gametest.Must(os.ReadFile("testdata/replay-invalid.json"))(f)))
	f.Fuzz(func(t *testing.T, text string) {
		g, err := Read(text)
		if err != nil {
			if _, ok := errors.AsType[*game.ParseError](err); !ok {
				t.Fatalf("%q: %v is no error of a text", text, err)
			}
			if g.Board == nil {
				return
			}
		}
		again := g.Board.Rules().String() + ":" + game.FormatMoves(g.Board.Rules(), g.Moves)
		g2, err := Read(again)
		if err != nil || g2.Board.Rules() != g.Board.Rules() || !slices.Equal(g.Moves, g2.Moves) {
			t.Fatalf("%q is %s, which is not read again: %v", text, again, err)
		}
	})
}
