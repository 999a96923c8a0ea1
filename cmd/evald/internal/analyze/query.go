package analyze

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/evald/evald/engine/ask"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/short"
)

// query is one line of input: a position to search, or an action.
type query struct {
	ID     string
	Action string // empty for a search, else one of the actions below

	// Fields of a search.
	State game.State
	Text  string // the position's text in the answer
	ask.Search
	Limit    time.Duration // 0: none
	Every    time.Duration // between reports before the answer; 0: none
	Priority int           // higher ones are searched first

	Terminate string // for the action terminate: the id of the search to end

	Unknown []string // names of unknown fields, sorted
}

// The actions.
const (
	terminate    = "terminate"
	terminateAll = "terminate_all"
)

// Limits of a query.
const (
	maxID    = 256 // bytes
	maxTime  = 7 * 24 * time.Hour
	minEvery = 10 * time.Millisecond
)

// queryError names the wrong field of a query.
type queryError struct{ field, reason string }

func (e *queryError) Error() string { return e.reason }

func wrong(field, format string, args ...any) error {
	return &queryError{field, field + " " + fmt.Sprintf(format, args...)}
}

// parser reads queries. It is not safe for concurrent use.
type parser struct {
	Search ask.Search // for what a query does not say

	positions game.Parser
	fields    map[string]json.RawMessage // not read yet
	err       error                      // the first error
}

// Parse parses a query. Even with an error the result has the line's id, if there is one. The error may be a *queryError.
func (p *parser) Parse(line string) (q query, err error) {
	p.fields, p.err = nil, nil
	if wrong, ok := errors.AsType[*game.ParseError](game.DecodeJSON([]byte(line), &p.fields)); ok {
		reason := wrong.Reason
		if reason == "must be an object" {
			reason = "this one is of type " + wrong.Value
		}
		return q, errors.New("a query is a JSON object: " + reason)
	}
	if p.fields == nil {
		return q, errors.New("a query is a JSON object: this one is null")
	}
	if !p.read("id", &q.ID, "text") || q.ID == "" || len(q.ID) > maxID {
		q.ID = ""
		return q, cmp.Or(p.err, wrong("id", "must be text of 1 to %d bytes; answers repeat it", maxID))
	}
	p.read("action", &q.Action, "text")
	switch q.Action {
	case "":
		p.search(&q, line)
	case terminateAll:
	case terminate:
		if !p.read("terminate_id", &q.Terminate, "text") {
			p.fail(wrong("terminate_id", "is missing: the id of the search to end"))
		} else if len(q.Terminate) > maxID {
			p.fail(wrong("terminate_id", "has %d bytes: no id has more than %d", len(q.Terminate), maxID))
		}
	default:
		p.fail(wrong("action", "is %s, must be %s or %s, or left out for a search", short.Quote(q.Action), terminate, terminateAll))
	}
	if p.err != nil {
		return q, p.err
	}
	for name := range p.fields {
		q.Unknown = append(q.Unknown, name)
	}
	slices.Sort(q.Unknown)
	return q, nil
}

// search reads the fields of a search.
func (p *parser) search(q *query, line string) {
	q.Search = p.Search
	for _, f := range ask.Fields(ask.Queries) {
		raw, ok := p.fields[f.Name]
		if ok && !f.SetJSON(&q.Search, raw) {
			p.fail(wrong(f.Name, "is %s, must be %s", short.To(string(raw), 42), f.Must()))
		}
		delete(p.fields, f.Name)
	}
	p.read("priority", &q.Priority, "a whole number")
	q.Limit = p.seconds("seconds", time.Millisecond)
	q.Every = p.seconds("report_every", minEvery)
	if p.err == nil {
		p.position(q, line)
	}
}

// seconds reads a time of at least least; 0 if it is missing.
func (p *parser) seconds(name string, least time.Duration) time.Duration {
	var s float64
	if !p.read(name, &s, "a number of seconds") {
		return 0
	}
	if !(s >= least.Seconds() && s <= maxTime.Seconds()) {
		p.fail(wrong(name, "is %v, must be %v to %v", s, least.Seconds(), maxTime.Seconds()))
		return 0
	}
	return time.Duration(s * float64(time.Second))
}

// position reads moves, or Kaggle's board.
func (p *parser) position(q *query, line string) {
	var rules string
	hasMoves, hasRules := p.read("moves", &q.Text, "text"), p.read("rules", &rules, "text")
	_, hasBoard := p.fields["board"]
	var err error
	switch {
	case p.err != nil:
		return
	case hasMoves == hasBoard:
		p.fail(wrong("moves", "or board: one of the two must say which position it is"))
		return
	case hasMoves:
		if hasRules {
			if strings.Contains(q.Text, ":") {
				p.fail(wrong("moves", "is %s, with rules of its own beside the field rules", short.Quote(q.Text)))
				return
			}
			q.Text = rules + ":" + q.Text
		}
		if strings.HasPrefix(q.Text, "{") {
			p.fail(wrong("moves", "is an object in text: give its fields board and mark instead"))
			return
		}
		q.State, err = p.positions.Parse(q.Text)
	default:
		for _, name := range []string{"board", "mark", "rows", "columns", "inarow", "gravity"} {
			delete(p.fields, name)
		}
		if hasRules {
			p.fail(wrong("rules", "goes with moves; a board has rows, columns, inarow and gravity"))
			return
		}
		if q.State, err = p.positions.Parse(line); err == nil {
			q.Text = q.State.Observation()
		}
	}
	if bad, ok := errors.AsType[*game.ParseError](err); ok {
		p.fail(&queryError{bad.Field, err.Error()})
	} else if err != nil {
		p.fail(err)
	}
}

// read decodes a field and removes it from p.fields. It reports whether the field was there and valid.
func (p *parser) read(name string, to any, want string) bool {
	raw, ok := p.fields[name]
	if !ok {
		return false
	}
	delete(p.fields, name)
	if bytes.Equal(raw, []byte("null")) || json.Unmarshal(raw, to) != nil {
		p.fail(wrong(name, "is %s, must be %s", short.To(string(raw), 42), want))
		return false
	}
	return true
}

func (p *parser) fail(err error) { p.err = cmp.Or(p.err, err) }
