package labels

import (
	"cmp"
	"context"
	"errors"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/game/gametest"
	"github.com/evald/evald/engine/record"
	"github.com/evald/evald/engine/record/recordtest"
	"github.com/evald/evald/engine/sample"
	"github.com/evald/evald/engine/score"
)

// exact are the records of exactFiles, which are solved once for all tests.
var exact [2][]record.Record

// exactFiles are two files of exact results, of which the second has the mirror images of half of the first and some of its own.
func exactFiles(t *testing.T) (b *game.Board, files []string, all []record.Record) {
	t.Helper()
	b, dir := game.MustBoard(small), t.TempDir()
	files = []string{filepath.Join(dir, "a"), filepath.Join(dir, "b")}
	if exact[0] != nil {
		for i, file := range files {
			recordtest.Write(t, file, exact[i])
		}
		return b, files, slices.Concat(exact[:]...)
	}
	gametest.Must(Write(t.Context(), newSolver(t, small), sample.Random, Options{Seed: 1}, 0, files[0]))(t)
	gametest.Must(Write(t.Context(), newSolver(t, small), sample.Openings, Options{Seed: 2, Plies: Plies{3, 9}}, 0, files[1]))(t)
	more := recordtest.Read(t, files[1])
	first := recordtest.Read(t, files[0])
	for i, rec := range first {
		if i%2 == 0 {
			rec.Position, rec.Visits = b.Mirror(rec.Position), slices.Clone(rec.Visits)
			slices.Reverse(rec.Visits)
			more = append(more, rec)
		}
	}
	recordtest.Write(t, files[1], more)
	exact = [2][]record.Record{first, more}
	return b, files, recordtest.Read(t, files...)
}

func poolOf(t *testing.T, b *game.Board, without score.Set, files ...string) *Pool {
	t.Helper()
	p := NewPool(b, without)
	for _, file := range files {
		gametest.OK(t, p.Add(t.Context(), file, func(int) {}))
	}
	gametest.OK(t, p.Settle())
	return p
}

func written(t *testing.T, p *Pool, c Choice) []record.Record {
	t.Helper()
	dir := t.TempDir()
	for n := range c.Files() {
		gametest.OK(t, p.Write(t.Context(), c, dir, n))
	}
	return recordtest.Read(t, gametest.Must(filepath.Glob(filepath.Join(dir, "merged-*.parquet")))(t)...)
}

// Each position of the files is there once up to its mirror image, with its exact result and, if any record has them, the moves that
// keep it. Positions that are to be left out are not there.
func TestMerge(t *testing.T) {
	b, files, all := exactFiles(t)
	want, moves := map[game.Position]bool{}, map[game.Position]bool{}
	for _, rec := range all {
		key, _ := b.Canonical(rec.Position)
		want[key] = true
		moves[key] = moves[key] || len(rec.Visits) > 0
	}
	without, left := score.Set{}, 0
	for i, rec := range all {
		if i%7 == 0 {
			without.Add(b, b.Mirror(rec.Position))
		}
	}
	for _, rec := range all {
		if key, _ := b.Canonical(rec.Position); without.Has(b, rec.Position) {
			delete(want, key)
			left++
		}
	}
	p := poolOf(t, b, without, files...)
	if p.Read != len(all) || p.LeftOut != left || p.Positions() != len(want) || len(want) > len(all)*3/4 {
		t.Errorf("%d read, %d left out, %d positions, want %d, %d, %d", p.Read, p.LeftOut, p.Positions(), len(all), left, len(want))
	}
	for _, rec := range written(t, p, p.All(1)) {
		key, _ := b.Canonical(rec.Position)
		if !want[key] {
			t.Fatalf("%+v is there twice, or should not be there", rec)
		}
		delete(want, key)
		checkExact(t, b, &rec)
		if moves[key] != (len(rec.Visits) > 0) {
			t.Fatalf("%+v: want moves: %v", rec, moves[key])
		}
	}
	if len(want) > 0 {
		t.Errorf("%d positions are missing", len(want))
	}
}

