package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/evald/evald/engine/durable"
	"github.com/evald/evald/engine/game/gametest"
)

// Every command that writes a file refuses one that another program is writing, at once and without touching it.
func TestFileInUse(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "out.onnx")
	in := filepath.Join(dir, "in.txt")
	putFile(t, in, "5x4x4:1 0 0 0 0 0\n")
	other, err := durable.Create(path)
	gametest.OK(t, err)
	for _, args := range []string{
		"eval --backend bitsquares -o", "search --backend bitsquares --visits 5 -o", "solve -o", "analyze --backend bitsquares -o", "score " + in + " --backend bitsquares -o",
		"score " + in + " --backend bitsquares --plot", "kaggle pack -o", "model export seeded-2x16 -o", "match random random --games 2 --grow-book",
		"match random random --games 2 --plot",
	} {
		status, _, stderr := evald(t, "", append(strings.Fields(args), path)...) // a match has shown its table before it draws its plot
		if want := path + ": another program is writing this file: name another one, or wait for it to end\n"; status != exitBadInput || !strings.HasSuffix(stderr, want) {
			t.Errorf("evald %s: status %d, errors %q, want %q", args, status, stderr, want)
		}
	}
	gametest.Must(other.Write([]byte("mine")))(t)
	gametest.OK(t, other.Commit())
	if text, err := os.ReadFile(path); err != nil || string(text) != "mine" {
		t.Errorf("the other program's file is %q, %v", text, err)
	}
}

// A folder in use by another run is refused too, before anything is read.
func TestFolderInUse(t *testing.T) {
	dir := t.TempDir()
	other, err := durable.OpenDir(dir)
	gametest.OK(t, err)
	defer func() {
		if err := other.Close(); err != nil {
			t.Error(err)
		}
	}()
	none := filepath.Join(t.TempDir(), "none.parquet")
	putFile(t, none, "")
	for _, args := range []string{"train " + none + " -o", "selfplay --backend bitsquares -o", "learn --rules 4x4x3 -o", "positions -o"} {
		refuses(t, exitBadInput, dir+": another ", "", append(strings.Fields(args), dir)...)
	}
	if files, err := os.ReadDir(dir); err != nil || len(files) != 1 { // the lock
		t.Errorf("files %v, %v", files, err)
	}
}
