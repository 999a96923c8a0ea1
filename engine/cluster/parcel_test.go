package cluster_test

import (
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/evald/evald/engine/cluster"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/game/gametest"
	"github.com/evald/evald/engine/selfplay"
)

// A message is read if a worker could send it. One whose games would take much memory is refused before they are read, and one that
// two readers may understand differently is refused too.
func TestParcel(t *testing.T) {
	games := encode(t, played(t, small(0), 3)...)
	ply := `{"Visits":[` + strings.Repeat("0,", 200_000) + `0]},`
	for _, test := range []struct {
		name, text, refused string
		games               int
	}{
		{"games", string(gametest.Must(cluster.Parcel("v", "R", "x", 0, games...))(t)), "", 3},
		{"nothing", `{}`, "", 0},
		{"null", `{"games":null}`, "", 0},
		{"text with brackets", `{"worker":"[[[,,,\"[\\","games":[]}`, "", 0},
		{"256 games", `{"games":[` + strings.Repeat("{},", 255) + `{}]}`, "", 256},
		{"257 games", `{"games":[` + strings.Repeat("{},", 256) + `{}]}`, "the message has 257 games, want 256 at most", 0},
		{"many nulls", `{"games":[` + strings.Repeat("null,", 70_000) + `{}]}`, "the message has 70001 games, want 256 at most", 0},
		{"games under another name", `{"x":[` + strings.Repeat("{},", 300) + `{}]}`, "the message has 301 games, want 256 at most", 0},
		{"many positions", `{"games":[{"Plies":[` + strings.Repeat("{},", 100_000) + `{}]}]}`, "the message has 100001 positions in 300026 bytes, want 64 bytes each", 0},
		{"in many games", `{"games":[` + strings.Repeat(`{"Plies":[`+strings.Repeat("{},", 200)+`{}]},`, 200) + `{}]}`, "the message has 40200 positions in ", 0},
		{"many bytes", `{"games":[{"Plies":[` + ply + ply + `{}]}]}`, "bytes, want 786432 at most", 0},
		{"nested", `{"games":[{"x":` + strings.Repeat(`{"x":[`, 4) + strings.Repeat(`]}`, 4) + `}]}`, "nested 11 times, want 8 at most", 0},
		{"a key in two cases", `{"games":[{"Number":1,"number":2}]}`, `key "number" is there twice, once as "Number"`, 0},
		{"a key twice", `{"games":[],"games":[]}`, `key "games" is there twice`, 0},
		{"no object", `[{"games":[]}]`, "must be an object", 0},
		{"half", `{"games":[{"Number":`, "unexpected end", 0},
		{"no UTF-8", "{\"worker\":\"\xff\"}", "is no UTF-8", 0},
	} {
		n, refused := cluster.ReadParcel([]byte(test.text))
		if !strings.Contains(refused, test.refused) || (refused == "") != (test.refused == "") || len(refused) > 400 || test.refused == "" && n != test.games {
			t.Errorf("%s: %d games, refused %q; want %d, %q", test.name, n, refused, test.games, test.refused)
		}
	}
}

// The largest game fits in a message beside the games before it.
func TestLargestGame(t *testing.T) {
	all := game.Bits{Lo: math.MaxUint64, Hi: math.MaxUint64}
	ply := selfplay.Ply{Position: game.Position{Own: all, All: all}, Q: -1.2345678e-10, Source: "ort-tensorrt"}
	for range game.MaxBits {
		ply.Visits, ply.Policy = append(ply.Visits, 1_000_000), append(ply.Policy, 1.2345678e-10)
	}
	g := selfplay.Game{Number: 1_000_000_000, Plies: slices.Repeat([]selfplay.Ply{ply}, game.MaxBits), Last: ply.Position, Result: -1}
	text := gametest.Must(json.Marshal(&g))(t)
	if len(text) > cluster.MostParcel-cluster.ParcelBytes {
		t.Errorf("the game has %d bytes, want %d at most", len(text), cluster.MostParcel-cluster.ParcelBytes)
	}
}

// Whatever a message is, the games and positions that are read from it are not more than were counted before.
func FuzzElements(f *testing.F) {
	for _, text := range []string{
		`{"games":[{"Number":1,"Plies":[{"Position":{"Own":{"Lo":1,"Hi":0}},"Visits":[1,2]},{}]},{}]}`,
		`{"worker":"\\\"[,","games":[null,null,{"Plies":[null]}]}`, `{"x":[[[[1,2,3]]]],"games":[]}`, `[1,2]`, `{"games":[{"Plies":[{`, ` { "games" : [ ] } `,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var p struct {
			Games []selfplay.Game `json:"games"`
		}
		games, plies := cluster.Elements(text)
		if json.Unmarshal(text, &p) != nil {
			return
		}
		in := 0
		for _, g := range p.Games {
			in += len(g.Plies)
		}
		if len(p.Games) > games || in > plies {
			t.Errorf("%d games with %d positions, counted %d and %d", len(p.Games), in, games, plies)
		}
	})
}
