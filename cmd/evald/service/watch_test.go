package service

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/evald/evald/cmd/evald/deploy/alerttest"
	"github.com/evald/evald/engine/eval/evaltest"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/game/gametest"
)

// What watches the service, in deploy: Prometheus's alerts, Grafana's dashboard, and the
// autoscalers.

const watching = "../deploy/components/prometheus/"

// series are the labels of each metric, with their values.
type series map[string]map[string][]string

// scrape returns the metrics of a server that has a GPU and was called over both ports.
func scrape(t *testing.T) series {
	t.Helper()
	c := testConfig(&evaltest.Stub{})
	c.LinesLost = func() uint64 { return 0 }
	c.Ends = map[string]time.Time{serverFile: time.Now()}
	load := c.Load
	c.Load = func(m Model) (Loaded, error) {
		l, err := load(m)
		l.Devices = func() []Device { return []Device{{Working: true}} }
		return l, err
	}
	s := serve(t, c)
	s.answer(t, bitboardRequest(connect4, game.Position{}))
	s.get(t, "/v2/health/ready")
	found := series{}
	for _, family := range gametest.Must(s.Metrics().Gather())(t) {
		labels := map[string][]string{"instance": nil, "namespace": nil} // Prometheus's own
		for _, m := range family.GetMetric() {
			for _, l := range m.GetLabel() {
				labels[l.GetName()] = append(labels[l.GetName()], l.GetValue())
			}
			if m.GetHistogram() != nil {
				found[family.GetName()+"_sum"], found[family.GetName()+"_count"] = labels, labels
				found[family.GetName()+"_bucket"] = maps.Clone(labels)
				found[family.GetName()+"_bucket"]["le"] = nil
			}
		}
		found[family.GetName()] = labels
	}
	for code := codes.OK; code <= codes.Unauthenticated; code++ {
		found["grpc_server_handled_total"]["grpc_code"] = append(found["grpc_server_handled_total"]["grpc_code"], code.String())
	}
	return found
}

var (
	selector = regexp.MustCompile(`(\w+)\{([^}]*)\}`)
	matcher  = regexp.MustCompile(`(\w+)(=~|!~|!=|=)"([^"]*)"`)
	grouping = regexp.MustCompile(`\b(?:by|without|on) \(([^)]*)\)`)
	ranges   = regexp.MustCompile(`\[[^\]]*\]`)
	word     = regexp.MustCompile(`\b[a-zA-Z_]\w*\b *\(?`)
)

// check fails the test for each metric, label and value of an expression in PromQL that the service
// does not have.
func (all series) check(t *testing.T, where, expr string) {
	t.Helper()
	used := map[string]bool{}
	rest := selector.ReplaceAllStringFunc(ranges.ReplaceAllString(expr, ""), func(text string) string {
		m := selector.FindStringSubmatch(text)
		for _, c := range matcher.FindAllStringSubmatch(m[2], -1) {
			values, ok := all[m[1]][c[1]]
			if !ok {
				t.Errorf("%s: %s has no label %s", where, m[1], c[1])
			}
			for _, value := range strings.Split(c[3], "|") {
				if slices.Contains([]string{"reason", "grpc_code", "group"}, c[1]) && !slices.Contains(values, value) {
					t.Errorf("%s: %s has no %s %s, only %s", where, m[1], c[1], value, values)
				}
			}
		}
		return m[1]
	})
	var labels []string
	rest = grouping.ReplaceAllStringFunc(rest, func(text string) string {
		labels = append(labels, strings.Split(grouping.FindStringSubmatch(text)[1], ", ")...)
		return ""
	})
	for _, found := range word.FindAllString(rest, -1) {
		found = strings.TrimSpace(found)
		if strings.HasSuffix(found, "(") || slices.Contains([]string{"and", "or", "unless", "sum", "count"}, found) {
			continue // a function or an operator
		}
		used[found] = true
		if all[found] == nil {
			t.Errorf("%s: the service has no metric %s: %s", where, found, expr)
		}
	}
	for _, label := range labels {
		if !slices.ContainsFunc(slices.Collect(maps.Keys(used)), func(metric string) bool { _, ok := all[metric][label]; return ok }) {
			t.Errorf("%s: no metric has the label %s: %s", where, label, expr)
		}
	}
	if len(used) == 0 {
		t.Errorf("%s: no metrics: %s", where, expr)
	}
}

