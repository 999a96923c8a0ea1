package bench

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	kernel "github.com/evald/evald/kernels/cpu/pattern"
	"github.com/evald/evald/nn/pattern"
)

// Every path is measured beside its ceiling, and the steps beside plain Go.
func TestPatterns(t *testing.T) {
	n, err := pattern.New(*kernel.Random(rand.New(rand.NewPCG(1, 1)), pattern.RowCount(), 64, 16, 16))
	if err != nil {
		t.Fatal(err)
	}
	figures, err := patterns(t.Context(), time.Millisecond, n, "quick", nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(figures) != len(kernel.Paths())+1 {
		t.Fatalf("%d figures, want one of each path and the steps", len(figures))
	}
	for i, f := range figures {
		want, ceiling := "quick, by steps", false
		if i < len(kernel.Paths()) {
			want, ceiling = "quick, "+string(kernel.Paths()[i]), true
		}
		if !strings.Contains(f.Name, want) || f.Rate <= 0 || (f.Ceiling > 0) != ceiling {
			t.Errorf("figure %d is %+v, want one of %s", i, f, want)
		}
	}
}
