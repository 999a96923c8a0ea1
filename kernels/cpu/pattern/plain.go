package pattern

func forwardGo(n *Net, rows []int32, each int, out []int32) {
	var lanes [MaxLanes]int16
	acc := lanes[:n.lanes]
	for i := range len(rows) / each {
		copy(acc, n.bias)
		for _, r := range rows[i*each : (i+1)*each] {
			for lane, x := range n.table[int(r)*n.lanes:][:len(acc)] {
				acc[lane] += x
			}
		}
		n.heads(acc, out[i*Outputs:(i+1)*Outputs])
	}
}

// heads computes a position's results from its accumulator.
func (n *Net) heads(acc []int16, out []int32) {
	var a, h [MaxLanes/2 + 4]uint8 // the layers' inputs; the padding to four stays 0
	half := (n.lanes - Outputs) / 2
	for i := range half {
		x, y := int(acc[i]), int(acc[half+i])
		a[i] = uint8(min(max(x, 0), 255) * min(max(y, 0), 255) >> 9)
	}
	n.dense[0].hidden(a[:], h[:])
	n.dense[1].hidden(h[:], a[:])
	n.dense[2].sums(a[:], out)
	for i := range out[:Outputs] {
		out[i] += 32 * int32(acc[2*half+i])
	}
}

func (p *packed) hidden(in, out []uint8) {
	var sums [MaxHidden]int32
	p.sums(in, sums[:p.out])
	for o, s := range sums[:p.out] {
		out[o] = uint8(min(max(s>>6, 0), 127))
	}
}

func (p *packed) sums(in []uint8, out []int32) {
	copy(out, p.bias)
	for i, x := range in[:p.in] {
		if x == 0 {
			continue
		}
		weight := p.weight[i/4*4*p.out+i%4:]
		for o := range p.bias {
			out[o] += int32(x) * int32(weight[4*o])
		}
	}
}
