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
	"github.com/evald/evald/engine/game"
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
	Player string `json:"player"` // who played the games: a network's number, init (Config.Init), or bitsquares
	Games  int    `json:"games"`
	Proved int    `json:"proved,omitempty"` // games that ended because their result was proved (selfplay.Config.Exact)

	Records int64          `json:"records"` // how many the network learned from
	Steps   int            `json:"steps"`
	Metrics *train.Metrics `json:"metrics"` // of the last steps

	Accuracy []Accuracy `json:"accuracy"`
	Gate     *Meeting   `json:"gate,omitempty"` // with the best network before; nil if there is none
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
	Rules  string `json:"rules,omitempty"` // of the positions, if they are those of one of several games; their kind is AllKinds
	Kind   string `json:"kind"`            // one of sample.Kinds, or AllKinds
	Visits int    `json:"visits"`          // 0 is the network alone, without what the rules know (the rules step of eval.Evaluator), because that is what is learned
	score.Summary
}

// AllKinds is the kind of all positions together.
const AllKinds = "all"

// Whole reports whether the accuracy is that on all positions of the run.
func (a Accuracy) Whole() bool { return a.Kind == AllKinds && a.Rules == "" }

// generation does the parts of a generation that are missing.
func (r *Run) generation(ctx context.Context, n int) (g Generation, err error) {
	g = Generation{Number: n, Player: eval.Bitsquares.String()}
	if !r.noNetwork() {
		g.Player = name(r.best())
	}
	for _, games := range r.share(r.Config.games(n)) {
		g.Games += games
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
	var files []string
	for _, b := range r.boards {
		some, err := filepath.Glob(r.folder(generation, "games", r.sub(b), "*.parquet"))
		if err != nil {
			return 0, err
		}
		files = append(files, some...)
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
	e, done := (*eval.Evaluator)(nil), func() {}
	if r.player == nil {
		var err error
		if e, done, err = r.evaluator(r.best()); err != nil {
			return err
		}
	}
	defer done()
	for i, games := range r.share(r.Config.games(g.Number)) {
		b := r.boards[i]
		batch := selfplay.Batch{Generation: g.Number*len(r.boards) + i, Config: r.selfPlay(g, b), Dir: r.folder(g.Number, "games", r.sub(b)), Games: games}
		batch.Report = func(p selfplay.Progress) {
			rate := float64(p.Played) / p.Elapsed.Seconds()
			left := time.Duration(float64(p.All-p.Games) / rate * float64(time.Second))
			r.progress(fmt.Sprintf("generation %d, self-play%s by %s: %d of %d games%s, %.1f/s, %v left", g.Number, r.of(b), g.Player, p.Games, p.All, p.Share(batch.Config), rate, left.Round(time.Second)))
		}
		if err := r.playBatch(ctx, batch, e, g.Player); err != nil {
			return err
		}
	}
	return nil
}

// playBatch plays the games of one board: with e, whose name is given, or by the run's Player.
func (r *Run) playBatch(ctx context.Context, b selfplay.Batch, e *eval.Evaluator, name string) error {
	if r.player == nil {
		return selfplay.Run(ctx, selfplay.Remember(e, name, selfplay.Remembered), b.Config, b.Dir, b.Games, b.Report)
	}
	if !r.noNetwork() {
		b.Network = r.promoted(r.best())
	}
	return r.player(ctx, b)
}

// selfPlay is the configuration of a generation's games on one board.
func (r *Run) selfPlay(g Generation, b *game.Board) selfplay.Config {
	own := r.Config.on(b.Rules())
	c := own.SelfPlay
	c.Network, c.Seed = g.Player, r.Config.seed(g.Number)
	if r.noNetwork() {
		c.Visits, c.FastVisits, c.Path = c.Visits*own.FirstFactor, c.FastVisits*own.FirstFactor, ""
	}
	return c
}

// evaluator is that of a network that was promoted or that the run began with, or the heuristic if there is no network yet.
func (r *Run) evaluator(generation int) (e *eval.Evaluator, done func(), err error) {
	if r.noNetwork() {
		e, err = heuristic.New(eval.Bitsquares)
		return e, func() {}, err
	}
	return r.evaluators(r.promoted(generation), name(generation))
}

// windows are how many of the last games on each board a generation learns from.
func (r *Run) windows(generation int) []int {
	windows, first, later := r.share(r.Config.Window), r.share(r.Config.games(0)), r.share(r.Config.Games)
	for i := range windows {
		windows[i] = max(windows[i], (first[i]+generation*later[i])/2)
	}
	return windows
}

// files are the records of the last games on a board that generation n learns from, and how many games they have: window or more,
// in whole files.
func (r *Run) files(n int, b *game.Board, window int) (files []string, games int, err error) {
	kind := "games"
	if r.Config.Labels == Solver {
		kind = "labels"
	}
	for ; n >= 0 && games < window; n-- {
		some, err := durable.Shards(r.folder(n, kind, r.sub(b)))
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
			g.Accuracy = append(g.Accuracy, Accuracy{"", kind.Name, visits, kind})
		}
		if len(report.Boards) > 1 {
			for _, board := range report.Boards {
				g.Accuracy = append(g.Accuracy, Accuracy{board.Name, AllKinds, visits, board.Summary})
			}
		}
		g.Accuracy = append(g.Accuracy, Accuracy{"", AllKinds, visits, report.All})
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
