package train

import (
	"math"

	"github.com/evald/evald/kernels/cpu/conv"
)

// muonScale makes a step of Muon about as large as a step of AdamW at the same rate. It was tuned: both 0.2, as in Liu et al., "Muon is
// Scalable for LLM Training" (2025), and 1 make training slower here.
const muonScale = 0.5

// muon is scratch memory for the steps of a weight [rows, columns], rows <= columns.
type muon struct {
	rows, columns int
	update        []float32 // [rows,columns]
	x, y          []float32 // [columns,rows]
	gram, factor  []float32 // [rows,rows]
}

func newMuon(rows, columns int) *muon {
	matrix := func() []float32 { return make([]float32, rows*columns) }
	square := func() []float32 { return make([]float32, rows*rows) }
	return &muon{rows, columns, matrix(), matrix(), matrix(), square(), square()}
}

// orthogonalise replaces update = U S Vᵀ with approximately U Vᵀ; the singular values become 0.7 to 1.2 rather than exactly 1. It makes
// five steps of the Newton-Schulz iteration with the coefficients of Jordan et al., "Muon" (2024). It computes matrix products as 1x1
// convolutions in which each row of x is a cell.
func (m *muon) orthogonalise(pool *conv.Pool) {
	square := 0.0
	for _, v := range m.update {
		square += float64(v) * float64(v)
	}
	scale := float32(1 / (math.Sqrt(square) + 1e-12))
	for r := range m.rows {
		for c := range m.columns {
			m.x[c*m.rows+r] = scale * m.update[r*m.columns+c]
		}
	}
	cells := conv.Shape{N: 1, I: m.rows, O: m.rows, H: 1, W: m.columns, K: 1}
	small := cells
	small.W = m.rows
	for range 5 {
		pool.WeightGrad(m.gram, nil, m.x, m.x, cells, nil)              // xᵀx
		pool.Forward(m.factor, m.gram, m.gram, nil, small, conv.Then{}) // its square
		for i, g := range m.gram {
			m.factor[i] = 2.0315*m.factor[i] - 4.7750*g
		}
		for r := range m.rows {
			m.factor[r*m.rows+r] += 3.4445
		}
		pool.Forward(m.y, m.x, m.factor, nil, cells, conv.Then{})
		m.x, m.y = m.y, m.x
	}
	for r := range m.rows {
		for c := range m.columns {
			m.update[r*m.columns+c] = m.x[c*m.rows+r]
		}
	}
}
