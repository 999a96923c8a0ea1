package web

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/evald/evald/engine/selfplay"
)

// Limits on what is read from training runs.
const (
	maxRuns   = 200      // runs that are listed
	maxDepth  = 4        // of folders, and of objects in a line
	maxFile   = 16 << 20 // bytes read from a file, at its end
	maxRow    = 64 << 10 // bytes per line
	maxCurves = 200      // per file
	maxName   = 200      // bytes of a curve's name
	maxItems  = 20       // per list
	maxPoints = 500      // per curve
)

// run is a folder with files of metrics.
type run struct {
	Name     string   `json:"name"` // the path within the folder of runs, "." for the folder itself
	Files    []string `json:"files"`
	Modified int64    `json:"modified"` // of the newest file, seconds since 1970

	// Of the newest line: the x axis and the value on it, and with their intervals, [value, low, high] or [value], the strength, and the share of
	// good moves that the network makes without a search. Null if there are none.
	X    string   `json:"x"`
	At   *float64 `json:"at"`
	Elo  number   `json:"elo"`
	Good number   `json:"good"`
}

// metricsFiles are the names of the files that are drawn: metrics of evald train and generations of evald learn, one JSON object per line.
// Other files with the same extension, such as journals, are not drawn.
var metricsFiles = []string{"metrics.jsonl", "generations.jsonl"}

const (
	extension = ".jsonl"
	maxLeft   = 20 // maximum number of other files that are listed
)

// memo caches answers for rememberFor, because reading runs and metrics is expensive. It computes one answer at a time.
type memo struct {
	mu      sync.Mutex
	answers map[string]remembered
}

type remembered struct {
	answer any
	until  time.Time
}

const rememberFor = time.Second

// get returns the cached answer for a key, or else make's answer. Errors are not cached.
func (m *memo) get(key string, make func() (any, error)) (any, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	if known, ok := m.answers[key]; ok && now.Before(known.until) {
		return known.answer, nil
	}
	fresh, err := make()
	if err != nil {
		return nil, err
	}
	maps.DeleteFunc(m.answers, func(_ string, r remembered) bool { return !now.Before(r.until) })
	m.answers[key] = remembered{fresh, now.Add(rememberFor)}
	return fresh, nil
}

func (m *memo) serve(w http.ResponseWriter, key string, make func() (any, error)) error {
	x, err := m.get(key, make)
	if err != nil {
		return err
	}
	return send(w, x)
}

func (h *Handler) serveRuns(w http.ResponseWriter, _ *http.Request) error {
	return h.read.serve(w, "", func() (any, error) {
		runs, left, err := h.listRuns()
		for i := range runs {
			h.newest(&runs[i])
		}
		return struct {
			Runs []run    `json:"runs"`
			Left []string `json:"left"` // paths of up to maxLeft other files with the extension, which are not drawn
			Now  int64    `json:"now"`  // seconds since 1970
		}{runs, left, time.Now().Unix()}, err
	})
}

// listRuns returns the folders with metrics, newest first, and the paths of other files with the same extension.
func (h *Handler) listRuns() (runs []run, left []string, err error) {
	left = []string{}
	if h.runs == nil {
		return nil, nil, refuse(http.StatusNotFound, "", "the server shows no training runs")
	}
	found := map[string]run{}
	visited := 0
	err = fs.WalkDir(h.runs.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		visited++
		switch {
		case visited > 100*maxRuns || len(found) > maxRuns:
			return fs.SkipAll
		case err != nil: // a folder that cannot be read or no longer exists
			return nil
		case d.IsDir() && name != "." && (strings.HasPrefix(d.Name(), ".") || strings.Count(name, "/") >= maxDepth-1):
			return fs.SkipDir
		case !d.Type().IsRegular() || path.Ext(name) != extension || d.Name() == selfplay.WaitingFile:
			return nil
		case !slices.Contains(metricsFiles, d.Name()):
			if len(left) < maxLeft {
				left = append(left, name)
			}
			return nil
		}
		info, err := d.Info()
		if err != nil {
			return nil // the file no longer exists
		}
		r := found[path.Dir(name)]
		r.Name, r.Files, r.Modified = path.Dir(name), append(r.Files, d.Name()), max(r.Modified, info.ModTime().Unix())
		found[r.Name] = r
		return nil
	})
	runs = slices.AppendSeq([]run{}, maps.Values(found))
	slices.SortFunc(runs, func(a, b run) int {
		return cmp.Or(cmp.Compare(b.Modified, a.Modified), cmp.Compare(a.Name, b.Name))
	})
	return runs[:min(len(runs), maxRuns)], left, err
}

// newest fills in what a run's newest lines say.
func (h *Handler) newest(r *run) {
	for _, file := range r.Files {
		lines, _, err := h.tail(path.Join(r.Name, file), maxRow)
		if err != nil {
			continue // the file no longer exists
		}
		for line := range bytes.Lines(lines) {
			row, tooFew := flatten(bytes.TrimSpace(line))
			if row == nil {
				continue // the first line may have lost its beginning, and the last its end
			}
			if x := abscissa([]map[string]number{row}); x != "row" {
				r.X, r.At = x, &row[x][0]
			}
			if elo := row["elo"]; elo != nil && !tooFew {
				r.Elo = elo
			}
			for _, name := range slices.Sorted(maps.Keys(row)) {
				if strings.HasPrefix(name, "accuracy[") && strings.HasSuffix(name, "visits 0].good") && (r.Good == nil || strings.HasPrefix(name, "accuracy[all,")) {
					r.Good = row[name]
				}
			}
		}
	}
}

func (h *Handler) serveRun(w http.ResponseWriter, r *http.Request) error {
	name := r.URL.Query().Get("name")
	return h.read.serve(w, "/"+name, func() (any, error) { return h.readRun(name) })
}

func (h *Handler) readRun(name string) (any, error) {
	runs, _, err := h.listRuns()
	if err != nil {
		return nil, err
	}
	at := slices.IndexFunc(runs, func(r run) bool { return r.Name == name })
	if at < 0 {
		return nil, refuse(http.StatusNotFound, "name", "there is no training run %q", cut(name))
	}
	all := []curves{}
	for _, file := range runs[at].Files {
		c, err := h.readCurves(path.Join(name, file))
		if errors.Is(err, fs.ErrNotExist) {
			continue // the file no longer exists
		}
		if err != nil {
			return nil, err
		}
		c.File = file
		all = append(all, c)
	}
	return struct {
		Name  string   `json:"name"`
		Files []curves `json:"files"`
	}{name, all}, nil
}

func (h *Handler) readCurves(name string) (c curves, err error) {
	text, cut, err := h.tail(name, maxFile)
	if err != nil {
		return c, err
	}
	if cut { // the first line may be incomplete
		_, text, _ = bytes.Cut(text, []byte("\n"))
	}
	c = parseCurves(text)
	c.Cut = cut
	return c, nil
}

// tail returns the last bytes of a file, at most that many; cut says that there are others before them.
func (h *Handler) tail(name string, most int64) (text []byte, cut bool, err error) {
	f, err := h.runs.Open(name)
	if err != nil {
		return nil, false, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, false, err
	}
	from := max(0, info.Size()-most)
	if text, err = io.ReadAll(io.NewSectionReader(f, from, most)); err != nil {
		return nil, false, fmt.Errorf("read %s: %w", name, err)
	}
	return text, from > 0, nil
}
