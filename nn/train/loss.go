package train

import (
	"math"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// absent marks a class that does not exist in a row, such as an illegal move. Its logit is ignored.
var absent = float32(math.Inf(-1))

// Term is a loss with its counts, over one or several steps.
type Term struct {
	Loss  float64 // cross-entropy in nats, mean over the rows that have a target, weighted by the rows' weights
	Rows  []int   // [K] number of rows by their most likely class in the target
	Right []int   // [K] of these, the rows in which the network has the same most likely class
}

// Count returns the number of rows with a target.
func (t *Term) Count() int { return sum(t.Rows) }

// Accuracy returns the share of rows in Right, or 0 if there are no rows.
func (t *Term) Accuracy() float64 { return float64(sum(t.Right)) / max(1, float64(t.Count())) }

// add adds another step's rows, and averages the losses by numbers of rows. Either term may be nil.
func (t *Term) add(other *Term) *Term {
	if other == nil {
		return t
	}
	if t == nil {
		t = &Term{}
	}
	if more := len(other.Rows) - len(t.Rows); more > 0 { // a policy has a class for each cell of its board
		t.Rows, t.Right = append(t.Rows, make([]int, more)...), append(t.Right, make([]int, more)...)
	}
	a, b := sum(t.Rows), sum(other.Rows)
	if a+b > 0 {
		t.Loss = (t.Loss*float64(a) + other.Loss*float64(b)) / float64(a+b)
	}
	for i := range other.Rows {
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

// crossEntropy returns the cross-entropy of targets [N,K] against the softmax of logits, which are N rows of K in any shape:
//
//	sum over rows and classes of target * -log softmax(logit)   /   sum of weights
//
// A row of targets is probabilities times the row's weight. It is all 0 if the row has no target; classes that do not exist are absent. If
// several classes are equally correct, their targets are negative: minus the row's weight times the desired share of each. The row's loss
// is then that of the sum of their probabilities. A part of the loss, taste (0 to 1), is the cross-entropy of the shares:
//
//	weight * ((1-taste) * -log (sum over right classes of softmax(logit))  +  taste * sum over right classes of share * -log softmax(logit))
//
// If no row has a target, the loss is 0. The loss and the counts are stored in seen.
func crossEntropy(logits, targets *gorgonia.Node, taste float64, seen *Term) *gorgonia.Node {
	classes := targets.Shape()[1]
	seen.Rows, seen.Right = make([]int, classes), make([]int, classes)
	o := &op{name: "cross-entropy", shape: tensor.Shape{}, wrt: []bool{true, false}}
	o.run = func(dst []float32, in [][]float32) {
		seen.measure(in[0], in[1], taste)
		dst[0] = float32(seen.Loss)
	}
	o.diff = func(in gorgonia.Nodes, _, g *gorgonia.Node) gorgonia.Nodes {
		back := &op{name: "cross-entropy gradient", shape: in[0].Shape()}
		back.run = func(dst []float32, in [][]float32) { crossEntropyGrad(dst, in[0], in[1], classes, taste, in[2][0]) }
		return gorgonia.Nodes{back.apply(in[0], in[1], g), nil}
	}
	return o.apply(logits, targets)
}

// measure computes the loss and counts the rows. For a row with several correct classes, it counts the class among them to which the
// network gives the highest probability.
func (t *Term) measure(logits, targets []float32, taste float64) {
	clear(t.Rows)
	clear(t.Right)
	classes := len(t.Rows)
	loss, mass := 0.0, 0.0
	for at := 0; at < len(targets); at += classes {
		row, want := logits[at:at+classes], targets[at:at+classes]
		sums := sumsOf(row, want)
		if sums.weight == 0 {
			continue
		}
		mass += sums.weight
		if sums.several {
			loss += sums.weight * (1 - taste) * (sums.log - sums.right)
		}
		likeliest, wanted := -1, 0
		for k, p := range want {
			if p == absent {
				continue
			}
			if p > 0 {
				loss += float64(p) * (sums.log - float64(row[k]))
			} else if p < 0 {
				loss -= taste * float64(p) * (sums.log - float64(row[k]))
			}
			if likeliest < 0 || row[k] > row[likeliest] {
				likeliest = k
			}
			if sums.several && p < 0 && (want[wanted] >= 0 || want[wanted] == absent || row[k] > row[wanted]) || !sums.several && p > want[wanted] {
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

// rowSums are the sums that a row's loss and gradient share.
type rowSums struct {
	weight  float64 // 0 if the row has no target
	several bool    // several classes are correct
	log     float64 // of the sum of exp(logit) over the row's classes
	right   float64 // log of the sum over the correct classes
}

func sumsOf(logits, targets []float32) (s rowSums) {
	greatest, greatestRight := math.Inf(-1), math.Inf(-1)
	for k, p := range targets {
		if p == absent {
			continue
		}
		logit := float64(logits[k])
		greatest = max(greatest, logit)
		if p < 0 {
			s.several, s.weight, greatestRight = true, s.weight-float64(p), max(greatestRight, logit)
		} else {
			s.weight += float64(p)
		}
	}
	if s.weight == 0 {
		return s
	}
	total, right := 0.0, 0.0
	for k, p := range targets {
		if p == absent {
			continue
		}
		total += math.Exp(float64(logits[k]) - greatest)
		if p < 0 {
			right += math.Exp(float64(logits[k]) - greatestRight)
		}
	}
	s.log, s.right = greatest+math.Log(total), greatestRight+math.Log(right)
	return s
}

// crossEntropyGrad writes scale * weight * (softmax(logit) - target) / sum of weights, and 0 for absent classes. If several classes are
// correct, target is their part of the softmax, normalised, mixed with the desired shares.
func crossEntropyGrad(dst, logits, targets []float32, classes int, taste float64, scale float32) {
	all := 0.0
	clear(dst)
	for at := 0; at < len(targets); at += classes {
		row, want := logits[at:at+classes], targets[at:at+classes]
		sums := sumsOf(row, want)
		all += sums.weight
		if sums.weight == 0 {
			continue
		}
		for k, p := range want {
			if p == absent {
				continue
			}
			target := float64(p)
			if p < 0 {
				target = (1-taste)*sums.weight*math.Exp(float64(row[k])-sums.right) - taste*float64(p)
			}
			dst[at+k] = float32(sums.weight*math.Exp(float64(row[k])-sums.log) - target)
		}
	}
	if all > 0 {
		for i := range dst {
			dst[i] *= scale / float32(all)
		}
	}
}
