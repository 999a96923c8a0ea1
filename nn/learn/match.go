package learn

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/evald/evald/engine/agent"
	"github.com/evald/evald/engine/arena"
	"github.com/evald/evald/engine/ask"
	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/queue"
	"github.com/evald/evald/engine/solver"
)

// Meeting is the result of a match that a generation's network has played.
type Meeting struct {
	Against string  `json:"against"` // the opponent: a network's number, init (Config.Init), or an agent
	Games   int     `json:"games"`
	Pairs   [5]int  `json:"pairs"` // pairs of games on one opening, by the network's points: 0, 0.5, 1, 1.5, 2
	Points  float64 `json:"points"`
	Ratio   float64 `json:"log_likelihood_ratio,omitempty"` // log likelihood ratio of the gate's sequential test
}

// The games of a match are played in rounds of roundPairs pairs, which the run's boards share. The sequential test is evaluated after whole
// rounds, so that its verdict does not depend on which game ends first.
const roundPairs = 10

// gamesAtOnce is enough to fill the networks' batches.
const gamesAtOnce = 32

// gate plays a match of the new network against the best one, and reports whether the new network is promoted.
func (r *Run) gate(ctx context.Context, g *Generation, candidate *eval.Evaluator) (promoted bool, err error) {
	if r.noNetwork() {
		return true, nil
	}
	best := r.best()
	e, done, err := r.evaluator(best)
	if err != nil {
		return false, err
	}
	defer done()
	m, err := r.match(ctx, g, candidate, "gate", agent.Spec{Model: name(best)}, e)
	if err != nil {
		return false, err
	}
	m.Against = name(best)
	g.Gate = &m
	switch r.Config.test().Verdict(m.Ratio) {
	case arena.Accept0:
		return false, nil
	case arena.Accept1:
		return true, nil
	}
	return 2*m.Points > float64(m.Games), nil
}

// match plays the generation's network against an agent, and stores the games of each board in a file whose name begins with file. For the
// gate, best is the evaluator of the best network, whose name is against.Model, and the match ends with the test's verdict; otherwise best
// is nil.
func (r *Run) match(ctx context.Context, g *Generation, candidate *eval.Evaluator, file string, against agent.Spec, best *eval.Evaluator) (result Meeting, err error) {
	c := r.at(g.Number)
	games := c.OpponentGames
	if best != nil {
		games = c.GateGames
	}
	own, end := batched(candidate)
	defer end()
	networks := map[string]*eval.Evaluator{name(g.Number): own}
	if best != nil {
		other, end := batched(best)
		defer end()
		networks[against.Model] = other
	}
	shared := agent.Shared{Models: func(model string) (*eval.Evaluator, error) {
		if e, ok := networks[model]; ok {
			return e, nil
		}
		return nil, fmt.Errorf("no network %q here: opponents are agents without one", model)
	}}
	var parts []part
	defer func() {
		for _, p := range parts {
			if closed := p.record.Close(); err == nil {
				err = closed
			}
		}
	}()
	pairs := (games + 1) / 2
	for i, n := range r.share(pairs) {
		b := r.boards[i]
		openings, _, err := arena.RandomOpenings(b, arena.DefaultPlies(b), n, r.Config.seed(g.Number))
		if err != nil {
			return result, err
		}
		other := against
		if best != nil {
			other = r.spec(against.Model, b)
		}
		m := &arena.Match{Board: b, Players: arena.Players([]agent.Spec{r.spec(name(g.Number), b), other}, shared), Openings: openings, Seed: r.Config.seed(g.Number), Concurrency: gamesAtOnce}
		path := file
		if len(r.boards) > 1 {
			path += "-" + b.Rules().String()
		}
		record, err := arena.OpenRecord(r.folder(g.Number, path+".parquet"), m, "random")
		if err != nil {
			return result, err
		}
		parts = append(parts, part{m, record, openings})
	}
	return r.rounds(ctx, g, parts, pairs, best != nil)
}

