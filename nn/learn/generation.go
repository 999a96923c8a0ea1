package learn

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/evald/evald/engine/agent"
	"github.com/evald/evald/engine/durable"
	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/heuristic"
	"github.com/evald/evald/engine/mcts"
	"github.com/evald/evald/engine/record"
	"github.com/evald/evald/engine/score"
	"github.com/evald/evald/engine/selfplay"
	"github.com/evald/evald/nn/train"
)

// Generation is the result of one turn of the loop.
type Generation struct {
	Number int    `json:"generation"`
	Player string `json:"player"` // who played the games: a network's number, or bitsquares
	Games  int    `json:"games"`
	Proved int    `json:"proved,omitempty"` // games that ended because their result was proved (selfplay.Config.Exact)

	Records int64          `json:"records"` // how many the network learned from
	Steps   int            `json:"steps"`
	Metrics *train.Metrics `json:"metrics"` // of the last steps

	Accuracy []Accuracy `json:"accuracy"`
	Gate     *Meeting   `json:"gate,omitempty"` // with the best network before; nil in the first generation
	Matches  []Meeting  `json:"matches"`        // with the opponents
	Promoted bool       `json:"promoted"`

	// The rating by all matches of the run so far, and half its 95% interval. The first opponent has rating 0. TooFew: the
	// network's own games are too few for it (arena.TooFewGames).
	Elo      float64 `json:"elo"`
	EloError float64 `json:"elo_error"`
	TooFew   bool    `json:"too_few_games,omitempty"`

	Seconds Seconds `json:"seconds"`
}

// Seconds is how long each part of a generation took in the program that finished it. If an earlier program did some of a
// part, its time is not counted.
type Seconds struct {
	SelfPlay float64 `json:"selfplay"`
	Train    float64 `json:"train"`
	Measure  float64 `json:"measure"`
}

// Accuracy is how good a network, or a search with it, is on the run's positions of one kind, or on all of them.
type Accuracy struct {
	Kind   string `json:"kind"`   // one of sample.Kinds, or AllKinds
	Visits int    `json:"visits"` // 0 is the network alone, without what the rules know (the rules step of eval.Evaluator), because that is what is learned
	score.Summary
}

// AllKinds is the kind of all positions together.
const AllKinds = "all"

// generation does the parts of a generation that are missing.
func (r *Run) generation(ctx context.Context, n int) (g Generation, err error) {
	g = Generation{Number: n, Player: eval.Bitsquares.String(), Games: r.Config.FirstGames}
	if best := r.best(); best >= 0 {
		g.Player, g.Games = name(best), r.Config.Games
	}
	start := time.Now()
	if err := r.play(ctx, g); err != nil {
		return g, fmt.Errorf("self-play: %w", err)
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
	if err == nil && r.tables() { // they have hundreds of MB
		err = os.Remove(r.folder(n, "train", train.CheckpointFile))
	}
	return g, err
}

// proved counts the games of a generation that ended because their result was proved.
func (r *Run) proved(generation int) (games int, err error) {
	if r.Config.SelfPlay.Exact == 0 {
		return 0, nil
	}
	files, err := filepath.Glob(r.folder(generation, "games", "*.parquet"))
	if err != nil {
		return 0, err
	}
	records, err := record.Open(files...)
	if err != nil {
		return 0, err
	}
	defer records.Close()
	for range records.Rows() {
		var rec record.Record
		if err := records.Next(&rec); err != nil {
			return 0, err
		}
		if rec.Source == eval.Solved { // the last of its game
			games++
		}
	}
	return games, nil
}

// play plays the games that are missing.
func (r *Run) play(ctx context.Context, g Generation) error {
	c := r.Config.SelfPlay
	c.Rules, c.Network, c.Seed = r.Config.Rules, g.Player, r.Config.seed(g.Number)
	if r.best() < 0 {
		c.Visits, c.FastVisits, c.Path = c.Visits*r.Config.FirstFactor, c.FastVisits*r.Config.FirstFactor, ""
	}
	report := func(p selfplay.Progress) {
		rate := float64(p.Played) / p.Elapsed.Seconds()
		left := time.Duration(float64(p.All-p.Games) / rate * float64(time.Second))
		r.progress(fmt.Sprintf("generation %d, self-play by %s: %d of %d games%s, %.1f/s, %v left", g.Number, g.Player, p.Games, p.All, p.Share(c), rate, left.Round(time.Second)))
	}
	games := r.folder(g.Number, "games")
	if r.player != nil {
		network := ""
		if best := r.best(); best >= 0 {
			network = r.promoted(best)
		}
		return r.player(ctx, selfplay.Batch{Generation: g.Number, Config: c, Dir: games, Games: g.Games, Network: network, Report: report})
	}
	e, done, err := r.evaluator(r.best())
	if err != nil {
		return err
	}
	defer done()
	return selfplay.Run(ctx, selfplay.Remember(e, g.Player), c, games, g.Games, report)
}

// evaluator is that of a generation's network, which was promoted, or the heuristic if the number is negative.
func (r *Run) evaluator(generation int) (e *eval.Evaluator, done func(), err error) {
	if generation < 0 {
		e, err = heuristic.New(eval.Bitsquares)
		return e, func() {}, err
	}
	return r.evaluators(r.promoted(generation), name(generation))
}

// files are the records that a generation learns from, and how many games they have.
func (r *Run) files(n int) (files []string, games int, err error) {
	kind := "games"
	if r.Config.Labels == Solver {
		kind = "labels"
	}
	window := max(r.Config.Window, (r.Config.FirstGames+n*r.Config.Games)/2)
	for ; n >= 0 && games < window; n-- {
		some, err := durable.Shards(r.folder(n, kind))
		if err != nil {
			return nil, 0, err
		}
		for i := len(some) - 1; i >= 0 && games < window; i-- {
			if some[i].Games() < 1 {
				return nil, 0, fmt.Errorf("%s: its name does not say which games it holds: remove it", some[i].Path)
			}
			files = append(files, some[i].Path)
			games += some[i].Games()
		}
	}
	return files, games, nil
}

// measure scores the network, lets it play matches, and decides whether it is promoted.
func (r *Run) measure(ctx context.Context, g *Generation) error {
	candidate, done, err := r.evaluators(r.network(g.Number), name(g.Number))
	if err != nil {
		return err
	}
	defer done()
	for _, visits := range r.Config.Visits {
		e := eval.New(candidate.Backend(), eval.Options{OwnRules: true}) // the network alone
		if visits > 0 {
			if e, err = mcts.NewEvaluator(candidate, mcts.DefaultConfig(mcts.PUCT), mcts.Limits{Visits: visits, Batch: 256}); err != nil {
				return err
			}
		}
		start := time.Now()
		report, err := score.Measure(ctx, e, r.positions, func(done int) {
			r.progress(fmt.Sprintf("generation %d, exact scores, %d visits", g.Number, visits) + pace(done, len(r.positions), start))
		})
		if err != nil {
			return fmt.Errorf("exact scores: %w", err)
		}
		for _, kind := range report.Kinds {
			g.Accuracy = append(g.Accuracy, Accuracy{kind.Name, visits, kind})
		}
		g.Accuracy = append(g.Accuracy, Accuracy{AllKinds, visits, report.All})
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

// exists reports whether there is such a file.
func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