// Alerts, dashboard and autoscalers name metrics and labels that the service has.
func TestWatched(t *testing.T) {
	all := scrape(t)
	for _, alert := range alerttest.Rules(t) {
		all.check(t, alert.Alert, alert.Expr)
	}
	for _, panel := range dashboard(t).Panels {
		for _, target := range panel.Targets {
			all.check(t, panel.Title, target.Expr)
		}
	}
	for path, expr := range map[string]string{"base/evald.yaml": `metric: \{name: (\w+)\}`, "components/keda/scaledobject.yaml": `query: ([^#\n]*)`} {
		text := gametest.Must(os.ReadFile("../deploy/" + path))(t)
		all.check(t, path, string(regexp.MustCompile(expr).FindSubmatch(text)[1]))
	}
}

// Each alert has all that a person needs. None fires in the cases of testdata/alerts.yaml, which
// come near.
func TestAlerts(t *testing.T) {
	for _, a := range alerttest.Rules(t) {
		if a.Labels["severity"] == "" || a.Annotations["summary"] == "" || a.Annotations["description"] == "" {
			t.Errorf("%s has no severity, summary or description", a.Alert)
		}
	}
	alerttest.Promtool(t, string(gametest.Must(os.ReadFile("testdata/alerts.yaml"))(t)))
}

// dashboardFile is the part of Grafana's dashboards that ours uses.
type dashboardFile struct {
	Title, UID, Timezone, Refresh string
	SchemaVersion, Version        int
	Editable                      bool
	Tags                          []string
	Time                          struct{ From, To string }
	Annotations                   struct{ List []any }
	Templating                    struct {
		List []struct{ Name, Type, Query, Label string }
	}
	Panels []struct {
		ID                       int
		Type, Title, Description string
		Collapsed                bool
		Datasource               struct{ Type, UID string }
		GridPos                  struct{ X, Y, W, H int }
		FieldConfig              struct {
			Defaults struct {
				Unit string
				Min  *float64
			}
			Overrides []any
		}
		Targets []struct{ RefID, Expr, LegendFormat string }
		Panels  []any
	}
}

func dashboard(t *testing.T) (d dashboardFile) {
	t.Helper()
	decoder := json.NewDecoder(bytes.NewReader(gametest.Must(os.ReadFile(watching + "dashboard.json"))(t)))
	decoder.DisallowUnknownFields()
	gametest.OK(t, decoder.Decode(&d))
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		t.Fatalf("dashboard.json goes on after its end: %v", err)
	}
	return d
}

// The dashboard's panels have all that Grafana needs, names of their own, and no cell of the grid
// twice.
func TestDashboard(t *testing.T) {
	d := dashboard(t)
	if d.Title == "" || d.UID == "" || d.SchemaVersion < 36 || d.Annotations.List == nil || len(d.Templating.List) != 1 || d.Templating.List[0].Type != "datasource" || len(d.Panels) == 0 {
		t.Fatalf("dashboard: %+v", d)
	}
	ids, cells, titles := map[int]bool{}, map[[2]int]string{}, map[string]bool{}
	for _, p := range d.Panels {
		if p.ID < 1 || ids[p.ID] || p.Title == "" || titles[p.Title] {
			t.Errorf("panel %d, %q: another one has its id or title, or it has none", p.ID, p.Title)
		}
		ids[p.ID], titles[p.Title] = true, true
		if g := p.GridPos; g.X < 0 || g.Y < 0 || g.W < 1 || g.H < 1 || g.X+g.W > 24 {
			t.Errorf("%s: not in the grid: %+v", p.Title, g)
		}
		for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
			for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
				if other, ok := cells[[2]int{x, y}]; ok {
					t.Fatalf("%s overlaps %s at %d, %d", p.Title, other, x, y)
				}
				cells[[2]int{x, y}] = p.Title
			}
		}
		if p.Type == "row" {
			continue
		}
		refs := map[string]bool{}
		for _, target := range p.Targets {
			if refs[target.RefID] || target.RefID == "" || target.LegendFormat == "" {
				t.Errorf("%s: target %+v", p.Title, target)
			}
			refs[target.RefID] = true
		}
		if p.Type != "timeseries" || p.FieldConfig.Defaults.Unit == "" || p.Datasource.Type != "prometheus" || p.Datasource.UID != "${"+d.Templating.List[0].Name+"}" || len(refs) == 0 {
			t.Errorf("%s: %+v", p.Title, p)
		}
	}
}