// part is the games of a match on one board.
type part struct {
	*arena.Match
	record   *arena.Record
	openings [][]int // openings of the whole match; Match.Openings has those of the rounds so far
}

// spec returns the agent that plays with a network on a board.
func (r *Run) spec(network string, b *game.Board) agent.Spec {
	// No probes, because they would decide many games for both sides.
	return agent.Spec{Name: "mcts", Model: network, Search: ask.Search{Visits: r.Config.on(b.Rules()).GateVisits, How: ask.How{Exact: solver.NoProbes}}}
}

// batched returns an evaluator that combines the requests of many games into batches, if that is faster. The caller must call end.
func batched(e *eval.Evaluator) (of *eval.Evaluator, end func()) {
	if e.Backend().Attributes().Rows == 1 {
		return eval.New(e.Backend(), eval.Options{}), func() {}
	}
	b := queue.New(e.Backend(), queue.Config{MaxRows: 256, MaxDelay: time.Millisecond, InFlight: 2})
	return eval.New(b, eval.Options{}), b.Close
}

// rounds plays the pairs of games of a match. The gate's match ends as soon as the test has a verdict.
func (r *Run) rounds(ctx context.Context, g *Generation, parts []part, pairs int, gate bool) (result Meeting, err error) {
	all := 0
	for _, p := range parts {
		all += 2 * len(p.openings)
	}
	for begun := 0; begun < pairs; {
		begun = min(begun+roundPairs, pairs)
		result = Meeting{}
		for i, n := range r.share(begun) {
			p := parts[i]
			p.Openings = p.openings[:n]
			err := p.Run(ctx, p.record.Games(), func(played arena.Game) error {
				have := 1
				for _, p := range parts {
					have += len(p.record.Games())
				}
				r.progress(fmt.Sprintf("generation %d against %s: %d of %d games", g.Number, p.Players[1].Name, have, all))
				return p.record.Add(played)
			})
			if err != nil {
				return result, err
			}
			// A resumed run may already have some games of the next round.
			result.add(slices.DeleteFunc(slices.Clone(p.record.Games()), func(g arena.Game) bool { return int(g.Number) > 2*n }), p.Players[0].Name)
		}
		if !gate {
			continue
		}
		result.Ratio = r.Config.test().LogRatio(result.Pairs)
		if r.Config.test().Verdict(result.Ratio) != arena.Undecided {
			break
		}
	}
	return result, nil
}

// add counts games; self is the network's name in them.
func (m *Meeting) add(games []arena.Game, self string) {
	m.Games += len(games)
	for points, n := range arena.CountPairs(games, self) {
		m.Pairs[points] += n
		m.Points += float64(points*n) / 2
	}
}

// updateRatings computes the ratings of all networks from all matches of the run, over all boards.
func (r *Run) updateRatings() {
	players := map[string]int{}
	for _, opponent := range r.Config.Opponents {
		players[opponent] = len(players)
	}
	if r.Config.Init != "" {
		players[name(beginning)] = len(players)
	}
	for i := range r.generations {
		players[name(i)] = len(players)
	}
	var encounters []arena.Encounter
	for i := range r.generations {
		g := &r.generations[i]
		all := g.Matches
		if g.Gate != nil {
			all = append(all[:len(all):len(all)], *g.Gate)
		}
		var own [5]int
		for _, m := range all {
			for points, n := range m.Pairs {
				own[points] += n
				for range n {
					encounters = append(encounters, arena.Encounter{A: players[name(i)], B: players[m.Against], Games: 2, Points: float64(points) / 2})
				}
			}
		}
		g.TooFew = arena.TooFewGames(own)
	}
	ratings := arena.Rate(len(players), encounters)
	for i := range r.generations {
		g := &r.generations[i]
		g.Elo, g.EloError, _ = ratings.Difference(players[name(i)], players[r.Config.Opponents[0]])
	}
}
