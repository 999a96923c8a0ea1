package ask

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/evald/evald/engine/mcts"
	"github.com/evald/evald/engine/short"
	"github.com/evald/evald/engine/solver"
)

// Door is one of the ways in which callers ask, beside the command line.
type Door string

// The doors; see Search.
const (
	Queries Door = "queries"
	Service Door = "service"
	Agents  Door = "agents"
	Python  Door = "python"
)

// Kind is a kind of values.
type Kind string

// The kinds.
const (
	Whole  Kind = "whole"  // a whole number from Least to Most
	Number Kind = "number" // a number from Least to Most
	Choice Kind = "choice" // one of Choices
	Nodes  Kind = "nodes"  // solver.Nodes
	Truth  Kind = "truth"  // true or false
)

// Field is a parameter.
type Field struct {
	Name    string   `json:"name"`
	Kind    Kind     `json:"kind"`
	Least   float64  `json:"least"`
	Most    float64  `json:"most"` // 2^64 for a seed
	Default string   `json:"default"`
	Choices []string `json:"choices"`
	Help    string   `json:"help"`

	Aliases []string `json:"-"` // other names
	doors   []string
	index   []int    // of the field of Search
	rules   []string // the selections with which it does something, as in the tags without and needs
}

var fields = read()

// read makes the fields from the tags of Search.
func read() (all []Field) {
	for _, f := range reflect.VisibleFields(reflect.TypeFor[Search]()) {
		if f.Anonymous {
			continue
		}
		field := Field{Name: strings.ReplaceAll(f.Tag.Get("name"), "-", "_"), Default: f.Tag.Get("default"), Aliases: strings.FieldsFunc(f.Tag.Get("aliases"), func(r rune) bool { return r == ',' }), doors: strings.Split(f.Tag.Get("doors"), ","), index: f.Index, rules: []string{"puct", "uct", "gumbel", "flat"}}
		if needs, ok := strings.CutPrefix(f.Tag.Get("needs"), "selection="); ok && !strings.Contains(needs, ",") {
			field.rules = strings.Split(needs, "|")
		}
		if without, ok := strings.CutPrefix(f.Tag.Get("without"), "selection="); ok {
			field.rules = slices.DeleteFunc(field.rules, func(rule string) bool { return slices.Contains(strings.Split(without, "|"), rule) })
		}
		if field.Name == "" {
			field.Name = nameOf(f.Name)
		}
		switch reflect.New(f.Type).Interface().(type) {
		case *mcts.Selection, *Priors:
			field.Kind, field.Choices = Choice, strings.Split(cmp.Or(f.Tag.Get("choices"), f.Tag.Get("enum")), ",")
		case *solver.Nodes:
			field.Kind, field.Most = Nodes, solver.MostNodes
		case *uint64:
			field.Kind, field.Most = Whole, 1<<64
		case *int:
			field.Kind = Whole
		case *bool, **bool:
			field.Kind = Truth
		default:
			field.Kind = Number
		}
		if least, most, ok := strings.Cut(f.Tag.Get("range"), " to "); ok {
			field.Least, field.Most = number(least), number(most)
		}
		field.Help = strings.NewReplacer(append(Values(), "${enum}", strings.Join(field.Choices, ", "))...).Replace(f.Tag.Get("help"))
		all = append(all, field)
	}
	return all
}

// nameOf is the name of a field without one: GumbelScale is gumbel_scale.
func nameOf(field string) (name string) {
	for i, r := range field {
		if i > 0 && unicode.IsUpper(r) {
			name += "_"
		}
		name += string(unicode.ToLower(r))
	}
	return name
}

