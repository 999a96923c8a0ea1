package library

import (
	"context"
	"fmt"

	"github.com/evald/evald/engine/eval"
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

	// Lookahead is the opposite of Plain. Without it the evaluator decides, as in searches.
	Lookahead *bool `json:"lookahead"`

	// Order is the order in which Wait returns games: "finished", as they end, or "number".
	Order string `json:"order"`
}

const (
	byFinish = "finished"
	byNumber = "number"
)

// gamesAhead is the maximum number of finished games that wait for the caller; then self-play pauses.
const gamesAhead = 1024

// Play plays games of an evaluator against itself or, if e is nil, of the caller's function. Wait returns each game when it is over.
func Play(e *Evaluator, b *game.Board, options string) (work *Work, err error) {
	o := GameOptions{Config: selfplay.DefaultConfig(), Parallel: 512, Batch: 128, Games: 1, Order: byFinish}
	o.OpeningPlies, o.TemperaturePlies = selfplay.PliesFor(b)
	if err := decode(options, &o); err != nil {
		return nil, fmt.Errorf("options of self-play: %w", err)
	}
	o.Rules, o.Config.Parallel, o.Config.Batch = b.Rules().String(), o.Parallel, o.Batch
	if o.Games < 0 || o.First < 0 {
		return nil, fmt.Errorf("games %d from %d: must be 0 or more", o.Games, o.First)
	}
	if o.Order != byFinish && o.Order != byNumber {
		return nil, fmt.Errorf("order is %q, must be %s or %s", o.Order, byFinish, byNumber)
	}
	evaluator, function, done, err := asks(e, b, o.Batch)
	if err != nil {
		return nil, err
	}
	defer func() {
		if work == nil { // after an error or a panic
			done()
		}
	}()
	if e != nil && o.Network == "" {
		o.Network = e.about.Model
	}
	if o.Plain = evaluator.Backend().Attributes().Plain && o.Exact == 0; o.Lookahead != nil {
		o.Plain = !*o.Lookahead
	}
	o.Details = true
	if err := o.Config.Validate(); err != nil {
		return nil, err
	}
	games := make(chan *selfplay.Game, gamesAhead)
	return begin(function, o.Games, games, func(ctx context.Context, w *Work) error {
		defer done()
		over := func(g *selfplay.Game) error {
			select {
			case games <- g:
				w.done.Add(1)
				return nil
			case <-ctx.Done():
				return fmt.Errorf("self-play: %w", ctx.Err())
			}
		}
		remember := selfplay.Remember
		if o.Plain {
			remember = selfplay.RememberPlain
		}
		remembering := remember(evaluator, o.Network, selfplay.Remembered)
		if o.Order == byNumber {
			return inOrder(ctx, remembering, o, gamesOpen*o.Parallel, over)
		}
		return selfplay.Play(ctx, remembering, o.Config, o.First, o.Games, nil, over)
	}), nil
}

// gamesOpen is the maximum distance, in units of Parallel, between the first game that the caller
// waits for and the last one that has begun. It bounds the number of games that wait for an earlier
// one. Games of a board differ less in length, so it is rarely reached.
const gamesOpen = 8

// inOrder plays the games and calls over with each in the order of their numbers. At most most games
// have begun and not been passed to over; if there are as many, free seats stay empty until all of
// them are over.
func inOrder(ctx context.Context, e *eval.Evaluator, o GameOptions, most int, over func(*selfplay.Game) error) error {
	c := o.Config.Sized(e, o.Games)
	c.Parallel = min(c.Parallel, max(1, o.Games))
	waiting := map[int]*selfplay.Game{}
	next, begun, end := o.First, o.First, o.First+o.Games
	for next < end {
		err := selfplay.PlayNext(ctx, e, c, func() (int, bool) {
			if begun == min(end, next+most) {
				return 0, false
			}
			begun++
			return begun - 1, true
		}, func(g *selfplay.Game) error {
			waiting[g.Number] = g
			for g := waiting[next]; g != nil; g = waiting[next] {
				if err := over(g); err != nil {
					return err
				}
				delete(waiting, next)
				next++
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// GameRows is memory for the positions of a game.
type GameRows struct {
	Positions []game.Position // [P]
	Visits    []uint32        // [P,A]; all 0 for a position without a full search
	Q         []float32       // [P] root values, for the side to move
	Who       []uint8         // [P] code of the source of the answer, as in Evaluate
	Moves     []int32         // [P] the action that was played, or -1 if the game ended here
	Policy    []float32       // [P,A] of full searches: shares of the visits, or gumbel's improved policy; else all 0
	Prior     []float32       // [P,A] as the search has used them; all 0 if the rules or a proof decided the position
	Raw       []float32       // [P] the network's own values; 0 likewise
}

// Write fills the rows of a game. Each array must have the length that the game's number of positions P requires.
func (r GameRows) Write(b *game.Board, g *selfplay.Game) {
	n := b.Actions()
	clear(r.Visits)
	clear(r.Policy)
	clear(r.Prior)
	for i, p := range g.Plies {
		r.Positions[i], r.Q[i], r.Who[i] = p.Position, p.Q, code(p.Source)
		r.Raw[i] = p.Raw
		copy(r.Visits[i*n:(i+1)*n], p.Visits)
		copy(r.Policy[i*n:(i+1)*n], p.Policy)
		copy(r.Prior[i*n:(i+1)*n], p.Prior)
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
