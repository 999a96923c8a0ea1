package library

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"

	"github.com/evald/evald/cmd/evald/internal/play"
	"github.com/evald/evald/engine/agent"
	"github.com/evald/evald/engine/arena"
	"github.com/evald/evald/engine/ask"
	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/fault"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/queue"
	"github.com/evald/evald/nn/open"
)

// MatchOptions are options of Match, as JSON.
type MatchOptions struct {
	Players      []MatchPlayer     `json:"players"`
	Games        int               `json:"games"` // of each pair of players
	Seed         uint64            `json:"seed"`
	OpeningPlies *int              `json:"opening_plies"` // nil: arena.DefaultPlies
	Parallel     int               `json:"parallel"`      // games at once
	Search       json.RawMessage   `json:"search"`        // of functions and evaluators: what ask.Python may set
	ORT          map[string]string `json:"ort"`           // for networks of agents, as in Options
	Program      string            `json:"program"`       // likewise
}

// MatchPlayer is a player of a match: an agent as evald match takes it, an open evaluator by its
// number, or a function of the caller. Functions are numbered in the order of the players.
type MatchPlayer struct {
	Name      string `json:"name"`
	Agent     string `json:"agent"`
	Evaluator int64  `json:"evaluator"`
}

// MatchResult is the result of a match, as JSON.
type MatchResult struct {
	Openings int         `json:"openings"` // number of different openings
	Table    arena.Table `json:"table"`
}

// mostGames is the maximum number of games of a match.
const mostGames = 10_000_000

// Match plays every player against every other as evald match does: with the same options, agents
// by name play the same games. Functions and evaluators play by a search with the options Search, so
// many games at once that their leaves fill batches. evaluators returns an open evaluator by its
// number. Work.Result is a MatchResult.
func Match(b *game.Board, options string, evaluators func(int64) (*Evaluator, error)) (work *Work, err error) {
	o := MatchOptions{Games: 100, Parallel: 128, Search: json.RawMessage("{}")}
	if err := decode(options, &o); err != nil {
		return nil, fmt.Errorf("options of the match: %w", err)
	}
	search, err := ask.Decode(string(o.Search), ask.Python)
	if err != nil {
		return nil, fmt.Errorf("options of the search: %w", err)
	}
	n := len(o.Players)
	switch {
	case n < 2:
		return nil, fmt.Errorf("players: there are %d, and a match has 2 or more", n)
	case o.Games < 2 || o.Games%2 == 1:
		return nil, fmt.Errorf("games is %d, and must be even, because each opening is played twice: %d", o.Games, max(2, o.Games+1))
	case o.Games > mostGames/(n*(n-1)/2):
		return nil, fmt.Errorf("games is %d, and with %d players that is more than %d games", o.Games, n, mostGames)
	}
	m := &match{MatchOptions: o, search: search, processors: runtime.GOMAXPROCS(0), specs: make([]agent.Spec, n), of: make([]*Evaluator, n)}
	defer func() {
		if work == nil {
			m.close()
		}
	}()
	var function *Function
	for i, p := range o.Players {
		switch {
		case p.Agent != "":
			if m.specs[i], err = play.ParseAgent(p.Agent); err != nil {
				return nil, fmt.Errorf("players: %q is %w; a network by its name is the agent mcts:model=NAME", p.Name, err)
			}
		case p.Evaluator != 0:
			if m.of[i], err = evaluators(p.Evaluator); err != nil {
				return nil, err
			}
			done, err := m.of[i].use()
			if err != nil {
				return nil, err
			}
			m.later(func() error { done(); return nil })
		case function == nil:
			function = NewFunction(o.Parallel)
		}
	}
	return begin(function, o.Games*n*(n-1)/2, nil, func(ctx context.Context, w *Work) error {
		m.end = w.cancel
		err := m.play(ctx, b, w)
		return errors.Join(cmp.Or(m.failed, err), m.close())
	}), nil
}

// match is a match that is being played.
type match struct {
	MatchOptions
	search ask.Search
	specs  []agent.Spec // of players that are agents
	of     []*Evaluator // of players that are evaluators

	processors int // before a function has got one more

	end     context.CancelFunc
	mu      sync.Mutex
	closers []func() error // of what the match has opened
	failed  error          // the first error of a player that ends the match
}

// seated is a player's agent in a game.
type seated struct {
	agent.Agent
	match  *match
	player MatchPlayer
	with   *together // the function, if it is one
}

// Supports is that of the agent.
func (s seated) Supports(b *game.Board) error { return agent.Supports(s.Agent, b) }

