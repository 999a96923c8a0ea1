package arena_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/parquet-go/parquet-go"

	"github.com/evald/evald/engine/arena"
	"github.com/evald/evald/engine/durable/durabletest"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/game/gametest"
)

const source = "random of 4 plies"

// open opens a record, and fails the test if it cannot.
func open(t testing.TB, path string, m *arena.Match) *arena.Record {
	t.Helper()
	return gametest.Must(arena.OpenRecord(path, m, source))(t)
}

// keep adds games to a record and closes it.
func keep(t testing.TB, r *arena.Record, games []arena.Game) {
	t.Helper()
	for _, g := range games {
		gametest.OK(t, r.Add(g))
	}
	gametest.OK(t, r.Close())
}

// killed adds games to the record of a match, and returns the journal that a kill would leave, and the record.
func killed(t testing.TB, path string, m *arena.Match, games ...arena.Game) ([]byte, *arena.Record) {
	t.Helper()
	r := open(t, path, m)
	for _, g := range games {
		gametest.OK(t, r.Add(g))
	}
	journal := gametest.Must(os.ReadFile(path + ".part"))(t)
	return journal, r
}

// rows returns the games of a finished record, which must have no journal.
func rows(t testing.TB, path string) []arena.Game {
	t.Helper()
	if _, err := os.Stat(path + ".part"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("journal: %v, want none", err)
	}
	return gametest.Must(parquet.ReadFile[arena.Game](path))(t)
}

// However much of the journal is left after a kill, the match continues, and its rows are those of a match that was never
// interrupted.
func TestResume(t *testing.T) {
	m := newMatch(t, 3, 2, "random", "uct:sims=5")
	games := play(t, m, nil)
	dir := t.TempDir()
	whole := filepath.Join(dir, "whole.parquet")
	keep(t, open(t, whole, m), games)
	want := rows(t, whole)
	if diff := gocmp.Diff(games, want); diff != "" {
		t.Fatalf("rows are not the games that were played:\n%s", diff)
	}

	path := filepath.Join(dir, "games.parquet")
	journal, r := killed(t, path, m, games[2], games[0], games[1], games[5], games[3], games[4]) // games finish in any order
	keep(t, r, nil)
	if diff := gocmp.Diff(want, rows(t, path)); diff != "" {
		t.Error(diff)
	}
	step := 13
	if testing.Short() {
		step = 61
	}
	for cut := 0; cut <= len(journal); cut += step {
		path := filepath.Join(dir, fmt.Sprint(cut))
		gametest.OK(t, os.WriteFile(path+".part", journal[:cut], 0o600))
		r := open(t, path, m)
		if lines := bytes.Count(journal[:cut], []byte{'\n'}); len(r.Games()) != max(0, lines-1) {
			t.Fatalf("%d games from %d lines", len(r.Games()), lines)
		}
		if cut%(4*step) != 0 {
			keep(t, r, nil)
			continue
		}
		keep(t, r, play(t, m, r.Games()))
		if diff := gocmp.Diff(want, rows(t, path), untimed, cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("journal cut at %d:\n%s", cut, diff)
		}
	}
}

// A match that was interrupted, closed and killed in turn still has all its games, and so does a longer match that continues it.
func TestResumeTwice(t *testing.T) {
	m := newMatch(t, 6, 1, "random", "uct:sims=5")
	games := play(t, m, nil)
	path := filepath.Join(t.TempDir(), "games.parquet")
	shorter := newMatch(t, 2, 1, "random", "uct:sims=5")
	first := play(t, shorter, nil)
	if diff := gocmp.Diff(games[:4], first, untimed); diff != "" {
		t.Errorf("a longer match begins with other games:\n%s", diff)
	}
	keep(t, open(t, path, shorter), first) // interrupted: 4 rows
	journal, r := killed(t, path, m, games[4:9]...)
	keep(t, r, nil)
	// Killed: the file still has its earlier rows, and so has the journal. A game that is in both counts once.
	gametest.OK(t, os.WriteFile(path+".part", journal, 0o600))
	r = open(t, path, m)
	if len(r.Games()) != 9 {
		t.Errorf("%d games, want 9", len(r.Games()))
	}
	keep(t, r, games[9:])
	if diff := gocmp.Diff(games, rows(t, path), untimed); diff != "" {
		t.Error(diff)
	}
	// A shorter match would leave games out.
	if _, err := arena.OpenRecord(path, shorter, source); err == nil || !strings.Contains(err.Error(), "has 12 games a pair: ask for at least this number") {
		t.Errorf("a shorter match: %v", err)
	}
}

