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

// Where nothing is measured, one position is for a kernel for few boards, and whole waves are for the family's first.
func TestChoicePredicts(t *testing.T) {
	for _, test := range []struct{ net, few, whole, hopperFew, hopperWhole string }{
		{"6x64", "wide_64", "tower_64", "few_64", "hopper_64"},
		{"10x128", "wide_128", "tower_128", "few_128", "hopper_128"},
		{"20x256", "wide_256", "tower_256", "few_256", "hopper_256"},
	} {
		first, _ := planHopper(config(t, test.net), game.Connect4, hopper)
		for _, c := range []struct {
			choice
			few, whole string
		}{
			{predicted(t, config(t, test.net), game.Connect4, hopper), test.few, test.whole},
			{choose(family(first, hopper), hopper, nil), test.hopperFew, test.hopperWhole},
		} {
			if few, whole := c.at(1).Kernel.Name, c.at(1<<20).Kernel.Name; few != c.few || whole != c.whole {
				t.Errorf("%s: one position by %s, many by %s; want %s, %s", test.net, few, whole, c.few, c.whole)
			}
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
				plans = family(h, on) // also in clusters
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
							t.Fatalf("%s on %v, %s: %d positions by %s, but %s is faster", net, on, name, n, c.at(n).Kernel.Name, p.Kernel.Name)
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
	gametest.OneGoroutine(t)
	for _, text := range []string{"1x16/8/16", "1x100/8/16", "1x200/8/16"} {
		n := scrambled(t, text, 1)
		c := predicted(t, n.Config(), game.Connect4, hopper)
		if len(c.plans) != 3 {
			t.Errorf("%s: a family of %d kernels, want 3", text, len(c.plans))
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
			if got < 1 || got > n || got*p.PositionBytes() > slotPositions || got*p.RowBytes() > slotAnswers {
				t.Errorf("%s: of %d rows a launch takes %d", b.Rules(), n, got)
			}
		}
	}
}
