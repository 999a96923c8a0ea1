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
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/evald/evald/engine/game/gametest"
)

// Metrics are drawn in their panels, except for counters that have counted nothing.
func TestMetrics(t *testing.T) {
	h := handler(t, Config{Metrics: services()})
	s := answered[sample](t, asked(t, h, "/ui/metrics", ""))
	got := map[string][]value{}
	for _, p := range s.Panels {
		got[p.Title+" ("+p.Kind+")"] = p.Series
	}
	delete(got, "Time (histogram)") // similar to batch sizes
	sizes := value{Name: "batch_rows", Help: "Rows of batches.", Value: 24850, Count: 300}
	for i, count := range []float64{4, 6, 10, 18, 34, 66, 130, 229, 300} {
		sizes.Buckets = append(sizes.Buckets, bucket{float64(int(1) << i), count})
	}
	want := map[string][]value{
		"Requests (rate)":         {{Name: "request_success", Value: 1234}},
		"Who answered (rate)":     {{Name: "cache", Help: "Positions by who answered.", Value: 700}, {Name: "cpu", Help: "Positions by who answered.", Value: 5000}},
		"Batch sizes (histogram)": {sizes},
		"Waiting (gauge)":         {{Name: "pending_request_count", Value: 3}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("panels (-want +got):\n%s", diff)
	}
	if len(s.Others) != 1 || s.Others[0].Name != "build_info" || s.Time == 0 {
		t.Errorf("the others are %+v at %v", s.Others, s.Time)
	}
}

// GPUs have two panels, in which a GPU that has failed is seen.
func TestMetricsOfGPUs(t *testing.T) {
	labels := []string{"model", "version", "gpu"}
	works := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "evald_gpu_working"}, labels)
	busy := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "evald_gpu_busy_seconds_total"}, labels)
	r := prometheus.NewRegistry()
	r.MustRegister(works, busy)
	for _, gpu := range []string{"0", "2"} {
		works.WithLabelValues("m", "1", gpu).Set(map[string]float64{"2": 1}[gpu])
		busy.WithLabelValues("m", "1", gpu).Add(3)
	}
	families := gametest.Must(r.Gather())(t)
	want := []panel{
		{Title: "GPUs that answer", Kind: "gauge", Series: []value{{Name: "0"}, {Name: "2", Value: 1}}},
		{Title: "GPUs at work", Kind: "rate", Unit: "busy", Series: []value{{Name: "0", Value: 3}, {Name: "2", Value: 3}}},
	}
	if diff := cmp.Diff(want, arrange(families).Panels); diff != "" {
		t.Errorf("panels (-want +got):\n%s", diff)
	}
}

// The names of a panel's series are the parts that tell them apart.
func TestShorten(t *testing.T) {
	for _, c := range []struct{ names, want []string }{
		{[]string{"a{model=m,version=1}"}, []string{"a"}},
		{[]string{"a"}, []string{"a"}},
		{[]string{"a{model=m,version=1}", "a{model=n,version=1}"}, []string{"m", "n"}},
		{[]string{"a{model=m}", "b{model=m}"}, []string{"a", "b"}},
		{[]string{"a{model=m,reason=x}", "b{model=m}"}, []string{"a x", "b"}},
		{[]string{"a{x=}", "a{x=1}"}, []string{"x=", "1"}},
		{[]string{"a{model=m,source=cpu,version=1}"}, []string{"cpu"}},
		{[]string{"nv_inference_a", "evald_b"}, []string{"a", "b"}},
	} {
		var series []value
		for _, name := range c.names {
			series = append(series, value{Name: name})
		}
		shorten(series)
		var got []string
		for _, v := range series {
			got = append(got, v.Name)
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%q (-want +got):\n%s", c.names, diff)
		}
	}
}

// counted gathers a counter and an error, and counts the calls.
type counted struct{ times int }

func (c *counted) Gather() ([]*dto.MetricFamily, error) {
	c.times++
	r := prometheus.NewRegistry()
	x := prometheus.NewCounter(prometheus.CounterOpts{Name: "nv_inference_count"})
	x.Add(float64(c.times))
	r.MustRegister(x)
	families, err := r.Gather()
	return families, errors.Join(err, errors.New("one collector failed"))
}

// Metrics are read once a second for any number of readers. What could be read is shown together with an error.
func TestSampling(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		from := &counted{}
		h := handler(t, Config{Metrics: from})
		read := func() sample { return answered[sample](t, asked(t, h, "/ui/metrics", "")) }
		for range 10 {
			got := read()
			if len(got.Panels) != 1 || got.Panels[0].Series[0].Value != 1 || got.Error != "one collector failed" {
				t.Fatalf("%+v", got)
			}
		}
		time.Sleep(rememberFor) // advances the test's fake clock
		if got := read(); from.times != 2 || got.Panels[0].Series[0].Value != 2 {
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
	listed := answered[struct {
		Runs []run
		Left []string
	}](t, asked(t, h, "/ui/runs", ""))
	for _, r := range listed.Runs {
		names[r.Name] = r.Files
	}
	if diff := cmp.Diff([]string{"bench/rows.jsonl", "first/steps.jsonl"}, listed.Left); diff != "" {
		t.Errorf("other files (-want +got):\n%s", diff)
	}
	want := map[string][]string{"first": {"metrics.jsonl"}, "loop": {"generations.jsonl"}, "a/b": {"metrics.jsonl"}}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Errorf("runs (-want +got):\n%s", diff)
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
