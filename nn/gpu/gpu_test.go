package gpu

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"testing"
	"unsafe"

	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/eval/evaltest"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/game/gametest"
	"github.com/evald/evald/kernels/cuda"
	"github.com/evald/evald/kernels/cuda/emutest"
	"github.com/evald/evald/models"
	"github.com/evald/evald/nn/net"
)

// programs is the folder in which emulators are built, each once.
var programs string

func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == trialCommand {
		if err := Trial(os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	var err error
	if programs, err = os.MkdirTemp("", "evald-gpu"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := 1
	if err = install(programs); err != nil {
		fmt.Fprintln(os.Stderr, err)
	} else {
		code = m.Run()
	}
	os.RemoveAll(programs)
	os.Exit(code)
}

// trialCommand makes this program a process that tries kernels.
const trialCommand = "gpu-trial"

// trialProgram is Options.Trial of tests.
func trialProgram(t testing.TB) []string {
	t.Helper()
	return []string{gametest.Must(os.Executable())(t), trialCommand}
}

// soakOnly skips a case that only make soak has.
func soakOnly(t *testing.T, only bool) {
	if only && !gametest.Soak() {
		t.Skip("for make soak")
	}
}

// emulator runs every kernel, one launch in a process. The race detector sees nothing of it.
func emulator(t *testing.T) emutest.Emulator {
	t.Helper()
	if gametest.Race {
		t.Skip("kernels have no goroutines")
	}
	return emutest.All(t, programs)
}

// hopper is an H100 or H200, ampere an A100, geforce a card for games, and small one with the shared memory that every GPU
// has.
var (
	hopper  = Target{9, 0, 227 << 10, 132}
	ampere  = Target{8, 0, 163 << 10, 108}
	geforce = Target{8, 6, 99 << 10, 84}
	small   = Target{8, 0, 48 << 10, 4}
)

func planFor(t testing.TB, c net.Config, r game.Rules, on Target, kernel string) plan {
	t.Helper()
	p := gametest.Must(newPlan(c, r, on))(t)
	if p.Kernel.Name != kernel {
		t.Fatalf("network %s on board %s is planned for %s, want %s", c, r, p.Kernel.Name, kernel)
	}
	return p
}

func config(t testing.TB, text string) net.Config {
	t.Helper()
	c := gametest.Must(net.ParseConfig(text))(t)
	return c
}

func scrambled(t testing.TB, text string, seed uint64) *net.Network {
	t.Helper()
	n := gametest.Must(net.NewScrambled(config(t, text), seed))(t)
	return n
}

// emulated says how a launch is emulated.
type emulated struct {
	processors int    // multiprocessors that share the positions
	blocks     int    // of the grid, made whole clusters; 0: one per group
	order      uint32 // of warps and lanes
}

// emulate answers positions on the emulated device, and returns the rows of bytes that the kernel wrote. The memory for rows
// has room for another one, and emulate checks that the kernel leaves that unchanged.
func emulate(t *testing.T, e emutest.Emulator, p plan, weights []byte, pos []game.Position, d emulated) []byte {
	t.Helper()
	job := p.Job(len(pos), max(1, d.processors))
	numbers := (*[unsafe.Sizeof(job)]byte)(unsafe.Pointer(&job))[unsafe.Offsetof(job.N):]
	positions := make([]byte, p.PositionBytes()*len(pos))
	for i, at := range pos {
		p.PutPosition(positions[i*p.PositionBytes():], at)
	}
	cluster := p.Kernel.Cluster
	if d.blocks == 0 {
		d.blocks = job.Groups() * cluster
	}
	rows := p.RowBytes() * len(pos)
	out := e.Run(t, emutest.Launch{
		Kernel: p.Kernel.Name, Blocks: ceil(d.blocks, cluster) * cluster, Shared: p.Kernel.Shared, Order: d.order, Job: numbers,
		Weights: weights, Pos: positions, Out: rows + p.RowBytes(), Scratch: p.Scratch,
	})
	if tail := out[rows:]; !bytes.Equal(tail, bytes.Repeat([]byte{0xcd}, len(tail))) {
		t.Fatalf("%s writes past its %d rows", p.Kernel.Name, len(pos))
	}
	return out[:rows]
}

// read returns the answers as a batch.
func read(t testing.TB, p plan, board *game.Board, pos []game.Position, rows []byte) *eval.Batch {
	t.Helper()
	b := eval.NewBatch(board, len(pos))
	copy(b.Pos, pos)
	for i := range pos {
		gametest.OK(t, p.ReadAnswer(b, i, rows[i*p.RowBytes():(i+1)*p.RowBytes()]))
	}
	return b
}

// reference returns the answers of nn/net.
func reference(t testing.TB, n *net.Network, board *game.Board, pos []game.Position) *eval.Batch {
	t.Helper()
	b := eval.NewBatch(board, len(pos))
	copy(b.Pos, pos)
	gametest.OK(t, evaltest.Raw(net.NewBackend(n)).Evaluate(context.Background(), b))
	return b
}

// tolerance is how far, at the 99th percentile, a kernel's probabilities may be from the reference's. Rounding to fp16 moves
// them by half of that in networks of random weights.
const tolerance = 0.001

// compare checks the accuracy bounds: at the 99th percentile (for few rows: at most) the probabilities of win, draw and
// loss, and those of the policy, are within the tolerance. If the reference prefers its best move to all others by more than
// that, the best move is the same; two moves that are nearer may change places in a kernel that is right. Rows must sum to
// one, and illegal moves must have probability zero.
func compare(t testing.TB, got, want *eval.Batch) {
	t.Helper()
	compareWithin(t, tolerance, tolerance, got, want)
}

// compareWithin is compare with other bounds: one of win, draw and loss, and one of the policy.
func compareWithin(t testing.TB, ofWDL, ofPolicy float64, got, want *eval.Batch) {
	t.Helper()
	var wdl, policy []float64
	flips, widest := 0, 0.0
	for i, at := range got.Pos {
		if want.Source[i] == eval.Terminal {
			continue
		}
		wdl = append(wdl, apart(got.WDLRow(i), want.WDLRow(i)))
		policy = append(policy, apart(got.PolicyRow(i), want.PolicyRow(i)))
		if now, then := best(got.PolicyRow(i)), best(want.PolicyRow(i)); now != then {
			margin := float64(want.PolicyRow(i)[then]) - float64(want.PolicyRow(i)[now])
			flips, widest = flips+1, max(widest, margin)
			if margin > ofPolicy {
				t.Errorf("row %d: the best move is %d in place of %d, which is better by %.5f", i, now, then, margin)
			}
		}
		for a, p := range got.PolicyRow(i) {
			if p != 0 && !got.Board.CanPlay(at, a) {
				t.Errorf("row %d gives illegal move %d probability %g", i, a, p)
			}
		}
		for name, row := range map[string][]float32{"win, draw and loss": got.WDLRow(i), "policy": got.PolicyRow(i)} {
			sum := 0.0
			for _, x := range row {
				sum += float64(x)
			}
			if math.Abs(sum-1) > 1e-6 {
				t.Errorf("row %d: %s sum to %.9g", i, name, sum)
			}
		}
	}
	if len(wdl) == 0 {
		t.Fatal("no row to compare")
	}
	slices.Sort(wdl)
	slices.Sort(policy)
	at := len(wdl) * 99 / 100
	if wdl[at] > ofWDL || policy[at] > ofPolicy {
		t.Errorf("99th percentile of the difference: WDL %.5f, policy %.5f, want at most %g and %g", wdl[at], policy[at], ofWDL, ofPolicy)
	}
	t.Logf("%d rows: WDL within %.5f at the 99th percentile, %.5f at most; policy %.5f, %.5f; %d best moves differ, by at most %.5f",
		len(wdl), wdl[at], wdl[len(wdl)-1], policy[at], policy[len(policy)-1], flips, widest)
}

func apart(x, y []float32) float64 {
	d := 0.0
	for i := range x {
		d = max(d, math.Abs(float64(x[i])-float64(y[i])))
	}
	return d
}

func best(policy []float32) int { return slices.Index(policy, slices.Max(policy)) }

// Every kernel agrees with the reference, on boards and networks of all kinds.
func TestKernelsAgreeWithReference(t *testing.T) {
	e := emulator(t)
	for _, test := range []struct {
		net    string
		rules  game.Rules
		like   Target
		kernel string
		n      int
	}{
		{"2x16/8/16", game.Connect4, hopper, "tower_64", 13},
		{"3x50/20/30", game.Rules{Rows: 5, Columns: 9, InARow: 4, Gravity: true}, geforce, "tower_64_half", 7},
		{"2x64", game.Rules{Rows: 3, Columns: 3, InARow: 3}, hopper, "tower_64", 60},
		{"1x32", game.Rules{Rows: 10, Columns: 11, InARow: 5, Gravity: true}, hopper, "tower_64", 6},
		{"1x128", game.Connect4, hopper, "tower_128", 7},
		{"2x100", game.Connect4, geforce, "tower_128_half", 4},
		{"1x96", game.Rules{Rows: 4, Columns: 4, InARow: 4, Gravity: true}, geforce, "tower_128_half", 10},
		{"1x256", game.Connect4, hopper, "tower_256", 4},
		{"1x200", game.Connect4, geforce, "tower_256_half", 2},
		{"2x20/70/9", game.Rules{Rows: 4, Columns: 5, InARow: 3, Gravity: true}, hopper, "tower_256", 7},
		{"1x16/32/4000", game.Connect4, hopper, "tower_64", 5},
		{"2x24/130/20", game.Connect4, hopper, "tower_any", 3},
		{"1x32", game.Rules{Rows: 9, Columns: 9, InARow: 5}, small, "tower_any", 3},
	} {
		t.Run(fmt.Sprintf("%s on %s by %s", test.net, test.rules, test.kernel), func(t *testing.T) {
			n, board := scrambled(t, test.net, 7), game.MustBoard(test.rules)
			p := planFor(t, n.Config(), test.rules, test.like, test.kernel)
			pos := gametest.Positions(gametest.Rand(11), board, test.n, true)
			rows := emulate(t, e, p, mustPack(t, p, n), pos, emulated{blocks: 2})
			compare(t, read(t, p, board, pos, rows), reference(t, n, board, pos))
		})
	}
}

// The network that ships and, in make soak, four of random weights keep the accuracy bounds on many positions.
func TestAccuracy(t *testing.T) {
	e, board := emulator(t), game.MustBoard(game.Connect4)
	for _, test := range []struct {
		name   string
		n      *net.Network
		rows   int
		within float64
		soak   bool
	}{
		{"default", shipped(t), 24, 2 * tolerance, false}, // trained, so its logits are larger; see LOG.md of kernels/cuda
		{"default", shipped(t), 240, 2 * tolerance, true},
		{"6x64, seed 1", scrambled(t, "6x64", 1), 240, tolerance, true},
		{"6x64, seed 2", scrambled(t, "6x64", 2), 240, tolerance, true},
		{"10x64, seed 3", scrambled(t, "10x64", 3), 120, tolerance, true},
		{"10x128, seed 4", scrambled(t, "10x128", 4), 60, tolerance, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			soakOnly(t, test.soak)
			p := gametest.Must(newPlan(test.n.Config(), game.Connect4, hopper))(t)
			pos := gametest.Positions(gametest.Rand(12), board, test.rows, true)
			rows := emulate(t, e, p, mustPack(t, p, test.n), pos, emulated{blocks: 1})
			compareWithin(t, test.within, test.within, read(t, p, board, pos, rows), reference(t, test.n, board, pos))
		})
	}
}

// fp16 holds what the shipped networks compute, with room to spare.
func TestShippedNetworkFits(t *testing.T) {
	gametest.OneGoroutine(t)
	n, board := shipped(t), game.MustBoard(game.Connect4)
	greatest, where := float32(0), ""
	for _, at := range gametest.Positions(gametest.Rand(13), board, 20, false) {
		planes := make([]float32, net.PlanesSize(board, 1))
		net.Planes(board, []game.Position{at}, planes)
		n.Trace(planes, board.Rows(), board.Columns(), func(layer string, values []float32) {
			if x := slices.Max(values); x > greatest {
				greatest, where = x, layer
			}
		})
	}
	t.Logf("the greatest activation is %.0f, in %s", greatest, where)
	if greatest > f16Overflow/50 {
		t.Errorf("%s: an activation of %g, want at most a fiftieth of what overflows", where, greatest)
	}
}

func shipped(t testing.TB) *net.Network {
	t.Helper()
	file, _, err := models.Open("default")
	if err != nil {
		t.Fatal(err)
	}
	n := gametest.Must(net.Parse(file))(t)
	return n
}

// A row has the same bits in any batch and with any schedule of threads and blocks. No launch reads memory that was not
// written, or writes where it must not. Each day has half of the kernels.
func TestRowsDoNotDependOnTheirBatch(t *testing.T) {
	e := emulator(t)
	for i, kernel := range []string{"tower_64", "tower_64_half", "hopper_64", "tower_any", "hopper_128", "hopper_256"} {
		if !gametest.Today(t, i, 2) {
			continue
		}
		t.Run(kernel, func(t *testing.T) {
			text := map[string]string{"hopper_128": "1x80/8/16", "hopper_256": "1x160/8/16"}[kernel]
			n, board := scrambled(t, cmp.Or(text, "1x16/8/16"), 3), game.MustBoard(game.Connect4)
			p := gametest.Must(planOnly(kernel, n.Config(), game.Connect4, hopper))(t)
			weights := mustPack(t, p, n)
			pos := gametest.Positions(gametest.Rand(5), board, p.Boards+3, false)
			whole := emulate(t, e, p, weights, pos, emulated{})
			for name, d := range map[string]emulated{
				"shuffled, one block a time":            {blocks: 1, order: 99},
				"descending, more blocks than boards":   {blocks: len(pos) + 1, order: 1},
				"a processor each":                      {processors: len(pos), blocks: 5},
				"more processors than boards, shuffled": {processors: 1000, order: 3},
			} {
				if !bytes.Equal(whole, emulate(t, e, p, weights, pos, d)) {
					t.Errorf("%s: rows differ", name)
				}
			}
			for _, cut := range [][2]int{{0, 1}, {2, len(pos)}} {
				part := emulate(t, e, p, weights, pos[cut[0]:cut[1]], emulated{})
				if !bytes.Equal(part, whole[cut[0]*p.RowBytes():cut[1]*p.RowBytes()]) {
					t.Errorf("rows %d to %d differ from those of the whole batch", cut[0], cut[1]-1)
				}
			}
		})
	}
}

// The wide kernels answer with the same bits as the tower.
func TestWideEqualsTower(t *testing.T) {
	e := emulator(t)
	boards := []game.Rules{game.Connect4, {Rows: 5, Columns: 9, InARow: 4, Gravity: true}, game.TicTacToe}
	for i, k := range cuda.Kernels() {
		if !k.Few || k.Exact {
			continue
		}
		rules := boards[i%len(boards)]
		n, board := scrambled(t, map[int]string{64: "2x50/20/30", 128: "1x100", 256: "1x200"}[k.Channels], 7), game.MustBoard(rules)
		tower := gametest.Must(newPlan(n.Config(), rules, hopper))(t)
		p, ok := fit(k, n.Config(), rules)
		if !ok {
			t.Fatalf("%s does not hold a board %s", k.Name, rules)
		}
		pos := gametest.Positions(gametest.Rand(11), board, 2*p.Boards+1, true)
		weights := mustPack(t, p, n)
		want := emulate(t, e, tower, weights, pos, emulated{})
		for _, d := range []emulated{{blocks: 1, order: 1}, {processors: len(pos), order: 7}} {
			if !bytes.Equal(want, emulate(t, e, p, weights, pos, d)) {
				t.Errorf("%s on %s, %+v: rows are not those of %s", k.Name, rules, d, tower.Kernel.Name)
			}
		}
	}
}

// The sanitised build, with one kernel of each template, detects accesses outside of memory and undefined behaviour of C++. Each day has half
// of the cases.
func TestSanitised(t *testing.T) {
	if testing.Short() {
		t.Skip("slow")
	}
	e := emutest.Build(t, t.TempDir(), emutest.Sanitised, "emu/half.cu", "any.cu", "hopper64.cu", "hopper256.cu", "emu/emu.cpp", "emu/sm90.cpp", "emu/main.cpp")
	for i, test := range []struct {
		net    string
		rules  game.Rules
		kernel string
		n      int
		soak   bool // a minute
	}{
		{"1x16/3/5", game.Connect4, "tower_64_half", 7, false},
		{"1x16/3/5", game.Rules{Rows: 9, Columns: 9, InARow: 5}, "tower_64_half", 4, false},
		{"1x16/3/5", game.TicTacToe, "tower_any", 2, false},
		{"1x16/3/5", game.Connect4, "hopper_64", 3, false},
		{"1x16/3/5", game.Connect4, "wide_64", 3, false},
		{"1x130/3/5", game.Connect4, "hopper_256", 1, false},
		{"1x16/3/5", game.Connect4, "few_64", 1, false},
		{"1x130/3/5", game.Connect4, "few_256", 3, true}, // few_64 is of this template; TestFewEqualsHopper has the cluster
	} {
		if test.soak && !gametest.Soak() || !gametest.Today(t, i, 2) {
			continue
		}
		n, board := scrambled(t, test.net, 3), game.MustBoard(test.rules)
		p := gametest.Must(planOnly(test.kernel, n.Config(), test.rules, hopper))(t)
		pos := gametest.Positions(gametest.Rand(5), board, test.n, true)
		rows := emulate(t, e, p, mustPack(t, p, n), pos, emulated{blocks: p.Kernel.Cluster})
		compare(t, read(t, p, board, pos, rows), reference(t, n, board, pos))
	}
}

// A network whose output is not finite gives errors, not numbers. So does one with an activation that fp16 cannot hold,
// although relu makes 0 of all that comes of it.
func TestNotFinite(t *testing.T) {
	e := emulator(t)
	infinite := float32(math.Inf(1))
	for _, test := range []struct {
		name   string
		value  float32
		all    bool // not of tower_64 alone, as the others keep the heads' convolution in float32
		finite bool
	}{
		{"value.wdl.bias", infinite, true, false},
		{"policy.logit.bias", infinite, true, false},
		{"stem.bias", infinite, true, false},
		{"stem.bias", 66_000, true, false},
		{"blocks.0.conv1.bias", 66_000, true, false},
		{"blocks.0.conv2.bias", 66_000, true, false},
		{"value.conv.bias", 66_000, false, false},
		{"blocks.0.conv1.bias", 65_000, true, true},
		{"blocks.0.conv1.bias", -1e9, true, true},
	} {
		for _, kernel := range []string{"tower_any", "tower_64", "hopper_64", "few_64"} {
			if kernel != "tower_64" && !test.all {
				continue
			}
			n, board := scrambled(t, "1x16/8/16", 3), game.MustBoard(game.Connect4)
			p, err := planOnly(kernel, n.Config(), game.Connect4, hopper)
			if err != nil {
				t.Fatal(err)
			}
			n.Weight(test.name).Float32s()[0] = test.value
			w := n.Weight("blocks.0.conv2.weight").Float32s() // [16,16,3,3]
			for i := range w {
				if i/9%16 == 0 {
					w[i] = -1e-3
				}
			}
			pos := []game.Position{{}}
			rows := emulate(t, e, p, mustPack(t, p, n), pos, emulated{blocks: 1})
			status := binary.LittleEndian.Uint32(rows) >> 28
			err = p.ReadAnswer(eval.NewBatch(board, 1), 0, rows)
			if test.finite {
				if status != answered || err != nil {
					t.Errorf("%s: %s %g: answer %x, %v", kernel, test.name, test.value, rows, err)
				}
				continue
			}
			if status != notFinite || !bytes.Equal(rows[4:], make([]byte, len(rows)-4)) || !errors.Is(err, eval.ErrNotFinite) {
				t.Errorf("%s: %s %g: answer %x, %v", kernel, test.name, test.value, rows, err)
			}
		}
	}
}

// If only a win or a draw is possible, rounding both up must not make their sum exceed one.
func TestWinAndDrawAreAtMostOne(t *testing.T) {
	e := emulator(t)
	n, board := scrambled(t, "1x16/8/16", 3), game.MustBoard(game.TicTacToe)
	n.Weight("value.wdl.bias").Float32s()[2] = -1000
	p := planFor(t, n.Config(), game.TicTacToe, small, "tower_any")
	pos := gametest.Positions(gametest.Rand(1), board, 100, true)
	rows := emulate(t, e, p, mustPack(t, p, n), pos, emulated{blocks: 1})
	got := read(t, p, board, pos, rows)
	for i := range pos {
		if wdl := got.WDLRow(i); wdl[0]+wdl[1] > 1 || wdl[2] > 1.0/(1<<24) {
			t.Errorf("row %d: win, draw, loss %v", i, wdl)
		}
	}
}
