package labels

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/game/gametest"
	"github.com/evald/evald/engine/record"
	"github.com/evald/evald/engine/record/recordtest"
	"github.com/evald/evald/engine/sample"
	"github.com/evald/evald/engine/solver"
	"github.com/evald/evald/engine/solver/book"
)

var small = game.Rules{Rows: 4, Columns: 5, InARow: 4, Gravity: true}

func newSolver(t *testing.T, rules game.Rules) *solver.Solver {
	t.Helper()
	return gametest.Must(solver.New(game.MustBoard(rules), solver.Options{TableMiB: 16}))(t)
}

// found are the results of small's positions that minimax has found. All tests share them.
var found = map[game.Position]int8{}

// minimax is the result for the side to move: 1 win, 0 draw, -1 loss. It ends at the first move that wins.
func minimax(b *game.Board, p game.Position) int8 {
	if r := b.Result(p); r != game.Ongoing {
		return int8(r.Value())
	}
	if z, ok := found[p]; ok {
		return z
	}
	best := int8(-1)
	for a := range b.Actions() {
		if best < 1 && b.CanPlay(p, a) {
			best = max(best, -minimax(b, b.Play(p, a)))
		}
	}
	found[p] = best
	return best
}

// checkExact compares a record with a search of the whole game: its result, and the moves that keep it, if it has moves.
func checkExact(t *testing.T, b *game.Board, rec *record.Record) {
	t.Helper()
	if want := minimax(b, rec.Position); rec.Z != want || rec.Q != float32(want) || rec.Source != eval.Solved || rec.Weight != 1 {
		t.Fatalf("%+v: want result %d", rec, want)
	}
	for a, v := range rec.Visits {
		keeps := b.CanPlay(rec.Position, a) && -minimax(b, b.Play(rec.Position, a)) == rec.Z
		if (v == 1) != keeps || v > 1 {
			t.Fatalf("%+v: move %d has %d visits, and keeping the result is %v", rec, a+1, v, keeps)
		}
	}
}

// Every record has the result with best play and the moves that keep it, as a search of the whole game finds them.
func TestWrite(t *testing.T) {
	rules := small
	b := game.MustBoard(rules)
	for _, k := range sample.Kinds() {
		path := Path(t.TempDir(), k, 3)
		n := gametest.Must(Write(t.Context(), newSolver(t, rules), k, Options{Seed: 7}, 3, path))(t)
		all := recordtest.Read(t, path)
		outcomes, children := map[int8]int{}, 0
		for _, rec := range all {
			outcomes[rec.Z]++
			checkExact(t, b, &rec)
			if least := b.Cells() * 2 / 7; k != sample.Openings && rec.Ply < least {
				t.Fatalf("%+v has fewer than %d stones", rec, least)
			}
			if rec.Game < 3*PerFile || rec.Game >= 4*PerFile {
				t.Fatalf("%+v is of another file's game", rec)
			}
			if len(rec.Visits) == 0 {
				children++
			}
		}
		if len(all) != n || n < 100 || children < n/10 || len(outcomes) < 2 {
			t.Errorf("%s: %d records of %d, %d without visits, results %v", k, len(all), n, children, outcomes)
		}
	}
}

// With numbers of stones, all positions of these numbers are taken, of openings one of each game.
func TestPlies(t *testing.T) {
	rules, plies := small, Plies{3, 5}
	for k, want := range map[sample.Kind]int{sample.Random: 2 * PerFile, sample.Openings: 100} {
		path := Path(t.TempDir(), k, 0)
		gametest.Must(Write(t.Context(), newSolver(t, rules), k, Options{Seed: 7, Plies: plies}, 0, path))(t)
		taken, least, most := 0, 20, 0
		for _, rec := range recordtest.Read(t, path) {
			if len(rec.Visits) > 0 { // no position after a random move
				taken, least, most = taken+1, min(least, rec.Ply), max(most, rec.Ply)
			}
		}
		if taken < want || least != plies.From || most != plies.To {
			t.Errorf("%s: %d positions of %d to %d stones, want %d or more of %+v", k, taken, least, most, want, plies)
		}
	}
}