// Values are the names of values in help texts, each before its value.
func Values() []string {
	puct, uct, gumbel := mcts.DefaultConfig(mcts.PUCT), mcts.DefaultConfig(mcts.UCT), mcts.DefaultConfig(mcts.Gumbel)
	return []string{
		"${exactNodes}", strconv.Itoa(solver.ProbeNodes),
		"${puctC}", fmt.Sprintf("%.3g", puct.C), "${uctC}", fmt.Sprintf("%.3g", uct.C), "${fpu}", fmt.Sprintf("%.3g", puct.FPU),
		"${cVisit}", fmt.Sprint(gumbel.CVisit), "${cScale}", fmt.Sprint(gumbel.CScale), "${gumbelScale}", fmt.Sprint(gumbel.GumbelScale),
	}
}

func number(text string) float64 {
	x, err := strconv.ParseFloat(text, 64)
	if err != nil {
		panic(err) // the tag is wrong
	}
	return x
}

// Fields returns what callers of a door may set, in the order of Search.
func Fields(d Door) []Field {
	return slices.DeleteFunc(slices.Clone(fields), func(f Field) bool { return !slices.Contains(f.doors, string(d)) })
}

// Named returns what callers of a door may set by this name or alias.
func Named(name string, d Door) (f Field, ok bool) {
	i := slices.IndexFunc(fields, func(f Field) bool {
		return (f.Name == name || slices.Contains(f.Aliases, name)) && slices.Contains(f.doors, string(d))
	})
	if i < 0 {
		return f, false
	}
	return fields[i], true
}

// Applies reports whether the parameter does something in searches with a selection rule.
func (f Field) Applies(rule mcts.Selection) bool {
	return slices.Contains(f.rules, rule.String())
}

// Usual returns the search of a caller who chooses nothing.
func Usual() (s Search) {
	for _, f := range fields {
		if f.Default != "" && !f.SetText(&s, f.Default) {
			panic("ask: the default of " + f.Name + " is wrong")
		}
	}
	return s
}

// Must is what a value must be, as words for an error: "a whole number from 1 to 4096".
func (f Field) Must() string {
	switch {
	case f.Kind == Choice:
		last := len(f.Choices) - 1
		return strings.Join(f.Choices[:last], ", ") + " or " + f.Choices[last]
	case f.Kind == Nodes:
		return fmt.Sprintf("true (%d nodes a position), false or a number of nodes from 0 to %d", solver.ProbeNodes, solver.MostNodes)
	case f.Kind == Truth:
		return "true or false"
	case f.Most == 1<<64:
		return "a whole number from 0 to 18446744073709551615"
	case f.Kind == Whole:
		return fmt.Sprintf("a whole number from %.0f to %.0f", f.Least, f.Most)
	}
	return fmt.Sprintf("a number from %v to %v", f.Least, f.Most)
}

// Set sets the field to a bool, int64, uint64, float64 or string. A whole number may be a float64.
// It returns false, and leaves the field, if that is not what Must says.
func (f Field) Set(s *Search, value any) bool {
	x, isNumber := 0.0, true
	exactly := uint64(0) // a whole number that is not negative
	switch v := value.(type) {
	case int64:
		x, exactly = float64(v), uint64(max(0, v))
	case uint64:
		x, exactly = float64(v), v
	case float64:
		x, exactly = v, uint64(min(max(0, v), 1<<63))
	default:
		isNumber = false
	}
	whole := isNumber && x == math.Trunc(x)
	inRange := isNumber && x >= f.Least && x <= f.Most
	switch to := reflect.ValueOf(s).Elem().FieldByIndex(f.index).Addr().Interface().(type) {
	case *int:
		if !whole || !inRange {
			return false
		}
		*to = int(x)
	case *uint64:
		if !whole || !inRange || x >= 1<<63 && !isUnsigned(value) {
			return false
		}
		*to = exactly
	case *float64:
		if !inRange {
			return false
		}
		*to = x + 0 // -0 becomes 0
	case **float64:
		if !inRange {
			return false
		}
		x += 0
		*to = &x
	case *bool:
		on, isBool := value.(bool)
		if !isBool {
			return false
		}
		*to = on
	case **bool:
		on, isBool := value.(bool)
		if !isBool {
			return false
		}
		*to = &on
	case *Priors:
		name, _ := value.(string)
		if !slices.Contains(f.Choices, name) {
			return false
		}
		*to = Priors(name)
	case *solver.Nodes:
		on, isBool := value.(bool)
		if !isBool && (!whole || !inRange) {
			return false
		}
		text := strconv.FormatBool(on)
		if isNumber {
			text = strconv.Itoa(int(x))
		}
		return to.UnmarshalText([]byte(text)) == nil
	case *mcts.Selection:
		name, _ := value.(string)
		rule, ok := mcts.ParseSelection(name)
		if !ok {
			return false
		}
		*to = rule
	}
	return true
}

