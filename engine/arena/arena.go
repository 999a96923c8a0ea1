// Package arena plays matches: every player against every other, with each opening twice, colours exchanged.
//
// A Match names the players and openings, and plays the missing games. A Record stores them in a file. From games, Rate computes ratings,
// NewTable computes a table, and SPRT decides whether two players have played enough.
//
// # Decisions
//
// The unit of a match's statistics is a pair of games. The two games of an opening are not independent, so intervals and the sequential
// test use the pair's score. Games are numbered opening by opening. So the numbers alone determine which games are missing after a kill, or
// in a longer match. An agent's seed is derived from the match's seed and the game's number.
package arena

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/evald/evald/engine/agent"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/jobs"
)

// Player takes part in a match.
type Player struct {
	Name  string
	Limit time.Duration // time per move; only used to count slower moves; 0 means no limit

	// New returns the player's agent for one game. Each game has its own seed; a repeated match has the same seeds. New is called
	// concurrently.
	New func(seed uint64) (agent.Agent, error)
}

// Players returns the players of the specs, in their order. The name of a player is its spec; repeated specs get "#2" and so on appended. A
// game's seed is added to the spec's own seed.
func Players(specs []agent.Spec, shared agent.Shared) []Player {
	players, taken := make([]Player, len(specs)), map[string]bool{}
	for i, spec := range specs {
		name := spec.String()
		for n := 2; taken[name]; n++ {
			name = fmt.Sprintf("%s#%d", spec, n)
		}
		taken[name] = true
		players[i] = Player{Name: name, Limit: spec.Time, New: func(seed uint64) (agent.Agent, error) {
			s := spec
			s.Seed += seed
			return agent.New(s, shared)
		}}
	}
	return players
}

// Match is a tournament. Its games are numbered from 1, opening by opening, so a match with more openings begins with the same games.
type Match struct {
	Board       *game.Board
	Players     []Player // 2 or more
	Openings    [][]int  // the actions of each opening, as from RandomOpenings; each pair of players plays each opening twice
	Seed        uint64
	Concurrency int // number of concurrent games, 1 or more
}

// Names are the players' names.
func (m *Match) Names() []string {
	names := make([]string, len(m.Players))
	for i, p := range m.Players {
		names[i] = p.Name
	}
	return names
}

// Games is the number of games of the match.
func (m *Match) Games() int { return 2 * len(m.Openings) * pairs(len(m.Players)) }

// pairs is the number of pairs among the given number of players.
func pairs(players int) int { return players * (players - 1) / 2 }

type pairing struct {
	pair, opening int // from 0
	first, second int // indices of players; first has the first move of the game, including the opening
}

// pairing returns the pairing of game n, counted from 1. In each opening, all pairs play once before any pair plays with colours exchanged.
// So whenever a match ends, all players have played about the same number of games.
func (m *Match) pairing(n int) pairing {
	all := pairs(len(m.Players))
	n--
	p := pairing{pair: n % all, opening: n / (2 * all)}
	left := p.pair
	for p.first = 0; left >= len(m.Players)-1-p.first; p.first++ {
		left -= len(m.Players) - 1 - p.first
	}
	p.second = p.first + 1 + left
	if n/all%2 == 1 {
		p.first, p.second = p.second, p.first
	}
	return p
}

// seed is the seed of one side (0 moves first) in game n.
func (m *Match) seed(n, side int) uint64 { return rand.NewPCG(m.Seed, uint64(2*n+side)).Uint64() }

// Run plays the games that are not in have, in order, but several at once. It calls done with each finished game; these calls do not
// overlap. If done returns an error, if an agent cannot be created, or if ctx ends, the match ends, and unfinished games are discarded. The
// error then wraps that of done or New, or ctx.Err().
func (m *Match) Run(ctx context.Context, have []Game, done func(Game) error) error {
	played := make(map[int]bool, len(have))
	for _, g := range have {
		played[int(g.Number)] = true
	}
	var missing []int
	for n := 1; n <= m.Games(); n++ {
		if !played[n] {
			missing = append(missing, n)
		}
	}
	var mu sync.Mutex // guards ended and the calls of done
	ended := false
	err := jobs.Each(ctx, m.Concurrency, len(missing), func(ctx context.Context, _, i int) error {
		g, err := m.play(ctx, missing[i])
		mu.Lock()
		defer mu.Unlock()
		if err == nil && !ended { // a finished game counts even after an interrupt
			err = done(g)
		}
		ended = ended || err != nil
		return err
	})
	if err != nil && ctx.Err() != nil {
		return fmt.Errorf("match: %w", ctx.Err())
	}
	return err
}
