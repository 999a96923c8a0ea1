package bench

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/eval/evaltest"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/game/gametest"
	"github.com/evald/evald/engine/selfplay"
)

func smallPlay() selfplay.Config {
	c := selfplay.DefaultConfig()
	c.Visits, c.FastVisits, c.Parallel, c.Batch = 8, 4, 32, 8
	return c
}

func TestSelfPlay(t *testing.T) {
	figures := gametest.Must(SelfPlay(t.Context(), 40*time.Millisecond, evaltest.Raw(&evaltest.Stub{Source: eval.CPU}), "a stub", smallPlay(), 0, nil))(t)
	if len(figures) != 2 {
		t.Fatalf("%d figures, want evaluations and games", len(figures))
	}
	if f := figures[0]; f.Rate <= 0 || f.Share() <= 0 || f.Unit != "evaluations" || !strings.HasPrefix(f.Why, "the evaluator alone, batches of ") {
		t.Errorf("%+v", f)
	}
	if f := figures[1]; f.Rate <= 0 || f.Unit != "games" || f.Name != "games of 8 or 4 visits a move by a stub" {
		t.Errorf("%+v", f)
	}
}

// While the evaluator is measured alone, no game asks it, and the positions that it answers are those of the play before.
func TestSelfPlayTakesTurns(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var halted atomic.Bool
	player := &evaltest.Stub{Source: eval.CPU, Before: func(context.Context, *eval.Batch) error {
		if halted.Load() {
			t.Error("a game asks the evaluator while it is measured alone")
		}
		return nil
	}}
	p := &playBench{ctx: ctx, board: game.MustBoard(game.Connect4), backend: player, ended: make(chan struct{})}
	p.pause.Lock()
	go func() {
		defer close(p.ended)
		p.err = selfplay.Play(ctx, evaltest.Raw(p), smallPlay(), 0, 1<<20, nil, func(*selfplay.Game) error { return nil })
	}()
	for range 3 {
		played, err := p.play(5 * time.Millisecond)
		halted.Store(true)
		if err != nil || played.rows == 0 || played.seconds <= 0 || played.calls != len(p.batches) {
			t.Fatalf("%+v, %d batches, error %v", played, len(p.batches), err)
		}
		known := map[game.Position]bool{}
		for _, b := range p.batches {
			for _, position := range b {
				known[position] = true
			}
		}
		var rows atomic.Int64
		alone, err := p.alone(5*time.Millisecond, &evaltest.Stub{Before: func(_ context.Context, b *eval.Batch) error {
			for _, position := range b.Pos {
				if !known[position] {
					t.Errorf("%v is not of the play", position)
				}
			}
			rows.Add(int64(len(b.Pos)))
			return nil
		}})
		if err != nil || int64(alone.rows) != rows.Load() || alone.rows == 0 {
			t.Errorf("%+v, %d rows, error %v", alone, rows.Load(), err)
		}
		halted.Store(false)
	}
	cancel()
	p.pause.Unlock()
	<-p.ended
}

// An error of the evaluator, a wrong configuration and a cancelled context end the measurement.
func TestSelfPlayFails(t *testing.T) {
	broken := errors.New("device lost")
	var calls atomic.Int64
	e := &evaltest.Stub{Source: eval.CPU, Before: func(context.Context, *eval.Batch) error {
		if calls.Add(1) > 50 {
			return broken
		}
		return nil
	}}
	if _, err := SelfPlay(t.Context(), 20*time.Millisecond, evaltest.Raw(e), "a stub", smallPlay(), 0, nil); !errors.Is(err, broken) {
		t.Errorf("a broken evaluator: error %v", err)
	}
	c := smallPlay()
	c.Visits = 1
	if _, err := SelfPlay(t.Context(), time.Millisecond, evaltest.Raw(&evaltest.Stub{}), "a stub", c, 0, nil); err == nil || !strings.Contains(err.Error(), "visits is 1") {
		t.Errorf("wrong visits: error %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := SelfPlay(ctx, time.Millisecond, evaltest.Raw(&evaltest.Stub{}), "a stub", smallPlay(), 0, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled context: error %v", err)
	}
}