// Move implements agent.Agent. An error of a function or an evaluator, and a fault of any player,
// ends the match. By another error an agent loses the game, as in evald match.
func (s seated) Move(ctx context.Context, b *game.Board, p game.Position) (int, error) {
	if s.with != nil {
		s.with.move(1)
		defer s.with.move(-1)
	}
	action, err := s.Agent.Move(ctx, b, p)
	if err != nil && ctx.Err() == nil && (s.player.Agent == "" || fault.In(err) != nil) {
		s.match.fail(fmt.Errorf("player %s: %w", s.player.Name, err))
	}
	return action, err
}

func (m *match) fail(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.failed = cmp.Or(m.failed, err)
	m.end()
}

func (m *match) close() (err error) {
	for _, c := range slices.Backward(m.closers) {
		err = errors.Join(err, c())
	}
	m.closers = nil
	return err
}

func (m *match) play(ctx context.Context, b *game.Board, w *Work) error {
	plies := arena.DefaultPlies(b)
	if m.OpeningPlies != nil {
		plies = *m.OpeningPlies
	}
	openings, distinct, err := arena.RandomOpenings(b, plies, m.Games/2, m.Seed)
	if err != nil {
		return fmt.Errorf("opening_plies: %w", err)
	}
	all := &arena.Match{Board: b, Players: m.players(ctx, w.function), Openings: openings, Seed: m.Seed, Concurrency: m.processors}
	for _, p := range all.Players {
		a, err := p.New(0) // so that errors appear before the match begins
		if err == nil {
			err = agent.Supports(a, b)
		}
		if err != nil {
			return fmt.Errorf("player %s: %w", p.Name, err)
		}
	}
	// Agents with a time per move need a processor each.
	batches := slices.ContainsFunc(m.Players, func(p MatchPlayer) bool { return p.Agent == "" })
	if timed := slices.ContainsFunc(m.specs, func(s agent.Spec) bool { return s.Time > 0 }); batches && !timed {
		all.Concurrency = m.Parallel
	}
	var games []arena.Game
	err = all.Run(ctx, nil, func(g arena.Game) error {
		games = append(games, g)
		w.done.Add(1)
		return nil
	})
	if err != nil {
		return err
	}
	return w.report(MatchResult{distinct, arena.NewTable(all.Names(), games)})
}

// players returns the players. function is the first of the caller, nil if there is none.
func (m *match) players(ctx context.Context, function *Function) (players []arena.Player) {
	shared := play.Batched(play.Share(m.open), m.closeLater)
	for i, p := range m.Players {
		spec, on, with := m.specs[i], shared, (*together)(nil)
		switch {
		case p.Agent != "":
			spec = shared.Choose(spec) // the networks of levels and of short times
		case m.of[i] != nil:
			e := m.of[i].evaluator
			spec, on = m.searching(play.Batched(agent.Shared{Models: always(e), Chosen: always(e)}, m.closeLater))
		default:
			with = &together{Function: function, match: ctx}
			m.later(func() error { with.calls.Wait(); return nil })
			spec, on = m.searching(agent.Shared{Models: always(eval.New(with, eval.Options{}))})
			function = function.Another()
		}
		players = append(players, arena.Player{Name: p.Name, Limit: spec.Time, New: func(seed uint64) (agent.Agent, error) {
			s := spec
			s.Seed += seed
			a, err := agent.New(s, on)
			return seated{a, m, p, with}, err
		}})
	}
	return players
}

// searching is the agent of a function or an evaluator.
func (m *match) searching(on agent.Shared) (agent.Spec, agent.Shared) {
	return agent.Spec{Name: "mcts", Search: m.search}, on
}

func always(e *eval.Evaluator) func(string) (*eval.Evaluator, error) {
	return func(string) (*eval.Evaluator, error) { return e, nil }
}

// open opens a network of an agent, for the time of the match.
func (m *match) open(name string, substitute bool) (*eval.Evaluator, error) {
	o := Options{Model: name, Backend: play.Backend(name), ORT: m.ORT, Program: m.Program}.open()
	o.Substitute = substitute
	opened, err := open.Open(o)
	if err != nil {
		return nil, err
	}
	m.later(opened.Close)
	return opened.Evaluator, nil
}

// later adds what the end of the match calls, the last first.
func (m *match) later(end func() error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closers = append(m.closers, end)
}

// closeLater closes a batcher when the match ends: batches outlive the games that have been given up.
func (m *match) closeLater(b *queue.Batcher) { m.later(func() error { b.Close(); return nil }) }
