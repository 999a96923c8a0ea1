package gpu

import (
	"slices"
	"strings"
	"testing"

	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/game/gametest"
	"github.com/evald/evald/kernels/cuda"
)

// Every kernel is a variant of some network. The best one is among a network's variants, each of which can be chosen, and no
// other can.
func TestVariants(t *testing.T) {
	reached := map[string]bool{}
	for _, on := range []Target{hopper, ampere, geforce, small} {
		for _, text := range []string{"1x16/8/16", "6x64", "10x128", "20x256", "2x300"} {
			c := config(t, text)
			best := gametest.Must(newPlan(c, game.Connect4, on))(t)
			names := Variants(c, game.Connect4, on)
			if !slices.Contains(names, best.Kernel.Name) {
				t.Errorf("%s on %v: variants %v lack the best, %s", text, on, names, best.Kernel.Name)
			}
			for _, k := range append(cuda.Kernels(), cuda.Kernel{Name: "no_such"}) {
				p, err := planOnly(k.Name, c, game.Connect4, on)
				switch {
				case !slices.Contains(names, k.Name):
					if err == nil || !strings.Contains(err.Error(), "choose one of "+strings.Join(names, ", ")) {
						t.Errorf("%s on %v: kernel %s: %v, want an error that names %v", text, on, k.Name, err, names)
					}
				case err != nil || p.Kernel.Name != k.Name || p.Kernel.Shared > on.Shared:
					t.Errorf("%s on %v: kernel %s: %v, %v", text, on, k.Name, p.Kernel.Name, err)
				default:
					reached[k.Name] = true
				}
			}
		}
	}
	for _, k := range cuda.Kernels() {
		if !reached[k.Name] {
			t.Errorf("no network has the variant %s", k.Name)
		}
	}
}
