package learn

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/evald/evald/engine/agent"
	"github.com/evald/evald/engine/arena"
	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/solver"
)

// Meeting is the result of a match of a generation's network.
type Meeting struct {
	Against string  `json:"against"` // a network's number or an agent
	Games   int     `json:"games"`
	Pairs   [5]int  `json:"pairs"` // pairs of games on one opening by the network's points: 0, 0.5, 1, 1.5, 2
	Points  float64 `json:"points"`
	Ratio   float64 `json:"log_likelihood_ratio,omitempty"` // of the gate's sequential test
}

// The games of a match are played in rounds. The sequential test is asked after whole rounds, so its verdict does not
// depend on which game ended first.
const roundPairs = 10

// gamesAtOnce is enough games to fill the batches of the networks.
const gamesAtOnce = 32

// gate lets the new network play against the best one, and reports whether it is better.
func (r *Run) gate(ctx context.Context, g *Generation, candidate *eval.Evaluator) (promoted bool, err error) {
	best := r.best()
	if best < 0 {
		return true, nil
	}
	e, done, err := r.evaluator(best)
	if err != nil {
		return false, err
	}
	defer done()
	m, err := r.match(ctx, g, candidate, "gate", r.spec(best), e)
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

// match lets the generation's network play against an agent, and keeps the games in a file of that name. For the gate, best
// is the evaluator of the best network, and the match ends with the verdict; otherwise best is nil.
func (r *Run) match(ctx context.Context, g *Generation, candidate *eval.Evaluator, file string, against agent.Spec, best *eval.Evaluator) (Meeting, error) {
	games := r.Config.OpponentGames
	if best != nil {
		games = r.Config.GateGames
	}
	batched := map[string]*eval.Evaluator{name(g.Number): batcher(candidate)}
	if best != nil {
		batched[against.Model] = batcher(best)
	}
	defer func() {
		for _, b := range batched {
			b.Close()
		}
	}()
	shared := agent.Shared{Models: func(model string) (*eval.Evaluator, error) {
		if e, ok := batched[model]; ok {
			return e, nil
		}
		return nil, fmt.Errorf("no network %q here: opponents are agents without one", model)
	}}
	openings, _, err := arena.RandomOpenings(r.board, arena.DefaultPlies(r.board), (games+1)/2, r.Config.seed(g.Number))
	if err != nil {
		return Meeting{}, err
	}
	m := &arena.Match{Board: r.board, Players: arena.Players([]agent.Spec{r.spec(g.Number), against}, shared), Openings: openings, Seed: r.Config.seed(g.Number), Concurrency: gamesAtOnce}
	record, err := arena.OpenRecord(r.folder(g.Number, file+".parquet"), m, "random")
	if err != nil {
		return Meeting{}, err
	}
	result, err := r.rounds(ctx, g, m, record, best != nil)
	if closed := record.Close(); err == nil {
		err = closed
	}
	return result, err
}

// spec is the agent that plays for a generation's network.
func (r *Run) spec(number int) agent.Spec {
	// Without probes, which would decide many games for both.
	return agent.Spec{Name: "mcts", Model: name(number), Visits: r.Config.GateVisits, Exact: solver.NoProbes}
}

// batcher lets many games ask a network together, if that is faster.
func batcher(e *eval.Evaluator) *eval.Evaluator {
	if e.Backend().Attributes().Rows == 1 {
		return eval.New(e.Backend(), eval.Options{})
	}
	return eval.New(e.Backend(), eval.Options{Batch: &eval.BatcherConfig{MaxRows: 256, MaxDelay: time.Millisecond, InFlight: 2}})
}

// rounds plays a match's games. If it is the gate's, it ends as soon as the test has a verdict.
func (r *Run) rounds(ctx context.Context, g *Generation, m *arena.Match, record *arena.Record, gate bool) (result Meeting, err error) {
	openings, self := m.Openings, m.Players[0].Name
	for pairs := 0; pairs < len(openings); {
		pairs = min(pairs+roundPairs, len(openings))
		m.Openings = openings[:pairs]
		err := m.Run(ctx, record.Games(), func(played arena.Game) error {
			r.progress(fmt.Sprintf("generation %d against %s: %d of %d games", g.Number, m.Players[1].Name, len(record.Games())+1, 2*len(openings)))
			return record.Add(played)
		})
		if err != nil {
			return result, err
		}
		// A run that was killed may have some games of the next round already.
		result = meeting(slices.DeleteFunc(slices.Clone(record.Games()), func(g arena.Game) bool { return int(g.Number) > 2*pairs }), self)
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

func meeting(games []arena.Game, self string) Meeting {
	m := Meeting{Games: len(games), Pairs: arena.CountPairs(games, self)}
	for points, n := range m.Pairs {
		m.Points += float64(points*n) / 2
	}
	return m
}

// rate computes the ratings of all networks by all matches of the run.
func (r *Run) rate() {
	players := map[string]int{}
	for _, opponent := range r.Config.Opponents {
		players[opponent] = len(players)
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
