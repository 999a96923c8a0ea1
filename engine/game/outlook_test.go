package game_test

import (
	"slices"
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
	switch o.Result {
	case game.Win:
		o.Result = game.Loss
	case game.Loss:
		o.Result = game.Win
	}
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

func TestOutlookByHand(t *testing.T) {
	b := game.MustBoard(game.Connect4)
	for moves, want := range map[string]struct {
		result game.Result
		plies  int
		best   []int
	}{
		"-":               {game.Ongoing, 0, []int{1, 2, 3, 4, 5, 6, 7}},
		"112233":          {game.Win, 0, []int{4}},
		"11223":           {game.Ongoing, 1, []int{4}}, // the row's other end is the board's
		"223344":          {game.Win, 0, []int{1, 5}},
		"22334":           {game.Loss, 0, []int{1, 2, 3, 4, 5, 6, 7}},
		"642426343125311": {game.Win, 0, []int{4}},
	} {
		p, _, err := b.ParseMoves(moves)
		if err != nil {
			t.Fatal(err)
		}
		o := b.Outlook(p)
		var best []int
		for m := o.Moves; !m.IsZero(); m = m.WithoutFirst() {
			best = append(best, b.Action(m.First())+1)
		}
		if o.Result != want.result || o.Plies != want.plies || !slices.Equal(best, want.best) {
			t.Errorf("%q: %v after %d forced moves by %v, want %+v", moves, o.Result, o.Plies, best, want)
		}
	}
}

func BenchmarkOutlook(b *testing.B) {
	board := game.MustBoard(game.Connect4)
	ps := gametest.Positions(gametest.Rand(1), board, 1024, true)
	b.ReportAllocs()
	decided := 0
	for i := range b.N {
		if board.Outlook(ps[i&1023]).Result != game.Ongoing {
			decided++
		}
	}
	b.ReportMetric(float64(decided)/float64(b.N), "decided")
}
