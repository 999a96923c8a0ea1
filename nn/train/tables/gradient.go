package tables

import (
	"math"
	"slices"

	"github.com/evald/evald/engine/game"
	kernel "github.com/evald/evald/kernels/cpu/pattern"
	"github.com/evald/evald/nn/pattern"
	"github.com/evald/evald/nn/train"
)

const (
	blockSize = 64   // examples per task of a goroutine; fixed, so that sums do not depend on the number of threads
	even      = 0.15 // share of the even distribution in the policy's loss of solved positions; see doc.go
	moves     = 7
)

// batch is the memory of a step.
type batch struct {
	rows   []int32     // [examples, pattern.Each]; the first row is -1 in examples without targets
	lanes  []float32   // [examples, Lanes] the gradient of the accumulators
	blocks [][]float32 // [blocks] the gradient of the layers
	seen   []losses    // [blocks] losses of the blocks

	touched []int32 // the batch's rows of the table, ascending
	order   []int32 // examples by row of the table
	starts  []int32 // [rows of the table + 1] index in order of each row's first example
	next    []int32 // [rows of the table]
}

// losses are sums over examples, weighted, and counts as in train.Term.
type losses struct{ wdl, policy train.Term }

func newLosses() losses {
	term := func(classes int) train.Term {
		return train.Term{Rows: make([]int, classes), Right: make([]int, classes)}
	}
	return losses{term(3), term(moves)}
}

// losses computes the losses of examples and, on request, their gradient in the batch.
func (t *Trainer) losses(examples []train.Example, gradient bool) train.Losses {
	b := &t.batch
	b.rows = slices.Grow(b.rows[:0], len(examples)*pattern.Each)[:len(examples)*pattern.Each]
	b.lanes = slices.Grow(b.lanes[:0], len(examples)*t.net.Lanes)[:len(examples)*t.net.Lanes]
	count := (len(examples) + blockSize - 1) / blockSize
	size := 0
	for _, v := range t.layers {
		size += len(v.now)
	}
	for len(b.blocks) < count {
		b.blocks, b.seen = append(b.blocks, make([]float32, size)), append(b.seen, losses{})
	}
	// First sum the weights of the means, because every gradient is divided by them.
	wdl, policy := 0.0, 0.0
	for i := range examples {
		e := &examples[i]
		first := &b.rows[i*pattern.Each]
		if *first = 0; e.Weight == 0 || t.board.Result(e.Position) != game.Ongoing {
			*first = -1
			continue
		}
		wdl += float64(e.Weight) * float64(e.WDL[0]+e.WDL[1]+e.WDL[2])
		if len(e.Policy) > 0 {
			policy += float64(e.Weight)
		}
	}
	scales := [2]float32{float32(t.config.Weights.WDL / max(wdl, 1e-30)), float32(t.config.Weights.Policy / max(policy, 1e-30))}
	t.parallel(count, func(k int) {
		clear(b.blocks[k])
		b.seen[k] = newLosses()
		p := newPass(t.net, b.blocks[k])
		for i := k * blockSize; i < min((k+1)*blockSize, len(examples)); i++ {
			rows := b.rows[i*pattern.Each : (i+1)*pattern.Each]
			if rows[0] < 0 {
				continue
			}
			pattern.AppendRows(rows[:0], examples[i].Position)
			p.forward(t.net, rows)
			p.loss(&examples[i], t.board, scales, &b.seen[k])
			if gradient {
				p.backward(t.net, b.lanes[i*t.net.Lanes:(i+1)*t.net.Lanes])
			}
		}
	})
	all := newLosses()
	for _, seen := range b.seen[:count] {
		for _, pair := range [][2]*train.Term{{&all.wdl, &seen.wdl}, {&all.policy, &seen.policy}} {
			pair[0].Loss += pair[1].Loss
			for c, n := range pair[1].Rows {
				pair[0].Rows[c] += n
				pair[0].Right[c] += pair[1].Right[c]
			}
		}
	}
	all.wdl.Loss /= max(wdl, 1e-30)
	all.policy.Loss /= max(policy, 1e-30)
	return train.Losses{
		Total: t.config.Weights.WDL*all.wdl.Loss + t.config.Weights.Policy*all.policy.Loss,
		WDL:   &all.wdl, Policy: &all.policy,
	}
}

