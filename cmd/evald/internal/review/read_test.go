package review

import (
	"encoding/json"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/game/gametest"
)

// read returns the rules and moves of a text, as text.
func read(text string) (string, error) {
	b, moves, err := Read(text)
	if err != nil {
		return "", err
	}
	return b.Rules().String() + ":" + game.FormatMoves(b.Rules(), moves), nil
}

func TestRead(t *testing.T) {
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
		strings.Repeat("1", 1<<20): "is longer than",
		`{"name":"connectx"}`:      "must be 1 to 44",
		`{"name":"chess"}`:         "is not that of a replay",
		`{"name":"connectx","x":}`: "json",
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

// Replays that kaggle-environments 1.33.2 has written; in the last one an agent makes no legal move, which ends the game.
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

// Whatever the text, Read returns legal moves or an error of its own; what it reads it reads again.
func FuzzRead(f *testing.F) {
	for _, text := range []string{"4455", "3x3x3free:51", "http://x/#review=9x5x4:44&red=a", `{"name":"connectx","steps":[[{},{}],[{"action":3},{}]]}`} {
		f.Add(text)
	}
	f.Add(string(gametest.Must(os.ReadFile("testdata/replay-invalid.json"))(f)))
	f.Fuzz(func(t *testing.T, text string) {
		b, moves, err := Read(text)
		if err != nil {
			if _, ok := errors.AsType[*game.ParseError](err); !ok {
				t.Fatalf("%q: %v is no error of a text", text, err)
			}
			return
		}
		again := b.Rules().String() + ":" + game.FormatMoves(b.Rules(), moves)
		b2, moves2, err := Read(again)
		if err != nil || b2.Rules() != b.Rules() || !slices.Equal(moves, moves2) {
			t.Fatalf("%q is %s, which is not read again: %v", text, again, err)
		}
	})
}