// A record of another match is refused, and the error names what differs. Nothing is changed or left behind.
func TestOtherMatch(t *testing.T) {
	m := newMatch(t, 2, 1, "random", "uct:sims=5")
	path := filepath.Join(t.TempDir(), "games.parquet")
	keep(t, open(t, path, m), play(t, m, nil))
	before, err := os.ReadFile(path)
	gametest.OK(t, err)
	seed, players, openings := newMatch(t, 2, 1, "random", "uct:sims=5"), newMatch(t, 2, 1, "random", "uct:sims=6"), newMatch(t, 2, 1, "random", "uct:sims=5")
	seed.Seed = 4
	openings.Openings[1] = []int{0, 0, 0, 0}
	for _, c := range []struct {
		m            *arena.Match
		source, want string
	}{
		{seed, source, "another match (seed is 3 there, 4 here): continue with its settings, or name another file"},
		{players, source, "players are random uct:sims=5 there, random uct:sims=6 here"},
		{openings, source, "here: continue with its openings"},
		{m, "a file's", `openings are random of 4 plies there, a file's here`},
	} {
		if _, err := arena.OpenRecord(path, c.m, c.source); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("error %v, want %s", err, c.want)
		}
	}
	if after, err := os.ReadFile(path); err != nil || !bytes.Equal(before, after) {
		t.Errorf("the file was changed (%v)", err)
	}
	rows(t, path) // there is no journal

	// The same with a journal.
	gametest.OK(t, os.WriteFile(path+".part", []byte(`{"rules":"9x5x4","players":["a","b"],"seed":3,"openings":"x"}`+"\n"), 0o600))
	if _, err := arena.OpenRecord(path, m, source); err == nil || !strings.Contains(err.Error(), "rules are 9x5x4 there, 7x6x4 here; players are a b there") {
		t.Errorf("journal: %v", err)
	}
}

// Files of other programs are refused and left alone.
func TestForeignFiles(t *testing.T) {
	m := newMatch(t, 2, 1, "random", "random")
	dir := t.TempDir()
	line := `{"game":%d,"pair":1,"opening":1,"first":"%s","second":"random#2","points":%v,"opening_moves":"%s"}`
	head := `{"rules":"7x6x4","players":["random","random#2"],"seed":3,"openings":"random of 4 plies"}`
	opening := game.FormatMoves(m.Board.Rules(), m.Openings[0])
	var other bytes.Buffer
	gametest.OK(t, parquet.Write(&other, []struct{ A int }{{1}}))
	for i, c := range []struct {
		name, text, want string
	}{
		{"", "hello", "is there already and is no record of a match"},
		{"", other.String(), "is there already and is no record of a match"},
		{".part", "hello\n", "is there already and is no journal of a match"},
		{".part", head + "\n{]\n" + head + "\n", "line 2: invalid character"},
		{".part", head + "\n" + fmt.Sprintf(line, 0, "random", 1, opening) + "\n", "game 0: games are numbered from 1"},
		{".part", head + "\n" + fmt.Sprintf(line, 1, "x", 1, opening) + "\n", "game 1 is x against random#2 there, random against random#2 here"},
		{".part", head + "\n" + fmt.Sprintf(line, 1, "random", 3, opening) + "\n", "game 1: 3 points"},
		{".part", head + "\n" + fmt.Sprintf(line, 1, "random", 1, "44") + "\n", "game 1 begins with 44 there"},
		{".part", head + "\n" + fmt.Sprintf(line, 3, "random", 1, opening) + "\n", "game 3 is of pair 1, opening 1; want pair 1, opening 2"},
	} {
		path := filepath.Join(dir, fmt.Sprint(i))
		gametest.OK(t, os.WriteFile(path+c.name, []byte(c.text), 0o600))
		if _, err := arena.OpenRecord(path, m, source); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: error %v, want %s", c.text, err, c.want)
		}
		files, err := filepath.Glob(path + "*")
		if text, err2 := os.ReadFile(path + c.name); err != nil || err2 != nil || string(text) != c.text || len(files) != 1 {
			t.Errorf("%q: now %q among %v (%v, %v)", c.text, text, files, err, err2)
		}
	}
	if _, err := arena.OpenRecord(dir, m, source); err == nil {
		t.Error("a folder: no error")
	}
	if _, err := arena.OpenRecord(filepath.Join(dir, "no", "where"), m, source); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no folder: %v", err)
	}
}

