package encoding

import (
	"fmt"
	"math"

	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/nn/net"
)

// Decode fills WDL and Policy of a batch from the network's outputs, value [N*Value.Size] and policy [N*Policy.Size]. Both are for the side
// to move; the policy is 0 for illegal moves and sums to 1. If all legal moves have probability 0, they become equally likely. If an output
// is not finite, the row becomes NaN, which eval.Batch.Finite reports. The caller sets Source. Decode allocates nothing, and panics if a
// length is wrong.
func (c *Codec) Decode(b *eval.Batch, value, policy []float32) {
	n, v, p := len(b.Pos), c.Value.Size, c.Policy.Size
	if len(value) != n*v || len(policy) != n*p {
		panic(fmt.Sprintf("encoding: %d positions have %d and %d numbers of value and policy, and %d and %d are given", n, n*v, n*p, len(value), len(policy)))
	}
	for i := range n {
		c.value(b, i, value[i*v:(i+1)*v])
		c.policy(b, i, policy[i*p:(i+1)*p])
	}
}

// value fills a row of WDL.
func (c *Codec) value(b *eval.Batch, i int, x []float32) {
	row := b.WDLRow(i)
	switch c.describe.Value.Kind {
	case WDLLogits:
		net.Softmax(row, x)
	case WDL:
		w, d, l := max(0, float64(x[0])), max(0, float64(x[1])), max(0, float64(x[2]))
		sum := w + d + l
		row[0], row[1], row[2] = float32(w/sum), float32(d/sum), float32(l/sum)
	default:
		v := max(-1, min(1, x[0]))
		if math.IsInf(float64(x[0]), 0) {
			v = float32(math.NaN())
		}
		row[0], row[1], row[2] = (1+v)/2, 0, (1-v)/2
	}
	if c.describe.Value.For.turned(b.Pos[i].Mover()) {
		row[0], row[2] = row[2], row[0]
	}
}

// turned reports whether a value from perspective p must be negated for the mover, 1 or 2.
func (p Perspective) turned(mover int) bool {
	return p == Other || p == First && mover == 2 || p == Second && mover == 1
}

func (c *Codec) policy(b *eval.Batch, i int, x []float32) {
	row, legal := b.PolicyRow(i), b.Board.Legal(b.Pos[i])
	clear(row)
	logits := c.describe.Policy.Kind != Probs
	greatest := math.Inf(-1)
	if logits {
		for set := legal; !set.IsZero(); set = set.WithoutFirst() {
			greatest = max(greatest, float64(x[c.action(set.First())]))
		}
	}
	sum, moves := 0., 0
	for set := legal; !set.IsZero(); set = set.WithoutFirst() {
		bit := set.First()
		p := float64(x[c.action(bit)])
		if logits {
			p = math.Exp(p - greatest)
		} else {
			p = max(0, p)
		}
		row[b.Board.Action(bit)] = float32(p)
		sum += p
		moves++
	}
	for set := legal; !set.IsZero(); set = set.WithoutFirst() {
		a := b.Board.Action(set.First())
		if sum == 0 {
			row[a] = float32(1 / float64(moves))
		} else {
			row[a] = float32(float64(row[a]) / sum)
		}
	}
}
