package web

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/evald/evald/engine/game/gametest"
)

// The status has what the service counts for each model; of a GPU that has failed it says so.
func TestStatus(t *testing.T) {
	labels := []string{"model", "version", "gpu"}
	works := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "evald_gpu_working"}, labels)
	r := services()
	r.MustRegister(works)
	works.WithLabelValues("default", "1", "0").Set(1)
	works.WithLabelValues("default", "1", "2").Set(0)
	h := handler(t, Config{Metrics: r})
	s := answered[status](t, asked(t, h, "/ui/status", ""))
	want := status{Time: s.Time, Ready: true, Version: "v1", Models: []modelStatus{
		{Name: "default", Version: "1", Rows: 5700, Done: 1234, Failed: 3, Refused: 2, Seconds: 0.075, Waiting: 3, GPUs: 1, Lost: 1},
		{Name: "search", Version: "1", Done: 6},
	}}
	if diff := cmp.Diff(want, s, cmpopts.EquateApprox(0, 1e-9)); diff != "" || s.Time == 0 {
		t.Errorf("at %v (-want +got):\n%s", s.Time, diff)
	}
}

// counted gathers a counter and an error, and counts the calls.
type counted struct{ times int }

func (c *counted) Gather() ([]*dto.MetricFamily, error) {
	c.times++
	r := prometheus.NewRegistry()
	x := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "nv_inference_count"}, []string{"model"})
	x.WithLabelValues("m").Add(float64(c.times))
	r.MustRegister(x)
	families, err := r.Gather()
	return families, errors.Join(err, errors.New("one collector failed"))
}

// The status is read once a second for any number of readers. What could be read is shown together with an error.
func TestSampling(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		from := &counted{}
		h := handler(t, Config{Metrics: from})
		read := func() status { return answered[status](t, asked(t, h, "/ui/status", "")) }
		for range 10 {
			got := read()
			if len(got.Models) != 1 || got.Models[0].Rows != 1 || got.Error != "one collector failed" {
				t.Fatalf("%+v", got)
			}
		}
		time.Sleep(rememberFor) // advances the test's fake clock
		if got := read(); from.times != 2 || got.Models[0].Rows != 2 {
			t.Errorf("read %d times, now %+v", from.times, got)
		}
	})
}

func TestRuns(t *testing.T) {
	dir := metrics(t)
	outside := filepath.Join(t.TempDir(), "secret.jsonl")
	for _, name := range []string{".hidden/metrics.jsonl", "a/b/metrics.jsonl", "a/b/c/d/metrics.jsonl", "a/notes.txt", "games/waiting.jsonl", "first/steps.jsonl", "bench/rows.jsonl"} {
		write(t, filepath.Join(dir, filepath.FromSlash(name)), `{"x":1}`)
	}
	write(t, outside, `{"password":1}`)
	gametest.OK(t, os.Symlink(outside, filepath.Join(dir, "first", "link.jsonl")))
	h := handler(t, Config{Runs: dir})
	names := map[string][]string{}
	newest := map[string]run{}
	listed := answered[struct {
		Runs []run
		Left []string
	}](t, asked(t, h, "/ui/runs", ""))
	for _, r := range listed.Runs {
		names[r.Name] = r.Files
		r.Files, r.Modified = nil, 0
		newest[r.Name] = r
	}
	if diff := cmp.Diff([]string{"bench/rows.jsonl", "first/steps.jsonl"}, listed.Left); diff != "" {
		t.Errorf("other files (-want +got):\n%s", diff)
	}
	want := map[string][]string{"first": {"metrics.jsonl"}, "loop": {"generations.jsonl"}, "a/b": {"metrics.jsonl"}}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Errorf("runs (-want +got):\n%s", diff)
	}
	at := func(x float64) *float64 { return &x }
	if diff := cmp.Diff(map[string]run{
		"first": {Name: "first", X: "step", At: at(3000)}, "a/b": {Name: "a/b"},
		"loop": {Name: "loop", X: "generation", At: at(11), Elo: number{319, 297, 341}, Good: number{0.81, 0.79, 0.83}},
	}, newest, cmpopts.EquateApprox(0, 1e-9)); diff != "" {
		t.Errorf("what the newest lines say (-want +got):\n%s", diff)
	}
	got := answered[struct{ Files []curves }](t, asked(t, h, "/ui/run?name=loop", "")).Files
	if len(got) != 1 || got[0].X != "generation" || got[0].Rows != 12 || got[0].Skipped != 1 || got[0].Cut {
		t.Errorf("loop is %+v", got)
	}
	if p := got[0].Groups[0]; p.Name != "elo" || p.Curves[0].Name != "elo" || !cmp.Equal(p.Curves[0].Points[3], []float64{3, 111, 91, 131}) {
		t.Errorf("the first group is %+v", p)
	}
	// A folder that contains metrics itself is a run too.
	if got := answered[struct{ Files []curves }](t, asked(t, handler(t, Config{Runs: filepath.Join(dir, "loop")}), "/ui/run?name=.", "")).Files; len(got) != 1 || got[0].Rows != 12 {
		t.Errorf("the folder itself is %+v", got)
	}
	for _, name := range []string{"", ".", "..", "../..", "/etc", "first/..", "first/metrics.jsonl", ".hidden", "a"} {
		if r := asked(t, h, "/ui/run?name="+name, ""); r.StatusCode != http.StatusNotFound {
			t.Errorf("run %q: status %d", name, r.StatusCode)
		}
	}
}