// Draw draws the right number of records for each share, the right fraction of positions in which the move matters, and each position as
// often as the others of its kind.
func TestDraw(t *testing.T) {
	b, files, _ := exactFiles(t)
	p := poolOf(t, b, nil, files...)
	shares := []Share{{Plies{3, 5}, 1}, {Plies{6, 9}, 2}, {Plies{10, 19}, 5}}
	const records, matter = 20_000, 0.6
	choice, drawn, err := p.Draw(shares, records, matter, 5)
	gametest.OK(t, err)
	type kind struct {
		share   int
		matters bool
	}
	counts, total, times := map[kind]int{}, map[kind]int{}, map[game.Position]int{}
	share := func(plies int) int {
		return slices.IndexFunc(shares, func(s Share) bool { return s.From <= plies && plies <= s.To })
	}
	for _, k := range p.all {
		total[kind{share(k.position.Plies()), p.matters(k)}]++
	}
	for _, rec := range written(t, p, choice) {
		legal := b.Legal(rec.Position).OnesCount()
		kept := 0
		for _, v := range rec.Visits {
			kept += int(v)
		}
		key, _ := b.Canonical(rec.Position)
		times[key]++
		counts[kind{share(rec.Ply), kept > 0 && kept < legal}]++
	}
	for i, s := range shares {
		all := int(math.Round(records * s.Share / 8))
		of := int(math.Round(float64(all) * matter))
		if got := counts[kind{i, true}]; got != of || counts[kind{i, false}] != all-of {
			t.Errorf("%+v: %d records where the move matters and %d others, want %d and %d", s, got, counts[kind{i, false}], of, all-of)
		}
		if d := drawn[i]; d.Records != all || d.Matter != total[kind{i, true}] || d.Positions-d.Matter != total[kind{i, false}] || d.Share != s {
			t.Errorf("%+v: the report is %+v", s, d)
		}
	}
	for _, k := range p.all {
		kind := kind{share(k.position.Plies()), p.matters(k)}
		if n, least := times[k.position], counts[kind]/total[kind]; n < least || n > least+1 {
			t.Fatalf("%+v is drawn %d times, of %d records of %d positions", k, n, counts[kind], total[kind])
		}
	}
	again, _, _ := p.Draw(shares, records, matter, 5)
	other, _, _ := p.Draw(shares, records, matter, 6)
	if !slices.Equal(choice, again) || slices.Equal(choice, other) || slices.IsSortedFunc(choice, func(a, b chosen) int { return cmp.Compare(a.position, b.position) }) {
		t.Error("the seed does not decide the order")
	}
	if _, _, err := p.Draw([]Share{{Plies{0, 1}, 1}}, 5, matter, 1); err == nil || !strings.Contains(err.Error(), "no position of 0 to 1 stones") {
		t.Errorf("no position: %v", err)
	}
	all, _, err := p.Draw([]Share{{Plies{20, 20}, 1}, {Plies{0, 19}, 1}}, 10, 1, 1)
	if err == nil || all != nil {
		t.Errorf("a full board: %v, %v", all, err)
	}
}

// What is not an exact result of the pool's game is refused with its place, and so are records that contradict each other.
func TestMergeRefuses(t *testing.T) {
	b, path := game.MustBoard(small), filepath.Join(t.TempDir(), "records")
	p := game.Position{}
	exact := fromResult(b, p, 0)
	heuristic := exact
	heuristic.Source = eval.Bitsquares
	shared := exact
	shared.Visits, shared.Policy = []uint32{1, 0, 1, 0, 0}, []float32{0.5, 0, 0.5, 0, 0}
	preferring := shared
	preferring.Policy = []float32{0.75, 0, 0.25, 0, 0}
	unknown := shared
	unknown.Visits = nil
	for want, records := range map[string][]record.Record{
		": row 1: column policy is [0.75 0 0.25 0 0]: of":   {shared, preferring},
		": row 0: column policy is [0.5 0 0.5 0 0]: of":     {unknown},
		": row 1: column source is bitsquares: only exact":  {exact, heuristic},
		": row 0: is of 7x6x4, and the others are of 5x4x4": {fromResult(game.MustBoard(game.Connect4), p, 0)},
	} {
		recordtest.Write(t, path, records)
		if err := NewPool(b, nil).Add(t.Context(), path, func(int) {}); err == nil || !strings.Contains(err.Error(), path+want) {
			t.Errorf("error %v, want %s", err, want)
		}
	}
	of := func(z int, kept ...uint32) record.Record {
		rec := fromResult(b, p, z)
		rec.Visits = kept
		return rec
	}
	for _, pair := range [][2]record.Record{
		{of(0), of(1)}, {of(1, 0, 0, 1, 0, 0), of(0)}, {of(0), of(-1, 1, 1, 1, 1, 1)}, {of(1, 0, 0, 1, 0, 0), of(1, 1, 0, 1, 0, 0)},
	} {
		for range 2 {
			recordtest.Write(t, path, pair[:])
			pool := NewPool(b, nil)
			gametest.OK(t, pool.Add(t.Context(), path, func(int) {}))
			if err := pool.Settle(); err == nil || !strings.Contains(err.Error(), "contradict each other") {
				t.Errorf("%+v: %v", pair, err)
			}
			slices.Reverse(pair[:])
		}
	}
	_, files, _ := exactFiles(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := poolOf(t, b, nil, files...).Write(ctx, make(Choice, 1), t.TempDir(), 0); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}
