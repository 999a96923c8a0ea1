package bench

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/evald/evald/engine/game/gametest"
	kernel "github.com/evald/evald/kernels/cpu/pattern"
	"github.com/evald/evald/nn/pattern"
)

// Every path is measured beside its ceiling.
func TestPatterns(t *testing.T) {
	n := gametest.Must(pattern.New(*kernel.Random(rand.New(rand.NewPCG(1, 1)), pattern.RowCount(), 64, 16, 16)))(t)
	figures := gametest.Must(tables{n}.onCPU(t.Context(), time.Millisecond, "quick", nil))(t)
	if len(figures) != len(kernel.Paths()) {
		t.Fatalf("%d figures, want one of each path", len(figures))
	}
	for i, f := range figures {
		want := "quick, " + string(kernel.Paths()[i])
		if !strings.Contains(f.Name, want) || f.Rate <= 0 || f.Ceiling <= 0 {
			t.Errorf("figure %d is %+v, want one of %s", i, f, want)
		}
	}
}
