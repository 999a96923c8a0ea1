package durable_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/evald/evald/engine/durable"
	"github.com/evald/evald/engine/game/gametest"
)

type game struct {
	Number int       `json:"game"`
	Points float64   `json:"points"`
	Moves  string    `json:"moves"`
	Values []float64 `json:"values"`
	Old    int       `json:"old,omitempty"`
}

var one = game{Number: 7, Points: 0.5, Moves: `44"crc32":"00000000"}`, Values: []float64{0.1, -2e300}}

// The example of the package documentation.
func TestFormat(t *testing.T) {
	text, err := durable.Marshal(struct {
		Game   int     `json:"game"`
		Points float64 `json:"points"`
	}{7, 0.5})
	if want := `{"game":7,"points":0.5,"crc32":"5a698146"}`; err != nil || string(text) != want {
		t.Errorf("%s, %v; want %s", text, err, want)
	}
}

// If any byte is changed to any other, the text is read as it was written, or there is an error.
func TestDamaged(t *testing.T) {
	for name, marshal := range map[string]func(any) ([]byte, error){"line": durable.Marshal, "file": durable.MarshalIndent} {
		text := gametest.Must(marshal(one))(t)
		var plain map[string]any // as others read it
		if err := json.Unmarshal(text, &plain); err != nil || len(plain) != 5 {
			t.Fatalf("%s: %v, %v", text, plain, err)
		}
		refused, sum := 0, len(text)-len(`"crc32": "12345678"}`) // the checksum begins here at the latest
		if name == "file" {
			sum -= len("\n\n")
		}
		for at := range text {
			for by := 1; by < 256; by++ {
				damaged := slices.Clone(text)
				damaged[at] ^= byte(by)
				var got game
				err := durable.Unmarshal(damaged, &got)
				if err != nil {
					refused++
				} else if at > sum+2 && text[at] != '\n' && text[at] != ' ' {
					t.Fatalf("%s with %#x in place of %#x at %d, in the checksum, is read", name, damaged[at], text[at], at)
				} else if diff := cmp.Diff(one, got); diff != "" {
					t.Fatalf("%s with %#x in place of %#x at %d is read as another:\n%s", name, damaged[at], text[at], at, diff)
				}
			}
		}
		var got game
		if err := durable.Unmarshal(text, &got); err != nil || refused < 200*len(text) {
			t.Errorf("%s: %v, %d refused", name, err, refused)
		}
	}
}

// What another program wrote, without a checksum, is read.
func TestWithout(t *testing.T) {
	var got game
	if err := durable.Unmarshal([]byte(`{"game": 7}`), &got); err != nil || got.Number != 7 {
		t.Errorf("%v, %v", got, err)
	}
	for text, want := range map[string]string{`{"game": 7} {}`: "after top-level value", `{"game": 7`: "unexpected end"} {
		if err := durable.Unmarshal([]byte(text), &got); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

// The number of a wrong line counts those before the text.
func TestLines(t *testing.T) {
	if _, err := durable.Lines[game]([]byte("{}\n\n"), 3); err == nil || !strings.HasPrefix(err.Error(), "line 5: ") {
		t.Errorf("an empty line: %v", err)
	}
}
