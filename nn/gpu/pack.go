package gpu

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/evald/evald/nn/net"
)

// pack returns the network's weights in the format of the plan's kernel, the same bytes on every machine. The error names a
// weight that is too large for fp16. pack panics if the network does not have the plan's configuration.
//
// First come the convolutions, in fp16: stem, blocks, and the first layers of both heads as one. Each is a matrix of inputs
// by outputs, padded with zeros. Inputs are ordered by tap (kernel row, kernel column) and then by channel. The matrix is
// cut into tiles of 16 by 16; the tiles of the same 16 inputs are adjacent, and a tile has the 8 numbers of each lane of a
// warp in turn (mma in device.h). For Hopper, hopperTile and its callers cut them otherwise. Then come all other numbers as float32, in
// the order of Parameters in heads.h.
func pack(p plan, n *net.Network) ([]byte, error) {
	if n.Config() != p.config {
		panic("gpu: plan of " + p.config.String() + " for a network of " + n.Config().String())
	}
	c := p.config
	weight := func(name string) []float32 { return n.Weight(name + ".weight").Float32s() }
	bias := func(name string) []float32 { return n.Weight(name + ".bias").Float32s() }
	var layers []string
	for _, s := range c.Specs() {
		name, ok := strings.CutSuffix(s.Name, ".weight")
		if !ok || len(s.Shape) != 4 {
			continue
		}
		for i, x := range weight(name) {
			if math.Abs(float64(x)) >= f16Overflow {
				return nil, fmt.Errorf("gpu: %s[%d] is %g, and GPUs multiply in float16, up to 65504: take the CPU", s.Name, i, x)
			}
		}
		if strings.HasPrefix(name, "blocks.") {
			layers = append(layers, name)
		}
	}

	stem := conv3x3(weight("stem"), net.PlaneCount, net.PlaneCount, c.Channels)
	var convs []matrix
	for _, name := range layers {
		convs = append(convs, conv3x3(weight(name), c.Channels, p.channels, c.Channels))
	}
	both := slices.Concat(weight("value.conv"), weight("policy.conv")) // [2V,C]
	heads := func(in, out int) float32 {
		if in >= c.Channels || out >= 2*c.HeadChannels {
			return 0
		}
		return both[out*c.Channels+in]
	}
	k := &packer{}
	switch {
	case !p.Kernel.Exact:
		k.warps(p.stem, p.channels, stem)
		for _, at := range convs {
			k.warps(9*p.channels, p.channels, at)
		}
		k.warps(p.channels, p.columns, heads)
	case p.channels == 256:
		k.hopperRows(p.stem, stem)
		for _, at := range convs {
			k.hopperRows(9*p.channels, at)
		}
		k.hopperRows(p.channels, heads)
	default:
		k.hopperSteps(hopperStem, p.channels, stem)
		for _, at := range convs {
			k.hopperColumns(p.channels, at)
		}
		k.hopperSteps(p.channels/16, p.channels, heads)
	}

	k.floats(p.channels, bias("stem"))
	for _, name := range layers {
		k.floats(p.channels, bias(name))
	}
	k.floats(c.HeadChannels, bias("value.conv"))
	k.floats(p.columns-c.HeadChannels, bias("policy.conv"))
	k.floats(2*c.HeadChannels*c.Hidden, transposed(weight("value.fc"), c.Hidden))
	for _, numbers := range [][]float32{
		bias("value.fc"), weight("value.wdl"), bias("value.wdl"), weight("policy.logit"), bias("policy.logit"),
	} {
		k.floats(len(numbers), numbers)
	}
	return k.bytes, nil
}

// matrix is the number of an input and an output, 0 where it is padding.
type matrix func(in, out int) float32

// conv3x3 returns weights [O,I,3,3] as a matrix whose inputs are [tap][stride], with zeros for missing outputs and channels.
func conv3x3(weights []float32, in, stride, out int) matrix {
	return func(k, o int) float32 {
		tap, i := k/stride, k%stride
		if tap >= 9 || i >= in || o >= out {
			return 0
		}
		return weights[(o*in+i)*9+tap]
	}
}

