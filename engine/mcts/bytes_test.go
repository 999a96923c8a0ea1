package mcts_test

import (
	"runtime"
	"testing"

	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/game/gametest"
	"github.com/evald/evald/engine/mcts"
)

// Trees take no more bytes than TreeBytes says, and not many times less.
func TestTreeBytes(t *testing.T) {
	if testing.Short() {
		t.Skip("memory is measured without the race detector")
	}
	for _, rules := range []string{"7x6x4", "12x9x5", "3x3x3free"} {
		r := gametest.Must(game.ParseRules(rules))(t)
		b := game.MustBoard(r)
		for visits, count := range map[int]int{1: 500, 50: 50, 800: 10, 20_000: 1} {
			if visits == 20_000 && rules != "7x6x4" && !gametest.Soak() {
				continue
			}
			var before, after runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&before)
			c := mcts.DefaultConfig(mcts.PUCT)
			c.Visits, c.MaxNodes = visits, mcts.NodesFor(b, visits)
			trees := make([]*mcts.Tree, count)
			for i := range trees {
				trees[i] = tree(t, b, c, game.Position{})
			}
			gametest.OK(t, mcts.Search(t.Context(), evaluator(t, eval.Bitsquares), trees, mcts.Limits{Visits: visits, Batch: 64}))
			runtime.GC()
			runtime.ReadMemStats(&after)
			each, said := int(after.HeapAlloc-before.HeapAlloc)/count, mcts.TreeBytes(b, visits)
			t.Logf("%s, %d visits: %d bytes a tree, %d said", rules, visits, each, said)
			if each > said || rules == "7x6x4" && each < said/6 {
				t.Errorf("%s, %d visits: a tree holds %d bytes, TreeBytes says %d", rules, visits, each, said)
			}
			runtime.KeepAlive(trees)
		}
	}
}