// pass computes one example at a time. A goroutine has its own.
type pass struct {
	acc    []float32    // [Lanes]
	in     [4][]float32 // inputs of the layers, and the last layer's outputs
	z      [3][]float32 // outputs of the layers before clamping
	grad   [4][]float32 // gradients with respect to in
	out    []float32    // gradient with respect to the logits, [Outputs]
	bias   []float32    // sums over examples of the gradients of the layers
	weight [3][]float32
	biases [3][]float32
}

// newPass returns a pass for a network; it adds gradients of the layers to sums.
func newPass(n *pattern.Real, sums []float32) *pass {
	p := &pass{acc: make([]float32, n.Lanes), out: make([]float32, kernel.Outputs)}
	cut := func(size int) []float32 {
		part := sums[:size]
		sums = sums[size:]
		return part
	}
	p.bias = cut(n.Lanes)
	for k, l := range n.Dense {
		p.weight[k], p.biases[k] = cut(len(l.Weight)), cut(len(l.Bias))
		in := len(l.Weight) / len(l.Bias)
		p.in[k], p.grad[k], p.z[k] = make([]float32, in), make([]float32, in), make([]float32, len(l.Bias))
	}
	p.in[3], p.grad[3] = make([]float32, kernel.Outputs), make([]float32, kernel.Outputs)
	return p
}

func clamp(x float32) float32 { return min(max(x, 0), 1) }

// forward computes the logits of a position, p.in[3].
func (p *pass) forward(n *pattern.Real, rows []int32) {
	acc := p.acc
	copy(acc, n.Bias)
	k := 0
	for ; k+4 <= len(rows); k += 4 { // four rows at once, so that the sums are read and written less often
		a, b := rowOf(n.Table, rows[k], len(acc)), rowOf(n.Table, rows[k+1], len(acc))
		c, d := rowOf(n.Table, rows[k+2], len(acc)), rowOf(n.Table, rows[k+3], len(acc))
		for i := range acc {
			acc[i] += a[i] + b[i] + c[i] + d[i]
		}
	}
	for ; k < len(rows); k++ {
		addTo(acc, rowOf(n.Table, rows[k], len(acc)))
	}
	half := len(p.in[0])
	for i := range half {
		p.in[0][i] = clamp(acc[i]) * clamp(acc[half+i])
	}
	for k, l := range n.Dense {
		z := p.z[k]
		copy(z, l.Bias)
		for i, x := range p.in[k] {
			if x != 0 {
				addScaled(z, l.Weight[i*len(z):(i+1)*len(z)], x)
			}
		}
		for o, x := range z {
			if k < 2 {
				x = clamp(x)
			} else {
				x += acc[2*half+o]
			}
			p.in[k+1][o] = x
		}
	}
}

func rowOf(table []float32, row int32, lanes int) []float32 {
	return table[int(row)*lanes:][:lanes]
}

func addTo(sum, x []float32) {
	x = x[:len(sum)]
	for i := range sum {
		sum[i] += x[i]
	}
}

func addScaled(sum, x []float32, by float32) {
	x = x[:len(sum)]
	for i := range sum {
		sum[i] += x[i] * by
	}
}

