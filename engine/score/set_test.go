package score

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/evald/evald/engine/durable"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/game/gametest"
)

// A set has the positions at the beginnings of lines and their mirror images, of each game, and no others.
func TestReadSet(t *testing.T) {
	path := filepath.Join(t.TempDir(), "set")
	write := func(text string) { gametest.OK(t, durable.WriteFile(path, []byte(text))) }
	write("# a comment\n\n44554 1\n  12 -4\n9x5x4:12 0\n4444447 3\n")
	s := gametest.Must(ReadSet(path))(t)
	b := game.MustBoard(game.Connect4)
	for moves, want := range map[string]bool{"44554": true, "44334": true, "4455": false, "12": true, "76": true, "21": false, "4444447": true, "1": false, "-": false} {
		p, _, err := b.ParseMoves(moves)
		gametest.OK(t, err)
		if s.Has(b, p) != want {
			t.Errorf("%s: is there: %v", moves, !want)
		}
	}
	wide := game.MustBoard(game.Rules{Rows: 5, Columns: 9, InARow: 4, Gravity: true})
	if p := wide.PlayMoves([]int{0, 1}); !s.Has(wide, p) || !s.Has(wide, wide.Mirror(p)) || s.Has(wide, game.Position{}) || s.Len() != 4 || Set(nil).Has(wide, p) {
		t.Errorf("of 9x5x4, or %d positions in all", s.Len())
	}
	for text, want := range map[string]string{"44 0\n4x 0\n": ": line 2: ", "44 0 0\n": ": line 1: ", "44\n": ": line 1: "} {
		write(text)
		if _, err := ReadSet(path); err == nil || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), want) {
			t.Errorf("%.20q: error %v", text, err)
		}
	}
	if _, err := ReadSet(path + ".none"); err == nil {
		t.Error("no file, no error")
	}
}
