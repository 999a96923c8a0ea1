package pattern

import (
	"math"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/evald/evald/engine/game/gametest"
)

// Every position has one row of each group, and the same arguments give the same frequencies.
func TestFrequency(t *testing.T) {
	n := random(t)
	f := gametest.Must(Frequency(t.Context(), n, 20, 1))(t)
	for g := range Each {
		sum := 0.0
		for _, x := range f[groups[g]:groups[g+1]] {
			sum += x
		}
		if math.Abs(sum-1) > 1e-9 {
			t.Errorf("the rows of group %d have a frequency of %v together", g, sum)
		}
	}
	if again := gametest.Must(Frequency(t.Context(), n, 20, 1))(t); !slices.Equal(f, again) {
		t.Error("the same seed gives other frequencies")
	}
	if other := gametest.Must(Frequency(t.Context(), n, 20, 2))(t); slices.Equal(f, other) {
		t.Error("another seed gives the same frequencies")
	}
}

// A shrunk row has whole steps, is at most 0.6 of a step away from the row that it was made of, and
// is 0 if no position has it or the step is too large. The network is otherwise the same.
func TestShrink(t *testing.T) {
	n := random(t)
	f := make([]float64, RowCount())
	f[1], f[2], f[4] = 1, 0.01, 0.0001
	small := gametest.Must(n.Shrink(f, 3))(t)
	lanes := n.Weights.Lanes
	steps := map[int]int{1: 3, 2: 30, 4: 300, 5: 0}
	for row, wanted := range steps {
		from, to := n.Weights.Table[row*lanes:][:lanes], small.Weights.Table[row*lanes:][:lanes]
		_, most := factorOf(from)
		step := max(int(math.Ceil(float64(most)/127)), wanted)
		if row == 1 && !slices.ContainsFunc(to, func(x int16) bool { return x != 0 }) {
			t.Error("a frequent row is all 0")
		}
		for i, x := range to {
			switch away := math.Abs(float64(x) - float64(from[i])); {
			case row > 2 && x != 0:
				t.Errorf("row %d, lane %d is %d, want 0", row, i, x)
			case row <= 2 && (int(x)%step != 0 || away > 0.6*float64(step)):
				t.Errorf("row %d, lane %d is %d, made of %d, with a step of %d", row, i, x, from[i], step)
			}
		}
	}
	if !cmp.Equal(small.Weights.Dense, n.Weights.Dense) || !cmp.Equal(small.Weights.Bias, n.Weights.Bias) {
		t.Error("other parts of the network have changed")
	}
	if small.format() != inBytes {
		t.Error("a shrunk table does not fit into bytes")
	}
}
