package labels

import (
	"context"
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/eval/evaltest"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/game/gametest"
	"github.com/evald/evald/engine/record"
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
		sum := 0.0
		for _, at := range k.of {
			pos := p.all[at].position
			want := records * k.share / float64(len(k.of)) / float64(p.weight(at)) // times the weight it is the share that each has
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
}

func kindsOf(p *Pool, shares []Share, matter float64) ([]kind, error) {
	kinds, _, err := p.kinds(shares, matter)
	return kinds, err
}

// A network that knows everything surprises nobody: positions are then drawn as without it.
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
