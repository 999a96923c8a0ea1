package tensorboard

import (
	"bytes"
	"encoding/hex"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var noon = time.UnixMilli(1_700_000_000_125)

// One event has the bytes that TensorBoard's own writer gives it.
func TestBytes(t *testing.T) {
	var b bytes.Buffer
	w := Writer{w: &b}
	if err := w.Scalars(noon, 300, Scalar{"loss", 0.5}); err != nil {
		t.Fatal(err)
	}
	const want = "1b000000000000001a0d9e130900000840fc54d94110ac022a0d0a0b0a046c6f7373150000003f6670f526"
	if got := hex.EncodeToString(b.Bytes()); got != want {
		t.Errorf("event is %s, want %s", got, want)
	}
}

// TensorBoard reads what was written. A file that begins at step 2 hides what other files have from there on.
func TestTensorBoardReads(t *testing.T) {
	python := os.Getenv("EVALD_PYTHON")
	if python == "" {
		t.Skip("EVALD_PYTHON is not set: .ci/run makes one")
	}
	dir := t.TempDir()
	write := func(name string, first int, values map[int]float32) {
		f, err := os.Create(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		w, err := newWriter(f, noon, first)
		if err != nil {
			t.Fatal(err)
		}
		for step := first; values[step] != 0; step++ {
			if err := w.Scalars(noon, step, Scalar{"loss/total", values[step]}, Scalar{"lr", 2 * values[step]}); err != nil {
				t.Fatal(err)
			}
		}
	}
	write("events.out.tfevents.1.host", 1, map[int]float32{1: 5, 2: 4, 3: 3})
	write("events.out.tfevents.2.host", 2, map[int]float32{2: 2.5, 3: 1.5})
	out, err := exec.Command(python, "testdata/read.py", dir).Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		t.Fatalf("%v: %s", err, exit.Stderr)
	}
	if err != nil {
		t.Fatal(err)
	}
	const want = `loss/total 1 5.0 1700000000.125
loss/total 2 2.5 1700000000.125
loss/total 3 1.5 1700000000.125
lr 1 10.0 1700000000.125
lr 2 5.0 1700000000.125
lr 3 3.0 1700000000.125
`
	if d := cmp.Diff(want, string(out)); d != "" {
		t.Error(d)
	}
}

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, errors.New("disk full") }

func TestWriteFails(t *testing.T) {
	if _, err := newWriter(failing{}, noon, 0); err == nil {
		t.Error("a file that cannot be written is no error")
	}
}