// Each of the book's files has all positions with one number of stones, each once, with the result in the ground truth and the moves that keep it.
func TestWriteBook(t *testing.T) {
	b, results := game.MustBoard(game.Connect4), book.Results(game.Connect4)
	truth, of := map[game.Position]int8{}, map[int]int{}
	for _, line := range gametest.DataLines(t, "book6_7x6x4") {
		moves, score, _ := strings.Cut(line, " ")
		p, _, err := b.ParseMoves(moves)
		gametest.OK(t, err)
		key, _ := b.Canonical(p)
		truth[key] = int8(cmp.Compare(gametest.Must(strconv.Atoi(score))(t), 0))
		of[p.Plies()]++
	}
	for _, stones := range []int{0, 1, 4, 5, results.Plies()} {
		path := filepath.Join(t.TempDir(), "book")
		n := gametest.Must(WriteBook(t.Context(), newSolver(t, game.Connect4), results, stones, path))(t)
		seen := map[game.Position]bool{}
		for i, rec := range recordtest.Read(t, path) {
			key, _ := b.Canonical(rec.Position)
			if z, ok := truth[key]; seen[key] || rec.Ply != stones || rec.Game != int64(i) || stones <= 6 && (!ok || z != rec.Z) {
				t.Fatalf("%+v: seen before %v, the result is %d", rec, seen[key], z)
			}
			if seen[key] = true; len(rec.Visits) == 0 != (stones == results.Plies()) {
				t.Fatalf("%+v: visits", rec)
			}
			for a, v := range rec.Visits {
				if next, _ := b.Canonical(b.Play(rec.Position, a)); (v == 1) != (truth[next] == -rec.Z) {
					t.Fatalf("%+v: move %d has %d visits, and the result after it is %d", rec, a+1, v, truth[next])
				}
			}
		}
		if len(seen) != n || stones <= 6 && n != of[stones] {
			t.Errorf("%d stones: %d positions of %d, and there are %d", stones, len(seen), n, of[stones])
		}
	}
	if n, err := WriteBook(t.Context(), newSolver(t, game.Connect4), results, results.Plies()+1, filepath.Join(t.TempDir(), "none")); n != 0 || err != nil {
		t.Errorf("beyond the book: %d records, error %v", n, err)
	}
}

// games are the records of games of random moves, with wrong results, and with the position that ends each.
func games(b *game.Board, n int) (records []record.Record) {
	r := rand.New(rand.NewPCG(3, 3))
	for number := range n {
		at := game.Position{}
		for {
			over := b.Result(at)
			rec := record.Record{Rules: b.Rules(), Position: at, Z: 1, Ply: at.Plies(), GameOver: over.GameOver(), Source: eval.Fast, Weight: 1, Game: int64(number)}
			if over != game.Ongoing {
				rec.Z = int8(over.Value())
			}
			records = append(records, rec)
			if over != game.Ongoing {
				break
			}
			legal := b.Legal(at)
			at = b.Play(at, b.Action(legal.Nth(r.IntN(legal.OnesCount())).First()))
		}
	}
	return records
}

