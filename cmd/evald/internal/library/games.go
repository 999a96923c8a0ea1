package library

import (
	"context"
	"fmt"

	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/selfplay"
)

// GameOptions are options of self-play, as JSON: the fields of selfplay.Config, with its defaults, and these.
type GameOptions struct {
	selfplay.Config
	Games    int `json:"games"` // number of games
	First    int `json:"first"` // number of the first game
	Parallel int `json:"parallel"`
	Batch    int `json:"batch"`
}

// gamesAhead is the maximum number of finished games that wait for the caller; then self-play pauses.
const gamesAhead = 1024

// Play plays games of an evaluator against itself or, if e is nil, of the caller's function. Wait returns each game when it is over.
func Play(e *Evaluator, b *game.Board, options string) (work *Work, err error) {
	o := GameOptions{Config: selfplay.DefaultConfig(), Parallel: 512, Batch: 128, Games: 1}
	o.OpeningPlies, o.TemperaturePlies = selfplay.PliesFor(b)
	if err := decode(options, &o); err != nil {
		return nil, fmt.Errorf("options of self-play: %w", err)
	}
	o.Rules, o.Config.Parallel, o.Config.Batch = b.Rules().String(), o.Parallel, o.Batch
	if err := o.Config.Validate(); err != nil {
		return nil, err
	}
	if o.Games < 0 || o.First < 0 {
		return nil, fmt.Errorf("games %d from %d: must be 0 or more", o.Games, o.First)
	}
	evaluator, function, done, err := asks(e, b, o.Batch)
	if err != nil {
		return nil, err
	}
	defer func() {
		if work == nil { // after a panic
			done()
		}
	}()
	if e != nil && o.Network == "" {
		o.Network = e.about.Model
	}
	games := make(chan *selfplay.Game, gamesAhead)
	return begin(function, o.Games, games, func(ctx context.Context, w *Work) error {
		defer done()
		return selfplay.Play(ctx, selfplay.Remember(evaluator, o.Network, selfplay.Remembered), o.Config, o.First, o.Games, nil, func(g *selfplay.Game) error {
			select {
			case games <- g:
				w.done.Add(1)
				return nil
			case <-ctx.Done():
				return fmt.Errorf("self-play: %w", ctx.Err())
			}
		})
	}), nil
}

// GameRows is memory for the positions of a game.
type GameRows struct {
	Positions []game.Position // [P]
	Visits    []uint32        // [P,A]; all 0 for a position without a full search
	Q         []float32       // [P] root values, for the side to move
	Who       []uint8         // [P] code of the source of the answer, as in Evaluate
	Moves     []int32         // [P] the action that was played, or -1 if the game ended here
}

// Write fills the rows of a game. Each array must have the length that the game's number of positions P requires.
func (r GameRows) Write(b *game.Board, g *selfplay.Game) {
	n := b.Actions()
	clear(r.Visits)
	for i, p := range g.Plies {
		r.Positions[i], r.Q[i], r.Who[i] = p.Position, p.Q, code(p.Source)
		copy(r.Visits[i*n:(i+1)*n], p.Visits)
		next := g.Last
		if i+1 < len(g.Plies) {
			next = g.Plies[i+1].Position
		}
		r.Moves[i] = -1
		if stone := next.All.AndNot(p.Position.All); !stone.IsZero() {
			r.Moves[i] = int32(b.Action(stone.First()))
		}
	}
}
