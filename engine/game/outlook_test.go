package game_test

import (
	"testing"

	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/game/gametest"
)

// outlook is Board.Outlook written for clarity alone: it makes moves and looks at results.
func outlook(b *game.Board, p game.Position) game.Outlook {
	wins := func(p game.Position) (cells game.Bits) {
		for a := range b.Actions() {
			if b.CanPlay(p, a) && b.Result(b.Play(p, a)) == game.Loss {
				cells = cells.Or(b.Cell(p, a))
			}
		}
		return cells
	}
	if w := wins(p); !w.IsZero() {
		return game.Outlook{Result: game.Win, Moves: w, Next: p}
	}
	var keeps game.Bits
	for a := range b.Actions() {
		if b.CanPlay(p, a) && wins(b.Play(p, a)).IsZero() {
			keeps = keeps.Or(b.Cell(p, a))
		}
	}
	switch keeps.OnesCount() {
	case 0:
		return game.Outlook{Result: game.Loss, Moves: b.Legal(p), Next: p}
	case 1:
	default:
		return game.Outlook{Moves: keeps, Next: p}
	}
	after := b.PlayCell(p, keeps)
	if b.Result(after) == game.Draw {
		return game.Outlook{Result: game.Draw, Moves: keeps, Next: after, Plies: 1}
	}
	o := outlook(b, after)
	o.Moves, o.Plies = keeps, o.Plies+1
	o.Result = o.Result.Flip()
	return o
}

func TestOutlook(t *testing.T) {
	r := gametest.Rand(18)
	for _, b := range gametest.Boards() {
		seen := map[game.Result]int{}
		forced := 0
		for _, p := range gametest.Positions(r, b, 3000, true) {
			if b.Result(p) != game.Ongoing {
				continue
			}
			got, want := b.Outlook(p), outlook(b, p)
			if got != want {
				t.Fatalf("%v: %+v: outlook %+v, want %+v", b.Rules(), p, got, want)
			}
			seen[got.Result]++
			if got.Plies > 0 {
				forced++
			}
		}
		if seen[game.Win] < 10 || seen[game.Ongoing] < 10 || forced < 10 {
			t.Errorf("%v: results %v, %d forced: too few to tell", b.Rules(), seen, forced)
		}
	}
}