// Two matches cannot write the same file.
func TestRecordInUse(t *testing.T) {
	m := newMatch(t, 1, 1, "random", "random")
	path := filepath.Join(t.TempDir(), "games.parquet")
	r := open(t, path, m)
	if _, err := arena.OpenRecord(path, m, source); err == nil || !strings.Contains(err.Error(), "another match is writing this file") {
		t.Errorf("error %v", err)
	}
	keep(t, r, play(t, m, nil))
	keep(t, open(t, path, m), nil)
	if got := rows(t, path); len(got) != 2 {
		t.Errorf("%d rows, want 2", len(got))
	}
}

// A match without games leaves nothing behind.
func TestEmptyRecord(t *testing.T) {
	dir := t.TempDir()
	keep(t, open(t, filepath.Join(dir, "games.parquet"), newMatch(t, 1, 1, "random", "random")), nil)
	if files, err := os.ReadDir(dir); err != nil || len(files) != 0 {
		t.Errorf("files %v (%v), want none", files, err)
	}
}

// No journal makes the program panic, and all games read from one belong to the match.
func FuzzJournal(f *testing.F) {
	m := newMatch(f, 2, 1, "random", "random")
	path := filepath.Join(f.TempDir(), "games.parquet")
	journal, r := killed(f, path, m, play(f, m, nil)...)
	keep(f, r, nil)
	f.Add(journal)
	f.Add(journal[:len(journal)/2])
	f.Add([]byte(`{"rules":`))
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, text []byte) {
		file := gametest.Must(os.CreateTemp(dir, ""))(t)
		path := file.Name()
		defer os.Remove(path)
		defer os.Remove(path + ".part")
		gametest.OK(t, errors.Join(file.Close(), os.Remove(path), os.WriteFile(path+".part", text, 0o600)))
		r, err := arena.OpenRecord(path, m, source)
		if err != nil {
			return
		}
		table := arena.NewTable(m.Names(), r.Games())
		if table.Games != len(r.Games()) || table.Games > m.Games() {
			t.Errorf("%d games in the table, %d in the record", table.Games, len(r.Games()))
		}
		keep(t, r, nil)
	})
}

// If a byte of a record is wrong, in the file or in its journal, the record is refused, or it has the games that were played
// except the last one, which is played again.
func TestDamaged(t *testing.T) {
	gametest.OneGoroutine(t)
	m := newMatch(t, 3, 1, "random", "uct:sims=5")
	games := play(t, m, nil)
	dir := t.TempDir()
	path := filepath.Join(dir, "games.parquet")
	keep(t, open(t, path, m), games[:2])
	_, r := killed(t, path, m, games[2:]...)
	left := t.TempDir()
	gametest.OK(t, os.CopyFS(left, os.DirFS(dir)))
	keep(t, r, nil)
	durabletest.Damage(t, left, 3, nil, func(dir string) (string, error) {
		r, err := arena.OpenRecord(filepath.Join(dir, "games.parquet"), m, source)
		if err != nil {
			return "", err
		}
		for _, g := range r.Games() {
			if diff := gocmp.Diff(games[g.Number-1], g); diff != "" {
				return diff, r.Close()
			}
		}
		if len(r.Games()) < len(games)-1 {
			return "games are missing", r.Close()
		}
		return "", r.Close()
	})
}
