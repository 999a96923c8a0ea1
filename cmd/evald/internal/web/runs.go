package web

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math"
	"net/http"
	"path"
	"slices"
	"strings"
)

// Bounds of what is read of training runs.
const (
	maxRuns   = 200      // listed
	maxDepth  = 3        // of folders
	maxFile   = 16 << 20 // bytes read of a file, from its end
	maxRow    = 64 << 10 // bytes of a line
	maxCurves = 100      // of a file
	maxPoints = 500      // of a curve
)

// run is a folder with files of metrics.
type run struct {
	Name     string   `json:"name"` // the path within the folder of runs, "." for that itself
	Files    []string `json:"files"`
	Modified int64    `json:"modified"` // of the newest file, seconds since 1970
}

// extension of files of metrics: a JSON object a line.
const extension = ".jsonl"

func (h *Handler) serveRuns(w http.ResponseWriter, _ *http.Request) error {
	runs, err := h.listRuns()
	if err != nil {
		return err
	}
	return answer(w, struct {
		Runs []run `json:"runs"`
	}{runs})
}

// listRuns finds folders with metrics, the newest first.
func (h *Handler) listRuns() ([]run, error) {
	if h.runs == nil {
		return nil, refuse(http.StatusNotFound, "", "the server shows no training runs")
	}
	found := map[string]*run{}
	visited := 0
	err := fs.WalkDir(h.runs.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		visited++
		switch {
		case visited > 100*maxRuns || len(found) > maxRuns:
			return fs.SkipAll
		case err != nil: // a folder that may not be read, or is gone
			return nil
		case d.IsDir() && name != "." && (strings.HasPrefix(d.Name(), ".") || strings.Count(name, "/") >= maxDepth-1):
			return fs.SkipDir
		case !d.Type().IsRegular() || path.Ext(name) != extension:
			return nil
		}
		info, err := d.Info()
		if err != nil {
			return nil // it is gone
		}
		in := path.Dir(name)
		r := found[in]
		if r == nil {
			r = &run{Name: in}
			found[in] = r
		}
		r.Files = append(r.Files, d.Name())
		r.Modified = max(r.Modified, info.ModTime().Unix())
		return nil
	})
	runs := []run{}
	for _, r := range found {
		runs = append(runs, *r)
	}
	slices.SortFunc(runs, func(a, b run) int {
		return cmp.Or(cmp.Compare(b.Modified, a.Modified), cmp.Compare(a.Name, b.Name))
	})
	return runs[:min(len(runs), maxRuns)], err
}

// curves are the numbers of a file.
type curves struct {
	File    string  `json:"file"`
	X       string  `json:"x"`       // what the points' first number is
	Rows    int     `json:"rows"`    // read
	Skipped int     `json:"skipped"` // lines that are no objects, or too long
	Cut     bool    `json:"cut"`     // the file is longer than what was read
	Groups  []group `json:"groups"`
}

// group is curves that are drawn together.
type group struct {
	Name   string  `json:"name"`
	Curves []curve `json:"curves"`
}

type curve struct {
	Name   string       `json:"name"`
	Points [][2]float64 `json:"points"`
}

func (h *Handler) serveRun(w http.ResponseWriter, r *http.Request) error {
	name := r.URL.Query().Get("name")
	runs, err := h.listRuns()
	if err != nil {
		return err
	}
	at := slices.IndexFunc(runs, func(r run) bool { return r.Name == name })
	if at < 0 {
		return refuse(http.StatusNotFound, "name", "there is no training run %q", cut(name))
	}
	all := []curves{}
	for _, file := range runs[at].Files {
		c, err := h.readCurves(path.Join(name, file))
		if errors.Is(err, fs.ErrNotExist) {
			continue // it is gone
		}
		if err != nil {
			return err
		}
		c.File = file
		all = append(all, c)
	}
	return answer(w, struct {
		Name  string   `json:"name"`
		Files []curves `json:"files"`
	}{name, all})
}

func (h *Handler) readCurves(name string) (c curves, err error) {
	f, err := h.runs.Open(name)
	if err != nil {
		return c, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return c, err
	}
	from := max(0, info.Size()-maxFile)
	text := make([]byte, min(info.Size(), maxFile))
	n, err := f.ReadAt(text, from)
	if err != nil && !errors.Is(err, io.EOF) {
		return c, fmt.Errorf("read %s: %w", name, err)
	}
	text = text[:n]
	if from > 0 { // the first line is torn
		_, text, _ = bytes.Cut(text, []byte("\n"))
	}
	c = parseCurves(text)
	c.Cut = from > 0
	return c, nil
}

