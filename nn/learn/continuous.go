package learn

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
)

// In a continuous run the games of the next generation are played while a generation's network is trained and measured. If they are
// complete before the network is ready, the same player plays further series of games for that generation. When the network is ready,
// the series under way is completed on all boards, so that each board keeps its share. Then the best network plays the games of the
// generation after that.
//
// Further series are small, because the learner waits for the last one. They add no training steps: otherwise more games would make
// the training longer, during which even more games would be played for the next generation.

const (
	furtherPart = 4    // a further series has this part of a generation's games
	mostSeries  = 1000 // of a generation; then workers wait
)

// seriesGames is how many games a series has, of all games of the run together.
func (c Config) seriesGames(generation, series int) int {
	if series == 0 {
		return c.games(generation)
	}
	return max(1, c.Games/furtherPart)
}

// batchNumber tells series apart, in their order. Of several games each has its number (selfplay.Batch).
func (c Config) batchNumber(generation, series int) int {
	if !c.Continuous {
		return generation
	}
	return generation*mostSeries + series
}

// hasSeries reports whether a further series of games was begun.
func (r *Run) hasSeries(generation, series int) bool {
	return r.Config.Continuous && series < mostSeries && exists(r.configOf(generation, series))
}

// ahead is the play of a generation's games while the generation before is trained and measured.
type ahead struct {
	plan
	enough atomic.Bool   // no further series is wanted
	done   chan struct{} // closed at the end
	err    error         // when done is closed
}

// playAhead begins to play a generation's games in the background, if the run is continuous and has a Player. Its error cancels ctx.
func (r *Run) playAhead(ctx context.Context, generation int) error {
	if !r.Config.Continuous || r.player == nil {
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
		if a.err = r.play(ctx, p, func() bool { return !a.enough.Load() }); a.err != nil {
			r.fail(fmt.Errorf("generation %d: self-play: %w", generation, a.err))
		}
	}()
	return nil
}

// games waits until a generation's games are complete, or plays them, and returns who played them.
func (r *Run) games(ctx context.Context, generation int) (plan, error) {
	if r.both != nil {
		r.both.learn("")
		defer r.both.play("", "")
	}
	if a := r.ahead; a != nil {
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

// playProgress reports how far the games are: briefly beside what the learner does meanwhile, or in full.
func (r *Run) playProgress(brief, full string) {
	if r.both == nil {
		r.progress(full)
		return
	}
	r.both.play(brief, full)
}

// both makes one line of progress of what a continuous run is doing: its games and its learning.
type both struct {
	say func(string)

	mu          sync.Mutex
	learning    string // empty: it waits for games
	brief, full string // of the games; empty: there are none
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

// show reports the games first, because their part has about the same length always.
func (b *both) show() {
	switch {
	case b.learning != "" && b.brief != "":
		b.say(b.brief + "; " + b.learning)
	case b.learning+b.full != "":
		b.say(b.learning + b.full)
	}
}
