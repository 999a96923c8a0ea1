package bench

import "testing"

// signature is the node count of the built-in sets. A change of the search that is meant to change it writes it anew;
// `evald bench solve` prints it.
const signature = 373937

func TestSolveSignature(t *testing.T) {
	var figures []SolveFigure
	for _, set := range BuiltInSets() {
		f, err := Solve(t.Context(), set, 0, nil)
		if err != nil {
			t.Fatal(err)
		}
		figures = append(figures, f)
	}
	if got := Signature(figures); got != signature {
		t.Errorf("the built-in sets take %d nodes, want %d: the search has changed", got, signature)
	}
}
