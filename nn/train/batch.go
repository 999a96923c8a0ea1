package train

import (
	"cmp"
	"fmt"
	"sync"

	"gorgonia.org/tensor"

	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/nn/net"
)

// Example is a position as a training example. Everything is from the point of view of the side to move.
type Example struct {
	Position game.Position
	Policy   []float32  // [A] target, sums to 1 over legal actions; empty: no target
	WDL      [3]float32 // target, sums to 1; all 0: no target
	GameOver int        // game.NotOver, OwnWin, OtherWin or Drawn; negative if there is no target
	Weight   float32    // of all its targets, normally 1
	Solved   bool       // the policy's moves are equally good, according to a solver or the rules; see Weights.Taste
}

// Image returns the example of the position's image under a symmetry of the board (game.Board.Image).
func (e Example) Image(b *game.Board, symmetry int) Example {
	e.Position = b.Image(e.Position, symmetry)
	policy := make([]float32, len(e.Policy))
	for a, p := range e.Policy {
		policy[b.ImageAction(a, symmetry)] = p
	}
	e.Policy = policy
	return e
}

// Batch is N examples as tensors.
type Batch struct {
	board    *game.Board
	planes   *tensor.Dense // [N,H,W,5]
	wdl      *tensor.Dense // [N,3] targets times the example's weight
	gameover *tensor.Dense // [N,4]
	cells    *tensor.Dense // [N,H*W] the policy by landing cell, top row first, in the form of crossEntropy; absent in cells without a move
}

// NewBatch makes a batch with memory for n examples.
func NewBatch(b *game.Board, n int) *Batch {
	floats := func(shape ...int) *tensor.Dense {
		return tensor.New(tensor.Of(tensor.Float32), tensor.WithShape(shape...))
	}
	return &Batch{
		board: b, planes: floats(n, b.Rows(), b.Columns(), net.PlaneCount), wdl: floats(n, net.WDLs),
		gameover: floats(n, net.GameOvers), cells: floats(n, b.Cells()),
	}
}

// fillRows is the number of rows per goroutine.
const fillRows = 256

// Fill copies the examples into the batch. Their number must equal the batch's size. The error names the example and the invalid field.
func (t *Batch) Fill(examples []Example) error {
	if n := t.wdl.Shape()[0]; len(examples) != n {
		return fmt.Errorf("batch of %d has %d examples", n, len(examples))
	}
	errs := make([]error, (len(examples)+fillRows-1)/fillRows)
	var parts sync.WaitGroup
	for part := range errs {
		parts.Go(func() {
			planar := make([]float32, net.PlanesSize(t.board, 1))
			for i := part * fillRows; i < min((part+1)*fillRows, len(examples)) && errs[part] == nil; i++ {
				if err := t.row(i, examples[i], planar); err != nil {
					errs[part] = fmt.Errorf("example %d: %w", i, err)
				}
			}
		})
	}
	parts.Wait()
	return cmp.Or(errs...)
}

// row writes example i into the tensors. planar is scratch memory for one position's planes.
func (t *Batch) row(i int, e Example, planar []float32) error {
	b := t.board
	switch {
	case !(e.Weight >= 0 && e.Weight <= 1e6):
		return fmt.Errorf("weight is %v, must be 0 to 1e6", e.Weight)
	case len(e.Policy) != 0 && len(e.Policy) != b.Actions():
		return fmt.Errorf("policy has %d actions, a board of %v has %d", len(e.Policy), b.Rules(), b.Actions())
	case e.GameOver >= net.GameOvers:
		return fmt.Errorf("gameover is %d, want a class below %d", e.GameOver, net.GameOvers)
	}
	cells := b.Cells()
	net.Planes(b, []game.Position{e.Position}, planar)
	planes := t.planes.Float32s()[i*len(planar):][:len(planar)]
	for at, v := range planar {
		planes[at%cells*net.PlaneCount+at/cells] = v
	}
	wdl := t.wdl.Float32s()[i*net.WDLs:][:net.WDLs]
	for k, p := range e.WDL {
		if !(p >= 0 && p <= 1.001) {
			return fmt.Errorf("win, draw and loss are %v, want probabilities", e.WDL)
		}
		wdl[k] = p * e.Weight
	}
	over := t.gameover.Float32s()[i*net.GameOvers:][:net.GameOvers]
	clear(over)
	if e.GameOver >= 0 {
		over[e.GameOver] = e.Weight
	}
	return t.policy(t.cells.Float32s()[i*cells:][:cells], e)
}

// policy writes the policy target by cell into dst [H*W].
func (t *Batch) policy(dst []float32, e Example) error {
	b := t.board
	for i := range dst {
		dst[i] = absent
	}
	legal := float32(0)
	for set := b.Legal(e.Position); !set.IsZero(); set = set.WithoutFirst() {
		bit := set.First()
		p := float32(0)
		if len(e.Policy) > 0 {
			p = e.Policy[b.Action(bit)]
		}
		if !(p >= 0 && p <= 1.001) {
			return fmt.Errorf("policy is %v, want probabilities", e.Policy)
		}
		legal += p
		target := p * e.Weight
		if e.Solved {
			target = -target // several classes are correct: see crossEntropy
		}
		dst[b.Flat(bit)] = target
	}
	total := float32(0)
	for _, p := range e.Policy {
		total += p
	}
	if total != 0 && !(legal > 0.999*total) {
		return fmt.Errorf("policy %v is for illegal actions", e.Policy)
	}
	return nil
}
