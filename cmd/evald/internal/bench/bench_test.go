package bench

import (
	"strings"
	"testing"

	"github.com/evald/evald/engine/game/gametest"
)

// A share above its ceiling is not shown, and a line says why; other shares need no such line.
func TestShares(t *testing.T) {
	below, above := Figure{Name: "a", Rate: 50, Ceiling: 100, Why: "w"}, Figure{Name: "b", Rate: 120, Ceiling: 100, Why: "w"}
	perCPU := ServeFigure{Figure: below, PerCPU: 3, CeilingPerCPU: 2}
	for _, c := range []struct {
		name  string
		write func(*strings.Builder) error
		says  bool
	}{
		{"table, below", func(w *strings.Builder) error { return Table(w, []Figure{below, {Name: "none"}}) }, false},
		{"table, above", func(w *strings.Builder) error { return Table(w, []Figure{below, above}) }, true},
		{"service, above", func(w *strings.Builder) error {
			return ServeTable(w, []ServeFigure{{Figure: above, PerCPU: 1, CeilingPerCPU: 2}})
		}, true},
		{"service, CPU above", func(w *strings.Builder) error { return ServeTable(w, []ServeFigure{perCPU}) }, true},
	} {
		var w strings.Builder
		gametest.OK(t, c.write(&w))
		if got := w.String(); strings.Contains(got, "trust neither") != c.says || strings.Contains(got, "120%") || strings.Contains(got, "150%") || !strings.Contains(got, "50%") {
			t.Errorf("%s: %s", c.name, got)
		}
	}
}