func isUnsigned(value any) bool { _, ok := value.(uint64); return ok }

// SetText is Set for a value in text. An empty text of Nodes is true.
func (f Field) SetText(s *Search, text string) bool {
	switch f.Kind {
	case Choice:
		return f.Set(s, text)
	case Truth:
		on, err := strconv.ParseBool(text)
		return err == nil && text != "1" && text != "0" && f.Set(s, on)
	case Nodes:
		if text == "" {
			return f.Set(s, true)
		}
		if on, err := strconv.ParseBool(text); err == nil && text != "1" && text != "0" {
			return f.Set(s, on)
		}
	case Number:
		x, err := strconv.ParseFloat(text, 64)
		return err == nil && f.Set(s, x)
	}
	if n, err := strconv.ParseUint(text, 10, 64); err == nil {
		return f.Set(s, n)
	}
	n, err := strconv.ParseInt(text, 10, 64)
	return err == nil && f.Set(s, n)
}

// Text is the value of the field in the form that SetText reads; "" for a value that stands for the
// default.
func (f Field) Text(s *Search) string {
	v := reflect.ValueOf(s).Elem().FieldByIndex(f.index)
	if v.IsZero() {
		return ""
	}
	return fmt.Sprint(reflect.Indirect(v).Interface())
}

// Number is the value of a field of the kind Whole or Number; 0 for a value that stands for the default.
func (f Field) Number(s *Search) float64 {
	switch x := reflect.Indirect(reflect.ValueOf(s).Elem().FieldByIndex(f.index)); {
	case !x.IsValid(): // a nil pointer
		return 0
	case x.CanInt():
		return float64(x.Int())
	case x.CanUint():
		return float64(x.Uint())
	default:
		return x.Float()
	}
}

// SetJSON is Set for a value in JSON.
func (f Field) SetJSON(s *Search, value []byte) bool {
	text := strings.TrimSpace(string(value))
	if strings.HasPrefix(text, `"`) {
		var name string
		return f.Kind == Choice && json.Unmarshal(value, &name) == nil && f.Set(s, name)
	}
	if f.Kind != Choice && f.SetText(s, text) {
		return true
	}
	x, err := strconv.ParseFloat(text, 64) // a whole number may be written as 1e3
	return err == nil && f.Set(s, x)
}

// Decode reads a JSON object with what a caller of a door chooses. What it does not name is as in
// Usual.
func Decode(object string, d Door) (Search, error) {
	s := Usual()
	var given map[string]json.RawMessage
	if err := json.Unmarshal([]byte(object), &given); err != nil {
		return s, errors.New("are not a JSON object")
	}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		f, ok := Named(name, d)
		if _, twice := given[f.Name]; ok && twice && name != f.Name {
			return s, fmt.Errorf("%s is another name of %s: leave one out", name, f.Name)
		}
		if !ok {
			return s, fmt.Errorf("%s is unknown: there are %s", short.Quote(name), strings.Join(Names(d), ", "))
		}
		if !f.SetJSON(&s, given[name]) {
			return s, fmt.Errorf("%s is %s, must be %s", name, short.To(string(given[name]), 42), f.Must())
		}
	}
	return s, nil
}

// Names are the names of what callers of a door may set.
func Names(d Door) (names []string) {
	for _, f := range Fields(d) {
		names = append(names, f.Name)
	}
	return names
}