func TestCurves(t *testing.T) {
	c := parseCurves([]byte("{\"step\":1,\"a\":{\"loss\":2,\"deep\":{\"x\":1}},\"text\":\"no\",\"yes\":true,\"list\":[1]}\n\n[1]\nnull\n{\"step\":2,\"a\":{\"loss\":1},\"b\":5}\n{\"step\":3,\"a\":"))
	want := curves{X: "step", Rows: 2, Skipped: 3, Groups: []group{
		{"loss", []curve{{"a.loss", [][]float64{{1, 2}, {2, 1}}}}},
		{"a.deep.x", []curve{{"a.deep.x", [][]float64{{1, 1}}}}},
		{"b", []curve{{"b", [][]float64{{2, 5}}}}},
	}}
	if diff := cmp.Diff(want, c); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	// Intervals, and objects in lists, in the form that evald learn writes.
	c = parseCurves([]byte(`{"generation":0,"elo":5,"elo_error":2,"lists":[{"visits":0,"name":"all","good":{"value":0.5,"low":0.4,"high":0.7}},{"visits":100,"good":0.6}],"matches":[{"against":"uct[x]","points":7},{"points":8}]}`))
	want = curves{X: "generation", Rows: 1, Groups: []group{
		{"elo", []curve{{"elo", [][]float64{{0, 5, 3, 7}}}}},
		{"lists.good", []curve{{"all, visits 0", [][]float64{{0, 0.5, 0.4, 0.7}}}, {"visits 100", [][]float64{{0, 0.6}}}}},
		{"matches.points", []curve{{"2", [][]float64{{0, 8}}}, {"uct(x)", [][]float64{{0, 7}}}}},
	}}
	if diff := cmp.Diff(want, c); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	c = parseCurves([]byte(`{"generation":0,"elo":5,"elo_error":2000,"too_few_games":true}` + "\n" + `{"generation":1,"elo":6,"elo_error":2}`))
	want = curves{X: "generation", Rows: 2, TooFew: 1, Groups: []group{{"elo", []curve{{"elo", [][]float64{{1, 6, 4, 8}}}}}}}
	if diff := cmp.Diff(want, c); diff != "" {
		t.Errorf("too few games (-want +got):\n%s", diff)
	}
	if c := parseCurves([]byte("{\"step\":2,\"y\":1}\n{\"step\":1,\"y\":2}\n")); c.X != "row" || len(c.Groups) != 2 {
		t.Errorf("steps that go back: %+v", c)
	}
	// Groups that never change come last.
	if c := parseCurves([]byte("{\"a\":1,\"b\":1}\n{\"a\":1,\"b\":2}\n")); c.Groups[0].Name != "b" || c.Groups[1].Name != "a" {
		t.Errorf("groups %+v", c.Groups)
	}
	var long strings.Builder
	for i := range 10 * maxPoints {
		fmt.Fprintf(&long, "{\"y\":%d}\n", i)
	}
	c = parseCurves([]byte(long.String()))
	points := c.Groups[0].Curves[0].Points
	if len(points) != maxPoints || !cmp.Equal(points[0], []float64{1, 0}) || !cmp.Equal(points[maxPoints-1], []float64{10 * maxPoints, 10*maxPoints - 1}) {
		t.Errorf("%d points from %v to %v", len(points), points[0], points[len(points)-1])
	}
}

// Runs are read once per rememberFor for any number of readers.
func TestMemo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := memo{answers: map[string]remembered{}}
		made := 0
		get := func(key string) any {
			x, err := m.get(key, func() (any, error) {
				made++
				if key == "bad" {
					return nil, errors.New("bad")
				}
				return made, nil
			})
			if err != nil {
				return err.Error()
			}
			return x
		}
		got := []any{get("a"), get("a"), get("b"), get("bad"), get("bad"), get("a")}
		time.Sleep(rememberFor) // advances the test's fake clock
		got = append(got, get("a"), len(m.answers))
		if diff := cmp.Diff([]any{1, 1, 2, "bad", "bad", 1, 5, 1}, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

func FuzzCurves(f *testing.F) {
	f.Add([]byte("{\"step\":1,\"a\":{\"loss\":2}}\n{\"step\":2}\n"))
	f.Add([]byte("{\"generation\":1e308,\"elo\":-1e308}\n{\"torn"))
	f.Add([]byte("{\"\":1,\".\":2}\n\n\r\n[]"))
	f.Fuzz(func(t *testing.T, text []byte) {
		c := parseCurves(text)
		gametest.Must(json.Marshal(c))(t)
		lines := strings.Count(string(text), "\n") + 1
		if c.Rows+c.Skipped > lines {
			t.Errorf("%d rows and %d skipped of %d lines", c.Rows, c.Skipped, lines)
		}
		for _, g := range c.Groups {
			for _, x := range g.Curves {
				if len(x.Points) == 0 || len(x.Points) > min(c.Rows, maxPoints) {
					t.Errorf("%s has %d points of %d rows", x.Name, len(x.Points), c.Rows)
				}
			}
		}
	})
}
