package web

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
)

// curves are the numeric curves of one file.
type curves struct {
	File    string  `json:"file"`
	X       string  `json:"x"`       // name of the x axis
	Rows    int     `json:"rows"`    // number of rows read
	Skipped int     `json:"skipped"` // lines that are not objects, or too long
	Cut     bool    `json:"cut"`     // only the end of the file was read
	TooFew  int     `json:"too_few"` // number of rows without their elo, because they have too few games for a rating
	Groups  []group `json:"groups"`
}

// group is a set of curves that are drawn together.
type group struct {
	Name   string  `json:"name"`
	Curves []curve `json:"curves"`
}

// curve is a list of points (x, y), or (x, y, low, high) if an interval is known.
type curve struct {
	Name   string      `json:"name"`
	Points [][]float64 `json:"points"`
}

// number is the value of a field, [y] or [y, low, high].
type number []float64

// parseCurves parses JSON objects, one per line, and returns a curve for every numeric field. A field of a nested object is named
// outer.inner. A field of an object in a list is named outer[label].inner, where the label distinguishes the objects. An object of value,
// low and high is one number with its interval, and so is a field together with a field NAME_error. The last line may be incomplete,
// because the file may still be growing.
func parseCurves(text []byte) (c curves) {
	var names []string // in order of first appearance
	var rows []map[string]number
	known := map[string]bool{}
	for line := range bytes.Lines(text) {
		if line = bytes.TrimSpace(line); len(line) == 0 {
			continue
		}
		row, tooFew := flatten(line)
		if row == nil {
			c.Skipped++
			continue
		}
		if tooFew {
			c.TooFew++
			delete(row, "elo")
		}
		for _, name := range slices.Sorted(maps.Keys(row)) {
			if !known[name] && len(names) < maxCurves {
				known[name] = true
				names = append(names, name)
			}
		}
		rows = append(rows, row)
	}
	c.Rows = len(rows)
	c.X = abscissa(rows)
	c.Groups = []group{}
	for _, name := range names {
		if name != c.X {
			c.add(name, points(rows, c.X, name))
		}
	}
	slices.SortStableFunc(c.Groups, func(a, b group) int { return cmp.Compare(a.rank(), b.rank()) })
	return c
}

// flatten returns an object's numbers, and whether it says that its games are too few for a rating. row is nil if the line is not an object.
func flatten(line []byte) (row map[string]number, tooFew bool) {
	var object map[string]any
	if len(line) > maxRow || json.Unmarshal(line, &object) != nil || object == nil {
		return nil, false
	}
	row = map[string]number{}
	flattenObject(row, "", object, 0)
	for name, x := range row {
		if err, ok := row[name+"_error"]; ok && len(x) == 1 && len(err) == 1 {
			row[name] = number{x[0], x[0] - err[0], x[0] + err[0]}
			delete(row, name+"_error")
		}
	}
	tooFew, _ = object["too_few_games"].(bool)
	return row, tooFew
}

func flattenObject(row map[string]number, prefix string, fields map[string]any, depth int) {
	if depth > maxDepth {
		return
	}
	value, isValue := fields["value"].(float64)
	low, isLow := fields["low"].(float64)
	if high, isHigh := fields["high"].(float64); isValue && isLow && isHigh && prefix != "" {
		row[strings.TrimSuffix(prefix, ".")] = number{value, low, high}
		return
	}
	for name, x := range fields {
		if len(prefix+name) > maxName || len(row) > 2*maxCurves {
			continue
		}
		switch x := x.(type) {
		case float64:
			row[prefix+name] = number{x}
		case map[string]any:
			flattenObject(row, prefix+name+".", x, depth+1)
		case []any:
			for i, item := range x[:min(len(x), maxItems)] {
				if object, ok := item.(map[string]any); ok {
					flattenObject(row, fmt.Sprintf("%s%s[%s].", prefix, name, label(object, i)), object, depth+1)
				}
			}
		}
	}
}

