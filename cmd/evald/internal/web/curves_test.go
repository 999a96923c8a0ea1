package web

import (
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The accuracies of searches with and without a solver are two curves.
func TestCurvesOfSearches(t *testing.T) {
	row, _ := flatten([]byte(`{"generation":1,"accuracy":[{"name":"all","visits":0,"solver":false,"good":0.5},
		{"name":"all","visits":100,"solver":false,"good":0.6},{"name":"all","visits":100,"solver":true,"good":0.7}]}`))
	want := []string{"accuracy[all, visits 0].good", "accuracy[all, visits 100, no_solver].good", "accuracy[all, visits 100].good", "generation"}
	if diff := cmp.Diff(want, slices.Sorted(maps.Keys(row))); diff != "" {
		t.Errorf("curves (-want +got):\n%s", diff)
	}
}
