package gpu

import (
	"bytes"
	"strings"
	"testing"

	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/game/gametest"
	"github.com/evald/evald/kernels/cuda/emutest"
)

// clusterPlans is the plan for a network of hopper_256, and that of the same kernel in clusters.
func clusterPlans(t testing.TB, network string) (alone, cluster Plan) {
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
	e := hopperEmulator(t)
	const network = "1x160/8/16"
	n, board := scrambled(t, network, 3), game.MustBoard(game.Connect4)
	alone, cluster := clusterPlans(t, network)
	weights := pack(t, alone, n)
	b := alone.Boards
	pos := gametest.Positions(gametest.Rand(5), board, 4*b+1, false)
	want := emulate(t, e, alone, weights, pos, emulated{})
	for _, test := range []struct {
		n int
		d emulated
	}{
		{1, emulated{}},                           // one group, for one of two blocks
		{1, emulated{blocks: 4, order: 7}},        // a cluster without any
		{b, emulated{order: 1}},                   // one whole group
		{b + 1, emulated{order: 2}},               // two, one of which has one board
		{2, emulated{processors: 2, order: 3}},    // two of one board, which a warpgroup holds alone
		{2*b + 1, emulated{blocks: 2}},            // three, in one cluster, whose first block runs ahead
		{2*b + 1, emulated{blocks: 2, order: 1}},  // the second one does
		{4*b + 1, emulated{blocks: 2, order: 99}}, // either
		{4*b + 1, emulated{blocks: 4, order: 5}},  // five, in two clusters: the first has a round more
	} {
		got := emulate(t, e, cluster, weights, pos[:test.n], test.d)
		if !bytes.Equal(got, want[:test.n*alone.RowBytes()]) {
			t.Errorf("%d positions, %+v: rows differ", test.n, test.d)
		}
	}
}

// The emulation finds every mistake in what the blocks of a cluster owe each other, in every order.
func TestClusterMistakes(t *testing.T) {
	const arrive, count = "if (lane < S::CLUSTER) barrier_arrive_at", "S::CLUSTER * 4 * S::WORKERS"
	e := emutest.BuildChanged(t, t.TempDir(), []string{"-O1", "-march=native"}, []emutest.Change{
		{File: "emu/emu.h", Old: "#define DEVICE static inline\n", New: "#define DEVICE static inline\n" +
			`inline bool mistake(const char *name) { const char *of = getenv("MISTAKE"); return of && !strcmp(of, name); }` + "\n"},
		{File: "hopper256.cu", Old: "KERNEL(hopper_256, 384)(Job job) { hopper_wide<Hopper256<1>>(job); }", New: ""},
		{File: "hopper.h", Old: arrive, New: `if (lane < S::CLUSTER && (u32(lane) == block_rank() || !mistake("own release"))) barrier_arrive_at`},
		{File: "hopper.h", Old: count, New: `(mistake("own release") ? 1 : S::CLUSTER) * 4 * S::WORKERS`},
		{File: "hopper.h", Old: "if constexpr (S::CLUSTER > 1) fence_barriers()", New: `if (S::CLUSTER > 1 && !mistake("no fence")) fence_barriers()`},
		{File: "hopper.h", Old: "\telse\n\t\tsync_cluster();", New: `else if (mistake("no barrier at the start")) sync_block(); else sync_cluster();`},
		{File: "hopper.h", Old: "if constexpr (S::CLUSTER > 1) sync_cluster()", New: `if (S::CLUSTER > 1 && !mistake("no barrier at the end")) sync_cluster()`},
		{File: "hopper.h", Old: "barrier_wait(S::EMPTY", New: `if (!mistake("no wait")) barrier_wait(S::EMPTY`},
		{File: "hopper.h", Old: "barrier_expect(full, S::CHUNK)", New: `barrier_expect(full, mistake("own part announced") ? PART : S::CHUNK)`},
		{File: "hopper.h", Old: "part = rank<S>() * PART", New: `part = mistake("the same part") ? 0 : rank<S>() * PART`},
		{File: "hopper.h", Old: "first - rank<S>() * job.boards < job.n", New: `first - (mistake("own groups") ? 0 : rank<S>() * job.boards) < job.n`},
		{File: "hopper256.h", Old: "pass<S>(ring, S::chunks", New: `if (!mistake("no pass")) pass<S>(ring, S::chunks`},
	}, "hopper256.cu", "emu/emu.cpp", "emu/sm90.cpp", "emu/main.cpp")
	const network = "1x130/3/5"
	n, board := scrambled(t, network, 3), game.MustBoard(game.Connect4)
	_, cluster := clusterPlans(t, network)
	weights := pack(t, cluster, n)
	pos := gametest.Positions(gametest.Rand(5), board, 3, true) // three groups of one board
	var want []byte
	for _, test := range []struct{ mistake, says string }{ // nothing is said if rows are wrong
		{"", ""},
		{"own release", "changed while a product used it"},
		{"no fence", "has not called fence_barriers"},
		{"no barrier at the start", "there is no barrier at"},
		{"no barrier at the end", "which has ended"},
		{"no wait", "more arrivals than threads it waits for"},
		{"own part announced", "gets more bytes than were announced"},
		{"the same part", ""},
		{"own groups", "deadlock"},
		{"no pass", "deadlock"},
	} {
		t.Setenv("MISTAKE", test.mistake)
		for _, order := range []uint32{1, 7} {
			got, log, err := launch(cluster, weights, pos, emulated{processors: len(pos), blocks: 2, order: order}).Output(e)
			switch {
			case test.mistake == "":
				if err != nil || want != nil && !bytes.Equal(got, want) {
					t.Fatalf("without a mistake in order %d: %v, %s", order, err, log)
				}
				want = got
			case err == nil == (test.says != "") || !strings.Contains(log, test.says) || bytes.Equal(got, want):
				t.Errorf("%s in order %d: %v, %q, want %q; the same rows: %v", test.mistake, order, err, log, test.says, bytes.Equal(got, want))
			}
		}
	}
}