// label returns a text that distinguishes object i of a list from the others: the fields against,
// name and visits, which it removes from the object so that they are not drawn, and whether a
// search had no solver, or the object's number from 1.
func label(object map[string]any, i int) string {
	var parts []string
	visits, _ := object["visits"].(float64)
	for _, field := range []string{"against", "name", "visits"} {
		switch x := object[field].(type) {
		case string:
			parts = append(parts, strings.NewReplacer("[", "(", "]", ")").Replace(x))
		case float64:
			parts = append(parts, fmt.Sprintf("%s %v", field, x))
		default:
			continue
		}
		delete(object, field)
	}
	if solver, ok := object["solver"].(bool); ok && !solver && visits > 0 {
		parts = append(parts, "no_solver") // which the page writes with a blank
	}
	return cmp.Or(strings.Join(parts, ", "), fmt.Sprint(i+1))
}

// abscissa returns the field for the x axis: one that never decreases from row to row, or "row" for the number of the row.
func abscissa(rows []map[string]number) string {
	for _, name := range []string{"step", "generation", "iteration", "epoch", "games"} {
		last, ok := math.Inf(-1), len(rows) > 0
		for _, row := range rows {
			x, there := row[name]
			if ok = ok && there && x[0] >= last; ok {
				last = x[0]
			}
		}
		if ok {
			return name
		}
	}
	return "row"
}

// points returns the points of a curve: at most maxPoints of them, evenly chosen, with the last one.
func points(rows []map[string]number, x, y string) [][]float64 {
	var all [][]float64
	for i, row := range rows {
		v, ok := row[y]
		if !ok {
			continue
		}
		at := float64(i + 1)
		if x != "row" {
			at = row[x][0]
		}
		all = append(all, append([]float64{at}, v...))
	}
	if len(all) <= maxPoints {
		return all
	}
	thin := make([][]float64, maxPoints)
	for i := range thin {
		thin[i] = all[i*(len(all)-1)/(maxPoints-1)]
	}
	return thin
}

type kind struct{ name, words string }

// shared lists the groups that join several fields, in drawing order. A field belongs to a group if its name contains one of the words.
var shared = []kind{
	{"elo", "elo"},
	{"loss", "loss"},
	{"accuracy", "accuracy"},
	{"score", "score"},
	{"results", "wins draws losses"},
}

// rank orders groups for drawing: first the shared ones, then the others, last those whose curves are constant.
func (g *group) rank() int {
	if i := slices.IndexFunc(shared, func(s kind) bool { return s.name == g.Name }); i >= 0 {
		return i
	}
	for _, c := range g.Curves {
		if slices.ContainsFunc(c.Points, func(p []float64) bool { return p[1] != c.Points[0][1] }) {
			return len(shared)
		}
	}
	return len(shared) + 1
}

// add adds a curve to a shared group, or to the group of the same field of all objects in a list, or to a group of its own.
func (c *curves) add(name string, points [][]float64) {
	own := name[strings.LastIndex(name, ".")+1:]
	words := strings.FieldsFunc(strings.ToLower(own), func(r rune) bool { return strings.ContainsRune("_ /", r) })
	in := slices.IndexFunc(shared, func(s kind) bool {
		return slices.ContainsFunc(words, func(w string) bool { return slices.Contains(strings.Fields(s.words), w) })
	})
	to := name
	if in >= 0 {
		to = shared[in].name
	} else if before, rest, found := strings.Cut(name, "["); found {
		label, after, _ := strings.Cut(rest, "]")
		to, name = before+after, label
	}
	i := slices.IndexFunc(c.Groups, func(g group) bool { return g.Name == to })
	if i < 0 {
		i = len(c.Groups)
		c.Groups = append(c.Groups, group{Name: to})
	}
	c.Groups[i].Curves = append(c.Groups[i].Curves, curve{name, points})
}
