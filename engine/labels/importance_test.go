package labels

import (
	"context"
	"errors"
	"math"
	"path/filepath"
	"slices"
	"testing"

	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/eval/evaltest"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/game/gametest"
	"github.com/evald/evald/engine/record"
	"github.com/evald/evald/engine/record/recordtest"
	"github.com/evald/evald/engine/sample"
)

// asked is a pool whose positions a stub with many different answers was asked about, and what each record should lack to 1, worked out
// from its moves and the answer to its position alone.
func asked(t *testing.T) (b *game.Board, p *Pool, lacks func(rec *record.Record) float64) {
	t.Helper()
	b, files, _ := exactFiles(t)
	p = poolOf(t, b, nil, files...)
	e := evaltest.Raw(&evaltest.Stub{Source: eval.CPU})
	done := 0
	gametest.OK(t, p.Ask(t.Context(), e, func(n int) { done = n }))
	if done != p.Positions() {
		t.Errorf("%d positions were asked, of %d", done, p.Positions())
	}
	return b, p, func(rec *record.Record) float64 {
		batch := &eval.Batch{}
		batch.Reset(b, 1)
		batch.Pos[0] = rec.Position
		gametest.OK(t, e.Evaluate(t.Context(), batch))
		lack := 1 - float64(batch.WDL[map[int8]int{1: 0, 0: 1, -1: 2}[rec.Z]])
		if slices.Max(append(rec.Visits, 0)) > 0 {
			lack++
			for a, v := range rec.Visits {
				lack -= float64(v) * float64(batch.Policy[a])
			}
		}
		return lack
	}
}

// After Ask, the weights of a kind's records sum to what their number would be without it, each weight is as the documentation has it,
// and a position is drawn as often as its share and weight say.
func TestDrawImportance(t *testing.T) {
	b, p, lacks := asked(t)
	shares := []Share{{Plies{3, 5}, 1}, {Plies{6, 9}, 2}, {Plies{10, 19}, 5}}
	const records, matter = 40_000, 0.6
	for i := range p.all {
		p.all[i].standsFor = float32(1 + i%3)
	}
	kinds := gametest.Must(kindsOf(p, shares, matter))(t)
	choice, drawn, err := p.Draw(shares, records, matter, 5)
	gametest.OK(t, err)
	if off := math.Abs(float64(len(choice)) - records); off > 6 {
		t.Errorf("%d records were drawn, want %d", len(choice), records)
	}
	times := map[game.Position]int{}
	weights := map[game.Position]float64{}
	least, most := math.Inf(1), 0.0
	for _, rec := range written(t, p, choice) {
		key, _ := b.Canonical(rec.Position)
		times[key]++
		if weights[key] != 0 && weights[key] != float64(rec.Weight) {
			t.Fatalf("%+v: a record of the same position has weight %v", rec, weights[key])
		}
		if weights[key] == 0 {
			weights[key] = float64(rec.Weight)
			if got, want := float64(rec.Weight)*(lacks(&rec)+p.floor), p.mean; math.Abs(got-want) > 1e-5*want {
				t.Fatalf("%+v lacks %v: weight %v", rec, lacks(&rec), rec.Weight)
			}
			least, most = min(least, weights[key]), max(most, weights[key])
		}
	}
	if !(least < 0.6 && most > 1.5 && most <= (1+floorShare)/floorShare+1e-6) {
		t.Errorf("weights are %v to %v", least, most)
	}
	total := make([]int, len(shares))
	for i, k := range kinds {
		sum, stand := 0.0, 0.0
		for _, at := range k.of {
			stand += float64(p.all[at].standsFor)
		}
		for _, at := range k.of {
			pos := p.all[at].position
			// Times the weight it is the part of the share that the position stands for.
			want := records * k.share * float64(p.all[at].standsFor) / stand / float64(p.weight(at))
			if n := times[pos]; math.Abs(float64(n)-want) > 1.01 {
				t.Fatalf("%+v is drawn %d times, want about %v", pos, n, want)
			}
			sum += float64(times[pos]) * float64(p.weight(at))
			total[i/2] += times[pos]
		}
		if want := records * k.share; math.Abs(sum-want) > 0.02*want {
			t.Errorf("kind %d: the weights sum to %v, want %v", i, sum, want)
		}
	}
	for i, d := range drawn {
		if d.Records != total[i] {
			t.Errorf("%+v: %d records are there", d, total[i])
		}
	}
	again, _, _ := p.Draw(shares, records, matter, 5)
	other, _, _ := p.Draw(shares, records, matter, 6)
	if !slices.Equal(choice, again) || slices.Equal(choice, other) {
		t.Error("the seed does not decide what is drawn")
	}

	// Only positions where the move matters, and only others.
	whole := p.all
	for _, matters := range []bool{true, false} {
		p.all = nil
		for _, k := range whole {
			if p.matters(k) == matters {
				p.all = append(p.all, k)
			}
		}
		gametest.OK(t, p.Ask(t.Context(), evaltest.Raw(&evaltest.Stub{Source: eval.CPU}), func(int) {}))
		choice, drawn, err := p.Draw([]Share{{Plies{0, 19}, 1}}, 1000, 0.5, 1)
		if err != nil || len(choice) != 1000 || drawn[0].Records != 1000 {
			t.Errorf("matters %v: %d records, %+v, error %v", matters, len(choice), drawn, err)
		}
	}
}

