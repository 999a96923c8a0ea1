package gpu

import (
	"encoding/binary"

	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/kernels/cuda"
	"github.com/evald/evald/nn/net"
)

// fitHopper is fit for a kernel of hopper.h in kernels/cuda.
//
// Such a kernel serves a network on a board for batches of all sizes, or not at all: the order of its sums, and so the last bits
// of an answer, is another than that of the other kernels, and a row's answer must not depend on its batch or its device. tune
// decides.
func fitHopper(k cuda.Kernel, c net.Config, r game.Rules) (p plan, ok bool) {
	heads := 2 * c.HeadChannels
	// The outputs of the heads' convolution, and what the heads keep, take the place of a board.
	keep := 4 * (r.Cells()*k.Channels + kept(c, r))
	p = plan{Kernel: k, Boards: k.Rows / (cuda.HopperColumns * cuda.HopperRows), config: c, rules: r, channels: k.Channels, columns: k.Channels}
	fits := r.Columns <= cuda.HopperColumns && r.Rows <= cuda.HopperRows && keep <= k.Keep
	return p, fits && c.Channels <= k.Channels && heads <= k.Channels
}

// fitFew is fit for a kernel of few.h in kernels/cuda, which is for boards that its family's first kernel holds too.
func fitFew(k cuda.Kernel, c net.Config, r game.Rules) (p plan, ok bool) {
	for _, first := range cuda.Kernels() {
		if first.Family() == k.Family() {
			p, ok = fit(first, c, r)
			break
		}
	}
	keep := 4 * (64*r.Cells() + kept(c, r)) // the outputs of the heads' convolution are float32
	p.Kernel, p.Boards = k, k.Rows/cuda.FewRows
	return p, ok && r.Columns <= cuda.FewColumns && r.Rows*(r.Columns+1) <= cuda.FewRows && 2*c.HeadChannels <= 64 && keep <= k.Keep
}

// planHopper is the plan for the first kernel of hopper.h or hopper256.h that fits.
func planHopper(c net.Config, r game.Rules, on Target) (plan, bool) {
	for _, k := range cuda.Kernels() {
		if p, ok := fit(k, c, r); ok && k.Exact && k.Shared <= on.Shared && on.runs(k) {
			return p, true
		}
	}
	return plan{}, false
}

// hopperStem is the number of steps, of 16 inputs each, of the stem on Hopper.
const hopperStem = 3

// hopper appends the convolutions for a kernel of hopper.h, in fp16. The unit is a tile of 16 inputs and 64 outputs;
// tile in kernels/cuda/sm90.h says how it is arranged. Three tiles are a chunk: those of the rows of a 3x3 kernel, for one of
// its columns and the same 16 channels; or three successive steps of the stem, or of the first layers of both heads. Chunks for
// the second half of 128 outputs follow those for the first. For 256 outputs see hopperRows.
func (k *packer) hopper(p plan, n *net.Network, stem func(in, out int) float32, layers []string, heads func(in, out int) float32) {
	c := p.config
	successive := func(steps int, at func(in, out int) float32) {
		for step := 0; step < steps; step += 3 {
			for half := 0; half < p.channels; half += 64 {
				for i := range 3 {
					k.hopperTile(16*(step+i), half, at)
				}
			}
		}
	}
	if p.channels == 256 {
		k.hopperRows(p.stem, stem)
		for _, name := range layers {
			k.hopperRows(9*p.channels, conv3x3(n.Weight(name+".weight").Float32s(), c.Channels, p.channels, c.Channels))
		}
		k.hopperRows(p.channels, heads)
		return
	}
	successive(hopperStem, stem)
	for _, name := range layers {
		at := conv3x3(n.Weight(name+".weight").Float32s(), c.Channels, p.channels, c.Channels)
		for column := range 3 {
			for channel := 0; channel < p.channels; channel += 16 {
				for half := 0; half < p.channels; half += 64 {
					for row := range 3 {
						k.hopperTile((3*row+column)*p.channels+channel, half, at)
					}
				}
			}
		}
	}
	successive(p.channels/16, heads)
}

// hopperRows appends a matrix of inputs and 256 outputs for hopper256.h: for each 32 inputs in turn, and each 64 outputs, two tiles.
func (k *packer) hopperRows(inputs int, at func(in, out int) float32) {
	for in := 0; in < inputs; in += 32 {
		for out := 0; out < 256; out += 64 {
			k.hopperTile(in, out, at)
			k.hopperTile(in+16, out, at)
		}
	}
}

// hopperTile appends the tile that begins with an input and an output.
func (k *packer) hopperTile(in, out int, at func(in, out int) float32) {
	for row := range 16 {
		for part := range 8 {
			for i := range 8 {
				k.bytes = binary.LittleEndian.AppendUint16(k.bytes, f16(at(in+row, out+8*(part^row%8)+i)))
			}
		}
	}
}
