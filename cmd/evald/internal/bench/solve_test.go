package bench

import "testing"

// nodesWanted is the node count of the built-in sets, which `evald bench solve` prints. It is updated by hand if the search
// changes on purpose.
const nodesWanted = 373937

func TestSolveSignature(t *testing.T) {
	var figures []SolveFigure
	for _, set := range BuiltInSets() {
		f, err := Solve(t.Context(), set, 0, func(int) {})
		if err != nil {
			t.Fatal(err)
		}
		figures = append(figures, f)
	}
	if got := signature(figures); got != nodesWanted {
		t.Errorf("the built-in sets take %d nodes, want %d: the search has changed", got, nodesWanted)
	}
}
