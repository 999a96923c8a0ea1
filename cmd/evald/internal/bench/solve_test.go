package bench

import (
	"testing"

	"github.com/evald/evald/engine/game/gametest"
)

// nodesWanted is the node count of the built-in sets, which `evald bench solve` prints. It is updated by hand if the search
// changes on purpose.
const nodesWanted = 256162

func TestSolveSignature(t *testing.T) {
	var figures []SolveFigure
	for _, set := range BuiltInSets() {
		f := gametest.Must(Solve(t.Context(), set, 0, nil))(t)
		figures = append(figures, f)
	}
	if got := signature(figures); got != nodesWanted {
		t.Errorf("the built-in sets take %d nodes, want %d: the search has changed", got, nodesWanted)
	}
}
