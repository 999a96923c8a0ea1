package gpu

import (
	"fmt"
	"math"
	"testing"

	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/game/gametest"
	"github.com/evald/evald/nn/net"
)

// at is the plan for a launch of n positions.
func (c choice) at(n int) plan { return c.plans[c.index(n)] }

// predicted chooses by predicted times.
func predicted(t *testing.T, c net.Config, r game.Rules, on Target) choice {
	t.Helper()
	return choose(family(gametest.Must(newPlan(c, r, on))(t), on), on, nil)
}

// The predicted times are those of the tables in LOG.md of kernels/cuda, in µs, and the kernel with the least is chosen.
func TestChoicePredicts(t *testing.T) {
	for _, test := range []struct {
		net    string
		n      int
		kernel string
		us     float64
	}{
		{"6x64", 1, "wide_64", 37},
		{"6x64", 132, "wide_64", 39},
		{"6x64", 133, "wide_64_two", 49},
		{"6x64", 264, "wide_64_two", 49},
		{"6x64", 1584, "tower_64", 141},
		{"6x64", 65536, "tower_64", 5729},
		{"10x128", 1, "wide_128", 160},
		{"10x128", 132, "wide_128", 171},
		{"10x128", 264, "wide_128_two", 240},
		{"10x128", 396, "tower_128", 255},
		{"10x128", 792, "tower_128", 431},
		{"20x256", 1, "wide_256", 809},
		{"20x256", 99, "wide_256", 917},
		{"20x256", 132, "tower_256", 962},
		{"20x256", 264, "wide_256_two", 1207},
		{"20x256", 396, "tower_256", 1664},
	} {
		c := predicted(t, config(t, test.net), game.Connect4, hopper)
		p := c.at(test.n)
		if got := 1e6 * p.predict(test.n, hopper.Processors); p.Kernel.Name != test.kernel || math.Abs(got-test.us) > 0.012*test.us {
			t.Errorf("%s, %d positions: %s in %.0f µs, want %s in %g", test.net, test.n, p.Kernel.Name, got, test.kernel, test.us)
		}
		if c.Kernel.Wide || c.seconds(test.n)*1e6 < 0.98*test.us {
			t.Errorf("%s, %d positions: %s for whole waves, %.0f µs", test.net, test.n, c.Kernel.Name, 1e6*c.seconds(test.n))
		}
	}
	for net, us := range map[string][2]float64{"6x64": {135, 90}, "10x64": {215, 138}, "10x128": {403, 403}, "20x256": {1189, 659}} { // a wave, and 8 boards
		h, ok := planHopper(config(t, net), game.Connect4, hopper)
		if wave, few := 1e6*h.predict(h.Boards*132, 132), 1e6*h.predict(8, 132); !ok || math.Abs(wave-us[0]) > 2 || math.Abs(few-us[1]) > 2 {
			t.Errorf("%s by %s: %.0f and %.0f µs, want %g and %g", net, h.Kernel.Name, wave, few, us[0], us[1])
		}
	}
	alone, cluster := clusterPlans(t, "20x256")
	c := choose([]plan{alone, cluster}, hopper, nil)
	for n, us := range map[int][2]float64{1: {659, 667}, 64: {659, 667}, 132: {1149, 667}, 256: {1189, 1198}, 1024: {3556, 3582}, 65536: {196484, 197879}} {
		one, two := 1e6*alone.predict(n, 132), 1e6*cluster.predict(n, 132)
		if math.Abs(one-us[0]) > 0.002*us[0] || math.Abs(two-us[1]) > 0.002*us[1] {
			t.Errorf("20x256, %d positions: %.0f µs alone, %.0f in clusters, want %g and %g", n, one, two, us[0], us[1])
		}
		if got := c.at(n).Kernel.Name == cluster.Kernel.Name; got != (us[1] < us[0]) {
			t.Errorf("20x256, %d positions: by %s", n, c.at(n).Kernel.Name)
		}
	}
}

