package durable_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/evald/evald/engine/durable"
	"github.com/evald/evald/engine/game/gametest"
)

// One process at a time has a folder; it finds no half-written files there, and leaves no trace of its own.
func TestOpenDir(t *testing.T) {
	path := filepath.Join(t.TempDir(), "new", "run")
	d := gametest.Must(durable.OpenDir(path))(t)
	if _, err := durable.OpenDir(path); !errors.Is(err, durable.ErrFolderInUse) || !strings.HasPrefix(err.Error(), path+": ") {
		t.Errorf("a second one: %v", err)
	}
	if got, want := d.Path("a", "b"), filepath.Join(path, "a", "b"); got != want {
		t.Errorf("path %s, want %s", got, want)
	}
	left := d.Path(".records.evald-new")
	gametest.OK(t, os.WriteFile(left, []byte("torn"), 0o644))
	for range 2 {
		gametest.OK(t, d.Close())
		d = gametest.Must(durable.OpenDir(path))(t)
	}
	if _, err := os.Stat(left); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("what was left: %v", err)
	}
	gametest.OK(t, d.Close())
	if files, err := os.ReadDir(path); err != nil || len(files) != 0 {
		t.Errorf("files %v, error %v", files, err)
	}
	if _, err := durable.OpenDir(filepath.Join(path, "..", "\x00")); err == nil {
		t.Error("a folder that cannot be is opened")
	}
}

type line struct {
	Number int `json:"number"`
}

// A journal is read as it was written, without a line that a kill has torn; a damaged line is named.
func TestJournal(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.jsonl")
	if _, err := durable.ReadJournal[line](path, ""); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
	j := gametest.Must(durable.BeginJournal(path, []line{{1}, {2}}))(t)
	gametest.OK(t, errors.Join(j.Add(), j.Add(line{3}, line{4}), j.Close()))
	want := `{"number":1,"crc32":"`
	text, err := os.ReadFile(path)
	if err != nil || !strings.HasPrefix(string(text), want) {
		t.Fatalf("journal %q, error %v; want it to begin with %s", text, err, want)
	}
	for _, test := range []struct {
		text  string
		lines []line
		err   string
	}{
		{string(text), []line{{1}, {2}, {3}, {4}}, ""},
		{string(text[:len(text)-1]), []line{{1}, {2}, {3}}, ""},
		{"", nil, ""},
		{`{"number":7}` + "\n", []line{{7}}, ""}, // as another program writes it
		{strings.Replace(string(text), ":3,", ":8,", 1), nil, path + ": line 3: is damaged: its checksum"},
		{"x\n", nil, path + ": line 1: "},
	} {
		gametest.OK(t, os.WriteFile(path, []byte(test.text), 0o644))
		lines, err := durable.ReadJournal[line](path, "and so on")
		if diff := cmp.Diff(test.lines, lines); diff != "" {
			t.Errorf("%q (-want +got):\n%s", test.text, diff)
		}
		if test.err == "" && err != nil || test.err != "" && (err == nil || !strings.HasPrefix(err.Error(), test.err) || !strings.HasSuffix(err.Error(), ": remove that line, and so on")) {
			t.Errorf("%q: error %v, want %q", test.text, err, test.err)
		}
	}
}

// Many lines are written on several cores: each is there once, in order. A line that JSON cannot represent is an error, and nothing is
// written.
func TestLongJournal(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.jsonl")
	var first []line
	var more []any
	for n := range 1000 {
		first, more = append(first, line{n}), append(more, line{1000 + n})
	}
	j := gametest.Must(durable.BeginJournal(path, first))(t)
	gametest.OK(t, j.Add(more...))
	if err := j.Add(line{0}, struct{ X func() }{}, line{1}); err == nil {
		t.Error("a function is written")
	}
	gametest.OK(t, j.Close())
	lines := gametest.Must(durable.ReadJournal[line](path, ""))(t)
	if len(lines) != 2000 {
		t.Errorf("%d lines, want 2000", len(lines))
	}
	for n, l := range lines {
		if l.Number != n {
			t.Fatalf("line %d is that of %d", n, l.Number)
		}
	}
}

// Files of records come in the order of their games, however many digits these have.
func TestShards(t *testing.T) {
	dir := t.TempDir()
	var want []string
	for first := 0; first < 1_002_000; first += 500 {
		if first < 2000 || first >= 999_000 {
			want = append(want, durable.ShardName(first, first+499))
		}
	}
	if want[0] != "games-000000-000499.parquet" {
		t.Errorf("the first file is %s", want[0])
	}
	want = append(want, "games-old.parquet", "games-.parquet")
	for _, name := range append([]string{"waiting.jsonl", "games.parquet"}, want...) {
		gametest.OK(t, os.WriteFile(filepath.Join(dir, name), nil, 0o644))
	}
	shards := gametest.Must(durable.Shards(dir))(t)
	var got []string
	for _, s := range shards {
		if name := filepath.Base(s.Path); s.Games() > 0 {
			got = append(got, name)
			if s.Games() != 500 || name != durable.ShardName(s.First, s.Last) {
				t.Errorf("%+v", s)
			}
		}
	}
	named := len(want) - 2
	if diff := cmp.Diff(want[:named], got); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	if len(shards) != len(want) || shards[named].Games() > 0 || shards[named+1].Games() > 0 {
		t.Errorf("behind them: %v", fmt.Sprint(shards[named:]))
	}
	if none, err := durable.Shards(filepath.Join(dir, "none")); err != nil || len(none) != 0 {
		t.Errorf("of no folder: %v, %v", none, err)
	}
}
