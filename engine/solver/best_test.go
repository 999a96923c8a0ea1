package solver

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/game/gametest"
)

// Best finds all moves with the greatest score, and First the first of them in an order, with and without a book that knows some of the scores.
func TestBest(t *testing.T) {
	for _, b := range gametest.Boards() {
		plain, known := mustNew(t, b, Options{TableMiB: 1}), mapBook{}
		booked := mustNew(t, b, Options{TableMiB: 1, Book: known})
		several := 0
		for seed := range uint64(40) {
			p := nearEnd(seed, b, 9)
			var want []int
			score := -b.Cells()
			for a := range b.Actions() {
				if !b.CanPlay(p, a) {
					continue
				}
				q := b.Play(p, a)
				s := -alphaBeta(b, q, -b.Cells(), b.Cells())
				if seed%2 == uint64(a)%2 && b.Result(q) == game.Ongoing {
					known[q] = -s
				}
				if s > score {
					want, score = nil, s
				}
				if s == score {
					want = append(want, a)
				}
			}
			if len(want) > 1 {
				several++
			}
			for _, s := range []*Solver{plain, booked} {
				got, r, err := s.Best(t.Context(), p)
				order := rand.New(rand.NewPCG(seed, 3)).Perm(b.Actions())
				wanted := -1
				if i := slices.IndexFunc(order, func(a int) bool { return slices.Contains(want, a) }); i >= 0 {
					wanted = order[i]
				}
				if first, err := s.First(t.Context(), p, order); err != nil || first.Best != wanted || first.Score != r.Score {
					t.Fatalf("%v, position %+v: the first of %v is %+v, %v; want %d of %v", b.Rules(), p, order, first, err, wanted, want)
				}
				if err != nil || !slices.Equal(got, want) || len(want) > 0 && (r.Score != score || !slices.Contains(want, r.Best)) {
					t.Fatalf("%v, position %+v: moves %v, %+v, %v; want %v with %d", b.Rules(), p, got, r, err, want, score)
				}
			}
		}
		if several == 0 {
			t.Errorf("%v: no position has several best moves", b.Rules())
		}
	}
	b := game.MustBoard(game.Connect4)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if got, _, err := mustNew(t, b, Options{TableMiB: 1}).Best(ctx, game.Position{}); got != nil || !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled context: moves %v, error %v", got, err)
	}
}
