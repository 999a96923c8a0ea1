package pattern

import (
	"math"
	"testing"

	"github.com/evald/evald/engine/game/gametest"
	kernel "github.com/evald/evald/kernels/cpu/pattern"
)

// The probabilities are those of a softmax in float64, for all differences of logits that give more than 0 and beyond, and for any set of
// legal entries, also none.
func TestSoftmax(t *testing.T) {
	r := gametest.Rand(1)
	for i := range 200_000 {
		logits, p := make([]int32, 7), make([]float32, 7)
		for k := range logits {
			logits[k] = int32(r.IntN(1<<r.IntN(22)+1)) - int32(r.IntN(1<<20))
		}
		legal := uint32(r.IntN(1 << 7))
		if i%100 == 0 {
			legal = 0
		}
		Softmax(p, logits, legal)
		most, sum, total := math.Inf(-1), 0.0, 0.0
		for k, x := range logits {
			if legal>>k&1 != 0 {
				most = max(most, float64(x)/kernel.Unit)
			}
		}
		for k, x := range logits {
			if legal>>k&1 != 0 {
				sum += math.Exp(float64(x)/kernel.Unit - most)
			}
		}
		for k, x := range logits {
			want := 0.0
			if legal>>k&1 != 0 {
				want = math.Exp(float64(x)/kernel.Unit-most) / sum
			}
			total += float64(p[k])
			if got := float64(p[k]); math.Abs(got-want) > 4e-7*want+1e-37 { // smaller numbers have fewer bits
				t.Fatalf("logits %d, legal %b: entry %d is %g, want %g", logits, legal, k, got, want)
			}
		}
		if legal == 0 && total != 0 || legal != 0 && math.Abs(total-1) > 1e-6 {
			t.Fatalf("logits %d, legal %b: the sum is %g", logits, legal, total)
		}
	}
}

// Every difference of logits up to the last of the tables has its exponential within two roundings, and the next ones have 0.
func TestExponentials(t *testing.T) {
	for d := range len(Fine) * len(Coarse) {
		got, want := float64(float32(Coarse[d/256]*Fine[d%256])), math.Exp(-float64(d)/kernel.Unit)
		if math.Abs(got-want) > 2e-7*want+3e-45 {
			t.Fatalf("difference %d: %g, want %g", d, got, want)
		}
	}
	if x := float32(math.Exp(-float64(len(Fine)*len(Coarse)) / kernel.Unit)); x != 0 {
		t.Errorf("the exponential after the tables is %g", x)
	}
}
