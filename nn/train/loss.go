package train

import (
	"math"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// absent marks a class that a row does not have, such as an illegal move. Its logit is ignored.
const absent = -1

// Term is one loss with its counts, over one step or several.
type Term struct {
	Loss  float64 // cross-entropy in nats, mean over the rows that have a target, weighted by the rows' weights
	Rows  []int   // [K] number of rows by their most likely class in the target
	Right []int   // [K] those of them in which the network has the same most likely class
}

// Count is the number of rows that have a target.
func (t *Term) Count() int { return sum(t.Rows) }

// Accuracy is the share of rows that are right, 0 if there are none.
func (t *Term) Accuracy() float64 { return float64(sum(t.Right)) / max(1, float64(t.Count())) }

// add adds another step's rows, and averages the loss by the number of rows. Either may be nil.
func (t *Term) add(other *Term) *Term {
	if other == nil {
		return t
	}
	if t == nil {
		t = &Term{Rows: make([]int, len(other.Rows)), Right: make([]int, len(other.Right))}
	}
	a, b := sum(t.Rows), sum(other.Rows)
	if a+b > 0 {
		t.Loss = (t.Loss*float64(a) + other.Loss*float64(b)) / float64(a+b)
	}
	for i := range t.Rows {
		t.Rows[i] += other.Rows[i]
		t.Right[i] += other.Right[i]
	}
	return t
}

func sum(of []int) (n int) {
	for _, x := range of {
		n += x
	}
	return n
}

// crossEntropy is the cross-entropy of targets [N,K] against the softmax of logits, which are N rows of K in any shape:
//
//	sum over rows and classes of target * -log softmax(logit)   /   sum of targets
//
// A row of targets is probabilities times the row's weight, all 0 if it has no target, and absent for classes that it does
// not have. If no row has a target, the loss is 0. The loss and the counts are stored in seen.
func crossEntropy(logits, targets *gorgonia.Node, seen *Term) *gorgonia.Node {
	classes := targets.Shape()[1]
	seen.Rows, seen.Right = make([]int, classes), make([]int, classes)
	o := &op{name: "cross-entropy", shape: tensor.Shape{}, wrt: []bool{true, false}}
	o.run = func(dst []float32, in [][]float32) {
		seen.measure(in[0], in[1])
		dst[0] = float32(seen.Loss)
	}
	o.diff = func(in gorgonia.Nodes, _, g *gorgonia.Node) gorgonia.Nodes {
		back := &op{name: "cross-entropy gradient", shape: in[0].Shape()}
		back.run = func(dst []float32, in [][]float32) { crossEntropyGrad(dst, in[0], in[1], classes, in[2][0]) }
		return gorgonia.Nodes{back.apply(in[0], in[1], g), nil}
	}
	return o.apply(logits, targets)
}

// measure computes the loss and counts the rows.
func (t *Term) measure(logits, targets []float32) {
	clear(t.Rows)
	clear(t.Right)
	classes := len(t.Rows)
	loss, mass := 0.0, 0.0
	for at := 0; at < len(targets); at += classes {
		row, want := logits[at:at+classes], targets[at:at+classes]
		rowMass, log := rowSums(row, want)
		if rowMass == 0 {
			continue
		}
		mass += rowMass
		likeliest, wanted := -1, 0
		for k, p := range want {
			if p > 0 {
				loss += float64(p) * (log - float64(row[k]))
			}
			if p != absent && (likeliest < 0 || row[k] > row[likeliest]) {
				likeliest = k
			}
			if p > want[wanted] {
				wanted = k
			}
		}
		t.Rows[wanted]++
		if likeliest == wanted {
			t.Right[wanted]++
		}
	}
	t.Loss = 0
	if mass > 0 {
		t.Loss = loss / mass
	}
}

// rowSums returns the sum of a row's targets and the log of the sum of exp(logit) over the row's classes.
func rowSums(logits, targets []float32) (mass, log float64) {
	greatest := math.Inf(-1)
	for k, p := range targets {
		if p != absent {
			mass += float64(p)
			greatest = max(greatest, float64(logits[k]))
		}
	}
	if mass == 0 {
		return 0, 0
	}
	total := 0.0
	for k, p := range targets {
		if p != absent {
			total += math.Exp(float64(logits[k]) - greatest)
		}
	}
	return mass, greatest + math.Log(total)
}

// crossEntropyGrad writes scale * (row's mass * softmax(logit) - target) / sum of targets, and 0 for absent classes.
func crossEntropyGrad(dst, logits, targets []float32, classes int, scale float32) {
	all := 0.0
	for _, p := range targets {
		if p > 0 {
			all += float64(p)
		}
	}
	clear(dst)
	for at := 0; at < len(targets); at += classes {
		row, want := logits[at:at+classes], targets[at:at+classes]
		mass, log := rowSums(row, want)
		if mass == 0 {
			continue
		}
		for k, p := range want {
			if p != absent {
				dst[at+k] = float32(float64(scale) * (mass*math.Exp(float64(row[k])-log) - float64(p)) / all)
			}
		}
	}
}
