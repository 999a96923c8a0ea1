package pasted

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/evald/evald/engine/game"
)

// replay is a game as Kaggle's environments write it (env.toJSON). The first step is the empty board. Each further step has an action of
// both agents; only the action of the agent to move counts.
type replay struct {
	Name          string `json:"name"`
	Configuration struct {
		Rows    *int `json:"rows"`
		Columns *int `json:"columns"`
		InARow  *int `json:"inarow"`
	} `json:"configuration"`
	Steps []jsontext.Value `json:"steps"`
}

// turn is one agent's part of a step.
type turn struct {
	Action      *float64 `json:"action"` // a column, or null
	Status      string   `json:"status"`
	Observation struct {
		Board []int `json:"board"`
	} `json:"observation"`
}

// failed reports whether the agent's turn ended the game without a move.
func (t turn) failed() bool {
	return slices.Contains([]string{"INVALID", "ERROR", "TIMEOUT"}, t.Status)
}

// readReplay reads a replay. If the replay has boards, they must fit the actions.
func readReplay(text []byte) (*game.Board, []int, error) {
	rules := game.Connect4
	var r replay
	r.Configuration.Rows, r.Configuration.Columns, r.Configuration.InARow = &rules.Rows, &rules.Columns, &rules.InARow
	if err := game.DecodeJSON(text, &r); err != nil {
		return nil, nil, err
	}
	if r.Name != "connectx" {
		return nil, nil, wrong("name", r.Name, `is not that of a replay of Kaggle's game "connectx"`)
	}
	b, err := game.NewBoard(rules)
	if err != nil {
		return nil, nil, err
	}
	if n := len(r.Steps); n < 1 || n > b.Cells()+2 {
		return nil, nil, wrong("steps", strconv.Itoa(n), fmt.Sprintf("must be 1 to %d, the start and the moves of a game on %v", b.Cells()+2, rules))
	}
	var moves []int
	var p game.Position
	for i, step := range r.Steps {
		var turns []turn
		if err := json.Unmarshal(step, &turns); err != nil {
			return nil, nil, wrong(at(i), string(step), "is no list of what the agents did: "+err.Error())
		}
		if len(turns) != 2 {
			return nil, nil, wrong(at(i), fmt.Sprintf("%d agents", len(turns)), "must have 2")
		}
		if i > 0 {
			mover := turns[(i-1)%2]
			if mover.failed() && i == len(r.Steps)-1 {
				break // the game ended without a move
			}
			a := -1
			if mover.Action != nil && *mover.Action == float64(int(*mover.Action)) {
				a = int(*mover.Action)
			}
			if b.Result(p) != game.Ongoing || !b.CanPlay(p, a) {
				return nil, nil, wrong(at(i)+".action", shown(mover.Action), "is no legal move")
			}
			moves, p = append(moves, a), b.Play(p, a)
		}
		want := game.State{Board: b, Position: p, Mark: p.Mover()}.Kaggle()
		for _, t := range turns {
			if t.Observation.Board != nil && !slices.Equal(t.Observation.Board, want) {
				return nil, nil, wrong(at(i)+".observation.board", fmt.Sprint(t.Observation.Board), "is not the board that the actions lead to")
			}
		}
	}
	return b, moves, nil
}

func at(step int) string { return "steps[" + strconv.Itoa(step) + "]" }

func shown(action *float64) string {
	if action == nil {
		return "null"
	}
	return strconv.FormatFloat(*action, 'g', -1, 64)
}

func wrong(field, value, reason string) error {
	return &game.ParseError{Field: field, Value: value, Reason: reason}
}
