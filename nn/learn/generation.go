package learn

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/evald/evald/engine/agent"
	"github.com/evald/evald/engine/ask"
	"github.com/evald/evald/engine/durable"
	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/score"
	"github.com/evald/evald/engine/solver"
	"github.com/evald/evald/nn/train"
)

// Generation is the result of one turn of the loop.
type Generation struct {
	Number int    `json:"generation"`
	Player string `json:"player"` // player of the games: a network's number, init (Config.Init), or bitsquares
	Games  int    `json:"games"`
	Series int    `json:"series,omitempty"` // number of series of games in a continuous run (Config.Continuous)
	Proved int    `json:"proved,omitempty"` // games that ended because their result was proved (selfplay.Config.Exact)

	Records int64          `json:"records"` // number of records on which the network was trained
	Steps   int            `json:"steps"`
	Metrics *train.Metrics `json:"metrics"` // of the last training steps

	Accuracy []Accuracy `json:"accuracy"`
	Gate     *Meeting   `json:"gate,omitempty"` // against the previous best network; nil if there was none
	Matches  []Meeting  `json:"matches"`        // against the opponents
	Promoted bool       `json:"promoted"`

	// The rating over all matches of the run so far, and half its 95% interval. The first opponent has rating 0. TooFew means that the
	// network has played too few games for a rating (arena.TooFewGames).
	Elo      float64 `json:"elo"`
	EloError float64 `json:"elo_error"`
	TooFew   bool    `json:"too_few_games,omitempty"`

	Seconds Seconds `json:"seconds"`
}

// Seconds is the time that each part of a generation took in the program that completed the generation. Time in programs that were killed
// does not count. In a continuous run, SelfPlay is the time for which the learner waited for games.
type Seconds struct {
	SelfPlay float64 `json:"selfplay"`
	Train    float64 `json:"train"`
	Measure  float64 `json:"measure"`
}

// Accuracy is the accuracy of a network, or of a search with it, on the run's positions of one kind, or on all of them.
type Accuracy struct {
	Rules  string `json:"rules,omitempty"` // of the positions, if the run has several boards and Kind is AllKinds; "" means all boards
	Kind   string `json:"kind"`            // one of sample.Kinds, or AllKinds
	Visits int    `json:"visits"`          // of the search; 0 is the network alone, without the rules step of eval.Evaluator
	Solver bool   `json:"solver"`          // the search proves positions with a solver, as evald score does; false is evald score --exact=false
	score.Summary
}

// Player names the network or the search that was measured.
func (a Accuracy) Player() string {
	switch {
	case a.Visits == 0:
		return "policy"
	case a.Solver:
		return fmt.Sprintf("%d visits", a.Visits)
	}
	return fmt.Sprintf("%d visits, no solver", a.Visits)
}

// AllKinds is the Kind of all positions together.
const AllKinds = "all"

// Whole reports whether the accuracy is over all positions of the run.
func (a Accuracy) Whole() bool { return a.Kind == AllKinds && a.Rules == "" }

// generation does the parts of a generation that are missing. In a continuous run, if another generation follows, it also starts that
// generation's games.
func (r *Run) generation(ctx context.Context, n int, another bool) (g Generation, err error) {
	start := time.Now()
	p, err := r.games(ctx, n)
	if err != nil {
		return g, fmt.Errorf("self-play: %w", err)
	}
	g = Generation{Number: n, Player: r.playerName(p.player)}
	series := r.series(n)
	if r.Config.Continuous {
		g.Series = series
	}
	for i := range series {
		for _, games := range r.share(r.at(n).seriesGames(n, i)) {
			g.Games += games
		}
	}
	if another {
		if err := r.playAhead(ctx, n+1); err != nil {
			return g, fmt.Errorf("self-play: %w", err)
		}
	}
	if g.Proved, err = r.proved(n); err != nil {
		return g, fmt.Errorf("self-play: %w", err)
	}
	if err := r.label(ctx, n); err != nil {
		return g, fmt.Errorf("labels: %w", err)
	}
	g.Seconds.SelfPlay, start = time.Since(start).Seconds(), time.Now()
	if err := r.train(ctx, &g); err != nil {
		return g, fmt.Errorf("training: %w", err)
	}
	g.Seconds.Train, start = time.Since(start).Seconds(), time.Now()
	if err := r.measure(ctx, &g); err != nil {
		return g, err
	}
	g.Seconds.Measure = time.Since(start).Seconds()
	text, err := durable.MarshalIndent(g)
	if err == nil {
		err = durable.WriteFile(r.folder(n, "generation.json"), text)
	}
	if err == nil && r.tables() { // these files have hundreds of MB
		err = os.Remove(r.folder(n, "train", train.CheckpointFile))
	}
	return g, err
}

// measure measures the network's accuracy, plays its matches, and decides whether it is promoted.
func (r *Run) measure(ctx context.Context, g *Generation) error {
	candidate, done, err := r.evaluators(r.network(g.Number), name(g.Number))
	if err != nil {
		return err
	}
	defer done()
	for _, visits := range r.Config.Visits {
		for _, proves := range []bool{false, true} {
			if visits == 0 && proves {
				continue // the network alone
			}
			if err := r.measureAccuracy(ctx, g, candidate, Accuracy{Visits: visits, Solver: proves}); err != nil {
				return err
			}
		}
	}
	if g.Promoted, err = r.gate(ctx, g, candidate); err != nil {
		return fmt.Errorf("gate: %w", err)
	}
	for i, opponent := range r.Config.Opponents {
		spec, err := agent.Parse(opponent)
		if err != nil {
			return fmt.Errorf("opponent: %w", err)
		}
		m, err := r.match(ctx, g, candidate, fmt.Sprintf("opponent-%d", i+1), spec, nil)
		if err != nil {
			return fmt.Errorf("match with %s: %w", opponent, err)
		}
		m.Against = opponent
		g.Matches = append(g.Matches, m)
	}
	return nil
}

// measureAccuracy adds the accuracies of the network, or of a search with it, on the run's
// positions. a has the Visits and the Solver.
func (r *Run) measureAccuracy(ctx context.Context, g *Generation, candidate *eval.Evaluator, a Accuracy) error {
	e, err := searching(candidate, a)
	if err != nil {
		return err
	}
	start := time.Now()
	report, err := score.Measure(ctx, e, r.positions, func(done int) {
		r.progress(fmt.Sprintf("generation %d, exact scores, %s", g.Number, a.Player()) + pace(done, len(r.positions), start))
	})
	if err != nil {
		return fmt.Errorf("exact scores: %w", err)
	}
	add := func(rules, kind string, s score.Summary) {
		a.Rules, a.Kind, a.Summary = rules, kind, s
		g.Accuracy = append(g.Accuracy, a)
	}
	for _, kind := range report.Kinds {
		add("", kind.Name, kind)
	}
	if len(report.Boards) > 1 {
		for _, board := range report.Boards {
			add(board.Name, AllKinds, board.Summary)
		}
	}
	add("", AllKinds, report.All)
	return nil
}

// searching returns the evaluator whose answers a is about: the network without the rules step, or
// the search of evald score.
func searching(candidate *eval.Evaluator, a Accuracy) (*eval.Evaluator, error) {
	if a.Visits == 0 {
		return eval.New(candidate.Backend(), eval.Options{OwnRules: true}), nil
	}
	o := ask.Search{Visits: a.Visits, How: ask.How{Exact: solver.NoProbes}}
	if a.Solver {
		o.Exact = solver.ByBoard
	}
	return o.Evaluator(candidate)
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
