package gpu

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/game/gametest"
	"github.com/evald/evald/nn/net"
)

func TestPlanChoosesKernel(t *testing.T) {
	wide := game.Rules{Rows: 10, Columns: 10, InARow: 4, Gravity: true}
	for _, test := range []struct {
		net    string
		rules  game.Rules
		like   Target
		kernel string
		boards int
	}{
		{"6x64", game.Connect4, hopper, "tower_64", 12},
		{"6x64", game.Connect4, ampere, "tower_64", 12},
		{"6x64", game.Connect4, geforce, "tower_64_half", 6},
		{"6x64", game.Connect4, small, "tower_any", 1},
		{"6x64", game.Connect4, Target{10, 0, 227 << 10, 100}, "tower_64", 12},
		{"6x64", game.Connect4, Target{12, 0, 99 << 10, 100}, "tower_64_half", 6},
		{"2x16/8/16", game.TicTacToe, hopper, "tower_64", 56},
		{"10x128", game.Connect4, hopper, "tower_128", 6},
		{"10x128", game.Connect4, ampere, "tower_128", 6},
		{"10x128", game.Connect4, geforce, "tower_128_half", 3},
		{"10x128", wide, geforce, "tower_128_half", 1},
		{"20x256", game.Connect4, hopper, "tower_256", 3},
		{"20x256", game.Connect4, ampere, "tower_256", 3},
		{"20x256", game.Connect4, geforce, "tower_256_half", 1},
		{"20x256", wide, geforce, "tower_any", 1}, // 100 cells do not fit 64 rows
		{"6x64", wide, hopper, "tower_64", 5},
		{"20x256", wide, hopper, "tower_256", 1},
		{"6x64/33/64", game.Connect4, hopper, "tower_128", 6},     // 66 columns of heads do not fit 64
		{"1x16/32/4000", game.Connect4, hopper, "tower_64", 4},    // 16284 bytes of features per board
		{"1x16/32/8192", game.Connect4, geforce, "tower_any", 1},  // 33052 bytes per board do not fit half a tower
		{"1x257", game.Connect4, hopper, "tower_any", 1},          // more channels than any tower
		{"1x16/2000/16", game.TicTacToe, hopper, "tower_any", 1},  // more columns of heads than any tower
		{"1x2048/2048/8", game.TicTacToe, hopper, "tower_any", 1}, // the largest
	} {
		if p := planFor(t, config(t, test.net), test.rules, test.like, test.kernel); p.Boards != test.boards {
			t.Errorf("%s on %s: %d boards at a time, want %d", test.net, test.rules, p.Boards, test.boards)
		}
	}
}

// On a capability older than the PTX there is no kernel.
func TestPlanByCapability(t *testing.T) {
	for _, old := range []Target{{7, 0, 96 << 10, 100}, {7, 5, 64 << 10, 100}} {
		_, err := newPlan(config(t, "6x64"), game.Connect4, old)
		if want := "runs on " + old.String() + ": take a device of sm_80 or later, or the CPU"; err == nil || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("%v: error %v, want %q", old, err, want)
		}
	}
}

func TestPlanRefusesWhatIsInvalid(t *testing.T) {
	valid := config(t, "1x16")
	if _, err := newPlan(net.Config{Blocks: 1}, game.Connect4, hopper); err == nil {
		t.Error("a network without channels is planned for")
	}
	if _, err := newPlan(valid, game.Rules{Rows: 6, InARow: 4}, hopper); err == nil {
		t.Error("a board without columns is planned for")
	}
}

// Every valid network and board has a plan, and its boards fit the kernel.
func TestPlanFits(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		c := net.Config{Blocks: 1 + r.IntN(2), Channels: 1 + r.IntN(300), HeadChannels: 1 + r.IntN(150), Hidden: 1 + r.IntN(200)}
		rules := game.Rules{Rows: 1 + r.IntN(12), Columns: 1 + r.IntN(12), InARow: 4, Gravity: r.IntN(2) == 0}
		if rules.Validate() != nil {
			continue
		}
		p := gametest.Must(newPlan(c, rules, []Target{small, geforce, ampere, hopper}[r.IntN(4)]))(t)
		k := p.Kernel
		if p.Boards < 1 || p.Boards*rules.Cells() > k.Rows {
			t.Errorf("%s on %s by %s: %d boards of %d cells in %d rows", c, rules, k.Name, p.Boards, rules.Cells(), k.Rows)
		}
		for n := range 3 * p.Boards {
			processors := 1 + r.IntN(5)
			job := p.Job(n, processors)
			boards, groups := int(job.boards), job.Groups()
			if boards < 1 || boards > p.Boards || groups*boards < n || groups > 0 && (groups-1)*boards >= n {
				t.Errorf("%d positions in %d groups of %d, want at most %d", n, groups, boards, p.Boards)
			}
			if boards < p.Boards && groups > processors {
				t.Errorf("%d positions in %d groups of %d on %d processors: more would fit a group", n, groups, boards, processors)
			}
		}
	}
}

// A launch has a block or a cluster for each group, as far as they run at once.
func TestPlanBlocks(t *testing.T) {
	alone := hopperPlan(t, config(t, "20x256"), game.Connect4, "hopper_256")                     // 3 boards a block
	cluster := gametest.Must(planOnly("few_256", config(t, "20x256"), game.Connect4, hopper))(t) // a board for 4 blocks
	for _, test := range []struct{ n, processors, alone, cluster int }{
		{1, 132, 1, 4},
		{33, 132, 33, 132},
		{34, 132, 34, 132},
		{131, 132, 131, 132},
		{396, 132, 132, 132},
		{397, 132, 132, 132},
		{396, 113, 113, 112},
		{7, 1, 1, 4}, // which such a device refuses
		{7, 8, 7, 8},
	} {
		if got := alone.Blocks(alone.Job(test.n, test.processors), test.processors); got != test.alone {
			t.Errorf("%+v: %d blocks", test, got)
		}
		if got := cluster.Blocks(cluster.Job(test.n, test.processors), max(1, test.processors/4)); got != test.cluster {
			t.Errorf("%+v: %d blocks in clusters", test, got)
		}
	}
}

