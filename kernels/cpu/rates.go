package cpu

import (
	"math/rand/v2"
	"runtime"
	"slices"
	"time"
)

// trialBytes is the approximate memory of a trial network. It exceeds any cache, and so would more blocks.
const trialBytes = 64 << 20

// Rates measures how many positions per second one thread computes, for each of Paths except plain Go, which is many times slower. The
// trial network has the given numbers of blocks and channels. As in a trained network, most inputs of its second convolutions are zero; for
// paths with 8 bits it has ranges. For 6x64, Rates takes about 150 ms.
func Rates(blocks, channels int) map[Path]float64 {
	const rows, columns = 6, 7
	r := rand.New(rand.NewPCG(3, 4))
	n := trialNetwork(r, channels)
	var trials []func()
	var counts []int
	for _, p := range measured() {
		k, err := p.kernel()
		if err != nil {
			panic(err) // it is one of Paths
		}
		t := newTower(n, k)
		t.repeat(min(blocks, max(2, trialBytes/(2*4*points*points*channels*channels))))
		s := t.NewScratch(rows, columns)
		x := randomPlanes(r, s.Positions, rows, columns)
		trials = append(trials, func() { t.Forward(s, x, s.Positions) })
		counts = append(counts, s.Positions)
	}
	runtime.LockOSThread() // for threadTime
	defer runtime.UnlockOSThread()
	rates := map[Path]float64{}
	for i, least := range turns(trials, threadTime) {
		rates[measured()[i]] = float64(counts[i]) / max(least, time.Nanosecond).Seconds()
	}
	return rates
}

// trialNetwork returns one block. Its second convolution has mostly zero inputs. It keeps the residual stream the same from block to block,
// with three values in a thousand beyond their ranges.
func trialNetwork(r *rand.Rand, channels int) Network {
	n := randomNetwork(r, channels, 32, 64, 1.6)
	clear(n.Blocks[0][1].Weight)
	clear(n.Blocks[0][1].Bias)
	n.Ranges = [][]float32{slices.Repeat([]float32{3.5}, channels)}
	return n
}

// repeat appends copies of the first block, with their own weights, until the tower has the given number of blocks.
func (t *Tower) repeat(blocks int) {
	for len(t.blocks) < blocks {
		t.blocks = append(t.blocks, [2]block{t.blocks[0][0].clone(), t.blocks[0][1].clone()})
	}
}

// measured returns the paths that Rates measures.
func measured() []Path { return slices.DeleteFunc(Paths(), func(p Path) bool { return p == Go }) }

// turns runs the trials in turn, several times, and returns the minimum time of each, because other load on the machine can only increase
// times.
func turns(trials []func(), clock func() time.Duration) []time.Duration {
	const fewest, most, enough = 5, 50, 50 * time.Millisecond
	least := make([]time.Duration, len(trials))
	sum := time.Duration(0) // of the minimum times
	for round := 0; round < fewest || round < most && time.Duration(round)*sum < enough; round++ {
		for i, run := range trials {
			run() // loads the trial's weights into the cache, as in long batches
			start := clock()
			run()
			if took := clock() - start; round == 0 || took < least[i] {
				sum += took - least[i]
				least[i] = took
			}
		}
	}
	return least
}

var start = time.Now()

func sinceStart() time.Duration { return time.Since(start) }

// clone returns the block with its own copy of the weights.
func (b block) clone() block {
	b.dense, b.atPoints = b.dense.clone(), b.atPoints.clone()
	if b.int8 != nil {
		q := *b.int8
		q.layer, b.int8 = q.layer.clone(), &q
	}
	if b.sparse != nil {
		l := *b.sparse
		l.layer, b.sparse = l.layer.clone(), &l
	}
	return b
}

func (l *layer) clone() *layer {
	if l == nil {
		return nil
	}
	c := *l
	c.weights = aligned(len(l.weights))
	copy(c.weights, l.weights)
	return &c
}
