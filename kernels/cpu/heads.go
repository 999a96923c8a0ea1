package cpu

// headConv returns the kernel of the heads' convolutions. On a path with tiles, float32 products would take a tenth of the time.
func (t *Tower) headConv() kernel {
	if t.kernel.tiles {
		return t.kernel
	}
	return t.heads
}

// answer computes the heads of n positions from the residual stream.
func (t *Tower) answer(s *Scratch, n int) {
	V, cells, run := t.headChannels, s.index[:n*s.cells], t.heads.run
	first := conv{layer: t.conv, taps: s.here, src: s.x, stride: t.stem.width, dst: s.head, relu: true}
	k := t.headConv()
	if k.bf16 {
		first.src, first.stride = s.pairs, t.stem.width/2
	}
	t.eachPiece(first, &order{cells: s.all.cells}, k.run)
	s.show("value.conv", n, s.head, t.conv.width, 0, V)
	s.show("policy.conv", n, s.head, t.conv.width, V, V)

	t.poolMeanMax(s, n)
	s.showRows("value.pool", n, s.pool, t.fc.words, 2*V)
	each := s.each[:n]
	run(conv{layer: t.fc, cells: each, taps: s.here, src: s.pool, stride: t.fc.words, dst: s.hidden, relu: true})
	s.showRows("value.fc", n, s.hidden, t.fc.width, t.out.words)
	run(conv{layer: t.out, cells: each, taps: s.here, src: s.hidden, stride: t.fc.width, dst: s.out})
	for i := range n {
		of := s.out[i*t.out.width:]
		copy(s.WDL[i*t.wdls:(i+1)*t.wdls], of)
		copy(s.GameOver[i*t.gameOvers:(i+1)*t.gameOvers], of[t.wdls:])
	}
	s.showRows("value.wdl", n, s.WDL, t.wdls, t.wdls)
	s.showRows("value.gameover", n, s.GameOver, t.gameOvers, t.gameOvers)

	run(conv{layer: t.policyLogits, cells: cells, taps: s.here, src: s.head[V:], stride: t.conv.width, dst: s.logits})
	for i, padded := range cells {
		s.Cells[i] = s.logits[int(padded)*t.policyLogits.width]
	}
	s.showRows("policy.logit", n, s.Cells, s.cells, s.cells)
}

// poolCall is the argument of kernel.pool, which reduces the channels of each position over its cells to dst [positions][width]: first the
// means, then the maxima. The values come from a relu, so they are zero, positive or NaN. NaN stays NaN.
type poolCall struct {
	cells     []int32 // padded cells of all positions
	positions int
	channels  int       // a multiple of the kernel's lanes, unless the kernel is Go's
	stride    int       // of src [padded cell][stride]
	width     int       // 2*channels or more
	src, dst  []float32 // dst must not overlap src
}

// poolMeanMax reduces the value half of head over each position's cells to pool [n][2V], means first.
func (t *Tower) poolMeanMax(s *Scratch, n int) {
	call := poolCall{
		cells: s.index[:n*s.cells], positions: n, channels: t.headChannels, stride: t.conv.width, width: t.fc.words, src: s.head, dst: s.pool,
	}
	if t.heads.pool == nil || call.channels%t.heads.lanes != 0 {
		poolGo(call)
		return
	}
	t.heads.pool(call)
}

func poolGo(p poolCall) {
	cells := len(p.cells) / p.positions
	for i := range p.positions {
		means, most := p.dst[i*p.width:][:p.channels], p.dst[i*p.width+p.channels:][:p.channels]
		clear(means)
		clear(most)
		for _, padded := range p.cells[i*cells:][:cells] {
			x := p.src[int(padded)*p.stride:][:p.channels]
			for v, value := range x {
				means[v] += value
				if value > most[v] || value != value {
					most[v] = value
				}
			}
		}
		for v := range means {
			means[v] /= float32(cells)
		}
	}
}
