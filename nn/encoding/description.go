// Package encoding describes the inputs and outputs of other programs' networks. A Description has eight fields. A Codec converts positions
// to a network's inputs, and outputs to answers. Diagnose checks a description with solved positions.
//
// Read the files in this order:
//
//	description.go, parse.go  the eight fields, and their text in YAML
//	planes.go                 sums of sets of cells, such as own-other
//	ours.go                   the descriptions of evald's own exports
//	codec.go                  a description, a board and a file that fit each other
//	fill.go, decode.go        inputs of positions, and answers from outputs
//	known.go, diagnose.go     positions of known result, and the check of a description with them
//
// # A description
//
//	rules: 7x6x4               the only game of the network; any (the default): every game whose board fits the input
//	input: obs                 default: the only input beside the mask
//	layout: NCHW               or NHWC, NHW (one plane), NF (flat: plane by plane, each row by row)
//	planes: [own, other, ones] in the network's order, each a sum such as own-other or 0.5*ones+0.5*player
//	rows: top                  the first row of a plane: top or bottom
//	mask: legal                an input for the legal moves, 1 or true, in the order of the policy; default: none
//	value: {output: v, kind: tanh, for: mover}
//	policy: {output: p, kind: logits, actions: columns}
//
// Defaults are NCHW, planes [own, other], rows top, a value of kind tanh for the mover, and logits of columns; outputs are found by their
// sizes. So the shortest description is {}.
//
// Planes are sums of these, each with a factor before it if it is not 1:
//
//	own, other     stones of the side to move, and of the other side
//	first, second  stones of the player who began, and of the other
//	empty          cells without a stone
//	playable       cells in which the next stone may land
//	ones           1 everywhere; a number alone, such as 0.5, is a multiple of ones
//	player         0 everywhere if the player who began is to move, else 1
//	parity         rows that the side to move will fill, as defined by package nn/net
//	inarow         a quarter of the number in a row everywhere, as in package nn/net
//
// Kinds of values: tanh, a number from -1 (lost) to 1 (won); linear, the same but clipped, for networks that may exceed that range; wdl,
// probabilities of win, draw and loss; wdl_logits, their logits. A value is for the mover (the side to move), for the other side, or for
// the first or second player.
//
// Kinds of policies: logits, probs, log_probs. Actions are columns, or cells [rows, columns] in the order of the planes; with
// gravity, the cell is where the stone lands.
//
// # Decisions
//
// A number v becomes the probabilities (1+v)/2 of a win and (1-v)/2 of a loss, and no draws. Searches use only the difference, and the
// network provides nothing more.
package encoding

import (
	"fmt"
	"slices"
	"strings"

	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/short"
)

// Description describes a network's inputs and outputs. Parse returns a valid one.
type Description struct {
	Rules  string   `yaml:"rules"`                 // the network's only game, or Any
	Input  string   `yaml:"input,omitempty"`       // name; "" for the only input other than Mask
	Layout Layout   `yaml:"layout"`                // of the input
	Planes []string `yaml:"planes,flow,omitempty"` // sums; none for Patterns
	Rows   Rows     `yaml:"rows"`                  // the first row of a plane
	Mask   string   `yaml:"mask,omitempty"`        // name of the input for the legal moves; "" if there is none
	Value  Value    `yaml:"value,flow"`
	Policy Policy   `yaml:"policy,flow"`
}

// Hints returns sentences about valid fields that probably mean something else than their author
// thinks.
func (d Description) Hints() (all []string) {
	for _, text := range d.Planes {
		if p, err := parsePlane(text); err == nil && p.quartered() {
			all = append(all, fmt.Sprintf("planes %s: inarow is a quarter of the number in a row already, 1 with four in a row: a quarter of that number is %s",
				short.Quote(text), p.unquartered()))
		}
	}
	return all
}

// Value describes the output for the result.
type Value struct {
	Output string      `yaml:"output,omitempty"` // name; "" for the only output of that size
	Kind   ValueKind   `yaml:"kind"`
	For    Perspective `yaml:"for"`
}

// Policy describes the output for moves.
type Policy struct {
	Output  string     `yaml:"output,omitempty"` // name; "" for the only output of that size
	Kind    PolicyKind `yaml:"kind"`
	Actions Actions    `yaml:"actions"`
}

// Any as Rules means that the network is for every game.
const Any = "any"

// Layout is the order of dimensions: N positions, C planes, H rows, W columns, F all of a position's numbers.
type Layout string

// The layouts.
const (
	NCHW     Layout = "NCHW"
	NHWC     Layout = "NHWC"
	NHW      Layout = "NHW"      // one plane
	NF       Layout = "NF"       // in the order C, H, W
	Patterns Layout = "patterns" // the numbers of pattern.AppendRows: exports of evald's networks of pattern tables
)