// WriteFrom uses the records' unfinished positions in order, all of them from a number of stones on, and their results are exact.
func TestWriteFrom(t *testing.T) {
	rules := small
	b := game.MustBoard(rules)
	from, path := filepath.Join(t.TempDir(), "from"), filepath.Join(t.TempDir(), "to")
	in := games(b, 100)
	recordtest.Write(t, from, in)
	n := gametest.Must(WriteFrom(t.Context(), newSolver(t, rules), from, Options{Seed: 5}, path))(t)
	out := recordtest.Read(t, path)
	if len(out) != n {
		t.Errorf("%d records in the file, %d are reported", len(out), n)
	}
	var want, got []record.Record
	for _, rec := range in {
		if rec.Ply >= b.Cells()*2/5 && rec.GameOver == game.NotOver {
			want = append(want, rec)
		}
	}
	least, early, after := b.Cells(), 0, 0
	for _, rec := range out {
		if z := minimax(b, rec.Position); rec.Z != z || rec.Source != eval.Solved {
			t.Fatalf("%+v: want result %d", rec, z)
		}
		if len(rec.Visits) == 0 {
			after++
			continue
		}
		least = min(least, rec.Ply)
		if rec.Ply >= b.Cells()*2/5 {
			got = append(got, rec)
		} else {
			early++
		}
	}
	if len(got) != len(want) {
		t.Fatalf("%d positions, want %d", len(got), len(want))
	}
	for i := range got {
		if got[i].Position != want[i].Position || got[i].Game != want[i].Game {
			t.Fatalf("position %d: %+v, want that of %+v", i, got[i], want[i])
		}
	}
	if early < 10 || after < n/3 || least < b.Cells()*2/7 {
		t.Errorf("%d early positions, the first of %d stones, and %d after a random move of %d", early, least, after, n)
	}

	some := Plies{5, 7}
	gametest.Must(WriteFrom(t.Context(), newSolver(t, rules), from, Options{Seed: 5, Plies: some}, path))(t)
	taken, there := 0, 0
	for _, rec := range recordtest.Read(t, path) {
		if len(rec.Visits) > 0 {
			if taken++; rec.Ply < some.From || rec.Ply > some.To {
				t.Fatalf("%+v: want %+v stones", rec, some)
			}
		}
	}
	for _, rec := range in {
		if rec.Ply >= some.From && rec.Ply <= some.To && rec.GameOver == game.NotOver {
			there++
		}
	}
	if taken != there || there < 100 {
		t.Errorf("%d positions of %+v stones, want %d", taken, some, there)
	}
}

// Records of another game are refused with their place, and there is no file.
func TestWriteFromOther(t *testing.T) {
	from, path := filepath.Join(t.TempDir(), "from"), filepath.Join(t.TempDir(), "to")
	recordtest.Write(t, from, games(game.MustBoard(game.Rules{Rows: 4, Columns: 4, InARow: 3, Gravity: true}), 1))
	_, err := WriteFrom(t.Context(), newSolver(t, game.Connect4), from, Options{Seed: 5}, path)
	if _, stat := os.Stat(path); err == nil || !strings.Contains(err.Error(), from+": row 0: is of 4x4x3, and the results are of 7x6x4") || !os.IsNotExist(stat) {
		t.Errorf("error %v, and the file: %v", err, stat)
	}
	if _, err := WriteFrom(t.Context(), newSolver(t, game.Connect4), path, Options{Seed: 5}, path+"2"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no records: %v", err)
	}
}

// A file follows from its kind, seed and number.
func TestSameFile(t *testing.T) {
	rules := small
	dir, s := t.TempDir(), newSolver(t, rules)
	file := func(name string, seed uint64, n int) []byte {
		path := filepath.Join(dir, name)
		gametest.Must(Write(t.Context(), s, sample.Random, Options{Seed: seed}, n, path))(t)
		return gametest.Must(os.ReadFile(path))(t)
	}
	a := file("a", 1, 0)
	if bytes.Equal(a, file("b", 1, 1)) || bytes.Equal(a, file("c", 2, 0)) || !bytes.Equal(a, file("d", 1, 0)) {
		t.Error("other files are the same, or the same file is another")
	}
}

func TestShare(t *testing.T) {
	b := game.MustBoard(game.Connect4)
	for stones, want := range map[int]float64{0: 0, 11: 0, 12: 1. / 16, 14: 1. / 4, 16: 1, 35: 1} {
		if got := share(b, stones); got != want {
			t.Errorf("%d stones: %v, want %v", stones, got, want)
		}
	}
}

func TestInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	path := Path(t.TempDir(), sample.Random, 0)
	_, err := Write(ctx, newSolver(t, game.Connect4), sample.Random, Options{Seed: 1}, 0, path)
	if _, stat := os.Stat(path); !errors.Is(err, context.Canceled) || !os.IsNotExist(stat) {
		t.Errorf("error %v, and the file: %v", err, stat)
	}
}