// parseCurves draws every numeric field of JSON objects, one a line; fields of objects within are named outer.inner.
// The last line may be torn: it is being written.
func parseCurves(text []byte) (c curves) {
	var names []string // in the order of their first appearance
	rows := []map[string]float64{}
	at := map[string]int{}
	lines := bufio.NewScanner(bytes.NewReader(text))
	lines.Buffer(nil, len(text)+1)
	for lines.Scan() {
		line := bytes.TrimSpace(lines.Bytes())
		if len(line) == 0 {
			continue
		}
		row := map[string]float64{}
		if len(line) > maxRow || !flatten(line, row) {
			c.Skipped++
			continue
		}
		for _, name := range slices.Sorted(maps.Keys(row)) {
			if _, known := at[name]; !known && len(names) < maxCurves {
				at[name] = len(names)
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
	slices.SortStableFunc(c.Groups, func(a, b group) int { return cmp.Compare(rank(a.Name), rank(b.Name)) })
	return c
}

// flatten reads an object's numbers, and reports whether it is one.
func flatten(line []byte, to map[string]float64) bool {
	var object map[string]any
	if json.Unmarshal(line, &object) != nil || object == nil {
		return false
	}
	var walk func(prefix string, fields map[string]any, depth int)
	walk = func(prefix string, fields map[string]any, depth int) {
		for name, x := range fields {
			switch x := x.(type) {
			case float64:
				if len(prefix+name) <= maxAgent && len(to) < 2*maxCurves {
					to[prefix+name] = x
				}
			case map[string]any:
				if depth < maxDepth {
					walk(prefix+name+".", x, depth+1)
				}
			}
		}
	}
	walk("", object, 0)
	return true
}

// abscissa is the field that counts the rows, or "row".
func abscissa(rows []map[string]float64) string {
	for _, name := range []string{"step", "generation", "iteration", "epoch", "games"} {
		last, ok := math.Inf(-1), len(rows) > 0
		for _, row := range rows {
			x, there := row[name]
			ok = ok && there && x >= last
			last = x
		}
		if ok {
			return name
		}
	}
	return "row"
}

// points are a curve's, thinned out evenly where they are many; the last one stays.
func points(rows []map[string]float64, x, y string) [][2]float64 {
	var all [][2]float64
	for i, row := range rows {
		v, ok := row[y]
		if !ok {
			continue
		}
		at := float64(i + 1)
		if x != "row" {
			at = row[x]
		}
		all = append(all, [2]float64{at, v})
	}
	if len(all) <= maxPoints {
		return all
	}
	thin := make([][2]float64, maxPoints)
	for i := range thin {
		thin[i] = all[i*(len(all)-1)/(maxPoints-1)]
	}
	return thin
}

// The groups that several curves share, by a word of their names, in the order in which they are drawn.
var groups = []struct{ name, words string }{
	{"loss", "loss"},
	{"accuracy", "accuracy"},
	{"elo", "elo"},
	{"score", "score"},
	{"results", "wins draws losses"},
}

// rank orders groups: those of the list, then the others as they came.
func rank(name string) int {
	for i, g := range groups {
		if g.name == name {
			return i
		}
	}
	return len(groups)
}

// add draws a curve with those of its kind, else by itself.
func (c *curves) add(name string, points [][2]float64) {
	in := name
	words := strings.FieldsFunc(strings.ToLower(name), func(r rune) bool { return r == '.' || r == '_' || r == ' ' || r == '/' })
	for _, g := range slices.Backward(groups) { // the first of the list wins
		if slices.ContainsFunc(words, func(w string) bool { return slices.Contains(strings.Fields(g.words), w) }) {
			in = g.name
		}
	}
	i := slices.IndexFunc(c.Groups, func(g group) bool { return g.Name == in })
	if i < 0 {
		i = len(c.Groups)
		c.Groups = append(c.Groups, group{Name: in})
	}
	c.Groups[i].Curves = append(c.Groups[i].Curves, curve{name, points})
}