// For every number of positions the choice is a kernel whose time is the least of all at the next larger number that was
// compared. Measured times take the place of predicted ones.
func TestChoiceTakesTheLeast(t *testing.T) {
	for _, on := range []Target{hopper, ampere, geforce, {9, 0, 227 << 10, 4}, {9, 0, 227 << 10, 1}} {
		for _, net := range []string{"1x16/8/16", "10x128", "20x256"} {
			first := gametest.Must(newPlan(config(t, net), game.Connect4, on))(t)
			plans := family(first, on)
			if h, ok := planHopper(first.config, game.Connect4, on); ok && net == "20x256" {
				plans = family(h, on) // with and without clusters
			}
			measured := Samples{}
			for i, p := range plans {
				for _, n := range choose(plans, on, nil).grid(on.Processors) {
					// Each in turn is the best, in an order that no model has.
					measured[p.Kernel.Name] = append(measured[p.Kernel.Name], Sample{n, 1 + float64((n+i)%len(plans))})
				}
			}
			for name, times := range map[string]Samples{"predicted": nil, "measured": measured} {
				c := choose(plans, on, times)
				last := c.sizes[len(c.sizes)-1].most
				for n := 1; n <= last; n++ {
					at := n
					for i := len(c.sizes) - 1; i >= 0 && c.sizes[i].most >= n; i-- {
						at = c.sizes[i].most
					}
					seconds := func(p plan) float64 {
						if times != nil {
							return times.at(p.Kernel.Name, at)
						}
						return p.predict(at, on.Processors)
					}
					for _, p := range plans {
						if seconds(p) < seconds(c.at(n)) || c.seconds(n) != seconds(c.at(n)) {
							t.Fatalf("%s on %v, %s: %d positions by %s, but %s is sooner", net, on, name, n, c.at(n).Kernel.Name, p.Kernel.Name)
						}
					}
				}
				if c.at(100*last).Kernel.Name != c.Kernel.Name || math.Abs(c.seconds(2*last)/c.seconds(last)-2) > 1e-9 {
					t.Errorf("%s on %v, %s: beyond %d positions %s", net, on, name, last, c.at(100*last).Kernel.Name)
				}
			}
		}
	}
}

// All kernels of a family take the same bytes of weights.
func TestFamiliesShareWeights(t *testing.T) {
	for _, text := range []string{"1x16/8/16", "1x100/8/16", "1x200/8/16"} {
		n := scrambled(t, text, 1)
		c := predicted(t, n.Config(), game.Connect4, hopper)
		if len(c.plans) != 4 {
			t.Errorf("%s: a family of %d kernels, want 4", text, len(c.plans))
		}
		want := fmt.Sprintf("%x", mustPack(t, c.plans[0], n))
		for _, p := range c.plans[1:] {
			if fmt.Sprintf("%x", mustPack(t, p, n)) != want {
				t.Errorf("%s: %s takes other weights than %s", text, p.Kernel.Name, c.plans[0].Kernel.Name)
			}
		}
	}
}

// Launches are whole waves, or less than one wave, and fit a slot.
func TestChoiceShares(t *testing.T) {
	for _, test := range []struct{ n, processors, devices, want int }{
		{1, 132, 1, 1},
		{1583, 132, 1, 1583},
		{1584, 132, 1, 1584},
		{1585, 132, 1, 1584},
		{65536, 132, 1, 4 * 1584},
		{65536, 4000, 1, slotAnswers / 36},
		{1, 132, 8, 1},
		{132, 132, 8, 132},   // a half of a wide kernel's boards takes the same time
		{264, 132, 2, 132},   // a board a multiprocessor in place of two
		{1583, 132, 2, 792},  // half the rows of the tower
		{1583, 132, 8, 264},  // two boards a multiprocessor, on six devices
		{3168, 132, 2, 1584}, // a wave each
		{65536, 132, 2, 4 * 1584},
		{65536, 132, 16, 3 * 1584},
	} {
		on := hopper
		on.Processors = test.processors
		c := predicted(t, config(t, "6x64"), game.Connect4, on)
		if got := c.share(test.n, test.devices); got != test.want {
			t.Errorf("of %d rows on %d devices of %d multiprocessors a launch takes %d, want %d", test.n, test.devices, test.processors, got, test.want)
		}
	}
	for _, b := range gametest.Boards() {
		p := predicted(t, config(t, "6x64"), b.Rules(), hopper)
		for n := 1; n < 1<<17; n = 2*n + 1 {
			got := p.share(n, 1+n%3)
			if got < 1 || got > n || got > slotRows || got*p.PositionBytes() > slotPositions || got*p.RowBytes() > slotAnswers {
				t.Errorf("%s: of %d rows a launch takes %d", b.Rules(), n, got)
			}
		}
	}
}
