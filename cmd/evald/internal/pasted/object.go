package pasted

import (
	"encoding/json"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/evald/evald/engine/game"
)

// readObject reads an observation, alone or beside the configuration of its game, an answer of
// evald or a replay; of a list of objects the first one.
func readObject(text string) (Game, error) {
	text = asJSON(text)
	if strings.HasPrefix(text, "[") {
		var all []jsontext.Value
		if err := game.DecodeJSON([]byte(text), &all); err != nil {
			return Game{}, err
		}
		text = string(all[0])
	}
	var o struct {
		Board         jsontext.Value `json:"board"`
		Observation   jsontext.Value `json:"observation"`
		Configuration jsontext.Value `json:"configuration"`
		Position      *string        `json:"position"` // moves or an observation
		Name          jsontext.Value `json:"name"`
		Steps         jsontext.Value `json:"steps"`
	}
	if err := game.DecodeJSON([]byte(text), &o); err != nil {
		return Game{}, err
	}
	switch {
	case o.Observation != nil:
		return readObservation(o.Configuration, []byte(text), o.Observation)
	case o.Board != nil:
		return readObservation(o.Configuration, []byte(text))
	case o.Position != nil:
		return Read(*o.Position)
	case o.Name == nil && o.Steps == nil:
		return Game{}, wrong("json", text, "has no board, no position and no steps")
	}
	b, moves, err := readReplay([]byte(text))
	return Game{b, moves, true}, err
}

// asJSON returns an object that Python has printed as JSON, and other texts unchanged.
func asJSON(text string) string {
	python := strings.NewReplacer(`'`, `"`, "True", "true", "False", "false", "None", "null")
	if changed := python.Replace(text); !json.Valid([]byte(text)) && json.Valid([]byte(changed)) {
		return changed
	}
	return text
}

// readObservation reads the board, the mark and the rules of an observation from objects, of which
// later ones come first and some may be nil.
func readObservation(objects ...jsontext.Value) (Game, error) {
	var o struct {
		Board   jsontext.Value `json:"board"`
		Mark    *int           `json:"mark"`
		Rows    *int           `json:"rows"`
		Columns *int           `json:"columns"`
		InARow  *int           `json:"inarow"`
		Gravity *bool          `json:"gravity"`
	}
	for _, text := range objects {
		if text == nil {
			continue
		}
		if err := game.DecodeJSON(text, &o); err != nil {
			return Game{}, err
		}
	}
	cells, ok := readList(string(o.Board))
	if !ok {
		return Game{}, wrong("board", string(o.Board), "must be a list of whole numbers: the cells row by row from the top left, 0 empty, 1 and 2 the players")
	}
	rules := cells.rules()
	for _, given := range []struct{ to, value *int }{{&rules.Rows, o.Rows}, {&rules.Columns, o.Columns}, {&rules.InARow, o.InARow}} {
		if given.value != nil {
			*given.to = *given.value
		}
	}
	if o.Gravity != nil {
		rules.Gravity = *o.Gravity
	}
	if o.Mark == nil {
		return cells.game(rules, cells.mover())
	}
	return cells.game(rules, *o.Mark)
}
