package library

import (
	"context"
	"fmt"
	"slices"

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

	// Networks are those of a league (selfplay.PlayLeague), in place of a single one.
	Networks []LeagueNetwork `json:"networks"`

	// Order is the order in which Wait returns games: "finished", as they end, or "number".
	Order string `json:"order"`
}

// LeagueNetwork is a network of a league: an open evaluator by its number or, with 0, the next function
// of the caller.
type LeagueNetwork struct {
	Name      string `json:"name"`
	Evaluator int64  `json:"evaluator"`
}

const (
	byFinish = "finished"
	byNumber = "number"
)

// gamesAhead is the maximum number of finished games that wait for the caller; then self-play pauses.
const gamesAhead = 1024

// Play plays games of an evaluator against itself or, if e is nil, of the caller's function, or of a
// league. evaluators returns an open evaluator by its number, nil for 0. Wait returns each game when it is over.
func Play(e *Evaluator, b *game.Board, options string, evaluators func(int64) (*Evaluator, error)) (work *Work, err error) {
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
	l := league{board: b, options: &o}
	defer func() {
		if work == nil { // after an error or a panic
			l.done()
		}
	}()
	if len(o.Networks) == 0 {
		if err := l.join(e, o.Network); err != nil {
			return nil, err
		}
	}
	for _, n := range o.Networks {
		e, err := evaluators(n.Evaluator)
		if err == nil {
			err = l.join(e, "")
		}
		if err != nil {
			return nil, fmt.Errorf("network %q: %w", n.Name, err)
		}
	}
	o.Plain, o.Details = slices.ContainsFunc(l.members, func(m selfplay.Member) bool { return m.Plain }), true
	if err := o.Config.Validate(); err != nil {
		return nil, err
	}
	games := make(chan *selfplay.Game, gamesAhead)
	return begin(l.function, o.Games, games, func(ctx context.Context, w *Work) error {
		defer l.done()
		over := func(g *selfplay.Game) error {
			select {
			case games <- g:
				w.done.Add(1)
				return nil
			case <-ctx.Done():
				return fmt.Errorf("self-play: %w", ctx.Err())
			}
		}
		members := l.remembering()
		o.Config = o.Config.Sized(members[0].Evaluator, o.Games)
		o.Config.Parallel = min(o.Config.Parallel, max(1, o.Games))
		if o.Order == byNumber {
			return inOrder(ctx, members, o, gamesOpen*o.Parallel, over)
		}
		number := o.First
		next := func() (int, bool) { number++; return number - 1, number <= o.First+o.Games }
		return selfplay.PlayLeague(ctx, members, o.Config, next, over)
	}), nil
}

// league is the networks that play.
type league struct {
	board    *game.Board
	options  *GameOptions
	members  []selfplay.Member
	names    []string  // which tell a heuristic from a network
	function *Function // the last one, or nil
	ends     []func()
}

// join adds an evaluator or, if e is nil, the next function of the caller. name is that of the
// evaluator's model if it is not empty.
func (l *league) join(e *Evaluator, name string) error {
	evaluator, function, done, err := asks(e, l.board, l.options.Batch)
	if err != nil {
		return err
	}
	l.ends = append(l.ends, done)
	if function != nil {
		if l.function != nil {
			function = l.function.Another()
			evaluator = eval.New(function, eval.Options{})
		}
		l.function = function
	}
	if e != nil && name == "" {
		name = e.about.Model
	}
	m := selfplay.Member{Evaluator: evaluator, Plain: evaluator.Backend().Attributes().Plain && l.options.Exact == 0}
	if l.options.Lookahead != nil {
		m.Plain = !*l.options.Lookahead
	}
	l.members, l.names = append(l.members, m), append(l.names, name)
	return nil
}

// remembering are the members with caches, which share the usual number of answers.
func (l *league) remembering() (members []selfplay.Member) {
	for i, m := range l.members {
		remember := selfplay.Remember
		if m.Plain {
			remember = selfplay.RememberPlain
		}
		m.Evaluator = remember(m.Evaluator, l.names[i], selfplay.Remembered/len(l.members))
		members = append(members, m)
	}
	return members
}

func (l *league) done() {
	for _, end := range l.ends {
		end()
	}
}

// gamesOpen is the maximum distance, in units of Parallel, between the first game that the caller
// waits for and the last one that has begun. It bounds the number of games that wait for an earlier
// one. Games of a board differ less in length, so it is rarely reached.
const gamesOpen = 8

// inOrder plays the games and calls over with each in the order of their numbers. At most most games
// have begun and not been passed to over; if there are as many, free seats stay empty until all of
// them are over.
func inOrder(ctx context.Context, members []selfplay.Member, o GameOptions, most int, over func(*selfplay.Game) error) error {
	waiting := map[int]*selfplay.Game{}
	next, begun, end := o.First, o.First, o.First+o.Games
	for next < end {
		err := selfplay.PlayLeague(ctx, members, o.Config, func() (int, bool) {
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
