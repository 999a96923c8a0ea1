package gpu

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/game/gametest"
)

// The kernels for few boards give the bits of their families' first kernels: for any number of boards and of groups, in any order in
// which warps and blocks run and copies arrive.
func TestFewEqualsHopper(t *testing.T) {
	e := emulator(t)
	small := game.Rules{Rows: 4, Columns: 5, InARow: 3, Gravity: true}
	for i, test := range []struct { // each day has two kernels
		net    string
		rules  game.Rules
		kernel string
		boards int
	}{
		{"2x50/20/30", game.Connect4, "few_64", 4},
		{"1x64", small, "few_64", 4},
		{"1x100/30/20", game.Connect4, "few_128", 4},
		{"1x128", game.TicTacToe, "few_128", 4},
		{"1x160/8/16", game.Connect4, "few_256", 1},
		{"1x256", small, "few_256", 1},
	} {
		if !gametest.Today(t, i, 3) {
			continue
		}
		t.Run(fmt.Sprintf("%s on %s by %s", test.net, test.rules, test.kernel), func(t *testing.T) {
			n, board := scrambled(t, test.net, 3), game.MustBoard(test.rules)
			first, ok := planHopper(n.Config(), test.rules, hopper)
			p := gametest.Must(planOnly(test.kernel, n.Config(), test.rules, hopper))(t)
			if !ok || p.Boards != test.boards || p.Kernel.Family() != first.Kernel.Family() {
				t.Fatalf("%v, %d boards, of the family of %s", ok, p.Boards, first.Kernel.Name)
			}
			weights := mustPack(t, p, n)
			pos := gametest.Positions(gametest.Rand(5), board, max(p.Boards+1, 3), true)
			want := emulate(t, e, first, weights, pos, emulated{})
			size := p.RowBytes()
			clusters := p.Kernel.Cluster // a processor each: a group of boards for each cluster
			for i, test := range []struct {
				n int
				d emulated
			}{
				{1, emulated{blocks: 2 * clusters, order: 7}}, // a cluster without any board
				{1, emulated{processors: clusters, order: 1}},
				{p.Boards + 1, emulated{order: 2}}, // two clusters, one of which has one board and others that are none
				{1, emulated{}},
				{p.Boards + 1, emulated{blocks: 1}},                                  // one after the other, in orders in which a block runs ahead
				{p.Boards + 1, emulated{blocks: 1, order: 1}},                        // of the others as far as it can
				{3, emulated{processors: 3 * clusters, blocks: 1, order: 5}},         // three of one board
				{3, emulated{processors: 3 * clusters, blocks: clusters, order: 99}}, // the same in other orders
			} {
				if i%2 == 1 && !gametest.Soak() { // in another order, or in none
					continue
				}
				got := emulate(t, e, p, weights, pos[:test.n], test.d)
				if !bytes.Equal(got, want[:test.n*size]) {
					t.Errorf("%d positions, %+v: rows differ", test.n, test.d)
				}
			}
		})
	}
}
