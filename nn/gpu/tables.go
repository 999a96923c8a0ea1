package gpu

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/game"
	kernel "github.com/evald/evald/kernels/cpu/pattern"
	"github.com/evald/evald/kernels/cuda"
	"github.com/evald/evald/nn/pattern"
)

// planTables is the plan for a network of pattern tables: the kernel with the fewest lanes that hold its rows, which are bytes times a
// factor if all its rows are.
func planTables(n tables, r game.Rules, on Target) (plan, error) {
	if r != game.Connect4 {
		return plan{}, fmt.Errorf("gpu: a network of pattern tables knows board %v alone, not %v", game.Connect4, r)
	}
	for _, k := range cuda.TablesKernels() {
		if k.Lanes < n.Weights.Lanes || k.Words != n.words {
			continue
		}
		widths := k.Widths(n.Weights.Sizes())
		p := plan{Kernel: k.Kernel(widths), Boards: cuda.TablesWarps * cuda.TablesGroup, rules: r, tables: k, widths: widths}
		if p.Kernel.Shared <= on.Shared && on.runs(p.Kernel) {
			return p, nil
		}
	}
	return plan{}, fmt.Errorf("gpu: no kernel for network %s runs on %v with %d bytes of shared memory: take the CPU", n, on, on.Shared)
}

// isTables reports whether the plan is for a network of pattern tables.
func (p plan) isTables() bool { return p.tables.Lanes > 0 }

// tablesResident is the number of blocks of threads of a kernel for tables that a multiprocessor runs at once.
const tablesResident = 2

// tablesTogether is plan.together for a network of pattern tables: whole positions for each warp.
func (p plan) tablesTogether(n, processors int) int {
	each := ceil(ceil(n, max(1, processors*tablesResident)), cuda.TablesWarps)
	return cuda.TablesWarps * max(1, min(cuda.TablesGroup, each))
}

// tablesAnswer is the bytes of an answer: three probabilities and seven, as float32.
const tablesAnswer = 40

// tablesAnswered is set in the first word of an answer (TABLE_ANSWERED in kernels/cuda/tables.h).
const tablesAnswered = 3 << 30

// readTables is plan.ReadAnswers for a network of pattern tables.
func readTables(b *eval.Batch, first, last int, answers []byte) error {
	const one = 0x3f800000 // of a float32; larger numbers, negative ones and NaN have larger bits
	n := last - first
	answers, wdls, policies := answers[:tablesAnswer*n], b.WDL[3*first:3*last], b.Policy[7*first:7*last]
	for i := range n {
		answer := (*[tablesAnswer]byte)(answers[tablesAnswer*i:])
		wdl, policy := (*[3]float32)(wdls[3*i:]), (*[7]float32)(policies[7*i:])
		status := binary.LittleEndian.Uint32(answer[:])
		if status>>30 != tablesAnswered>>30 {
			return fmt.Errorf("evaluate: row %d: the device left no answer, but %#x", first+i, status)
		}
		most := status &^ tablesAnswered
		wdl[0] = math.Float32frombits(most)
		for j := 1; j < len(wdl); j++ {
			bits := binary.LittleEndian.Uint32(answer[4*j:])
			most = max(most, bits)
			wdl[j] = math.Float32frombits(bits)
		}
		for a := range policy {
			bits := binary.LittleEndian.Uint32(answer[12+4*a:])
			most = max(most, bits)
			policy[a] = math.Float32frombits(bits)
		}
		if most > one {
			return fmt.Errorf("evaluate: row %d: the device gives probability %g", first+i, math.Float32frombits(most))
		}
	}
	sources := b.Source[first:last]
	for i := range sources {
		sources[i] = eval.GPU
	}
	return nil
}

// packTables returns a network of pattern tables in the layout of a kernel (Layout in kernels/cuda/tables.h), the same bytes on every
// machine. The halves of the accumulator, which the kernel multiplies, are padded with zeros, and so are the hidden layers.
func packTables(k cuda.TablesKernel, n *pattern.Network) []byte {
	w := &n.Weights
	half, inputs := (w.Lanes-kernel.Outputs)/2, k.Lanes/2
	// pair is the lanes of w in the two halves of a sum, or -1 for padding.
	pair := func(i int) (low, high int) {
		switch extra := i - (inputs - kernel.Outputs/2); {
		case extra >= 0:
			return 2*half + 2*extra, 2*half + 2*extra + 1
		case i < half:
			return i, half + i
		}
		return -1, -1
	}
	var b []byte
	word := func(x uint32) { b = binary.LittleEndian.AppendUint32(b, x) }
	number := func(row []int16, lane int) int32 {
		if lane < 0 {
			return 0
		}
		return int32(row[lane])
	}
	for i := range inputs {
		low, high := pair(i)
		word(uint32(number(w.Bias, low) + number(w.Bias, high)<<16))
	}
	widths := k.Widths(w.Sizes())
	for i, l := range w.Dense {
		in, out := w.Sizes()[i], len(l.Bias)
		at := func(i, o int) int8 {
			if i >= in || o >= out {
				return 0
			}
			return l.Weight[o*in+i]
		}
		for o := 0; o < widths[i+1]; o += 8 {
			for from := 0; from < widths[i]; from += 32 {
				for lane := range 32 {
					for half := range 2 {
						for k := range 4 {
							b = append(b, byte(at(from+16*half+lane%4*4+k, o+lane/4)))
						}
					}
				}
			}
		}
		for o := range widths[i+1] {
			if o < out {
				word(uint32(l.Bias[o]))
			} else {
				word(0)
			}
		}
	}
	for _, g := range pattern.Groups() {
		b = binary.LittleEndian.AppendUint64(b, g.Mask)
		b = binary.LittleEndian.AppendUint64(b, g.Magic)
		for _, x := range [...]uint32{uint32(g.Start), uint32(1)<<g.Length - 1, uint32(g.First), uint32(g.Kind)} {
			word(x)
		}
	}
	for _, x := range [...]int32{pattern.FirstStones(), 0, 0, 0} {
		word(uint32(x))
	}
	for _, table := range [...][]float32{pattern.Coarse, pattern.Fine} {
		for _, x := range table {
			word(math.Float32bits(x))
		}
	}
	small, factors, _ := n.Bytes()
	if k.Words {
		factors = make([]uint8, w.Rows())
	}
	b = append(b, factors...)
	b = append(b, make([]byte, (len(b)+255)/256*256-len(b))...)
	table := make([]byte, 0, len(b)+w.Rows()*k.RowBytes())
	table = append(table, b...)
	for r := range w.Rows() {
		if k.Words {
			row := w.Table[r*w.Lanes:][:w.Lanes]
			for i := range inputs {
				low, high := pair(i)
				table = binary.LittleEndian.AppendUint32(table, uint32(number(row, low)+number(row, high)<<16))
			}
			continue
		}
		row := small[r*w.Lanes:][:w.Lanes]
		at := func(lane int) byte {
			if lane < 0 {
				return 128
			}
			return byte(int(row[lane]) + 128)
		}
		for i := 0; i < inputs; i += 2 {
			low, high := pair(i)
			nextLow, nextHigh := pair(i + 1)
			table = append(table, at(low), at(nextLow), at(high), at(nextHigh))
		}
	}
	return table
}
