package ort_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/game/gametest"
	"github.com/evald/evald/nn/ort"
)

// Callers at once get the answers of callers one by one, over all sizes of batches and two boards.
func TestConcurrent(t *testing.T) {
	needLibrary(t)
	b := newBackend(t, export(t, network(t, "1x2/1/1")), planes(), ort.Options{})
	var all sync.WaitGroup
	for _, rules := range []game.Rules{game.Connect4, {Rows: 4, Columns: 5, InARow: 4, Gravity: true}} {
		for _, n := range []int{1, 1, 5, 70, 300, 5000} {
			want := positions(game.MustBoard(rules), n)
			gametest.OK(t, b.Compute(t.Context(), want))
			all.Go(func() {
				for range 3 {
					got := positions(want.Board, n)
					gametest.OK(t, b.Compute(t.Context(), got))
					for i := range want.WDL {
						if got.WDL[i] != want.WDL[i] {
							t.Errorf("%d rows: value %d of WDL is %v, want %v", n, i, got.WDL[i], want.WDL[i])
							return
						}
					}
				}
			})
		}
	}
	all.Wait()
}

// ended is a context whose end is seen only while a call is under way: Err is nil at first.
type ended struct {
	context.Context
	mu    sync.Mutex
	looks int
}

func (e *ended) Err() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.looks++; e.looks <= 2 { // Compute looks before it takes memory, and before it runs
		return nil
	}
	return context.Canceled
}

func (*ended) Done() <-chan struct{} {
	done := make(chan struct{})
	close(done)
	return done
}

