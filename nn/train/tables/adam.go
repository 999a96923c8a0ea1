package tables

import (
	"math"
	"slices"

	"github.com/evald/evald/nn/pattern"
	"github.com/evald/evald/nn/train"
)

// update changes the weights by a step along the batch's gradient, and returns the sum of the squares of the gradient.
func (t *Trainer) update(rate float32) (square float64) {
	size, epsilon := train.AdamSize(float64(rate), t.step+1)
	b := &t.batch
	sum := b.blocks[0]
	for _, block := range b.blocks[1 : (len(b.rows)/pattern.Each+blockSize-1)/blockSize] {
		addTo(sum, block)
	}
	for _, v := range t.layers {
		square += v.change(0, sum[:len(v.now)], size, epsilon)
		sum = sum[len(v.now):]
	}
	squares := make([]float64, t.sort())
	lanes := t.net.Lanes
	const rowsAtOnce = 64
	t.parallel((len(squares)+rowsAtOnce-1)/rowsAtOnce, func(part int) {
		grad := make([]float32, lanes)
		for k := part * rowsAtOnce; k < min((part+1)*rowsAtOnce, len(squares)); k++ {
			row := int(b.touched[k])
			clear(grad)
			for _, i := range b.order[b.starts[row]:b.starts[row+1]] {
				addTo(grad, b.lanes[int(i)*lanes:][:lanes])
			}
			squares[k] = t.table.change(row*lanes, grad, size, epsilon)
		}
	})
	for _, s := range squares {
		square += s
	}
	return square
}

// sort lists the table rows of the batch, and the examples that contain each row, in order. It returns the number of rows.
func (t *Trainer) sort() int {
	b := &t.batch
	if b.starts == nil {
		b.starts, b.next = make([]int32, pattern.RowCount()+1), make([]int32, pattern.RowCount())
	}
	clear(b.starts)
	b.touched = b.touched[:0]
	used := 0
	each := func(visit func(example, row int32)) {
		for i := range len(b.rows) / pattern.Each {
			rows := b.rows[i*pattern.Each : (i+1)*pattern.Each]
			if rows[0] < 0 {
				continue
			}
			for _, row := range rows {
				visit(int32(i), row)
			}
		}
	}
	each(func(_, row int32) {
		b.starts[row+1]++
		used++
	})
	for row := range pattern.RowCount() {
		if b.starts[row+1] > 0 {
			b.touched = append(b.touched, int32(row))
		}
		b.starts[row+1] += b.starts[row]
	}
	copy(b.next, b.starts)
	b.order = slices.Grow(b.order[:0], used)[:used]
	each(func(example, row int32) {
		b.order[b.next[row]] = example
		b.next[row]++
	})
	return len(b.touched)
}

// change makes a step of Adam on the values from first on. size and epsilon are those of train.AdamSize. It returns the sum of the squares
// of grad.
func (v *values) change(first int, grad []float32, size, epsilon float32) (square float64) {
	now, m, s := v.now[first:][:len(grad)], v.first[first:][:len(grad)], v.second[first:][:len(grad)]
	sum := float32(0)
	for i, g := range grad {
		sum += g * g
		m[i] += (1 - train.Beta1) * (g - m[i])
		s[i] += (1 - train.Beta2) * (g*g - s[i])
		now[i] -= size * m[i] / (float32(math.Sqrt(float64(s[i]))) + epsilon)
	}
	if v.most > 0 {
		for i, x := range now {
			now[i] = min(max(x, -v.most), v.most)
		}
	}
	return float64(sum)
}
