package tensorboard

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/evald/evald/engine/game/gametest"
)

var noon = time.UnixMilli(1_700_000_000_125)

// One event has the bytes that TensorBoard's own writer gives it.
func TestBytes(t *testing.T) {
	var b bytes.Buffer
	w := Writer{w: &b, now: func() time.Time { return noon }}
	if err := w.Scalars(300, Scalar{"loss", 0.5}); err != nil {
		t.Fatal(err)
	}
	const want = "1b000000000000001a0d9e130900000840fc54d94110ac022a0d0a0b0a046c6f7373150000003f6670f526"
	if got := hex.EncodeToString(b.Bytes()); got != want {
		t.Errorf("event is %s, want %s", got, want)
	}
}

// process is one process of a run, whose machine shows a time: it resumes the run after the step
// done, and writes the steps up to last.
func process(t *testing.T, dir string, clock time.Time, done, last int) {
	t.Helper()
	var points []Point
	for step := 1; step <= done; step++ {
		points = append(points, Point{step, []Scalar{{"loss", float32(step)}}})
	}
	w, err := open(dir, points, func() time.Time { clock = clock.Add(time.Second); return clock })
	if err != nil {
		t.Fatal(err)
	}
	for step := done + 1; step <= last; step++ {
		if err := w.Scalars(step, Scalar{"loss", float32(step)}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
}

// A folder has the points of its run, whatever the clocks of its processes: in one file, with a
// name later than all before, in which no time precedes the one before. Points that were written
// after the step at which a process resumed are replaced, and no others.
func TestClocks(t *testing.T) {
	dir := t.TempDir()
	theirs := filepath.Join(dir, prefix+"1700000000.other")
	if err := os.WriteFile(theirs, []byte("their events"), 0o644); err != nil {
		t.Fatal(err)
	}
	process(t, dir, noon.Add(2*time.Hour), 0, 60)
	previous := onlyFile(t, dir)
	process(t, dir, noon, 50, 70) // the points 51 to 60 were written after the last checkpoint
	second := onlyFile(t, dir)
	process(t, dir, noon.Add(-time.Hour), 70, 71)
	last := onlyFile(t, dir)
	if second <= previous || last <= second {
		t.Errorf("names are not in order: %s, %s, %s", previous, second, last)
	}
	if text, err := os.ReadFile(theirs); err != nil || string(text) != "their events" {
		t.Errorf("another program's file: %q, error %v", text, err)
	}
	times := map[int]time.Time{}
	if err := readTimes(filepath.Join(dir, last), times); err != nil {
		t.Fatal(err)
	}
	began := noon.Add(2 * time.Hour)
	for step := 1; step <= 71; step++ {
		want := began.Add(time.Duration(step+1) * time.Second) // the first process read its clock once before its first step
		switch {
		case step == 71:
			want = times[70].Add(time.Second)
		case step > 50:
			want = began.Add(time.Duration(51+step-50) * time.Second)
		}
		if got := times[step]; got.Sub(want).Abs() > time.Millisecond {
			t.Errorf("step %d is at %v, want %v", step, got, want)
		}
	}
	if len(times) != 71 {
		t.Errorf("%d points, want 71", len(times))
	}
	checkTensorBoard(t, dir, 71)
}

// A folder of an older version, in which each process wrote a file of its own, is repaired: also if
// the clock was set back between them.
func TestOlderFiles(t *testing.T) {
	dir := t.TempDir()
	for name, steps := range map[string][2]int{"7200000": {1, 60}, "3600000": {51, 70}} { // the second process had the earlier clock
		var b bytes.Buffer
		w := Writer{w: &b, now: func() time.Time { return noon }}
		if err := w.begin(noon); err != nil {
			t.Fatal(err)
		}
		for step := steps[0]; step <= steps[1]; step++ {
			if err := w.Scalars(step, Scalar{"loss", float32(step)}); err != nil {
				t.Fatal(err)
			}
		}
		b.WriteString("\x1b\x00\x00") // the process was killed while it wrote
		if err := os.WriteFile(filepath.Join(dir, prefix+name+suffix), b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	process(t, dir, noon, 65, 66)
	checkTensorBoard(t, dir, 66)
}

// onlyFile returns the name of the folder's only event file of this package that is not empty. At
// most one other is empty.
func onlyFile(t *testing.T, dir string) (name string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, prefix+"*"+suffix))
	if err != nil || len(files) == 0 || len(files) > 2 {
		t.Fatalf("files %v, error %v", files, err)
	}
	for i, file := range files {
		if info, err := os.Stat(file); err != nil || (info.Size() == 0) != (i < len(files)-1) {
			t.Fatalf("%s of %v, error %v", file, files, err)
		}
	}
	return filepath.Base(files[len(files)-1])
}

// checkTensorBoard checks that TensorBoard reads one point for each step up to last, in the order
// of their times, and that it removes none.
func checkTensorBoard(t *testing.T, dir string, last int) {
	t.Helper()
	program := exec.Command(gametest.Python(t, "tensorboard"), "testdata/read.py", dir)
	var said bytes.Buffer
	program.Stderr = &said
	out, err := program.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, said.String())
	}
	if strings.Contains(said.String(), "Purging") {
		t.Errorf("TensorBoard says %s", said.String())
	}
	points := strings.Split(strings.TrimSpace(string(out)), "\n")
	if len(points) != last {
		t.Fatalf("TensorBoard has %d points, want %d:\n%s", len(points), last, out)
	}
	before := 0.
	for i, point := range points {
		var step int
		var value, at float64
		if _, err := fmt.Sscanf(point, "loss %d %f %f", &step, &value, &at); err != nil || step != i+1 || value != float64(step) || at < before {
			t.Errorf("point %d is %q, after time %f, error %v", i+1, point, before, err)
		}
		before = at
	}
}

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, errors.New("disk full") }

func TestWriteFails(t *testing.T) {
	w := Writer{w: failing{}, now: time.Now}
	if err := w.Scalars(1, Scalar{"loss", 1}); err == nil || !strings.Contains(err.Error(), "write TensorBoard events: disk full") {
		t.Errorf("a file that cannot be written: error %v", err)
	}
	if _, err := Open(filepath.Join(t.TempDir(), "missing"), nil); err == nil {
		t.Error("a folder that is missing is no error")
	}
}
