package cpu

// answer computes the heads of n positions from the residual stream.
func (t *Tower) answer(s *Scratch, n int) {
	V, cells, run := t.headChannels, s.index[:n*s.cells], t.heads.run
	run(conv{layer: t.conv, cells: cells, taps: s.here, src: s.x, stride: t.stem.width, dst: s.head, relu: true})
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

// poolMeanMax reduces the value half of head over the cells of each position to pool [n][2V], means first. The values come
// from a relu: they are zero, positive or NaN. NaN stays NaN.
func (t *Tower) poolMeanMax(s *Scratch, n int) {
	V := t.headChannels
	for i := range n {
		means, most := s.pool[i*t.fc.words:][:V], s.pool[i*t.fc.words+V:][:V]
		clear(means)
		clear(most)
		for _, padded := range s.index[i*s.cells : (i+1)*s.cells] {
			x := s.head[int(padded)*t.conv.width:][:V]
			for v, value := range x {
				means[v] += value
				if value > most[v] || value != value {
					most[v] = value
				}
			}
		}
		for v := range means {
			means[v] /= float32(s.cells)
		}
	}
}
