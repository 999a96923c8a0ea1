package open

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/eval/evaltest"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/game/gametest"
)

// The fastest contender whose answers are right wins, is measured once, and is measured again if it does not open any more.
func TestFastestOf(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("EVALD_CACHE_DIR", dir)
	board := game.MustBoard(game.Connect4)
	closed := map[string]int{}
	opened := map[string]int{}
	make := func(name string, stub *evaltest.Stub) contender {
		return contender{name, func() (*Opened, error) {
			opened[name]++
			return &Opened{Evaluator: evaluator(stub), How: name, closers: []io.Closer{closer(func() { closed[name]++ })}}, nil
		}}
	}
	slow := make("slow", &evaltest.Stub{Before: func(ctx context.Context, _ *eval.Batch) error {
		select {
		case <-ctx.Done():
		case <-time.After(5 * time.Millisecond):
		}
		return nil
	}})
	wrong := make("wrong", &evaltest.Stub{After: func(b *eval.Batch) { b.WDL[7] += 0.1 }})
	quick := make("quick", new(evaltest.Stub))
	broken := contender{"broken", func() (*Opened, error) { return nil, errors.New("no such library") }}
	var notes []string
	o := Options{Note: func(text string) { notes = append(notes, text) }}
	reference := func() (eval.Backend, error) { return new(evaltest.Stub), nil }
	race := func(all ...contender) string {
		t.Helper()
		clear(opened)
		e, err := o.fastestOf("key", all, reference, board)
		if err != nil {
			t.Fatal(err)
		}
		return e.How
	}
	all := []contender{broken, slow, quick, wrong}
	if how := race(all...); !strings.HasPrefix(how, "quick (positions/s here: slow ") || opened["wrong"] != 1 || closed["wrong"] != 1 || closed["slow"] != 1 || closed["quick"] != 0 {
		t.Errorf("%s wins; opened %v, closed %v", how, opened, closed)
	}
	said := strings.Join(notes, "\n")
	for _, want := range []string{"measuring once which of broken, slow, quick, wrong", "broken: no such library", "wrong: its answers differ from the CPU's by up to 0.1"} {
		if !strings.Contains(said, want) {
			t.Errorf("the notes do not say %q: %s", want, said)
		}
	}
	if how := race(all...); how != "quick" || opened["slow"] != 0 {
		t.Errorf("the second time %s wins, opened %v", how, opened)
	}
	if how := race(broken, slow); !strings.HasPrefix(how, "slow") {
		t.Errorf("without the winner %s wins", how)
	}
	files := gametest.Must(filepath.Glob(filepath.Join(dir, "gpu", "*.json")))(t)
	if len(files) != 1 {
		t.Fatalf("files %v", files)
	}
	gametest.OK(t, os.WriteFile(files[0], []byte("nonsense"), 0o644))
	if how := race(all...); !strings.HasPrefix(how, "quick (") {
		t.Errorf("with a damaged file %s wins", how)
	}
	if e, err := o.fastestOf("other", []contender{broken, wrong}, reference, board); err == nil || e != nil || !strings.Contains(err.Error(), "no such library") {
		t.Errorf("if none works: %v", err)
	}
}

// closer calls a function.
type closer func()

func (c closer) Close() error {
	c()
	return nil
}
