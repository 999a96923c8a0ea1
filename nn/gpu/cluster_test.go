package gpu

import (
	"bytes"
	"testing"

	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/game/gametest"
)

// clusterPlans is the plan for a network of hopper_256, and that of the same kernel in clusters.
func clusterPlans(t testing.TB, network string) (alone, cluster plan) {
	t.Helper()
	alone = hopperPlan(t, config(t, network), game.Connect4, "hopper_256")
	plans := family(alone, hopper)
	if len(plans) != 2 || plans[1].Kernel.Name != "hopper_256_cluster" || plans[1].Kernel.Cluster != 2 {
		t.Fatalf("the family of hopper_256 is %v", plans)
	}
	return alone, plans[1]
}

// A cluster of two blocks gives the bits of blocks alone, with any number of groups: also if one of its blocks has none, or fewer than
// the other one. Its blocks run in any order, and parts of chunks arrive in any.
func TestClusterEqualsHopper(t *testing.T) {
	e := emulator(t)
	const network = "1x160/8/16"
	n, board := scrambled(t, network, 3), game.MustBoard(game.Connect4)
	alone, cluster := clusterPlans(t, network)
	weights := mustPack(t, alone, n)
	b := alone.Boards
	pos := gametest.Positions(gametest.Rand(5), board, max(b+1, 5), false)
	want := emulate(t, e, alone, weights, pos, emulated{})
	for _, test := range []struct {
		n int
		d emulated
	}{
		{1, emulated{}},                                   // one group, for one of two blocks
		{1, emulated{blocks: 4, order: 7}},                // a cluster without any
		{b + 1, emulated{order: 2}},                       // two, one of which has one board
		{2, emulated{processors: 2, order: 3}},            // two of one board, which a warpgroup holds alone
		{3, emulated{processors: 3, blocks: 2}},           // three, in one cluster, whose first block runs ahead
		{3, emulated{processors: 3, blocks: 2, order: 1}}, // the second one does
		{5, emulated{processors: 5, blocks: 4, order: 5}}, // five, in two clusters: the first has a round more
	} {
		got := emulate(t, e, cluster, weights, pos[:test.n], test.d)
		if !bytes.Equal(got, want[:test.n*alone.RowBytes()]) {
			t.Errorf("%d positions, %+v: rows differ", test.n, test.d)
		}
	}
}
