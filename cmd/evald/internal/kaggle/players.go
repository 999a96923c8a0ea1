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

// Players answers the turns of many games at once. An agent serves one move at a time; between moves it waits with its tree
// until the game continues. Requests do not name their game, so an agent is found by the position: the one after its last
// move, with one more stone of the other side. Any agent can answer any position; finding the right one only saves work.
type Players struct {
	spec   agent.Spec
	shared agent.Shared
	most   int           // maximum number of agents, and of moves at once
	slots  chan struct{} // one for each move in progress

	mu   sync.Mutex
	busy int       // agents that think or are being made
	idle []*player // longest waiting first; len(idle) + busy <= most
}

// player is an agent that waits for its next turn.
type player struct {
	agent.Agent
	time time.Duration // time per move; 0 if the agent counts visits
	left game.State    // the position after its last move
}

// NewPlayers makes players of one agent, at most most agents at once. One is made right away, so that an error in the spec
// is known before the first game.
func NewPlayers(spec agent.Spec, shared agent.Shared, most int) (*Players, error) {
	if most < 1 {
		return nil, fmt.Errorf("kaggle: %d games at once: must be 1 or more", most)
	}
	p := &Players{spec: spec, shared: shared, most: most, slots: make(chan struct{}, most)}
	first, err := p.newPlayer(allowed(defaultAct, spec.Time))
	if err != nil {
		return nil, err
	}
	p.idle = append(p.idle, first)
	return p, nil
}

// errBusy is the error of a turn whose time ran out while the maximum number of moves was in progress.
var errBusy = errors.New("all agents are thinking")

// Move returns the action for a turn. The agent takes its own time, but never more than the turn's Act less a reserve. An
// agent that ignores time is stopped when the turn is lost anyway. The error then wraps context.DeadlineExceeded, as does
// one that wraps errBusy.
func (p *Players) Move(ctx context.Context, t Turn) (action int, err error) {
	ctx, cancel := context.WithTimeout(ctx, allowed(t.Act, 0)+reserve(t.Act)/2+t.Overage)
	defer cancel()
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

// take returns the agent that waits for the turn's game, or else a new one, which may replace the one that waited longest.
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

// giveBack ends a move. After a failed move the agent is dropped, because it may be in any state.
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

// follows reports whether now is left with one more stone of the side that was to move there.
func follows(left, now game.State) bool {
	return left.Board != nil && left.Board.Rules() == now.Board.Rules() && left.Mark != now.Mark &&
		now.Own == left.Other() && now.All.And(left.All) == left.All && now.Plies() == left.Plies()+1
}

// least is the shortest time that an agent gets, even in games that give none.
const least = 10 * time.Millisecond

// reserve is the part of a move's time that is kept for the network, other processes and garbage collection.
func reserve(act time.Duration) time.Duration { return min(act/2, 50*time.Millisecond+act/20) }

// allowed is the time of an agent that would take own (0: as long as allowed) in a game that gives act.
func allowed(act, own time.Duration) time.Duration {
	d := max(act-reserve(act), least)
	if own > 0 {
		d = min(d, own)
	}
	return d
}
