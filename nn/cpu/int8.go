package cpu

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"gorgonia.org/tensor"

	"github.com/evald/evald/engine/game"
	kernel "github.com/evald/evald/kernels/cpu"
	"github.com/evald/evald/nn/net"
)

// beyondRange is the ratio of a channel's values to those that exceed its range. A smaller ratio makes the steps finer, and leaves more
// values to float32.
const beyondRange = 512

// Int8 returns a copy of a network for paths with 8 bits (kernels/cpu). It measures ranges on the positions, which should be typical of
// later requests. It rounds weights to the steps of 8 bits, so the copy's answers differ slightly from the network's, on all paths. A
// symmetric network stays symmetric. Int8 uses one thread; its only error is that of ctx.
func Int8(ctx context.Context, n *net.Network, b *game.Board, positions []game.Position) (*net.Network, error) {
	ranges, err := measureRanges(ctx, n, b, positions)
	if err != nil {
		return nil, err
	}
	copied := map[string]*tensor.Dense{}
	for _, s := range n.Config().Specs() {
		copied[s.Name] = n.Weight(s.Name).Clone().(*tensor.Dense)
	}
	for i, r := range ranges {
		if n.Symmetric() { // channels 2c and 2c+1 are mirror images of each other; with equal ranges, so are their rounded weights
			for c := 1; c < len(r); c += 2 {
				r[c-1], r[c] = max(r[c-1], r[c]), max(r[c-1], r[c])
			}
		}
		kernel.RoundInt8(copied["blocks."+strconv.Itoa(i)+".conv1.weight"].Float32s(), n.Config().Channels, r)
	}
	rounded, err := net.FromWeights(n.Config(), copied)
	if err != nil {
		return nil, err
	}
	maps.Copy(rounded.Metadata, n.Metadata)
	rounded.SetRanges(ranges)
	return rounded, nil
}

// measureRanges returns, for each block and input channel, the value that one in beyondRange values exceeds.
func measureRanges(ctx context.Context, n *net.Network, b *game.Board, positions []game.Position) ([][]float32, error) {
	e, err := NewPath(n, kernel.Float32())
	if err != nil {
		return nil, err
	}
	cells, channels := b.Cells(), n.Config().Channels
	largest := make([][]top, n.Config().Blocks)
	for i := range largest {
		for range channels {
			largest[i] = append(largest[i], top{limit: len(positions)*cells/beyondRange + 1})
		}
	}
	s := e.tower.NewScratch(b.Rows(), b.Columns())
	s.Trace = func(layer string, _ int, values []float32) {
		block := 0
		if number, ok := strings.CutPrefix(layer, "blocks."); ok {
			block, _ = strconv.Atoi(number)
			block++
		} else if layer != "stem" {
			return
		}
		if block == len(largest) {
			return
		}
		for c := range channels {
			largest[block][c].add(values[c*cells : (c+1)*cells])
		}
	}
	planes := make([]float32, net.PlanesSize(b, s.Positions))
	for some := range slices.Chunk(positions, s.Positions) {
		if err := ctx.Err(); err != nil {
			return nil, fmt.Errorf("measure ranges: %w", err)
		}
		of := planes[:net.PlanesSize(b, len(some))]
		net.Planes(b, some, of)
		e.tower.Forward(s, of, len(some))
	}
	ranges := make([][]float32, len(largest))
	for i, channels := range largest {
		for c := range channels {
			ranges[i] = append(ranges[i], max(channels[c].last(), leastRange))
		}
	}
	return ranges, nil
}

// leastRange is the range of a channel whose values are all zero or nearly so.
const leastRange = 1e-3

// top keeps the largest values of those that were added.
type top struct {
	limit  int
	values []float32
}

func (t *top) add(values []float32) {
	t.values = append(t.values, values...)
	if len(t.values) >= 4*t.limit+len(values) {
		t.cut()
	}
}

func (t *top) cut() {
	slices.SortFunc(t.values, func(a, b float32) int { return cmp.Compare(b, a) })
	t.values = t.values[:min(t.limit, len(t.values))]
}

// last returns the smallest value that top keeps.
func (t *top) last() float32 {
	t.cut()
	if len(t.values) == 0 {
		return 0
	}
	return t.values[len(t.values)-1]
}
