package kaggle

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/evald/evald/engine/agent"
	"github.com/evald/evald/engine/game"
)

// Players answers the turns of many games at once. An agent computes one move at a time; between moves it waits with its search tree until
// the game continues. Requests do not name their game. So Players looks for the agent whose last move led to a position one stone before the
// request's. Any agent can answer any position; the right one only saves work.
type Players struct {
	spec   agent.Spec
	shared agent.Shared
	most   int           // maximum number of agents, and of moves at once
	slots  chan struct{} // one for each move in progress

	mu   sync.Mutex
	busy int       // number of agents that think or are being made
	idle []*player // agents that wait, the longest waiting first; len(idle) + busy <= most
}

// player is an agent that waits for its next turn.
type player struct {
	agent.Agent
	time time.Duration // time per move; 0 if the agent counts visits
	left game.State    // the position after the agent's last move
}

// NewPlayers returns Players that keep at most most agents of a spec. It makes the first agent at once, so that an error in the spec appears
// before the first game.
func NewPlayers(spec agent.Spec, shared agent.Shared, most int) (*Players, error) {
	if most < 1 {
		return nil, fmt.Errorf("kaggle: %d games at once: must be 1 or more", most)
	}
	if spec.Name == "mcts" { // a game is to be won, also with a user's own network
		spec.How = spec.How.Helped()
	}
	p := &Players{spec: spec, shared: shared, most: most, slots: make(chan struct{}, most)}
	first, err := p.newPlayer(allowed(defaultAct, spec.Time))
	if err != nil {
		return nil, err
	}
	p.idle = append(p.idle, first)
	return p, nil
}

// errBusy is the error of a turn whose time ran out while it waited, because the maximum number of moves was in progress.
var errBusy = errors.New("all agents are thinking")

// thumbs is how the log begins about a move that is not the agent's own.
const thumbs = "playing by rules of thumb"

// Move returns the action for a turn. The agent's time per move is its own, but at most the turn's
// Act less a reserve. If the agent, or the wait for one, takes so long that the turn would be lost,
// or if the board is too large for agents, the action is one by rules of thumb, and instead says
// why. If ctx ends, the error wraps ctx.Err().
func (p *Players) Move(ctx context.Context, t Turn) (action int, instead, err error) {
	if t.large != nil {
		return t.large.move(), fmt.Errorf("%s: %w", thumbs, t.tooLarge), ctx.Err()
	}
	timed, cancel := context.WithTimeout(ctx, allowed(t.Act, 0)+reserve(t.Act)/2+spare(t.Overage))
	defer cancel()
	action, err = p.think(timed, t)
	if ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
		return agent.Quick(t.Board, t.Position), fmt.Errorf("%s, because the time is over: %w", thumbs, err), nil
	}
	return action, nil, err
}

// think returns an agent's move. If all agents think until ctx ends, the error wraps errBusy.
func (p *Players) think(ctx context.Context, t Turn) (action int, err error) {
	select {
	case p.slots <- struct{}{}:
		defer func() { <-p.slots }()
	case <-ctx.Done():
		return 0, fmt.Errorf("kaggle: %w: there are %d: %w", errBusy, p.most, ctx.Err())
	}
	q, err := p.take(t)
	if err != nil {
		return 0, err
	}
	whole := false
	defer func() { p.giveBack(q, whole) }() // also if the agent panics
	action, err = q.Move(ctx, t.Board, t.Position)
	if err != nil {
		return 0, err
	}
	q.left = game.State{Board: t.Board, Position: t.Board.Play(t.Position, action), Mark: 3 - t.Mark}
	whole = true
	return action, nil
}

// take returns the agent that waits for the turn's game, or else a new one. The new one replaces the longest waiting agent if there are most
// agents.
func (p *Players) take(t Turn) (*player, error) {
	d := allowed(t.Act, p.spec.Time)
	p.mu.Lock()
	p.busy++
	at := slices.IndexFunc(p.idle, func(q *player) bool { return q.time == d && follows(q.left, t.State) })
	if at < 0 && p.busy+len(p.idle) > p.most {
		at = 0
	}
	var q *player
	if at >= 0 {
		q = p.idle[at]
		p.idle = slices.Delete(p.idle, at, at+1)
	}
	p.mu.Unlock()
	if q != nil && q.time == d {
		return q, nil
	}
	q, err := p.newPlayer(d)
	if err != nil {
		p.giveBack(nil, false)
	}
	return q, err
}

// giveBack ends a move. If the move failed (whole is false), the agent is dropped, because its state is unknown.
func (p *Players) giveBack(q *player, whole bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.busy--
	if whole {
		p.idle = append(p.idle, q)
	}
}

func (p *Players) newPlayer(d time.Duration) (*player, error) {
	spec := p.spec
	spec.Time = d
	a, err := agent.New(spec, p.shared)
	return &player{Agent: a, time: d}, err
}

// follows reports whether now is left plus one stone of the side that was to move in left.
func follows(left, now game.State) bool {
	return left.Board != nil && left.Board.Rules() == now.Board.Rules() && left.Mark != now.Mark &&
		now.Own == left.Other() && now.All.And(left.All) == left.All && now.Plies() == left.Plies()+1
}

// least is the shortest time that an agent gets, even in games that give none.
const least = 10 * time.Millisecond

// reserve returns the part of a move's time that is reserved for network latency, other processes and garbage collection.
func reserve(act time.Duration) time.Duration { return min(act/2, 50*time.Millisecond+act/20) }

// spare returns the part of a game's overage time that a move may use, so that latency does not
// lose the game.
func spare(overage time.Duration) time.Duration { return overage - min(overage/4, time.Second) }

// allowed returns the time per move of an agent in a game that allows act. own is the agent's own time; 0 is as long as allowed.
func allowed(act, own time.Duration) time.Duration {
	d := max(act-reserve(act), least)
	if own > 0 {
		d = min(d, own)
	}
	return d
}