// Rows is the order of a plane's rows.
type Rows string

// The values of Rows: the row with which a plane begins.
const (
	Top    Rows = "top"
	Bottom Rows = "bottom"
)

// ValueKind is the meaning of a value's numbers.
type ValueKind string

// The kinds of values. WDL and WDLLogits have three numbers, the others one.
const (
	Tanh      ValueKind = "tanh"
	Linear    ValueKind = "linear"
	WDL       ValueKind = "wdl"
	WDLLogits ValueKind = "wdl_logits"
)

// Perspective is the side for which a high value is good.
type Perspective string

// The perspectives.
const (
	Mover  Perspective = "mover"
	Other  Perspective = "other"
	First  Perspective = "first"
	Second Perspective = "second"
)

// PolicyKind is the meaning of a policy's numbers.
type PolicyKind string

// The kinds of policies.
const (
	Logits   PolicyKind = "logits"
	Probs    PolicyKind = "probs"
	LogProbs PolicyKind = "log_probs"
)

// Actions is the unit of a policy: columns or cells.
type Actions string

// The actions.
const (
	Columns Actions = "columns"
	Cells   Actions = "cells"
)

// maxPlanes is far more than any network has.
const maxPlanes = 64

func fieldError(field, value, want string) error {
	return fmt.Errorf("description: %s %s: %s", field, short.Quote(value), want)
}

func oneOf[T ~string](field string, value T, allowed ...T) error {
	if slices.Contains(allowed, value) {
		return nil
	}
	names := make([]string, len(allowed))
	for i, a := range allowed {
		names[i] = string(a)
	}
	last := len(names) - 1
	return fieldError(field, string(value), "must be "+strings.Join(names[:last], ", ")+" or "+names[last])
}

// withDefaults fills in the omitted fields.
func (d Description) withDefaults() Description {
	or := func(value *string, usual string) {
		if *value == "" {
			*value = usual
		}
	}
	or(&d.Rules, Any)
	or((*string)(&d.Layout), string(NCHW))
	or((*string)(&d.Rows), string(Top))
	or((*string)(&d.Value.Kind), string(Tanh))
	or((*string)(&d.Value.For), string(Mover))
	or((*string)(&d.Policy.Kind), string(Logits))
	or((*string)(&d.Policy.Actions), string(Columns))
	if len(d.Planes) == 0 && d.Layout != Patterns {
		d.Planes = []string{"own", "other"}
	}
	return d
}

// Validate returns an error that names an invalid field and the allowed values. Omitted fields are invalid, because Parse fills them in.
func (d Description) Validate() error {
	for _, err := range []error{
		oneOf("layout", d.Layout, NCHW, NHWC, NHW, NF, Patterns),
		oneOf("rows", d.Rows, Top, Bottom),
		oneOf("value: kind", d.Value.Kind, Tanh, Linear, WDL, WDLLogits),
		oneOf("value: for", d.Value.For, Mover, Other, First, Second),
		oneOf("policy: kind", d.Policy.Kind, Logits, Probs, LogProbs),
		oneOf("policy: actions", d.Policy.Actions, Columns, Cells),
	} {
		if err != nil {
			return err
		}
	}
	if d.Rules != Any {
		rules, err := game.ParseRules(d.Rules)
		if err != nil {
			return fmt.Errorf("description: rules: %w; or %s for all games whose board fits", err, Any)
		}
		if !rules.Gravity && d.Policy.Actions == Columns {
			return fieldError("policy: actions", string(Columns), "must be cells, because without gravity moves are cells")
		}
	}
	planes, all := len(d.Planes), strings.Join(d.Planes, ", ")
	switch {
	case d.Layout == Patterns && (planes > 0 || d.Rules != game.Connect4.String()):
		return fieldError("layout", string(Patterns), "takes no planes, and rules must be "+game.Connect4.String())
	case d.Layout == NHW && planes != 1:
		return fieldError("planes", all, "must be one with layout NHW, such as own-other")
	case d.Layout != Patterns && planes == 0 || planes > maxPlanes:
		return fieldError("planes", all, fmt.Sprintf("must be 1 to %d", maxPlanes))
	}
	for _, p := range d.Planes {
		if _, err := parsePlane(p); err != nil {
			return err
		}
	}
	if d.Mask != "" && d.Mask == d.Input {
		return fieldError("mask", d.Mask, "is the name of the input too: it must be another one")
	}
	if d.Value.Output != "" && d.Value.Output == d.Policy.Output {
		return fieldError("policy: output", d.Policy.Output, "is the output of the value too: it must be another one")
	}
	return nil
}