// pack puts weights where the kernels read them: for each layer, input and output the right number, and zeros as padding.
func TestPackPlacesWeights(t *testing.T) {
	n := scrambled(t, "1x20/3/4", 9)
	p := planFor(t, n.Config(), game.Connect4, small, "tower_any") // 20 channels are padded to 32, 6 columns to 16
	packed := mustPack(t, p, n)
	// at returns a number of the matrix that begins at a byte and has that many outputs.
	at := func(begin, outputs, in, out int) float32 {
		tile := in/16*(outputs/16) + out/16
		k, o := in%16, out%16
		lane, element := o%8*4+k%8/2, o/8*4+k/8*2+k%2
		i := begin + tile*512 + lane*16 + element*2
		return fromF16(uint16(packed[i]) | uint16(packed[i+1])<<8)
	}
	stem, conv2 := n.Weight("stem.weight").Float32s(), n.Weight("blocks.0.conv2.weight").Float32s()
	policy := n.Weight("policy.conv.weight").Float32s()
	first := 2 * 48 * 32        // after the stem
	second := first + 2*9*32*32 // after conv1
	heads := second + 2*9*32*32
	for _, test := range []struct {
		name      string
		got, want float32
	}{
		{"stem: output 3, plane 4, tap 7", at(0, 32, 7*5+4, 3), stem[(3*5+4)*9+7]},
		{"stem: output 19, plane 0, tap 0", at(0, 32, 0, 19), stem[19*5*9]},
		{"stem: no output 20", at(0, 32, 0, 20), 0},
		{"stem: no input 45", at(0, 32, 45, 3), 0},
		{"conv2: output 17, input 18, tap 5", at(second, 32, 5*32+18, 17), conv2[(17*20+18)*9+5]},
		{"conv2: no input 20", at(second, 32, 5*32+20, 17), 0},
		{"policy.conv: output 2, input 19", at(heads, 16, 19, 5), policy[2*20+19]},
		{"heads: no output 6", at(heads, 16, 19, 6), 0},
	} {
		if test.got != fromF16(f16(test.want)) {
			t.Errorf("%s: %g, want %g", test.name, test.got, test.want)
		}
	}
	floats := 3*32 + 16 + 2*3*4 + 4 + 3*4 + 3 + 3 + 1
	if want := heads + 2*32*16 + 4*floats; len(packed) != want {
		t.Errorf("%d bytes of weights, want %d", len(packed), want)
	}
}

func mustPack(t testing.TB, p plan, n *net.Network) []byte {
	t.Helper()
	packed := gametest.Must(pack(p, n))(t)
	return packed
}

// A weight that fp16 cannot hold is refused by name. The greatest that it can hold is packed.
func TestPackRefusesLargeWeights(t *testing.T) {
	for name, wants := range map[string]string{
		"stem.weight":           "gpu: stem.weight[3] is 65520, ",
		"blocks.0.conv2.weight": "gpu: blocks.0.conv2.weight[3] is 65520, ",
		"value.conv.weight":     "gpu: value.conv.weight[3] is 65520, ",
		"policy.conv.weight":    "gpu: policy.conv.weight[3] is 65520, ",
		"stem.bias":             "", // what is not multiplied by matrices stays float32
		"value.fc.weight":       "",
	} {
		n := scrambled(t, "1x20/3/4", 9)
		p := planFor(t, n.Config(), game.Connect4, small, "tower_any")
		w := n.Weight(name).Float32s()
		w[2] = -math.Nextafter32(f16Overflow, 0)
		mustPack(t, p, n)
		w[3] = f16Overflow
		_, err := pack(p, n)
		if wants == "" && err != nil || wants != "" && (err == nil || !strings.HasPrefix(err.Error(), wants)) {
			t.Errorf("%s: error %v, want %q", name, err, wants)
		}
	}
}

// f16 returns each fp16 for itself, and for what is between two of them the nearer one, or the even one.
func TestF16(t *testing.T) {
	for half := range uint16(0x7bff) {
		below, above := fromF16(half), fromF16(half+1)
		middle := (below + above) / 2
		even := half + half&1
		for x, want := range map[float32]uint16{
			below: half, above: half + 1, middle: even,
			math.Nextafter32(middle, 0): half, math.Nextafter32(middle, above): half + 1,
		} {
			if f16(x) != want || f16(-x) != want|0x8000 {
				t.Fatalf("%g and its negative are %#x and %#x, want %#x", x, f16(x), f16(-x), want)
			}
		}
	}
	if x := math.Nextafter32(f16Overflow, 0); f16(x) != 0x7bff {
		t.Errorf("%g is %#x, want the greatest fp16", x, f16(x))
	}
}

// fromF16 is the value of a fp16 that is finite.
func fromF16(half uint16) float32 {
	sign, exponent, mantissa := 1-2*float64(half>>15), int(half>>10&31), float64(half&1023)
	if exponent == 0 {
		return float32(sign * math.Ldexp(mantissa, -24))
	}
	return float32(sign * math.Ldexp(1024+mantissa, exponent-25))
}
