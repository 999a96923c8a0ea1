package pattern

import (
	"bytes"
	"slices"
	"testing"

	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/game/gametest"
	"github.com/evald/evald/engine/solver"
	"github.com/evald/evald/models"
)

// The network that ships is read and would be written as it is, and foretells results as well as when it was measured.
// Sums of whole numbers are the same everywhere, so the count is exact.
func TestShipped(t *testing.T) {
	file, entry, err := models.Open("default-fast")
	if err != nil {
		t.Fatal(err)
	}
	n := gametest.Must(Parse(file))(t)
	if entry.Config != n.String() {
		t.Errorf("the manifest says %s, the network is %s", entry.Config, n)
	}
	if again, err := n.Marshal(); err != nil || !bytes.Equal(again, file) {
		t.Errorf("the file is not as it would be written: %v", err)
	}
	level := []game.Position{{}}
	for range 5 {
		seen := map[game.Position]bool{}
		var next []game.Position
		for _, p := range level {
			for set := board.Legal(p); !set.IsZero(); set = set.WithoutFirst() {
				if q := board.PlayCell(p, set.LowBit()); !seen[q] {
					seen[q] = true
					next = append(next, q)
				}
			}
		}
		level = next
	}
	b := eval.NewBatch(board, len(level))
	copy(b.Pos, level)
	gametest.OK(t, NewBackend(n).Compute(t.Context(), b))
	right, book := 0, solver.ShippedBook(game.Connect4)
	for i, p := range level {
		score, ok := book.Score(p)
		if !ok {
			t.Fatalf("the book does not know %+v", p)
		}
		wdl := b.WDLRow(i)
		if slices.Index(wdl, slices.Max(wdl)) == 1-max(-1, min(1, score)) {
			right++
		}
	}
	if want := [2]int{4134, 4263}; [2]int{right, len(level)} != want {
		t.Errorf("of %d positions of 5 stones the results of %d are foretold, want %v", len(level), right, want)
	}
}
