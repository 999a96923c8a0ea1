package learn

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
)

// In a continuous run, the next generation's games are played while a network is trained and measured. If they are complete before the
// network is ready, the same player plays further series of games for that generation. When the network is ready, the current series is
// completed on all boards, so that each board keeps its share. Then the best network plays the games of the generation after that.
//
// Further series are small, because the learner waits for the last one. They add no training steps: otherwise training would take longer,
// and even more games would be played for the next generation.

const (
	furtherPart = 4    // a further series has 1/furtherPart of the games of a generation
	mostSeries  = 1000 // maximum number of series of a generation; workers wait after that
)

// seriesGames returns the number of games of a series on all boards together.
func (c Config) seriesGames(generation, series int) int {
	if series == 0 {
		return c.games(generation)
	}
	return max(1, c.Games/furtherPart)
}

// batchNumber numbers series in order. With several boards, each board's batches have their own numbers (selfplay.Batch).
func (c Config) batchNumber(generation, series int) int {
	if !c.Continuous {
		return generation
	}
	return generation*mostSeries + series
}

// hasSeries reports whether a further series of games has begun.
func (r *Run) hasSeries(generation, series int) bool {
	return r.Config.Continuous && series < mostSeries && exists(r.configOf(generation, series))
}

// ahead is the self-play for a generation while the previous generation is trained and measured.
type ahead struct {
	plan
	enough atomic.Bool   // set to end the play after the current series
	done   chan struct{} // closed when play has ended
	err    error         // valid once done is closed
}

// playAhead starts to play a generation's games in the background, if the run is continuous, has a
// Player and does not play them already. If the play fails, it cancels ctx.
func (r *Run) playAhead(ctx context.Context, generation int) error {
	if !r.Config.Continuous || r.player == nil || r.ahead != nil {
		return nil
	}
	p, err := r.plan(generation)
	if err != nil {
		return err
	}
	a := &ahead{plan: p, done: make(chan struct{})}
	r.ahead = a
	go func() {
		defer close(a.done)
		a.err = r.withRoom(ctx, func() error { return r.play(ctx, p, func() bool { return !a.enough.Load() }) })
		if a.err != nil {
			r.fail(fmt.Errorf("generation %d: self-play: %w", generation, a.err))
		}
	}()
	return nil
}

// games waits for a generation's games, or plays them, and returns their plan.
func (r *Run) games(ctx context.Context, generation int) (plan, error) {
	if r.both != nil {
		r.both.learn("")
		defer r.both.play("", "")
	}
	if a := r.ahead; a != nil && a.generation > generation { // this generation begins again, because the disk was full; its games are complete
		return r.plan(generation)
	} else if a != nil {
		a.enough.Store(true)
		<-a.done
		r.ahead = nil
		return a.plan, a.err
	}
	p, err := r.plan(generation)
	if err != nil {
		return p, err
	}
	return p, r.play(ctx, p, nil)
}

// playProgress reports the progress of games: brief is shown beside the progress of learning, full otherwise.
func (r *Run) playProgress(brief, full string) {
	if r.both == nil {
		r.progress(full)
		return
	}
	r.both.play(brief, full)
}

// both combines the progress of games and of learning in a continuous run into one line.
type both struct {
	say func(string)

	mu          sync.Mutex
	learning    string // "" while learning waits for games
	brief, full string // progress of the games; "" while none are played
}

func (b *both) learn(text string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.learning = text
	b.show()
}

func (b *both) play(brief, full string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.brief, b.full = brief, full
	b.show()
}

// show writes the progress of games first, because its length hardly changes.
func (b *both) show() {
	switch {
	case b.learning != "" && b.brief != "":
		b.say(b.brief + "; " + b.learning)
	case b.learning+b.full != "":
		b.say(b.learning + b.full)
	}
}
