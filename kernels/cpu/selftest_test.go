package cpu

import (
	"math"
	"strings"
	"testing"
)

// All paths of this machine pass, and a kernel that computes something else does not.
func TestSelfTest(t *testing.T) {
	for _, k := range all() {
		if err := SelfTest(k.name); err != nil {
			t.Error(err)
		}
	}
	if err := SelfTest("mmx"); err == nil {
		t.Error("an unknown path passed")
	}
	for name, damage := range map[string]func(c conv){
		"wrong":       func(c conv) { c.dst[int(c.cells[0])*c.width] += 1 },
		"not written": func(c conv) { clear(c.dst) },
		"NaN":         func(c conv) { c.dst[int(c.cells[len(c.cells)-1])*c.width] = float32(math.NaN()) },
	} {
		broken := goKernel()
		broken.name = Path(name)
		broken.run = func(c conv) {
			convGo(c)
			damage(c)
		}
		sparse := goKernel()
		sparse.name = Path(name)
		sparse.sparse.below = [2]float64{0, 0.2}
		sparse.sparse.run = func(s sparseCall) {
			sparseGo(s)
			if int(s.nonzeros[0]) < s.few {
				for i := range s.nonzeros {
					damage(conv{layer: s.layer, cells: s.cells, dst: s.dst[i*s.padded*s.width:]})
				}
			}
		}
		for form, k := range map[string]kernel{"dense": broken, "sparse": sparse} {
			if err := selfTest(k); err == nil || !strings.Contains(err.Error(), "CPU path "+name+" fails its self-test: ") {
				t.Errorf("%s, %s: error %v, want a failed self-test", name, form, err)
			}
		}
	}
}

// Forward panics if the arguments do not fit the scratch.
func TestForwardPanics(t *testing.T) {
	one := Affine{make([]float32, 9), make([]float32, 1)}
	n := Network{Stem: one, ValueConv: Affine{one.Weight[:1], one.Bias}, FC: Affine{one.Weight[:2], one.Bias}, WDL: Affine{one.Weight[:3], make([]float32, 3)}, GameOver: Affine{one.Weight[:4], make([]float32, 4)}, PolicyConv: Affine{one.Weight[:1], one.Bias}, PolicyLogit: Affine{one.Weight[:1], one.Bias}}
	tower, err := New(n, Go)
	if err != nil {
		t.Fatal(err)
	}
	s := tower.NewScratch(2, 3)
	tower.Forward(s, make([]float32, 6), 1)
	for _, bad := range [][2]int{{6, 0}, {6 * (s.Positions + 1), s.Positions + 1}, {5, 1}, {12, 1}} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%d values for %d positions were taken", bad[0], bad[1])
				}
			}()
			tower.Forward(s, make([]float32, bad[0]), bad[1])
		}()
	}
}