// transposed returns [rows,columns] as [columns,rows].
func transposed(x []float32, rows int) []float32 {
	columns := len(x) / rows
	y := make([]float32, len(x))
	for i, v := range x {
		y[i%columns*rows+i/columns] = v
	}
	return y
}

type packer struct{ bytes []byte }

// warps appends a matrix of inputs by outputs, both multiples of 16, for the kernels of all GPUs.
func (k *packer) warps(inputs, outputs int, at matrix) {
	for i := 0; i < inputs; i += 16 {
		for o := 0; o < outputs; o += 16 {
			for lane := range 32 {
				g, t := lane/4, lane%4
				for half := range 2 {
					for _, in := range [...]int{2 * t, 2*t + 1, 2*t + 8, 2*t + 9} {
						k.bytes = binary.LittleEndian.AppendUint16(k.bytes, f16(at(i+in, o+8*half+g)))
					}
				}
			}
		}
	}
}

// hopperStem is the number of steps, of 16 inputs each, of the stem on Hopper.
const hopperStem = 3

// The kernels of hopper.h take chunks of three tiles of 16 inputs and 64 outputs. tile in kernels/cuda/sm90.h says how a tile is
// arranged. Chunks for the second half of 128 outputs follow those for the first. For 256 outputs see hopperRows.

// hopperSteps appends the stem, or the first layers of both heads: a chunk is three successive steps of 16 inputs.
func (k *packer) hopperSteps(steps, outputs int, at matrix) {
	for step := 0; step < steps; step += 3 {
		for half := 0; half < outputs; half += 64 {
			for i := range 3 {
				k.hopperTile(16*(step+i), half, at)
			}
		}
	}
}

// hopperColumns appends a 3x3 convolution: a chunk is the rows of the 3x3 kernel, for one of its columns and the same 16 channels.
func (k *packer) hopperColumns(channels int, at matrix) {
	for column := range 3 {
		for channel := 0; channel < channels; channel += 16 {
			for half := 0; half < channels; half += 64 {
				for row := range 3 {
					k.hopperTile((3*row+column)*channels+channel, half, at)
				}
			}
		}
	}
}

// hopperRows appends a matrix of inputs and 256 outputs for hopper256.h: for each 32 inputs in turn, and each 64 outputs, two tiles.
func (k *packer) hopperRows(inputs int, at matrix) {
	for in := 0; in < inputs; in += 32 {
		for out := 0; out < 256; out += 64 {
			k.hopperTile(in, out, at)
			k.hopperTile(in+16, out, at)
		}
	}
}

// hopperTile appends the tile that begins with an input and an output.
func (k *packer) hopperTile(in, out int, at matrix) {
	for row := range 16 {
		for part := range 8 {
			for i := range 8 {
				k.bytes = binary.LittleEndian.AppendUint16(k.bytes, f16(at(in+row, out+8*(part^row%8)+i)))
			}
		}
	}
}

// floats appends n numbers: the given ones, and then zeros.
func (k *packer) floats(n int, numbers []float32) {
	for i := range n {
		x := float32(0)
		if i < len(numbers) {
			x = numbers[i]
		}
		k.bytes = binary.LittleEndian.AppendUint32(k.bytes, math.Float32bits(x))
	}
}

// f16Overflow is the smallest number that rounds to more than the greatest fp16, which is 65504.
const f16Overflow = 65520

// f16 rounds to the nearest fp16, ties to even. The size of x is below f16Overflow.
func f16(x float32) uint16 {
	bits := math.Float32bits(x)
	sign, size := uint16(bits>>16)&0x8000, bits&^(1<<31)
	if size < 113<<23 { // less than 2^-14: a multiple of 2^-24, as all numbers between 0.5 and 1 are
		return sign | uint16(math.Float32bits(math.Float32frombits(size)+0.5)-math.Float32bits(0.5))
	}
	return sign | uint16((size-112<<23+0xfff+size>>13&1)>>13)
}