func kindsOf(p *Pool, shares []Share, matter float64) ([]kind, error) {
	kinds, _, err := p.kinds(shares, matter)
	return kinds, err
}

// With a learner all positions are solved of which it is unsure, others by chance, and the weights of the solved ones sum to what there
// would be without it. The results are exact.
func TestWriteImportance(t *testing.T) {
	b := game.MustBoard(small)
	learner := evaltest.Raw(&evaltest.Stub{Source: eval.CPU, After: func(batch *eval.Batch) {
		for i, p := range batch.Pos {
			copy(batch.WDLRow(i), [][]float32{{1, 0, 0}, {0.8, 0.1, 0.1}, {0.3, 0.4, 0.3}}[p.Own.OnesCount()%3])
		}
	}})
	write := func(o Options) (all, fromGames []record.Record) {
		o.Seed = 5
		path := filepath.Join(t.TempDir(), "records")
		n := gametest.Must(Write(t.Context(), newSolver(t, small), sample.Random, o, 0, path))(t)
		from := filepath.Join(t.TempDir(), "games")
		recordtest.Write(t, from, games(b, 100))
		gametest.Must(WriteFrom(t.Context(), newSolver(t, small), from, o, path+"2"))(t)
		all = recordtest.Read(t, path)
		if len(all) != n {
			t.Errorf("%d records, want %d", len(all), n)
		}
		return all, recordtest.Read(t, path+"2")
	}
	all, allFrom := write(Options{})
	some, someFrom := write(Options{Learner: learner})
	for _, pair := range [][2][]record.Record{{all, some}, {allFrom, someFrom}} {
		var there, left [3]float64 // by what the learner says
		solved := [3]int{}
		for _, rec := range pair[0] {
			if len(rec.Visits) > 0 && rec.Ply >= b.Cells()*2/5 { // of those before only some are taken, by chance
				there[rec.Position.Own.OnesCount()%3]++
			}
		}
		for _, rec := range pair[1] {
			weight := rec.Weight
			rec.Weight = 1
			checkExact(t, b, &rec)
			if len(rec.Visits) == 0 || rec.Ply < b.Cells()*2/5 { // without visits it has the weight of the position before
				continue
			}
			kind := rec.Position.Own.OnesCount() % 3
			if want := []float32{10, 1 / (0.1 + 2*(1-0.64-0.02)), 1}[kind]; math.Abs(float64(weight-want)) > 1e-4 {
				t.Fatalf("%+v has weight %v, want %v", rec, weight, want)
			}
			left[kind] += float64(weight)
			solved[kind]++
		}
		for kind, want := range there {
			if math.Abs(left[kind]-want) > 4*math.Sqrt(want*10) || kind == 2 && left[kind] != want || want < 20 {
				t.Errorf("kind %d: %v of %v positions were solved, and stand for %v", kind, solved[kind], want, left[kind])
			}
		}
	}
}

// Where a network knows everything, positions are drawn as without it.
func TestDrawKnown(t *testing.T) {
	b, files, _ := exactFiles(t)
	p := poolOf(t, b, nil, files...)
	known := map[game.Position]known{}
	for _, k := range p.all {
		known[k.position] = k
	}
	right := evaltest.Raw(&evaltest.Stub{Source: eval.CPU, After: func(batch *eval.Batch) {
		for i, pos := range batch.Pos {
			k := known[pos]
			clear(batch.WDLRow(i))
			batch.WDLRow(i)[1-k.z] = 1
			if !k.kept.IsZero() {
				clear(batch.PolicyRow(i))
				batch.PolicyRow(i)[b.Action(k.kept.First())] = 1
			}
		}
	}})
	gametest.OK(t, p.Ask(t.Context(), right, func(int) {}))
	choice, _, err := p.Draw([]Share{{Plies{0, 19}, 1}}, 3000, 0.5, 1)
	gametest.OK(t, err)
	if len(choice) != 3000 {
		t.Errorf("%d records", len(choice))
	}
	for _, rec := range written(t, p, choice) {
		if rec.Weight != 1 {
			t.Fatalf("%+v: want weight 1", rec)
		}
	}
}

func TestAskFails(t *testing.T) {
	b, files, _ := exactFiles(t)
	p := poolOf(t, b, nil, files...)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := p.Ask(ctx, evaltest.Raw(&evaltest.Stub{Source: eval.CPU}), func(int) {}); !errors.Is(err, context.Canceled) || p.surprise != nil {
		t.Errorf("cancelled: %v", err)
	}
}
