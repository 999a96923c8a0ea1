package eval_test

import (
	"context"
	"errors"
	"math"
	"testing"

	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/eval/evaltest"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/game/gametest"
)

// chooseSlowly is the likeliest legal move and the value of row i, and the row's source.
func chooseSlowly(b *eval.Batch, i int) (action int, value float32, s eval.Source) {
	action = -1
	if b.Source[i] == eval.Terminal {
		return action, b.Value(i), eval.Terminal
	}
	policy := b.PolicyRow(i)
	for a, p := range policy {
		if (action < 0 || p > policy[action]) && b.Board.CanPlay(b.Pos[i], a) {
			action = a
		}
	}
	return action, b.Value(i), b.Source[i]
}

// Best has the move, the value's bits and the source of each of Evaluate's answers, on every board, for
// finished games too, with every step, also if moves are equally likely or none has a probability.
func TestBest(t *testing.T) {
	coarse := &evaltest.Stub{Source: eval.GPU, After: func(b *eval.Batch) {
		for i, p := range b.Policy {
			b.Policy[i] = float32(math.Floor(float64(2*p))) / 2
		}
	}}
	for name, e := range map[string]*eval.Evaluator{
		"rules":  eval.New(&evaltest.Stub{Source: eval.CPU}, eval.Options{}),
		"raw":    eval.New(&evaltest.Stub{Source: eval.CPU}, eval.Options{OwnRules: true}),
		"exact":  eval.New(&evaltest.Stub{Source: eval.CPU}, eval.Options{Exact: eval.NewExact(200)}),
		"coarse": eval.New(coarse, eval.Options{}),
	} {
		for i, b := range gametest.Boards() {
			n := 1000
			if name == "exact" {
				n = 100
			}
			want, got := eval.NewBatch(b, n), eval.NewChoices(b, n)
			copy(want.Pos, gametest.Positions(gametest.Rand(uint64(i)), b, n, false))
			copy(got.Pos, want.Pos)
			for i := range got.Pos {
				got.Action[i], got.Value[i], got.Source[i] = 99, 99, "spoiled"
			}
			gametest.OK(t, e.Evaluate(t.Context(), want))
			gametest.OK(t, e.Best(t.Context(), got))
			for i := range got.Pos {
				action, value, source := chooseSlowly(want, i)
				if got.Action[i] != action || got.Value[i] != value || got.Source[i] != source {
					t.Fatalf("%s, %v, %s: move %d, value %v by %v, want %d, %v by %v", name, b.Rules(), b.Text(got.Pos[i]),
						got.Action[i], got.Value[i], got.Source[i], action, value, source)
				}
			}
		}
	}
}

// Choices whose slices do not fit, whose board is unknown or whose context has ended are an error, and the
// backend is not asked. OnAnswers is called with the sources of choices that are answered.
func TestBestRefuses(t *testing.T) {
	stub := &evaltest.Limited{Stub: evaltest.Stub{Source: eval.CPU}}
	var seen []eval.Source
	e := eval.New(stub, eval.Options{OnAnswers: func(s []eval.Source) { seen = s }})
	late, cancel := context.WithCancel(t.Context())
	cancel()
	for name, test := range map[string]struct {
		ctx    context.Context
		damage func(*eval.Choices)
	}{
		"no board":            {t.Context(), func(c *eval.Choices) { c.Board = nil }},
		"no room for actions": {t.Context(), func(c *eval.Choices) { c.Action = c.Action[:2] }},
		"no room for values":  {t.Context(), func(c *eval.Choices) { c.Value = nil }},
		"too many sources":    {t.Context(), func(c *eval.Choices) { c.Source = append(c.Source, eval.None) }},
		"another board":       {t.Context(), func(c *eval.Choices) { c.Board = game.MustBoard(game.TicTacToe) }},
		"late":                {late, func(*eval.Choices) {}},
	} {
		c := eval.NewChoices(board, 3)
		test.damage(c)
		if err := e.Best(test.ctx, c); err == nil || errors.Is(err, context.Canceled) != (name == "late") || stub.Rows.Load() > 0 || seen != nil {
			t.Errorf("%s: error %v, %d rows asked for, sources %v", name, err, stub.Rows.Load(), seen)
		}
	}
	c := eval.NewChoices(board, 3)
	gametest.OK(t, e.Best(t.Context(), c))
	if len(seen) != 3 || &seen[0] != &c.Source[0] {
		t.Errorf("OnAnswers was called with %v", seen)
	}
}
