package bench

import (
	"testing"
	"time"

	"github.com/evald/evald/engine/game/gametest"
)

// Every figure is there, and a visit allocates nothing.
func TestSearch(t *testing.T) {
	figures := gametest.Must(Search(t.Context(), time.Millisecond, nil))(t)
	if len(figures) != 9 {
		t.Fatalf("%d figures, want 2 evaluators by 4 searches, and the device", len(figures))
	}
	for i, f := range figures {
		if f.Rate <= 0 {
			t.Errorf("%s: rate %v", f.Name, f.Rate)
		}
		if i < 8 && (f.Allocations == nil || *f.Allocations > 0.001 && !gametest.Race) {
			t.Errorf("%s: %v allocations a visit", f.Name, *f.Allocations)
		}
	}
	if last := figures[8]; last.Ceiling <= 0 || last.Rate > 1.05*last.Ceiling {
		t.Errorf("the device answered %.0f rows a second, and alone %.0f", last.Rate, last.Ceiling)
	}
}
