package learn

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/evald/evald/engine/agent"
	"github.com/evald/evald/engine/durable"
	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/heuristic"
	"github.com/evald/evald/engine/mcts"
	"github.com/evald/evald/engine/score"
	"github.com/evald/evald/engine/selfplay"
	"github.com/evald/evald/nn/net"
	"github.com/evald/evald/nn/train"
)

// Generation is the result of one turn of the loop.
type Generation struct {
	Number int    `json:"generation"`
	Player string `json:"player"` // who played the games: a network's number, or bitsquares
	Games  int    `json:"games"`

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
	if err != nil {
		return g, err
	}
	return g, durable.WriteFile(r.folder(n, "generation.json"), text)
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
		r.progress(fmt.Sprintf("generation %d, self-play by %s: %d of %d games, %.1f/s, %v left", g.Number, g.Player, p.Games, p.All, rate, left.Round(time.Second)))
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
	network, err := net.ReadFile(r.promoted(generation))
	if err != nil {
		return nil, nil, err
	}
	return r.evaluators(network, name(generation))
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

// train trains the generation's network, beginning with the one before.
func (r *Run) train(ctx context.Context, g *Generation) error {
	c := r.Config
	files, games, err := r.files(g.Number)
	if err != nil {
		return err
	}
	// The heuristic played the first generation's games. If none of them is in the window, records that a heuristic answered
	// in place of a network are left out.
	first := slices.ContainsFunc(files, func(file string) bool { return strings.HasPrefix(file, r.folder(0)) })
	options := train.RecordOptions{Seed: c.seed(g.Number), Heuristics: first, QShare: c.QShare}
	records, err := train.OpenRecords(r.board, options, files...)
	if err != nil {
		return err
	}
	defer records.Close()
	fresh := records.Rows() * int64(g.Games) / int64(max(1, games))
	g.Records, g.Steps = records.Rows(), max(1, int(c.Passes*float64(fresh)/float64(c.Batch)))
	config := train.Config{
		Task: "all", Network: c.Network, Rules: c.Rules, Records: g.Records, Batch: c.Batch, Steps: g.Steps, LR: c.rate(g.Number), Schedule: train.Cosine,
		Warmup: min(50, g.Steps/10), Optimizer: train.Muon, L2: c.L2, QShare: c.QShare, Clip: 1, EMA: 0.99, Seed: c.seed(g.Number),
		Weights: train.Weights{WDL: 1, Policy: 1, GameOver: 0.1},
	}
	var initial *net.Network
	if g.Number > 0 {
		if initial, err = r.network(g.Number - 1); err != nil {
			return err
		}
		config.Init = name(g.Number - 1)
	}
	run, err := train.OpenRun(r.folder(g.Number, "train"), config, initial, train.WithRules(records.Source, r.board, c.seed(g.Number)), r.by)
	if err != nil {
		return err
	}
	defer run.Close()
	start, before := time.Now(), run.Done()
	err = run.Train(ctx, time.Minute, func(s train.Report) {
		left := time.Duration(float64(time.Since(start)) / float64(s.Step-before) * float64(g.Steps-s.Step))
		r.progress(fmt.Sprintf("generation %d, training by %s: step %d of %d, loss %.4f, %v left", g.Number, run.About(), s.Step, g.Steps, s.Total, left.Round(time.Second)))
	})
	if err != nil {
		return err
	}
	path := r.folder(g.Number, "train", train.MetricsFile)
	metrics, err := train.ReadMetrics(path)
	if err != nil {
		return err
	}
	if len(metrics) == 0 || metrics[len(metrics)-1].Step != g.Steps {
		return fmt.Errorf("%s: its last line is missing, that of step %d: remove the folder, and the network is trained again", path, g.Steps)
	}
	g.Metrics = &metrics[len(metrics)-1]
	return nil
}

// measure scores the network, lets it play matches, and decides whether it is promoted.
func (r *Run) measure(ctx context.Context, g *Generation) error {
	network, err := r.network(g.Number)
	if err != nil {
		return err
	}
	candidate, done, err := r.evaluators(network, name(g.Number))
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
