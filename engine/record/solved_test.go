package record_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/game/gametest"
	"github.com/evald/evald/engine/record"
	"github.com/evald/evald/engine/record/recordtest"
	"github.com/evald/evald/engine/solver"
)

// textFile is a file with that text.
func textFile(t testing.TB, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "scores")
	gametest.OK(t, os.WriteFile(path, []byte(text), 0o644))
	return path
}

func openSolved(t testing.TB, paths ...string) *record.SolvedReader {
	t.Helper()
	r := gametest.Must(record.OpenSolved(paths...))(t)
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

func TestSolved(t *testing.T) {
	one := textFile(t, "# from evald solve --scores\n44444 -2 1 -2 0 -2 2 2\r\n\n"+
		`{"line":1,"position":"3x3x3free:519","scores":[null,0,-1,-1,null,-1,-1,-1,null]}`)
	two := textFile(t, "444444 -3 -2 -2 -1000 -3 -2 -3\n#\n")
	p1, _, _ := game.MustBoard(game.Connect4).ParseMoves("44444")
	p2, _, _ := game.MustBoard(game.TicTacToe).ParseMoves("519")
	p3, _, _ := game.MustBoard(game.Connect4).ParseMoves("444444")
	want := []record.Record{
		{Rules: game.Connect4, Position: p1, Visits: []uint32{0, 0, 0, 0, 0, 1, 1}, Q: 1, Z: 1, Ply: 5, Source: eval.Solved, Weight: 1, Game: record.NoGame},
		{Rules: game.TicTacToe, Position: p2, Visits: []uint32{0, 1, 0, 0, 0, 0, 0, 0, 0}, Ply: 3, Source: eval.Solved, Weight: 1, Game: record.NoGame},
		{Rules: game.Connect4, Position: p3, Visits: []uint32{0, 1, 1, 0, 0, 1, 0}, Q: -1, Z: -1, Ply: 6, Source: eval.Solved, Weight: 1, Game: record.NoGame},
	}
	r := openSolved(t, textFile(t, "\n"), one, two)
	got := recordtest.Rest(t, r)
	if diff := cmp.Diff(want, got); diff != "" || r.Rows() != 3 {
		t.Errorf("%d rows, %s", r.Rows(), diff)
	}
	recordtest.Write(t, filepath.Join(t.TempDir(), "solved.parquet"), got) // they are valid
}

// unsolved is lines with n random positions, whose move s is scored s mod 3 - 1, and comments between them.
func unsolved(t testing.TB, n int) string {
	t.Helper()
	b, r := game.MustBoard(game.Connect4), gametest.Rand(3)
	var lines strings.Builder
	for range n {
		var actions []int
		var p game.Position
		for range r.IntN(12) {
			a := r.IntN(b.Actions())
			if next := b.Play(p, a); b.CanPlay(p, a) && b.Result(next) == game.Ongoing {
				p, actions = next, append(actions, a)
			}
		}
		if r.IntN(5) == 0 {
			lines.WriteString("# a comment\n")
		}
		lines.WriteString(game.FormatMoves(b.Rules(), actions))
		for a := range b.Actions() {
			s := solver.NoMove
			if b.CanPlay(p, a) {
				s = a%3 - 1
			}
			fmt.Fprintf(&lines, " %d", s)
		}
		lines.WriteByte('\n')
	}
	return lines.String()
}

// From any row on the records are the same.
func TestSolvedSeekRow(t *testing.T) {
	r := openSolved(t, textFile(t, unsolved(t, 2100)), textFile(t, unsolved(t, 1024)), textFile(t, ""), textFile(t, unsolved(t, 3)))
	all := recordtest.Rest(t, r)
	if len(all) != 2100+1024+3 || r.Rows() != int64(len(all)) {
		t.Fatalf("%d records, %d rows, want %d", len(all), r.Rows(), 2100+1024+3)
	}
	for _, n := range []int{0, 1, 1023, 1024, 1025, 2047, 2048, 2099, 2100, 3123, 3124, 3126, 3127, 5} {
		gametest.OK(t, r.SeekRow(int64(n)))
		if !same(recordtest.Rest(t, r), all[n:]) {
			t.Errorf("from row %d on come other records", n)
		}
	}
	for _, n := range []int64{-1, 3128} {
		if err := r.SeekRow(n); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("no row %d: there are 3127", n)) {
			t.Errorf("row %d: error %v", n, err)
		}
	}
}

// Errors name the file and the line, and the next call has the same error.
func TestSolvedRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"# x; crc32 0a0b0c0d\n44 1 1 1 1 1 1 1\n": "is damaged: the checksum of its lines is c59067a5",
		"\n44 1 2\n": "line 2: has 2 scores, but 7x6x4 has 7 moves",
		unsolved(t, 1500) + "# x\n4 1 1 1 1 1 1\n": "has 6 scores, but 7x6x4 has 7 moves",
		`{"line":7,"error":"refused"}`:             "line 1: json has no scores",
		"PAR1":                                     "line 1: moves \"PAR1\"",
	} {
		path := textFile(t, text)
		if _, err := record.OpenSolved(path); err == nil || !strings.Contains(err.Error(), "exact scores "+path+": ") || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %s", err, want)
		}
	}
	dir := t.TempDir()
	if _, err := record.OpenSolved(dir); err == nil || !strings.Contains(err.Error(), "is not a regular file") {
		t.Errorf("a folder: error %v", err)
	}
	path := textFile(t, unsolved(t, 2000))
	r := openSolved(t, path)
	gametest.OK(t, os.WriteFile(path, []byte(unsolved(t, 1990)), 0o644))
	gametest.OK(t, r.SeekRow(1999))
	for range 2 {
		var rec record.Record
		if err := r.Next(&rec); text(err) != "exact scores "+path+": ends before position 2000 of 2000: it was changed while it was read" {
			t.Errorf("error %v", err)
		}
	}
}

// Everything that is accepted is a record, whether all rows are read or only those from any row on.
func FuzzSolved(f *testing.F) {
	f.Add("44444 -2 1 -2 0 -2 2 2\n444444 -3 -2 -2 -1000 -3 -2 -3\n", uint8(1))
	f.Add("#\r\n\n{\"position\":\"3x3x3free:519\",\"scores\":[null,0,-1,-1,null,-1,-1,-1,null]}", uint8(0))
	f.Add(`{"position":"{\"board\":[0,1,2,0],\"mark\":1,\"rows\":2,\"columns\":2,\"inarow\":2}","scores":[1,1]}`, uint8(0))
	f.Fuzz(func(t *testing.T, text string, from uint8) {
		path := textFile(t, text)
		r, err := record.OpenSolved(path)
		if err != nil {
			return
		}
		defer r.Close()
		all := recordtest.Rest(t, r)
		if int64(len(all)) != r.Rows() {
			t.Fatalf("%d records of %d", len(all), r.Rows())
		}
		recordtest.Write(t, filepath.Join(t.TempDir(), "solved.parquet"), all)
		n := min(int64(from), r.Rows())
		gametest.OK(t, r.SeekRow(n))
		if !same(recordtest.Rest(t, r), all[n:]) {
			t.Errorf("from row %d on come other records", n)
		}
	})
}
