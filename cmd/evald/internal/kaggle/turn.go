// Package kaggle plays Kaggle's ConnectX: as an agent behind a URL, as a child process that answers line by line, and as an
// archive for submission.
//
// The formats are those of the kaggle-environments package, release 1.33.2: an observation has board, mark, step and
// remainingOverageTime; a configuration has rows, columns, inarow and actTimeout.
package kaggle

import (
	"errors"
	"strconv"
	"time"

	"github.com/evald/evald/engine/game"
)

// Turn is one request to an agent: a position of an unfinished game and the time for its move.
type Turn struct {
	game.State
	Act     time.Duration // for this move, 0 or more
	Overage time.Duration // remaining extra time of the game, 0 or more, for moves that take longer than Act
	Odd     error         // why no game reaches the position, or nil; the agent plays in any case

	large    *large // the position if game.Board cannot hold it, and State is empty; else nil
	tooLarge error  // why game.Board cannot hold it
}

// over is the reason why a finished game is an error.
const over = "is how the game has ended for the side to move: there is no move"

// late subtracts the time that passed before the turn was read: from the overage time, and what is
// more than that from Act. The reserve covers latency.
func (t *Turn) late(d time.Duration) {
	if d < reserve(t.Act)/2 {
		return
	}
	t.Overage -= d
	if t.Overage < 0 {
		t.Act, t.Overage = max(0, t.Act+t.Overage), 0
	}
}

// defaultAct is Kaggle's default of actTimeout.
const defaultAct = 2 * time.Second

// longest is the maximum of the times in requests; longer ones are reduced to it.
const longest = time.Hour

type observation struct {
	Board   *[]int   `json:"board"` // row by row from the top left: 0 empty, 1 and 2 the players
	Mark    *int     `json:"mark"`  // the player to move, who must answer
	Overage *float64 `json:"remainingOverageTime"`
}

type configuration struct {
	Rows    *int     `json:"rows"`
	Columns *int     `json:"columns"`
	InARow  *int     `json:"inarow"`
	Act     *float64 `json:"actTimeout"`
}

// parseAct reads a request to an agent behind a URL. Its errors are of type *game.ParseError.
func parseAct(text []byte) (Turn, error) {
	var r struct {
		Action        string        `json:"action"`
		Environment   *string       `json:"environment"`
		Configuration configuration `json:"configuration"`
		State         struct {
			Observation observation `json:"observation"`
		} `json:"state"`
	}
	if err := game.DecodeJSON(text, &r); err != nil {
		return Turn{}, err
	}
	if r.Action != "act" {
		return Turn{}, wrong("action", r.Action, `must be "act"`)
	}
	if r.Environment != nil && *r.Environment != "connectx" {
		return Turn{}, wrong("environment", *r.Environment, `must be "connectx"`)
	}
	return turn("state.observation.", r.State.Observation, r.Configuration)
}

// parseLine reads a line of the child process's input: an observation, a configuration, and
// optionally the time at which it was sent, in seconds since 1970. On the first move the program
// starts after that, and the game's clock counts it. Errors are of type *game.ParseError.
func parseLine(text []byte) (Turn, error) {
	var l struct {
		Observation   observation   `json:"observation"`
		Configuration configuration `json:"configuration"`
		Sent          *float64      `json:"sent"`
	}
	if err := game.DecodeJSON(text, &l); err != nil {
		return Turn{}, err
	}
	t, err := turn("observation.", l.Observation, l.Configuration)
	if l.Sent != nil {
		now := float64(time.Now().UnixNano()) / float64(time.Second)
		t.late(time.Duration(min(max(0, now-*l.Sent), longest.Seconds()) * float64(time.Second)))
	}
	return t, err
}

// turn checks an observation and a configuration. prefix is the path of the observation's fields, for errors.
func turn(prefix string, o observation, c configuration) (Turn, error) {
	r := game.Connect4
	for _, f := range []struct{ to, from *int }{{&r.Rows, c.Rows}, {&r.Columns, c.Columns}, {&r.InARow, c.InARow}} {
		if f.from != nil {
			*f.to = *f.from
		}
	}
	b, err := game.NewBoard(r)
	unheld := err != nil && r.Rows >= 1 && r.Columns >= 1 && r.InARow >= 1
	if err != nil && !unheld {
		return Turn{}, within("configuration.", err)
	}
	t := Turn{}
	switch {
	case o.Board == nil:
		return Turn{}, wrong(prefix+"board", "", "is missing")
	case o.Mark == nil:
		return Turn{}, wrong(prefix+"mark", "", "is missing; it says who is to move, 1 or 2")
	}
	if unheld {
		t.tooLarge = within("configuration.", err)
		t.large, t.Odd, err = newLarge(prefix, r, *o.Board, *o.Mark)
	} else {
		t.State, t.Odd, err = held(prefix, b, *o.Board, *o.Mark)
	}
	if err != nil {
		return Turn{}, err
	}
	if t.Act, err = duration("configuration.actTimeout", c.Act, defaultAct); err != nil {
		return Turn{}, err
	}
	// A negative overage time counts as 0.
	if o.Overage != nil && *o.Overage > 0 {
		t.Overage, err = duration(prefix+"remainingOverageTime", o.Overage, 0)
	}
	return t, err
}

// held checks a position on a board that game.Board can hold. odd is an error if no game reaches
// the position.
func held(prefix string, b *game.Board, cells []int, mark int) (s game.State, odd, err error) {
	if s, err = b.FromKaggle(cells, mark); err != nil {
		return s, nil, within(prefix, err)
	}
	if e := s.InTurn(); e != nil {
		odd = within(prefix, e)
	}
	if result := b.Result(s.Position); result != game.Ongoing {
		return s, nil, wrong(prefix+"board", result.String(), over)
	}
	return s, odd, nil
}

// duration converts seconds to a Duration of at most longest; nil stands for missing.
func duration(field string, seconds *float64, missing time.Duration) (time.Duration, error) {
	if seconds == nil {
		return missing, nil
	}
	if *seconds < 0 {
		return 0, wrong(field, strconv.FormatFloat(*seconds, 'g', -1, 64), "must not be negative")
	}
	return time.Duration(min(*seconds, longest.Seconds()) * float64(time.Second)), nil
}

func wrong(field, value, reason string) error {
	return &game.ParseError{Field: field, Value: value, Reason: reason}
}

// within prepends prefix to the field of a *game.ParseError.
func within(prefix string, err error) error {
	if bad, ok := errors.AsType[*game.ParseError](err); ok {
		bad.Field = prefix + bad.Field
	}
	return err
}