// loss adds the losses of an example to seen, and writes the gradient with respect to the logits to p.out. scales are the factors of the
// example's two losses in the total loss: win, draw and loss, and the policy.
func (p *pass) loss(e *train.Example, b *game.Board, scales [2]float32, seen *losses) {
	clear(p.out)
	logits := p.in[3]
	if mass := e.WDL[0] + e.WDL[1] + e.WDL[2]; mass > 0 {
		var probabilities [3]float32
		logs := softmax(logits[:3], [moves]bool{true, true, true}, probabilities[:])
		wanted := 0
		for k, target := range e.WDL {
			seen.wdl.Loss -= float64(e.Weight * target * logs[k])
			p.out[k] = e.Weight * scales[0] * (mass*probabilities[k] - target)
			if target > e.WDL[wanted] {
				wanted = k
			}
		}
		count(&seen.wdl, wanted, likeliest(logits[:3], [moves]bool{true, true, true}) == wanted)
	}
	if len(e.Policy) == 0 {
		return
	}
	var legal [moves]bool
	for a := range legal {
		legal[a] = b.CanPlay(e.Position, a)
	}
	var probabilities [moves]float32
	logs := softmax(logits[3:10], legal, probabilities[:])
	wanted, good, together := 0, float32(0), float32(0)
	for a, target := range e.Policy {
		if target > e.Policy[wanted] {
			wanted = a
		}
		if target > 0 {
			good++
			together += probabilities[a]
		}
	}
	likely := likeliest(logits[3:10], legal)
	if e.Solved && e.Policy[likely] > 0 {
		wanted = likely
	}
	count(&seen.policy, wanted, likely == wanted)
	if e.Solved {
		seen.policy.Loss -= float64(e.Weight) * (1 - even) * math.Log(max(float64(together), 1e-30))
	}
	for a, target := range e.Policy {
		if !legal[a] {
			continue
		}
		if e.Solved && target > 0 {
			seen.policy.Loss -= float64(e.Weight * even / good * logs[a])
			target = (1-even)*probabilities[a]/max(together, 1e-30) + even/good
		} else if target > 0 {
			seen.policy.Loss -= float64(e.Weight * target * logs[a])
		}
		p.out[3+a] = e.Weight * scales[1] * (probabilities[a] - target)
	}
}

func count(t *train.Term, class int, right bool) {
	t.Rows[class]++
	if right {
		t.Right[class]++
	}
}

func likeliest(logits []float32, has [moves]bool) int {
	best := -1
	for k, x := range logits {
		if has[k] && (best < 0 || x > logits[best]) {
			best = k
		}
	}
	return best
}

// softmax writes the probabilities of the existing classes, and returns their logarithms.
func softmax(logits []float32, has [moves]bool, probabilities []float32) (logs [moves]float32) {
	most := float64(logits[likeliest(logits, has)])
	total := 0.0
	for k, x := range logits {
		if has[k] {
			total += math.Exp(float64(x) - most)
		}
	}
	log := most + math.Log(total)
	for k, x := range logits {
		if has[k] {
			logs[k] = float32(float64(x) - log)
			probabilities[k] = float32(math.Exp(float64(x) - log))
		}
	}
	return logs
}

// backward adds the gradients of the layers to the sums, and writes the gradient with respect to the accumulator to lanes.
func (p *pass) backward(n *pattern.Real, lanes []float32) {
	half := len(p.in[0])
	copy(lanes[2*half:], p.out)
	copy(p.grad[3], p.out)
	for k := 2; k >= 0; k-- {
		l := n.Dense[k]
		g := p.grad[k+1][:len(l.Bias)]
		if k < 2 {
			for o, z := range p.z[k] {
				if z <= 0 || z >= 1 {
					g[o] = 0
				}
			}
		}
		addTo(p.biases[k], g)
		for i, x := range p.in[k] {
			weight := l.Weight[i*len(g):][:len(g)]
			sum := float32(0)
			if x == 0 {
				if k > 0 || p.acc[i] > 0 || p.acc[half+i] > 0 { // otherwise the gradient of this input is not needed
					for o, w := range weight {
						sum += w * g[o]
					}
				}
				p.grad[k][i] = sum
				continue
			}
			by := p.weight[k][i*len(g):][:len(g)]
			for o, w := range weight {
				sum += w * g[o]
				by[o] += x * g[o]
			}
			p.grad[k][i] = sum
		}
	}
	for i, g := range p.grad[0] {
		x, y := p.acc[i], p.acc[half+i]
		lanes[i], lanes[half+i] = 0, 0
		if x > 0 && x < 1 {
			lanes[i] = g * clamp(y)
		}
		if y > 0 && y < 1 {
			lanes[half+i] = g * clamp(x)
		}
	}
	addTo(p.bias, lanes)
}
