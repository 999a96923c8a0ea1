package train

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/evald/evald/engine/durable/durabletest"
)

// If one byte of a run's folder is wrong, the run is refused or ends as it would have.
func TestRunDamaged(t *testing.T) {
	c := testConfig()
	c.Steps, c.Warmup = 6, 1
	source, dir := testSource(c), t.TempDir()
	run := func(dir string, steps int) (metrics []Metrics, err error) {
		r, err := OpenRun(dir, c, nil, lessons(c, source), Compute{Threads: 1})
		if err != nil {
			return nil, err
		}
		for r.Done() < steps && err == nil {
			var report Report
			if report, err = r.Step(); err == nil {
				err = r.note(report)
			}
		}
		if err == nil {
			err = r.Save()
		}
		if closed := r.Close(); err == nil {
			err = closed
		}
		if err != nil {
			return nil, err
		}
		return ReadMetrics(filepath.Join(dir, MetricsFile))
	}
	began, err := run(dir, 4)
	if err != nil || len(began) != 4 {
		t.Fatalf("%d lines of metrics, %v", len(began), err)
	}
	goesOn := func(dir string) (string, error) {
		metrics, err := run(dir, c.Steps)
		if err != nil {
			return "", err
		}
		for i, m := range metrics { // the last line before the damage may be gone if its newline was hit
			if m.Step <= len(began) && (m.Step != i+1 || m.Loss != began[i].Loss || m.PerSecond != began[i].PerSecond || *m.WDL != *began[i].WDL) {
				return "other metrics", nil
			}
		}
		text, err := os.ReadFile(filepath.Join(dir, NetworkFile))
		return string(text), err
	}
	durabletest.Damage(t, dir, 29, func(name string) bool { return name == MetricsFile || name == ConfigFile }, goesOn)
	durabletest.Damage(t, dir, 211, func(name string) bool { return name == CheckpointFile || name == NetworkFile }, goesOn)
}
