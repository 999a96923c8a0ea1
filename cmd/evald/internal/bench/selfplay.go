package bench

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/heuristic"
	"github.com/evald/evald/engine/selfplay"
)

// patience is the maximum time to wait for the first batch of a turn. On a tiny board no batch comes, because the rules answer every
// position.
const patience = 20 * time.Second

// SelfPlay measures the games per second of self-play, and the share of the evaluator's own rate that self-play uses. name is the evaluator's
// model or heuristic; remember is the number of the network's answers that are cached. The first half of a round, of about d, is self-play.
// In the second half the games are paused, and the evaluator alone computes the same batches, from two callers per core.
func SelfPlay(ctx context.Context, d time.Duration, e *eval.Evaluator, name string, c selfplay.Config, remember int, progress Progress) ([]Figure, error) {
	board, err := new(game.Boards).Parse(c.Rules)
	if err != nil {
		return nil, err
	}
	c = c.Sized(e, math.MaxInt)
	fast, err := heuristic.New(eval.Bitsquares)
	if err != nil {
		return nil, err
	}
	p := &playBench{ctx: ctx, board: board, backend: fast.Backend(), ended: make(chan struct{})}
	inner, cancel := context.WithCancel(ctx)
	p.pause.Lock()
	go func() {
		defer close(p.ended)
		p.err = selfplay.Play(inner, selfplay.Remember(eval.New(p, eval.Options{}), name, remember), c, 0, math.MaxInt32, nil, func(*selfplay.Game) error {
			p.games.Add(1)
			return nil
		})
	}()
	figures, err := p.measure(d, e.Backend(), c, name, progress)
	cancel()
	p.pause.Unlock()
	<-p.ended
	return figures, err
}

// playBench is self-play that can be paused. It is a backend that wraps the evaluator's.
type playBench struct {
	ctx   context.Context
	board *game.Board
	pause sync.RWMutex // locked while the games are paused

	backend eval.Backend      // changed only while the games are paused
	mu      sync.Mutex        // guards batches
	batches [][]game.Position // batches answered in this turn
	games   atomic.Int64      // number of games finished so far

	ended chan struct{} // closed when selfplay.Play has returned err
	err   error
}

// Attributes implements eval.Backend.
func (p *playBench) Attributes() eval.Attributes { return p.backend.Attributes() }

// Compute implements eval.Backend.
func (p *playBench) Compute(ctx context.Context, b *eval.Batch) error {
	p.pause.RLock()
	defer p.pause.RUnlock()
	if err := p.backend.Compute(ctx, b); err != nil {
		return err
	}
	rows := append([]game.Position(nil), b.Pos...)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.batches = append(p.batches, rows)
	return nil
}

// measure is called while the games are paused, and pauses them again before it returns.
func (p *playBench) measure(d time.Duration, e eval.Backend, c selfplay.Config, name string, progress Progress) ([]Figure, error) {
	// Games that begin together would also end together. So a fast heuristic first plays until the games are in all stages.
	for p.games.Load() < int64(2*c.Parallel) {
		progress.show("%s, %d games to begin with", name, p.games.Load())
		if _, err := p.play(min(d, 200*time.Millisecond)); err != nil {
			return nil, err
		}
	}
	p.backend = e
	var all tally
	play := &contender{name: "self-play by " + name, round: func() (float64, error) {
		t, err := p.play(d / 2)
		all.add(t)
		return t.rate(), err
	}}
	alone := &contender{name: name + " alone", round: func() (float64, error) {
		t, err := p.alone(d/2, e)
		return t.rate(), err
	}}
	games := p.games.Load()
	if err := race(p.ctx, []*contender{play, alone}, d, progress); err != nil {
		return nil, err
	}
	games = p.games.Load() - games
	f := play.figure(alone)
	return []Figure{
		{
			Name: f.Name, Rate: f.Rate, Unit: "evaluations", Ceiling: f.Rate / f.Ratio,
			Why: fmt.Sprintf("the evaluator alone, batches of %d", all.rows/max(1, all.calls)),
		},
		{Name: fmt.Sprintf("games of %d or %d visits a move by %s", c.Visits, c.FastVisits, name), Rate: float64(games) / all.seconds, Unit: "games"},
	}, nil
}

// play resumes the games for about d, but at least for one batch, and pauses them again when the batches in progress are answered.
func (p *playBench) play(d time.Duration) (t tally, err error) {
	p.batches = p.batches[:0]
	start, over := time.Now(), false
	for !over {
		p.pause.Unlock()
		select {
		case <-time.After(d):
		case <-p.ended:
			over = true
		case <-p.ctx.Done():
			over = true
		}
		p.pause.Lock()
		over = over || len(p.batches) > 0
		if !over && time.Since(start) > patience {
			return t, fmt.Errorf("the games asked the evaluator nothing in %v", patience)
		}
	}
	t = tally{calls: len(p.batches), seconds: time.Since(start).Seconds()}
	for _, b := range p.batches {
		t.rows += len(b)
	}
	select {
	case <-p.ended:
		return t, p.err
	default:
		return t, p.ctx.Err()
	}
}

// alone lets the evaluator compute the batches of the last turn of self-play repeatedly for about d.
func (p *playBench) alone(d time.Duration, e eval.Backend) (t tally, err error) {
	if len(p.batches) == 0 {
		return t, fmt.Errorf("no batch was answered in %v: a longer round is needed", d)
	}
	var next atomic.Int64
	callers := make([]eval.Batch, 2*runtime.GOMAXPROCS(0))
	return count(len(callers), d, func(i int) (int, error) {
		positions, b := p.batches[int(next.Add(1)-1)%len(p.batches)], &callers[i]
		b.Reset(p.board, len(positions))
		copy(b.Pos, positions)
		return len(positions), e.Compute(p.ctx, b)
	})
}
