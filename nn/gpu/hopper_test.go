package gpu

import (
	"fmt"
	"testing"

	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/game/gametest"
	"github.com/evald/evald/kernels/cuda"
	"github.com/evald/evald/nn/net"
)

func hopperPlan(t testing.TB, c net.Config, r game.Rules, kernel string) plan {
	t.Helper()
	p, ok := planHopper(c, r, hopper)
	if !ok || p.Kernel.Name != kernel {
		t.Fatalf("network %s on board %s: %v, %s, want %s", c, r, ok, p.Kernel.Name, kernel)
	}
	return p
}

func TestHopperPlan(t *testing.T) {
	for _, test := range []struct {
		net    string
		rules  game.Rules
		on     Target
		kernel string // "" if there is none
		boards int
	}{
		{"6x64", game.Connect4, hopper, "hopper_64", 16},
		{"1x16/8/16", game.TicTacToe, hopper, "hopper_64", 16},
		{"10x128", game.Connect4, hopper, "hopper_128", 8},
		{"6x64/33/64", game.Connect4, hopper, "hopper_128", 8}, // 66 columns of heads do not fit 64
		{"6x64/32/303", game.Connect4, hopper, "hopper_64", 16},
		{"6x64/32/400", game.Connect4, hopper, "hopper_128", 8}, // 1884 bytes of features do not fit what a board leaves
		{"20x256", game.Connect4, hopper, "hopper_256", 3},
		{"1x129", game.Rules{Rows: 9, Columns: 9, InARow: 5, Gravity: true}, hopper, "hopper_256", 1},
		{"1x64/70/9", game.TicTacToe, hopper, "hopper_256", 14},
		{"1x300", game.Connect4, hopper, "", 0},
		{"20x256", game.Connect4, ampere, "", 0},
		{"6x64", game.Rules{Rows: 6, Columns: 8, InARow: 4, Gravity: true}, hopper, "", 0},
		{"6x64", game.Rules{Rows: 7, Columns: 7, InARow: 4, Gravity: true}, hopper, "", 0},
		{"6x64", game.Connect4, ampere, "", 0},
		{"6x64", game.Connect4, Target{10, 0, 227 << 10, 148}, "", 0}, // sm_90a runs on 9.0 alone
		{"6x64", game.Connect4, Target{9, 0, 163 << 10, 132}, "", 0},
	} {
		p, ok := planHopper(config(t, test.net), test.rules, test.on)
		if ok != (test.kernel != "") || p.Kernel.Name != test.kernel || p.Boards != test.boards {
			t.Errorf("%s on %s, %v: %v, %q, %d boards, want %q, %d", test.net, test.rules, test.on, ok, p.Kernel.Name, p.Boards, test.kernel, test.boards)
		}
	}
}

// pack puts weights where the descriptors of Hopper's kernels find them.
func TestHopperPack(t *testing.T) {
	n := scrambled(t, "1x100/3/4", 9)
	p := hopperPlan(t, n.Config(), game.Connect4, "hopper_128")
	packed := gametest.Must(pack(p, n))(t)
	// at returns input k and output o of a tile.
	at := func(tile, k, o int) uint16 {
		i := tile*cuda.HopperTile + 128*k + 16*(o/8^k%8) + o%8*2
		return uint16(packed[i]) | uint16(packed[i+1])<<8
	}
	stem, conv2 := n.Weight("stem.weight").Float32s(), n.Weight("blocks.0.conv2.weight").Float32s()
	policy := n.Weight("policy.conv.weight").Float32s()
	// A layer has 3 columns of 8 times 16 channels, each two halves of 3 tiles.
	second, heads := 6+3*8*2*3, 6+2*3*8*2*3
	for _, test := range []struct {
		name string
		got  uint16
		want float32
	}{
		{"stem: output 3, plane 4, tap 7 (input 39)", at(2, 7, 3), stem[(3*5+4)*9+7]},
		{"stem: output 70, plane 0, tap 0", at(3, 0, 6), stem[70*5*9]},
		{"stem: no output 100", at(3, 0, 36), 0},
		{"conv2: output 17, input 18, row 1, column 2", at(second+(2*8+1)*6+1, 2, 17), conv2[(17*100+18)*9+5]},
		{"conv2: output 99, input 35, row 2, column 0", at(second+2*6+3+2, 3, 35), conv2[(99*100+35)*9+6]},
		{"conv2: no input 100", at(second+6*6, 4, 3), 0},
		{"policy.conv: output 2, input 99", at(heads+6*2, 3, 5), policy[2*100+99]},
		{"heads: no output 6", at(heads, 0, 6), 0},
	} {
		if test.got != f16(test.want) {
			t.Errorf("%s: %#x, want %#x", test.name, test.got, f16(test.want))
		}
	}
	floats := 3*128 + 128 + 2*3*4 + 4 + 3*4 + 3 + 3 + 1
	if want := (heads+3*2*3)*cuda.HopperTile + 4*floats; len(packed) != want {
		t.Errorf("%d bytes of weights, want %d", len(packed), want)
	}
}

// Hopper's kernels agree with the reference, on boards and networks of all kinds, ten times as closely as in bf16.
func TestHopperAgreesWithReference(t *testing.T) {
	e := emulator(t)
	for _, test := range []struct {
		net    string
		rules  game.Rules
		kernel string
		n      int
		seed   uint64
		soak   bool
	}{
		{"1x16/8/16", game.Connect4, "hopper_64", 17, 1, false},
		{"2x50/20/30", game.Rules{Rows: 5, Columns: 6, InARow: 4, Gravity: true}, "hopper_64", 10, 3, false},
		{"2x64", game.Rules{Rows: 3, Columns: 3, InARow: 3}, "hopper_64", 30, 4, false},
		{"1x100/40/30", game.Connect4, "hopper_128", 9, 5, false},
		{"1x65", game.Rules{Rows: 4, Columns: 1, InARow: 2, Gravity: true}, "hopper_128", 9, 7, false},
		{"1x256", game.Connect4, "hopper_256", 4, 10, false},
		{"2x200/70/40", game.Rules{Rows: 5, Columns: 9, InARow: 4, Gravity: true}, "hopper_256", 2, 11, false},
		{"1x130", game.Rules{Rows: 10, Columns: 11, InARow: 5, Gravity: true}, "hopper_256", 2, 12, false},
		{"1x140/65/9", game.TicTacToe, "hopper_256", 15, 13, false},
		{"default", game.Connect4, "hopper_64", 16, 0, false},
		{"default", game.Connect4, "hopper_64", 64, 0, true},
		{"3x64", game.Connect4, "hopper_64", 64, 2, true},
		{"2x128", game.Connect4, "hopper_128", 24, 6, true},
		{"6x64", game.Connect4, "hopper_64", 64, 8, true},
		{"10x128", game.Connect4, "hopper_128", 8, 9, true},
	} {
		t.Run(fmt.Sprintf("%s on %s by %s", test.net, test.rules, test.kernel), func(t *testing.T) {
			soakOnly(t, test.soak)
			board := game.MustBoard(test.rules)
			n := shipped(t)
			if test.net != "default" {
				n = scrambled(t, test.net, test.seed)
			}
			p := hopperPlan(t, n.Config(), test.rules, test.kernel)
			pos := gametest.Positions(gametest.Rand(11), board, test.n, true)
			rows := emulate(t, e, p, mustPack(t, p, n), pos, emulated{blocks: 2, order: 7})
			compareWithin(t, tolerance, 2*tolerance, read(t, p, board, pos, rows), reference(t, n, board, pos))
		})
	}
}
