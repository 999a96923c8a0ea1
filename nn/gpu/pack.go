package gpu

import (
	"encoding/binary"
	"math"
	"strings"

	"github.com/evald/evald/nn/net"
)

// Pack returns the network's weights in the format of the plan's kernel, the same bytes on every machine. It panics if the
// network does not have the plan's configuration.
//
// First come the convolutions, in bf16: stem, blocks, and the first layers of both heads as one. Each is a matrix of inputs
// by outputs, padded with zeros. Inputs are ordered by tap (kernel row, kernel column) and then by channel. The matrix is
// cut into tiles of 16 by 16; the tiles of the same 16 inputs are adjacent, and a tile has the 8 numbers of each lane of a
// warp in turn (mma in device.h). For Hopper, packer.hopper says how they are cut. Then come all other numbers as float32, in the order of Parameters in heads.h.
func Pack(p Plan, n *net.Network) []byte {
	if n.Config() != p.config {
		panic("gpu: plan of " + p.config.String() + " for a network of " + n.Config().String())
	}
	c := p.config
	weight := func(name string) []float32 { return n.Weight(name + ".weight").Float32s() }
	bias := func(name string) []float32 { return n.Weight(name + ".bias").Float32s() }
	var layers []string
	for _, s := range c.Specs() {
		if name, ok := strings.CutSuffix(s.Name, ".weight"); ok && strings.HasPrefix(name, "blocks.") {
			layers = append(layers, name)
		}
	}

	value, policy := weight("value.conv"), weight("policy.conv")
	heads := func(in, out int) float32 {
		switch {
		case in >= c.Channels:
			return 0
		case out < c.HeadChannels:
			return value[out*c.Channels+in]
		case out < 2*c.HeadChannels:
			return policy[(out-c.HeadChannels)*c.Channels+in]
		}
		return 0
	}
	k := &packer{}
	stem := conv3x3(weight("stem"), net.PlaneCount, net.PlaneCount, c.Channels)
	if p.Kernel.Exact {
		k.hopper(p, n, stem, layers, heads)
	} else {
		k.matrix(p.stem, p.channels, stem)
		for _, name := range layers {
			k.matrix(9*p.channels, p.channels, conv3x3(weight(name), c.Channels, p.channels, c.Channels))
		}
		k.matrix(p.channels, p.columns, heads)
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
	return k.bytes
}

// conv3x3 returns weights [O,I,3,3] as a matrix whose inputs are [tap][stride], with zeros for missing outputs and channels.
func conv3x3(weights []float32, in, stride, out int) func(k, o int) float32 {
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

// matrix appends a matrix of inputs by outputs, both multiples of 16.
func (k *packer) matrix(inputs, outputs int, at func(in, out int) float32) {
	for i := 0; i < inputs; i += 16 {
		for o := 0; o < outputs; o += 16 {
			for lane := range 32 {
				g, t := lane/4, lane%4
				for half := range 2 {
					for _, in := range [...]int{2 * t, 2*t + 1, 2*t + 8, 2*t + 9} {
						k.bytes = binary.LittleEndian.AppendUint16(k.bytes, bf16(at(i+in, o+8*half+g)))
					}
				}
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

// bf16 rounds to the nearest bf16, ties to even. x is finite, as all weights are.
func bf16(x float32) uint16 {
	bits := math.Float32bits(x)
	return uint16((bits + 0x7fff + bits>>16&1) >> 16)
}