// A context that ends, ends a run that is under way, and the memory of the call is good for the next one.
func TestContext(t *testing.T) {
	needLibrary(t)
	b := newBackend(t, export(t, network(t, "8x64")), planes(), ort.Options{Threads: 1})
	board := game.MustBoard(game.Connect4)
	gametest.OK(t, b.Prepare(board, 256))
	batch := positions(board, 256)
	if err := b.Compute(&ended{Context: t.Context()}, batch); !errors.Is(err, context.Canceled) {
		t.Errorf("ended while it runs: error %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	gametest.OK(t, b.Compute(ctx, batch))
	cancel()
	if err := b.Compute(ctx, batch); !errors.Is(err, context.Canceled) {
		t.Errorf("ended before: error %v", err)
	}
}

// After Close a call is an error. Close twice is no mistake.
func TestClose(t *testing.T) {
	needLibrary(t)
	b := gametest.Must(ort.New(export(t, network(t, "1x2/1/1")), planes(), ort.Options{}))(t)
	batch := positions(game.MustBoard(game.Connect4), 3)
	gametest.OK(t, b.Compute(t.Context(), batch))
	gametest.OK(t, b.Close())
	gametest.OK(t, b.Close())
	const want = "model exported: the backend is closed"
	if err := b.Compute(t.Context(), batch); err == nil || err.Error() != want {
		t.Errorf("compute: error %v", err)
	}
	if err := b.Prepare(batch.Board, 3); err == nil || err.Error() != want {
		t.Errorf("prepare: error %v", err)
	}
}

// A codec that fails, or gives answers that are no numbers, is an error that names the model.
func TestAnswerErrors(t *testing.T) {
	needLibrary(t)
	m := export(t, network(t, "1x2/1/1"))
	batch := positions(game.MustBoard(game.Connect4), 3)
	c := planes()
	c.Answer = func(*eval.Batch, []ort.Buffer) error { return errors.New("row 1: is odd") }
	if err := newBackend(t, m, c, ort.Options{}).Compute(t.Context(), batch); err == nil || err.Error() != "model exported: row 1: is odd" {
		t.Errorf("error %v", err)
	}
	c.Answer = func(b *eval.Batch, out []ort.Buffer) error { b.WDL[4] /= 0 * out[0].Float32s()[0]; return nil }
	if err := newBackend(t, m, c, ort.Options{}).Compute(t.Context(), batch); !errors.Is(err, eval.ErrNotFinite) {
		t.Errorf("error %v", err)
	}
}

// One size of batches: every row is computed in a batch of that size.
func TestBatch(t *testing.T) {
	needLibrary(t)
	c, most := planes(), 0
	fill := c.Fill
	c.Fill = func(board *game.Board, pos []game.Position, in []ort.Buffer) {
		most = max(most, len(pos))
		fill(board, pos, in)
	}
	b := newBackend(t, export(t, network(t, "1x2/1/1")), c, ort.Options{Batch: 10})
	gametest.OK(t, b.Compute(t.Context(), positions(game.MustBoard(game.Connect4), 25)))
	if most != 10 || b.Attributes().Rows != 10 {
		t.Errorf("batches of %d, and %d are preferred", most, b.Attributes().Rows)
	}
}

// A library that is missing, or is another one, is an error that says where it was looked for and what to do.
func TestNoLibrary(t *testing.T) {
	if !ort.Supported {
		t.Skip("this build cannot open ONNX Runtime")
	}
	text := filepath.Join(t.TempDir(), "libonnxruntime.so")
	gametest.OK(t, os.WriteFile(text, []byte("text"), 0o644))
	for library, want := range map[string]string{
		"/nowhere/lib.so": "/nowhere/lib.so: asked for: cannot open shared object file: No such file or directory",
		text:              text + ": asked for: file too short",
		"libc.so.6":       "libc.so.6: asked for: cannot open",
	} {
		_, err := ort.New(ort.Model{Name: "m"}, planes(), ort.Options{Library: library})
		if err == nil || !strings.Contains(err.Error(), want) || !strings.HasSuffix(err.Error(), "or EVALD_ORT_LIBRARY to the path of libonnxruntime.so") {
			t.Errorf("%s: error %v", library, err)
		}
	}
}

// Nothing stands in for a provider that the library does not have.
func TestProviders(t *testing.T) {
	needLibrary(t)
	l := gametest.Must(ort.Open(ort.Options{}))(t)
	built := strings.Join(l.Providers(), " ")
	if !strings.Contains(built, "CPUExecutionProvider") || strings.Contains(built, "CUDA") {
		t.Skipf("the library has %s: the test is for one without CUDA", built)
	}
	m := export(t, network(t, "1x2/1/1"))
	for _, c := range []struct {
		o    ort.Options
		want string
	}{
		{ort.Options{Provider: ort.CUDA}, "CUDA execution provider is not enabled in this build (pip uninstall onnxruntime, then pip install 'onnxruntime-gpu[cuda,cudnn]')"},
		{ort.Options{Provider: ort.TensorRT}, "TensorRT execution provider is not enabled in this build (pip uninstall onnxruntime, then pip install 'onnxruntime-gpu[cuda,cudnn]' 'tensorrt-cu13<11')"},
		{ort.Options{Provider: "XNNPACK"}, "XNNPACK execution provider is not supported in this build"},
		{ort.Options{Provider: "any", Plugin: "/nowhere/plugin.so"}, "/nowhere/plugin.so"},
	} {
		_, err := ort.New(m, planes(), c.o)
		if err == nil || !strings.HasPrefix(err.Error(), "model exported: provider "+c.o.Provider+" of "+l.String()+" cannot be used: ") || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: error %v", c.o.Provider, err)
		}
	}
}

// Opening and closing leaves nothing behind: a thousand times with EVALD_SOAK.
func TestLeaks(t *testing.T) {
	needLibrary(t)
	m := export(t, network(t, "2x16"))
	batch := positions(game.MustBoard(game.Connect4), 100)
	use := func(n int) {
		for range n {
			b := gametest.Must(ort.New(m, planes(), ort.Options{Threads: 2}))(t)
			gametest.OK(t, b.Compute(t.Context(), batch))
			gametest.OK(t, b.Close())
		}
	}
	warm, times := 3, 10
	if gametest.Soak() {
		warm, times = 100, 1000
	}
	use(warm)
	before := status(t)
	use(times)
	after := status(t)
	t.Logf("after %d: %d threads, %d KiB resident; after %d more: %d, %d", warm, before.threads, before.resident, times, after.threads, after.resident)
	if after.threads > before.threads+4 {
		t.Errorf("threads: %d, then %d", before.threads, after.threads)
	}
	if grown := after.resident - before.resident; grown > 20<<10 {
		t.Errorf("%d KiB more are in use after %d openings", grown, times)
	}
}
