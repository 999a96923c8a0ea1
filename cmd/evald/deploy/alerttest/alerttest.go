// Package alerttest evaluates the alerts of deploy/components/prometheus on what services answer
// when they are scraped. It is for tests.
package alerttest

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/evald/evald/engine/game/gametest"
)

// Rule is an alert.
type Rule struct {
	Alert, Expr, For    string
	Labels, Annotations map[string]string
}

// Rules returns the alerts.
func Rules(t testing.TB) (all []Rule) {
	t.Helper()
	var file struct {
		Groups []struct{ Rules []Rule }
	}
	gametest.OK(t, yaml.Unmarshal(rulesText(t), &file))
	for _, group := range file.Groups {
		all = append(all, group.Rules...)
	}
	return all
}

// rulesText returns the alerts as Prometheus reads them, without Kubernetes.
func rulesText(t testing.TB) []byte {
	t.Helper()
	_, here, _, _ := runtime.Caller(0)
	text := gametest.Must(os.ReadFile(filepath.Join(filepath.Dir(here), "../components/prometheus/alerts.yaml")))(t)
	_, rules, ok := strings.Cut(string(text), "\nspec:\n")
	if !ok {
		t.Fatal("alerts.yaml has no line spec:")
	}
	return []byte(rules)
}

// Scrape is an answer of /metrics, and when it was given. The text is empty if there was none.
type Scrape struct {
	At   time.Time
	Text string
}

// Now is the scrape of a text that was read at this moment.
func Now(text string) Scrape { return Scrape{time.Now(), text} }

// Case is a service that is scraped once a minute, whatever the time between its scrapes was. So an
// alert that fires after ten minutes needs a fault that lasts for ten scrapes.
type Case struct {
	Name    string
	Scrapes []Scrape

	// Fires are the alerts that fire after the last scrape, each with its labels but severity, such
	// as "instance: a, port: HTTP". The label instance is a of all that is scraped.
	Fires map[string]string
}

// Check fails the test for each alert that does not fire in a case that names it, or that fires in
// another. It skips the test without Prometheus's promtool (Debian: prometheus).
func Check(t *testing.T, cases []Case) {
	t.Helper()
	tests := new(strings.Builder)
	for _, c := range cases {
		c.write(t, tests)
	}
	Promtool(t, "rule_files: [rules.yaml]\ntests:\n"+tests.String())
}

// Promtool runs a file of tests on the alerts, which it names rules.yaml, without annotations.
func Promtool(t *testing.T, tests string) {
	t.Helper()
	promtool, err := exec.LookPath("promtool")
	gametest.Need(t, err == nil, "there is no promtool (Debian: prometheus)")
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		gametest.OK(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	run := func(args ...string) {
		if out, err := exec.Command(promtool, args...).CombinedOutput(); err != nil {
			t.Errorf("promtool %v: %v\n%s", args, err, out)
		}
	}
	rules := string(rulesText(t))
	run("check", "rules", write("whole.yaml", rules))
	write("rules.yaml", regexp.MustCompile(`(?m)^ *annotations:\n( {12}.*\n)*`).ReplaceAllString(rules, ""))
	run("test", "rules", write("tests.yaml", tests))
}

// sample matches a line of /metrics: the name, the labels and the value.
var sample = regexp.MustCompile(`^(\w+)(?:\{(.*)\})? (\S+)$`)

// write writes a case in the form of promtool.
func (c Case) write(t testing.TB, to *strings.Builder) {
	t.Helper()
	series := map[string][]string{} // values by minute
	for minute, scrape := range c.Scrapes {
		for line := range strings.Lines(scrape.Text) {
			m := sample.FindStringSubmatch(strings.TrimSpace(line))
			if m == nil || strings.HasPrefix(line, "go_") {
				continue
			}
			value := gametest.Must(strconv.ParseFloat(m[3], 64))(t)
			if strings.HasSuffix(m[1], "_timestamp_seconds") { // the time of promtool begins in 1970
				value += float64(60*minute) - float64(scrape.At.Unix())
			}
			name := m[1] + "{" + strings.Trim(m[2]+`,instance="a"`, ",") + "}"
			for len(series[name]) < minute {
				series[name] = append(series[name], "_")
			}
			series[name] = append(series[name], strconv.FormatFloat(value, 'f', -1, 64))
		}
		for name := range series {
			for len(series[name]) <= minute {
				series[name] = append(series[name], "stale")
			}
		}
	}
	fmt.Fprintf(to, "  - name: %q\n    interval: 1m\n    input_series:\n", c.Name)
	for _, name := range slices.Sorted(maps.Keys(series)) {
		fmt.Fprintf(to, "      - {series: %q, values: %q}\n", name, strings.Join(series[name], " "))
	}
	fmt.Fprint(to, "    alert_rule_test:\n")
	fired := 0
	for _, rule := range Rules(t) {
		fmt.Fprintf(to, "      - {alertname: %s, eval_time: %dm, exp_alerts: [", rule.Alert, len(c.Scrapes)-1)
		if labels, ok := c.Fires[rule.Alert]; ok {
			fired++
			fmt.Fprintf(to, "{exp_labels: {severity: %s, %s}}", rule.Labels["severity"], labels)
		}
		fmt.Fprint(to, "]}\n")
	}
	if fired != len(c.Fires) {
		t.Fatalf("%s: some of these are no alerts: %v", c.Name, c.Fires)
	}
}
